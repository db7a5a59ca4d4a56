"""Raw memory access for kernels: loads, stores and copies at addresses (int64), which need not be aligned.

Kernels take addresses instead of arrays, so each is compiled once and not for every combination of column types. The
caller keeps the arrays alive and guarantees the bounds. For little-endian machines, like Arrow's own format.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ctr_samples.codec.kernels.jit import njit

CACHE_LINE, FETCHED = 64, 1024
LONG_COPY = 64
"""Size in bytes from which calling the C library's memcpy pays off."""


def _pointer(builder: ir.IRBuilder, address: ir.Value, bits: int) -> ir.Value:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _store(bits: int) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        value = arguments[1] if bits == 64 else builder.trunc(arguments[1], ir.IntType(bits))
        builder.store(value, _pointer(builder, arguments[0], bits), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@intrinsic
def store_u8(typing_context: Any, address: Any, value: Any) -> Any:
    """Store the lowest byte of ``value`` (a uint64)."""
    return _store(8)


@intrinsic
def store_u32(typing_context: Any, address: Any, value: Any) -> Any:
    """Store the lowest four bytes of ``value`` (a uint64)."""
    return _store(32)


@intrinsic
def store_u64(typing_context: Any, address: Any, value: Any) -> Any:
    """Store the eight bytes of ``value`` (a uint64)."""
    return _store(64)


@intrinsic
def load_i64(typing_context: Any, address: Any) -> Any:
    """Load the int64 at ``address``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(builder, arguments[0], 64), align=1)

    return types.int64(types.int64), generate


@intrinsic
def load_u8(typing_context: Any, address: Any) -> Any:
    """Load the byte at ``address`` as a uint64."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(_pointer(builder, arguments[0], 8)), ir.IntType(64))

    return types.uint64(types.int64), generate


@intrinsic
def load_u64(typing_context: Any, address: Any) -> Any:
    """Load the uint64 at ``address``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(builder, arguments[0], 64), align=1)

    return types.uint64(types.int64), generate


@intrinsic
def load_u32(typing_context: Any, address: Any) -> Any:
    """Load the uint32 at ``address`` as a uint64."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(_pointer(builder, arguments[0], 32), align=1), ir.IntType(64))

    return types.uint64(types.int64), generate


@intrinsic
def store_i64(typing_context: Any, address: Any, value: Any) -> Any:
    """Store an int64 at ``address``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], _pointer(builder, arguments[0], 64), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _fetch(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", fnty=ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        )
        for_reading, keep, data = ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)
        builder.call(prefetch, [builder.inttoptr(arguments[0], byte), for_reading, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@njit(forceinline=True)
def fetch(begin: Any, end: Any) -> Any:
    """Prefetch memory into the cache. The processor prefetches the rest of long runs by itself."""
    for address in range(begin, min(end, begin + FETCHED), CACHE_LINE):
        _fetch(address)


@intrinsic
def leading_zeros(typing_context: Any, value: Any) -> Any:
    """Return the number of leading zero bits of ``value`` (a uint64), as int64; 64 for zero."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def trailing_zeros(typing_context: Any, value: Any) -> Any:
    """Return the number of trailing zero bits of ``value`` (a uint64), as int64; 64 for zero."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def _long_copy(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        byte, i64 = ir.IntType(8).as_pointer(), ir.IntType(64)
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [byte, byte, i64])
        target, source = (builder.inttoptr(a, byte) for a in arguments[:2])
        builder.call(memcpy, [target, source, arguments[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@njit(forceinline=True)
def copy(target: Any, source: Any, size: Any) -> Any:
    """Copy ``size`` bytes between regions that do not overlap. Accesses no bytes outside them."""
    if size >= LONG_COPY:
        _long_copy(target, source, size)
        return
    done = 0
    while done + 8 <= size:
        store_u64(target + done, load_u64(source + done))
        done += 8
    if done == size:
        return
    if size >= 8:
        store_u64(target + size - 8, load_u64(source + size - 8))
        return
    if size >= 4:
        store_u32(target, load_u32(source))
        store_u32(target + size - 4, load_u32(source + size - 4))
        return
    while done < size:
        store_u8(target + done, load_u8(source + done))
        done += 1


@njit(forceinline=True)
def copy_padded(target: Any, source: Any, size: Any) -> Any:
    """Copy ``size`` bytes in words. Reads and writes up to seven extra bytes, which must exist on both sides."""
    for done in range(0, size, 8):
        store_u64(target + done, load_u64(source + done))


@njit(forceinline=True)
def field(row: Any, index: Any) -> Any:
    """Read a field of an int64 matrix row, given the row's address."""
    return load_i64(row + 8 * index)


@njit(forceinline=True)
def set_field(row: Any, index: Any, value: Any) -> Any:
    """Set a field of an int64 matrix row."""
    store_i64(row + 8 * index, value)
