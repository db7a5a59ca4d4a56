"""CRC32C (Castagnoli), the checksum of TFRecord frames and of shard receipts.

Uses the processor's CRC instruction if available (SSE 4.2 on x86-64, the CRC extension on arm64), and a lookup table
otherwise. The choice is made at run time, for the processor that runs the process. LLVM generates the few instructions
on first use, in milliseconds; Numba is imported only if the table is needed.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from llvmlite import binding, ir

POLYNOMIAL = 0x82F63B78
"""Castagnoli's polynomial, least significant bit first (RFC 3720, appendix B.4)."""

Instruction = Literal["sse4.2", "arm64", "table"]
Checksum = Callable[[int, int, int], int]

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def instruction_of(machine: str, features: dict[str, bool], system: str = sys.platform) -> Instruction:
    """Choose the implementation for a processor. ``machine`` is from ``platform.machine()``, ``features`` from LLVM."""
    if machine.lower() in ("x86_64", "amd64") and features.get("sse4.2"):
        return "sse4.2"
    # LLVM does not list features on macOS; every arm64 Mac has the CRC extension.
    if machine.lower() in ("aarch64", "arm64") and (features.get("crc") or system == "darwin"):
        return "arm64"
    return "table"


INSTRUCTION: Instruction = instruction_of(platform.machine(), dict(binding.get_host_cpu_features()))
"""Implementation that this process uses."""


def crc32c(data: bytes | bytearray | memoryview | npt.NDArray[Any], crc: int = 0) -> int:
    """Return the CRC32C of ``data``, any contiguous buffer, as an unsigned 32-bit number (not masked).

    ``crc`` is the checksum of the preceding data: ``crc32c(b, crc32c(a)) == crc32c(a + b)``. Releases the GIL.
    """
    source: Any = data
    view = memoryview(source)
    if view.nbytes == 0:
        return crc
    array = np.frombuffer(view, np.uint8)
    return _checksum()(array.ctypes.data, array.size, crc ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


def tables() -> npt.NDArray[np.uint64]:
    """Return the remainders for slicing by eight. Row k holds the remainder of each byte followed by k zero bytes."""
    rows = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ POLYNOMIAL if remainder & 1 else remainder >> 1
        rows[0, byte] = remainder
    for k in range(1, 8):
        before = rows[k - 1]
        rows[k] = rows[0][before.astype(np.uint8)] ^ (before >> np.uint64(8))
    return rows


def emit_step(
    builder: ir.IRBuilder, state: ir.Value, data: ir.Value, instruction: Instruction = INSTRUCTION
) -> ir.Value:
    """Emit LLVM code that updates ``state`` (i32) with ``data`` (i8 or i64). ``instruction`` must not be "table"."""
    wide = data.type == I64
    if instruction == "arm64":
        step = _intrinsic(
            builder, "llvm.aarch64.crc32cx" if wide else "llvm.aarch64.crc32cb", I32, I64 if wide else I32
        )
        return builder.call(step, [state, data if wide else builder.zext(data, I32)])
    if not wide:
        return builder.call(_intrinsic(builder, "llvm.x86.sse42.crc32.32.8", I32, I8), [state, data])
    step = _intrinsic(builder, "llvm.x86.sse42.crc32.64.64", I64, I64)
    return builder.trunc(builder.call(step, [builder.zext(state, I64), data]), I32)


def _intrinsic(builder: ir.IRBuilder, name: str, state: ir.Type, data: ir.Type) -> ir.Function:
    declared = builder.module.globals.get(name)
    return declared or ir.Function(builder.module, ir.FunctionType(state, [state, data]), name)


def checksum_module(instruction: Instruction) -> ir.Module:
    """Build a module with ``i32 checksum(i64 address, i64 size, i32 state)``, which processes eight-byte words, then
    bytes.
    """
    module = ir.Module("crc32c")
    function = ir.Function(module, ir.FunctionType(I32, [I64, I64, I32]), "checksum")
    address, size, state = function.args
    entry = function.append_basic_block()
    words = ir.IRBuilder(entry)
    in_words = words.and_(size, I64(-8))
    border = words.add(address, in_words)
    state = _emit_loop(words, instruction, state, address, border)
    state = _emit_loop(words, instruction, state, border, words.add(address, size), unit=I8)
    words.ret(state)
    return module


def _emit_loop(
    builder: ir.IRBuilder,
    instruction: Instruction,
    state: ir.Value,
    first: ir.Value,
    stop: ir.Value,
    *,
    unit: ir.IntType = I64,
) -> ir.Value:
    """Emit a loop that updates ``state`` with the units from ``first`` to ``stop``. The builder ends after the loop."""
    before = builder.block
    head, body, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    position, current = builder.phi(I64), builder.phi(I32)
    builder.cbranch(builder.icmp_unsigned("<", position, stop), body, after)
    builder.position_at_end(body)
    data = builder.load(builder.inttoptr(position, unit.as_pointer()), align=1)
    fed = emit_step(builder, current, data, instruction)
    beyond = builder.add(position, I64(unit.width // 8))
    builder.branch(head)
    for phi, begin, later in ((position, first, beyond), (current, state, fed)):
        phi.add_incoming(begin, before)
        phi.add_incoming(later, body)
    builder.position_at_end(after)
    return current


@functools.cache
def _checksum() -> Checksum:
    """Return the checksum function for this processor: ``(address, size, state) -> state``, without inversions."""
    return table_checksum() if INSTRUCTION == "table" else _compiled(str(checksum_module(INSTRUCTION)))


def _compiled(assembly: str) -> Checksum:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=2, jit=True
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(assembly), machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32)
    function: Any = kind(engine.get_function_address("checksum"))
    function.engine = engine  # the engine owns the code
    return function  # type: ignore[no-any-return]


def table_checksum() -> Checksum:
    """Like :func:`_checksum`, for processors without a CRC instruction. Takes a moment to compile with Numba."""
    from numba import njit

    rows = tables()
    low = np.uint64(0xFF)

    def feed(data: Any, state: Any) -> Any:
        in_words = data.size & ~7
        for i in range(0, in_words, 8):
            result = np.uint64(0)
            for k in range(8):
                byte = data[i + k] ^ (state & low)
                state >>= np.uint64(8)
                result ^= rows[7 - k, byte]
            state = result
        for i in range(in_words, data.size):
            state = rows[0, (state ^ data[i]) & low] ^ (state >> np.uint64(8))
        return state

    compiled = njit("uint64(uint8[::1], uint64)", nogil=True)(feed)

    def checksum(address: int, size: int, state: int) -> int:
        data = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8)), (size,))
        return int(compiled(data, np.uint64(state)))

    return checksum
