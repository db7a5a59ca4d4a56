"""Fast path for records in the expected form: each feature at most once, in wire order, and no unknown features.

Our encoder writes such records, and so does protobuf if it sorts keys. A record is accepted completely or not at all. A
rejected record is read again by the full protobuf rules (``decode.py``), which also report its faults.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.lists import fill_absent, read_bytes_list, read_packed_int64
from ctr_samples.codec.kernels.memory import (
    copy,
    field,
    load_u8,
    load_u32,
    load_u64,
    set_field,
    store_i64,
    store_u8,
    store_u32,
    store_u64,
)
from ctr_samples.codec.kernels.wire import LENGTH, MALFORMED, read_length, read_varint_within
from ctr_samples.codec.layout import BYTES, FLOAT, Decoded

PREFIX, PREFIX_SIZE, KIND, COUNT, REQUIRED = (
    Decoded.PREFIX,
    Decoded.PREFIX_SIZE,
    Decoded.KIND,
    Decoded.COUNT,
    Decoded.REQUIRED,
)
VALUES, VALUE_ROOM, BYTE_OFFSETS, OFFSETS = Decoded.VALUES, Decoded.VALUE_ROOM, Decoded.BYTE_OFFSETS, Decoded.OFFSETS
VALID, USED, BYTES_USED = Decoded.VALID, Decoded.USED, Decoded.BYTES_USED
ONE_NUMBER = 6
"""Number of bytes in a Feature before its only packed number: ``12 <size + 4> <kind tag> <size + 2> 0A <size>``."""
ONE_NUMBER_HEAD, ONE_NUMBER_SIZES = 0x000A02020412, 0x010001000100
"""These bytes as an integer, for kind 0 and size 0, and a factor that adds the size to each size byte. The kind starts
at bit 19.
"""
LONGEST_VARINT = 10
COLUMN_SIZE = 8 * Decoded.FIELDS


@njit(forceinline=True)
def starts_with(position: Any, prefix: Any, size: Any) -> Any:
    """Whether ``size`` bytes are equal. Compares words, so it reads up to seven bytes beyond both."""
    done = 0
    while done + 8 <= size:
        if load_u64(position + done) != load_u64(prefix + done):
            return False
        done += 8
    beyond = np.uint64(8 * (done + 8 - size))
    return done == size or (load_u64(position + done) ^ load_u64(prefix + done)) << beyond == np.uint64(0)


@njit(forceinline=True)
def enter(tag: Any, position: Any, end: Any) -> Any:
    """Return the start of the content of field ``tag`` if the field extends exactly to ``end``; else MALFORMED."""
    if position < 0 or position >= end or load_u8(position) != np.uint64(tag):
        return MALFORMED
    size, position = read_length(position + 1, end)
    return position if position + size == end else MALFORMED


@njit(forceinline=True)
def first_value(column: Any, row: Any) -> Any:
    """Return the number of values in the column before ``row``."""
    count = field(column, COUNT)
    return count * row if count >= 0 else field(field(column, OFFSETS), row)


@njit(forceinline=True)
def go_to(column: Any, first: Any) -> Any:
    """Set the write position to just after the first ``first`` values."""
    set_field(column, USED, first)
    if field(column, KIND) == BYTES:
        set_field(column, BYTES_USED, field(field(column, BYTE_OFFSETS), first))


@njit(forceinline=True)
def read_list(column: Any, first: Any, position: Any, end: Any, limit: Any, status: Any) -> Any:
    """Read a packed or bytes list that extends to ``end``. Return the column's new value count, or MALFORMED."""
    kind = field(column, KIND)
    if kind == BYTES:
        go_to(column, first)
        position = read_bytes_list(column, position, end, status)
        return field(column, USED) if position == end else MALFORMED
    if position == end:
        return first
    position = enter(8 + LENGTH, position, end)
    if position < 0:
        return MALFORMED
    if kind == FLOAT:
        used = first + (end - position >> 2)
        if end - position & 3 != 0 or used > field(column, VALUE_ROOM):
            return MALFORMED
        copy(field(column, VALUES) + 4 * first, position, end - position)
        return used
    if field(column, COUNT) == 1:
        value, position = read_varint_within(position, end, limit)
        store_u64(field(column, VALUES) + 8 * first, value)
        return first + 1 if position == end else MALFORMED
    go_to(column, first)
    position = read_packed_int64(column, position, end, limit, status)
    return field(column, USED) if position == end else MALFORMED


@njit(forceinline=True)
def leave_out(column: Any, row: Any, status: Any) -> Any:
    """Mark the feature as absent in this record. Return the column's new value count, or MALFORMED."""
    count = field(column, COUNT)
    if field(column, REQUIRED) != 0:
        return MALFORMED
    go_to(column, first_value(column, row))
    if count > 0 and fill_absent(column, count, status) < 0:
        return MALFORMED
    return field(column, USED)


@njit(forceinline=True)
def read_number(column: Any, row: Any, position: Any, end: Any, limit: Any) -> Any:
    """Read a Feature that has one packed number and extends to ``end``. Return False for any other Feature."""
    kind, size = field(column, KIND), end - position - ONE_NUMBER
    if field(column, COUNT) != 1 or kind == BYTES or size <= 0 or size > LONGEST_VARINT:
        return False
    head = np.uint64(ONE_NUMBER_HEAD + (kind << 19) + size * ONE_NUMBER_SIZES)
    if (load_u64(position) ^ head) << np.uint64(16) != np.uint64(0):
        return False
    if kind == FLOAT:
        store_u32(field(column, VALUES) + 4 * row, load_u32(position + ONE_NUMBER))
        return size == 4
    value, position = read_varint_within(position + ONE_NUMBER, end, limit)
    store_u64(field(column, VALUES) + 8 * row, value)
    return position == end


@njit
def read_expected(columns: Any, count: Any, position: Any, end: Any, limit: Any, row: Any, status: Any) -> Any:
    """Read the Example in ``row`` into ``count`` columns, none of them a sequence. Return False if the form differs or
    room runs out; the caller must then overwrite the values written so far. Memory is readable up to ``limit``.
    """
    stop = end
    position = enter(8 + LENGTH, position, end)
    if position < 0:
        return False
    for c in range(count):
        column = columns + c * COLUMN_SIZE
        prefix, size, present = field(column, PREFIX_SIZE), 0, False
        if position < end:
            if load_u8(position) != np.uint64(8 + LENGTH):
                return False
            size, entry = read_length(position + 1, end)
            if entry < 0:
                return False
            stop = entry + size
            present = (
                prefix <= size and entry + prefix + 7 <= limit and starts_with(entry, field(column, PREFIX), prefix)
            )
        if present and read_number(column, row, entry + prefix, stop, limit):
            store_u8(field(column, VALID) + row, np.uint64(1))
            position = stop
            continue
        if present:
            first = first_value(column, row)
            value = enter(16 + LENGTH, entry + prefix, stop)
            value = enter(8 * field(column, KIND) + LENGTH, value, stop)
            if value < 0:
                return False
            used = read_list(column, first, value, stop, limit, status)
            if used < 0 or (field(column, COUNT) >= 0 and used - first != field(column, COUNT)):
                return False
            position = stop
        else:
            used = leave_out(column, row, status)
            if used < 0:
                return False
        store_u8(field(column, VALID) + row, np.uint64(present))
        if field(column, COUNT) < 0:
            store_i64(field(column, OFFSETS) + 8 * row + 8, used)
    return position == end
