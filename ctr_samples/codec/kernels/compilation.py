"""Compile Numba functions to one object file. Each kernel keeps its name, and takes and returns int64."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from llvmlite import binding, ir
from numba import njit, types

from ctr_samples.codec.kernels.table import TABLE


def object_file(cpu: str | None = None, features: str | None = None) -> bytes:
    """Compile the kernels of the table for a processor, by default the host's. Takes seconds.

    Numba optimizes for the host's processor unless NUMBA_CPU_NAME and NUMBA_CPU_FEATURES are set.
    """
    module = binding.parse_assembly("")
    for name, entry in TABLE.items():
        function = getattr(import_module(f"ctr_samples.codec.kernels.{entry.module}"), name)
        module.link_in(_compiled(function, name, entry.arguments))
    _check_self_contained(module)
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=cpu or binding.get_host_cpu_name(),
        features=features or binding.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )
    return bytes(machine.emit_object(module))


def _compiled(function: Any, name: str, arguments: int) -> Any:
    """Build an LLVM module with Numba's code for ``function``, exported as ``name`` with the C calling convention."""
    signature = types.int64(*[types.int64] * arguments)
    # Nothing that needs Numba at run time: no Python wrappers, no exceptions (such as for division by zero).
    loosely = function.targetoptions.get("fastmath", False)
    compiled = njit(signature, no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy", fastmath=loosely)(
        function.py_func
    )
    (result,) = compiled.overloads.values()
    module = binding.parse_assembly(compiled.inspect_llvm(compiled.signatures[0]))
    module.link_in(binding.parse_assembly(str(_entry(module, result.fndesc.llvm_func_name, name, arguments))))
    return module


def _entry(compiled: Any, internal: str, name: str, arguments: int) -> ir.Module:
    """Wrap Numba's own function, (result*, exception**, arguments...) -> status, with the C calling convention."""
    i64, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    module = ir.Module(name)
    inner_type = ir.FunctionType(ir.IntType(32), [i64.as_pointer(), pointer.as_pointer(), *[i64] * arguments])
    inner = ir.Function(module, inner_type, internal)
    outer = ir.Function(module, ir.FunctionType(i64, [i64] * arguments), name)
    builder = ir.IRBuilder(outer.append_basic_block())
    result, exception = builder.alloca(i64), builder.alloca(pointer)
    builder.call(inner, [result, exception, *outer.args])
    builder.ret(builder.load(result))
    return module


def _check_self_contained(module: Any) -> None:
    """Raise RuntimeError if the code calls into Numba or Python, since it could not be loaded without them."""
    outside = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if outside:
        raise RuntimeError(f"The kernels call {', '.join(outside)}; change them to need nothing but memory.")
