"""Kernels for TFRecord frames: length (8 bytes), its checksum (4), message, its checksum (4), all little-endian."""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import field, load_u8, load_u32, load_u64, set_field, store_u32
from ctr_samples.codec.layout import BAD_LENGTH, BAD_MESSAGE, BLOCK, CUT_HEADER, CUT_MESSAGE, FOOTER, HEADER, SOUND
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


@njit
def length_checksum(frame: Any) -> Any:
    """Return the masked checksum of the eight bytes at ``frame``."""
    return masked(step_8(ALL_ONES, load_u64(frame)))


@njit
def data_checksums(base: Any, offsets: Any, row: Any, stop: Any) -> Any:
    """Return the masked checksums of the messages in frames ``row`` to ``row + 2``, except frames from ``stop`` on.

    Computes three at a time, since the processor starts one checksum step per cycle but needs three cycles to finish
    it.
    """
    a, size_a = message(base, offsets, row, stop)
    b, size_b = message(base, offsets, row + 1, stop)
    c, size_c = message(base, offsets, row + 2, stop)
    common = min(size_a, size_b, size_c) & ~7
    state_a, state_b, state_c = ALL_ONES, ALL_ONES, ALL_ONES
    for i in range(0, common, 8):
        state_a = step_8(state_a, load_u64(a + i))
        state_b = step_8(state_b, load_u64(b + i))
        state_c = step_8(state_c, load_u64(c + i))
    return (
        masked(extend(state_a, a + common, size_a - common)),
        masked(extend(state_b, b + common, size_b - common)),
        masked(extend(state_c, c + common, size_c - common)),
    )


@njit
def message(base: Any, offsets: Any, row: Any, stop: Any) -> Any:
    """Return the address and size of the message in frame ``row``. The size is 0 from ``stop`` on."""
    if row >= stop:
        return base, 0
    return base + field(offsets, row) + HEADER, field(offsets, row + 1) - field(offsets, row) - HEADER - FOOTER


@njit
def next_frame(base: Any, position: Any, size: Any) -> Any:
    """Return the end of the frame at ``position``, and any fault of its header. Trusts no unchecked length."""
    left = size - position
    if left < HEADER:
        return position, CUT_HEADER
    frame = base + position
    if load_u32(frame + 8) != length_checksum(frame):
        return position, BAD_LENGTH
    length = load_u64(frame)
    if left < HEADER + FOOTER or length > np.uint64(left - HEADER - FOOTER):
        return position, CUT_MESSAGE
    return position + HEADER + np.int64(length) + FOOTER, SOUND


@njit
def first_bad_message(base: Any, offsets: Any, first: Any, stop: Any) -> Any:
    """Return the first frame from ``first`` to ``stop`` whose message does not match its checksum, or -1."""
    for row in range(first, stop, 3):
        found = data_checksums(base, offsets, row, stop)
        for i in range(min(3, stop - row)):
            if load_u32(base + field(offsets, row + i + 1) - FOOTER) != found[i]:
                return row + i
    return -1


@njit
def walk_frames(base: Any, size: Any, offsets: Any, room: Any, status: Any) -> Any:
    """Check the frames at ``base`` and return the number of valid frames. ``offsets`` has room for ``room`` frames.

    ``status`` is int64[3]: number of frames found so far (in), stop position (out) and fault at that position (out).
    Stops at the end, at the first damage, or when the room runs out. In the last case the fault is SOUND and the
    position is before the end.
    """
    count = field(status, 0)
    position = field(offsets, count)
    wrong = SOUND
    while position < size and count < room and wrong == SOUND:
        checked = count
        block = min(room, count + BLOCK)
        while position < size and count < block and wrong == SOUND:
            position, wrong = next_frame(base, position, size)
            if wrong == SOUND:
                count += 1
                set_field(offsets, count, position)
        bad = first_bad_message(base, offsets, checked, count)
        if bad >= 0:
            count, position, wrong = bad, field(offsets, bad), BAD_MESSAGE
    set_field(status, 1, position)
    set_field(status, 2, wrong)
    return count


@njit
def seal_frames(base: Any, offsets: Any, first: Any, stop: Any) -> Any:
    """Write both checksums of frames ``first`` to ``stop``."""
    for row in range(first, stop, 3):
        states = data_checksums(base, offsets, row, stop)
        for i in range(min(3, stop - row)):
            frame = base + field(offsets, row + i)
            store_u32(frame + 8, length_checksum(frame))
            store_u32(base + field(offsets, row + i + 1) - FOOTER, states[i])
