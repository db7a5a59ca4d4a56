"""CRC32C in kernels. The state starts as all ones and is inverted at the end."""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import load_u8, load_u64
from ctr_samples.crc32c import INSTRUCTION, emit_step, tables

TABLES = tables()
ALL_ONES = np.uint64(0xFFFFFFFF)
BYTE = np.uint64(0xFF)
EIGHT = np.uint64(8)


def _hardware_step(bits: int) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        data = arguments[1] if bits == 64 else builder.trunc(arguments[1], ir.IntType(bits))
        fed = emit_step(builder, builder.trunc(arguments[0], ir.IntType(32)), data)
        return builder.zext(fed, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def hardware_step_8(typing_context: Any, state: Any, word: Any) -> Any:
    """Update the CRC with eight bytes, using the processor's instruction."""
    return _hardware_step(64)


@intrinsic
def hardware_step_1(typing_context: Any, state: Any, byte: Any) -> Any:
    """Update the CRC with one byte, using the processor's instruction."""
    return _hardware_step(8)


@njit
def table_step_8(state: Any, word: Any) -> Any:
    """Update the CRC with eight bytes, using the table (slicing by eight)."""
    word = word ^ state
    result = np.uint64(0)
    for k in range(8):
        result ^= TABLES[7 - k, word & BYTE]
        word >>= EIGHT
    return result


@njit
def table_step_1(state: Any, byte: Any) -> Any:
    """Update the CRC with one byte, using the table."""
    return TABLES[0, (state ^ byte) & BYTE] ^ (state >> EIGHT)


step_8, step_1 = (table_step_8, table_step_1) if INSTRUCTION == "table" else (hardware_step_8, hardware_step_1)


@njit
def extend(state: Any, address: Any, size: Any) -> Any:
    """Update ``state`` with ``size`` bytes at ``address``."""
    in_words = size & ~7
    for i in range(0, in_words, 8):
        state = step_8(state, load_u64(address + i))
    for i in range(in_words, size):
        state = step_1(state, load_u8(address + i))
    return state


@njit
def masked(state: Any) -> Any:
    """Finish a checksum in TFRecord form: inverted, rotated and offset, so that a CRC of CRCs is sound."""
    crc = state ^ ALL_ONES
    rotated = (crc >> np.uint64(15)) | (crc << np.uint64(17))
    return (rotated + np.uint64(0xA282EAD8)) & ALL_ONES
