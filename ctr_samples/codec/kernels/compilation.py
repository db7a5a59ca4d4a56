"""Compile Numba functions to one object file. Each kernel keeps its name, and takes and returns int64.

``compiled`` does so in a process of its own, where Numba optimizes nothing: LLVM then optimizes all functions once, when
they are linked. Numba by itself would optimize each function, and again each function that calls it; even with its lowest
level it would spend a third of the time in passes over them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, NamedTuple, get_type_hints

from llvmlite import binding, ir

Kernel = Callable[..., int]


class KernelEntry(NamedTuple):
    """The module of a kernel in this package, and its number of int64 arguments."""

    module: str
    arguments: int


@dataclass(frozen=True, slots=True)
class Kernels:
    """Compiled functions that write and measure, all of which release the GIL. Their modules document the arguments."""

    write_records: Annotated[Kernel, KernelEntry("encode", 9)]
    write_byte_arrays: Annotated[Kernel, KernelEntry("encode", 6)]
    measure_float32: Annotated[Kernel, KernelEntry("measure", 4)]
    measure_float64: Annotated[Kernel, KernelEntry("measure", 4)]
    measure_int64: Annotated[Kernel, KernelEntry("measure", 4)]
    count_distinct: Annotated[Kernel, KernelEntry("measure", 4)]
    last_actions: Annotated[Kernel, KernelEntry("histories", 14)]
    hash_texts: Annotated[Kernel, KernelEntry("hashes", 4)]


@dataclass(frozen=True, slots=True)
class Decoders:
    """Compiled functions that read records. They take longest to compile, and a job that writes needs none of them."""

    walk_frames: Annotated[Kernel, KernelEntry("frames", 5)]
    read_records: Annotated[Kernel, KernelEntry("decode", 9)]
    read_byte_arrays: Annotated[Kernel, KernelEntry("decode", 5)]
    survey_records: Annotated[Kernel, KernelEntry("survey", 7)]


def entries(kind: type[Kernels | Decoders]) -> dict[str, KernelEntry]:
    """Return the entries by field name, in field order."""
    return {name: hint.__metadata__[0] for name, hint in get_type_hints(kind, include_extras=True).items()}


TABLE: dict[str, KernelEntry] = entries(Kernels) | entries(Decoders)
"""All entries by field name."""


def compiled(names: Iterable[str], cpu: str, features: str) -> bytes:
    """Compile the named kernels for a processor, as LLVM names it and its features. Takes seconds.

    Raises RuntimeError with the messages of the process that compiles, if it fails.
    """
    environment = os.environ | {
        "NUMBA_OPT": "0",
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": features,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, "-m", __name__, cpu, features, *names]
    run = subprocess.run(command, env=environment, capture_output=True, check=False)
    if run.returncode:
        raise RuntimeError(f"The kernels could not be compiled: {run.stderr.decode(errors='replace').strip()}")
    return run.stdout


def _object_file(cpu: str, features: str, names: Iterable[str]) -> bytes:
    from numba.core.codegen import CPUCodeLibrary

    CPUCodeLibrary._optimize_final_module = lambda self: None
    module = binding.parse_assembly("")
    for name in names:
        function = getattr(import_module(f"ctr_samples.codec.kernels.{TABLE[name].module}"), name)
        module.link_in(_compiled(function, name, TABLE[name].arguments))
    _check_self_contained(module)
    for inner in module.functions:
        if not inner.is_declaration and inner.name not in TABLE:
            inner.linkage = "internal"
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, codemodel="jitdefault", jit=True
    )
    tuning = binding.newpassmanagers.PipelineTuningOptions()
    tuning.speed_level, tuning.loop_vectorization = 3, True
    passes = binding.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    return bytes(machine.emit_object(module))


def _compiled(function: Any, name: str, arguments: int) -> Any:
    """Build an LLVM module with Numba's code for ``function``, exported as ``name`` with the C calling convention."""
    from numba import types

    from ctr_samples.codec.kernels.jit import njit

    signature = types.int64(*[types.int64] * arguments)
    # Nothing that needs Numba at run time: no exceptions (such as for division by zero).
    loosely = function.targetoptions.get("fastmath", False)
    compiled = njit(signature, error_model="numpy", fastmath=loosely)(function.py_func)
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


if __name__ == "__main__":
    sys.stdout.buffer.write(_object_file(sys.argv[1], sys.argv[2], sys.argv[3:]))
