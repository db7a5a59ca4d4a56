"""Read the values of Int64List, FloatList and BytesList, packed or not, into a column (``layout.Decoded``)."""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import (
    copy,
    field,
    load_u8,
    load_u64,
    set_field,
    store_i64,
    store_u32,
    store_u64,
    trailing_zeros,
)
from ctr_samples.codec.kernels.wire import (
    FIXED32,
    LENGTH,
    MALFORMED,
    MORE,
    MORE_IN_ALL,
    ONE,
    STOP,
    VARINT,
    gather,
    read_content,
    read_length,
    read_tag,
    read_varint,
    read_varint_within,
    skip_field,
)
from ctr_samples.codec.layout import DETAIL, FLOAT, INT64, NEED_BYTES, NEED_VALUES, REASON, Decoded

VALUES, VALUE_ROOM, BYTES_AT, BYTE_ROOM = Decoded.VALUES, Decoded.VALUE_ROOM, Decoded.BYTES_AT, Decoded.BYTE_ROOM
KIND, BYTE_OFFSETS, USED, BYTES_USED = Decoded.KIND, Decoded.BYTE_OFFSETS, Decoded.USED, Decoded.BYTES_USED


@njit(forceinline=True)
def stop_for(status: Any, reason: Any, detail: Any) -> Any:
    """Record the reason and detail of a stop in ``status``, and return STOP."""
    set_field(status, REASON, reason)
    set_field(status, DETAIL, detail)
    return STOP


@njit(forceinline=True)
def reserve_values(column: Any, count: Any, status: Any) -> Any:
    """Return zero if ``count`` more values fit. A feature with a fixed count has room for one extra value."""
    if field(column, USED) + count <= field(column, VALUE_ROOM):
        return 0
    return stop_for(status, NEED_VALUES, field(column, USED) + count)


@njit
def count_varints(position: Any, end: Any) -> Any:
    """Count the varints up to ``end``, including a truncated varint."""
    count = 1
    for i in range(position, end - 1):
        count += load_u8(i) < MORE
    return count


@njit(forceinline=True)
def read_packed_int64(column: Any, position: Any, end: Any, limit: Any, status: Any) -> Any:
    """Read varints up to ``end``. Memory is readable up to ``limit``.

    Each varint takes at least a byte, which bounds their number. They are counted only if that bound exceeds the room.
    """
    room = field(column, VALUE_ROOM) - field(column, USED)
    if end - position > room and reserve_values(column, count_varints(position, end), status) < 0:
        return STOP
    begin = field(column, VALUES) + 8 * field(column, USED)
    target = begin
    while position < end:
        if limit - position >= 8:
            word = load_u64(position)
            ends = ~word & MORE_IN_ALL
            later = ends & (ends - ONE)
            after = position + (trailing_zeros(later) + 1 >> 3)
            if later != np.uint64(0) and after <= end:
                # Two at once: finding the end of a number takes much longer than loading its bytes.
                store_u64(target, gather(word & (ends ^ (ends - ONE))))
                size = np.uint64(trailing_zeros(ends) + 1)
                store_u64(target + 8, gather((word & (later ^ (later - ONE))) >> size))
                target += 16
                position = after
                continue
        value, position = read_varint_within(position, end, limit)
        if position < 0:
            return MALFORMED
        store_u64(target, value)
        target += 8
    set_field(column, USED, field(column, USED) + (target - begin >> 3))
    return position


@njit
def read_int64_list(column: Any, position: Any, end: Any, status: Any) -> Any:
    """Read an Int64List, packed or not."""
    while position < end:
        tag, position = read_tag(position, end)
        if position < 0:
            return MALFORMED
        if tag == 8 + LENGTH:
            size, position = read_length(position, end)
            if position < 0:
                return MALFORMED
            position = read_packed_int64(column, position, position + size, position + size, status)
        elif tag == 8 + VARINT:
            value, position = read_varint(position, end)
            if position < 0:
                return MALFORMED
            if reserve_values(column, 1, status) < 0:
                return STOP
            used = field(column, USED)
            store_i64(field(column, VALUES) + 8 * used, np.int64(value))
            set_field(column, USED, used + 1)
        else:
            position = skip_field(tag, position, end, status)
        if position < 0:
            return position
    return position


@njit
def read_float_list(column: Any, position: Any, end: Any, status: Any) -> Any:
    """Read a FloatList, packed or not."""
    while position < end:
        tag, position = read_tag(position, end)
        if position < 0:
            return MALFORMED
        if tag == 8 + LENGTH:
            size, position = read_length(position, end)
            if position < 0 or size & 3 != 0:
                return MALFORMED
        elif tag == 8 + FIXED32:
            size = 4
            if end - position < 4:
                return MALFORMED
        else:
            position = skip_field(tag, position, end, status)
            if position < 0:
                return MALFORMED
            continue
        if reserve_values(column, size >> 2, status) < 0:
            return STOP
        used = field(column, USED)
        copy(field(column, VALUES) + 4 * used, position, size)
        set_field(column, USED, used + (size >> 2))
        position += size
    return position


@njit
def read_bytes_list(column: Any, position: Any, end: Any, status: Any) -> Any:
    """Read a BytesList."""
    while position < end:
        size, position = read_content(8 + LENGTH, position, end, status)
        if position < 0:
            return MALFORMED
        if size < 0:
            continue
        if append_bytes(column, position, size, status) < 0:
            return STOP
        position += size
    return position


@njit
def append_bytes(column: Any, position: Any, size: Any, status: Any) -> Any:
    """Append one bytes value to the column."""
    if reserve_values(column, 1, status) < 0:
        return STOP
    used, begin = field(column, USED), field(column, BYTES_USED)
    if begin + size > field(column, BYTE_ROOM):
        return stop_for(status, NEED_BYTES, begin + size)
    copy(field(column, BYTES_AT) + begin, position, size)
    store_i64(field(column, BYTE_OFFSETS) + 8 * used + 8, begin + size)
    set_field(column, USED, used + 1)
    set_field(column, BYTES_USED, begin + size)
    return 0


@njit
def fill_absent(column: Any, count: Any, status: Any) -> Any:
    """Write zeros for the ``count`` values of a fixed shape."""
    if reserve_values(column, count, status) < 0:
        return STOP
    used = field(column, USED)
    kind = field(column, KIND)
    for i in range(used, used + count):
        if kind == INT64:
            store_i64(field(column, VALUES) + 8 * i, 0)
        elif kind == FLOAT:
            store_u32(field(column, VALUES) + 4 * i, np.uint64(0))
        else:
            store_i64(field(column, BYTE_OFFSETS) + 8 * i + 8, field(column, BYTES_USED))
    set_field(column, USED, used + count)
    return 0
