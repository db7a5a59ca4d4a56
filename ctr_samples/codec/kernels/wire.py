"""Read protobuf's wire format, checking every length against the remaining bytes.

Parsing functions take a start position and the ``end`` that they must not pass. They return the position after the
parsed data, or a negative number: MALFORMED, or STOP with the reason in ``status``.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import (
    field,
    leading_zeros,
    load_u8,
    load_u64,
    set_field,
    store_u8,
    store_u64,
    trailing_zeros,
)
from ctr_samples.codec.layout import DEEPEST_GROUP, OPEN_GROUPS

SEVEN_BITS = np.uint64(0x7F)
MORE = np.uint64(0x80)
ONE = np.uint64(1)
MORE_IN_ALL = np.uint64(0x8080808080808080)
FIRST_OVER_56_BITS = np.uint64(1 << 56)


@njit(forceinline=True)
def varint_size(value: Any) -> Any:
    """Return the size of ``value`` (int64 or uint64) as a varint: 1 to 10 bytes. Negative numbers take 10."""
    bits = 64 - leading_zeros(np.uint64(value) | ONE)
    return (bits * 9 + 64) >> 6


@njit(forceinline=True)
def spread(value: Any) -> Any:
    """Spread the 56 low bits of ``value`` over eight bytes, seven bits each."""
    value = (value & np.uint64(0x000000000FFFFFFF)) | ((value & np.uint64(0x00FFFFFFF0000000)) << np.uint64(4))
    value = (value & np.uint64(0x00003FFF00003FFF)) | ((value & np.uint64(0x0FFFC0000FFFC000)) << np.uint64(2))
    return (value & np.uint64(0x007F007F007F007F)) | ((value & np.uint64(0x3F803F803F803F80)) << ONE)


@njit(forceinline=True)
def gather(word: Any) -> Any:
    """Pack the low seven bits of each byte of ``word`` into a 56-bit number: the inverse of :func:`spread`."""
    word = (word & np.uint64(0x007F007F007F007F)) | ((word & np.uint64(0x7F007F007F007F00)) >> ONE)
    word = (word & np.uint64(0x00003FFF00003FFF)) | ((word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    return (word & np.uint64(0x000000000FFFFFFF)) | ((word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))


@njit(forceinline=True)
def write_varint(position: Any, number: Any) -> Any:
    """Write ``number`` at ``position`` and return the position after it. May overwrite up to 10 bytes from
    ``position``.
    """
    value = np.uint64(number)
    if value < MORE:
        store_u8(position, value)
        return position + 1
    size = varint_size(value)
    if value < FIRST_OVER_56_BITS:
        continued = MORE_IN_ALL >> np.uint64(8 * (9 - size))
        store_u64(position, spread(value) | continued)
        return position + size
    store_u64(position, spread(value) | MORE_IN_ALL)
    top = value >> np.uint64(56)
    if top < MORE:
        store_u8(position + 8, top)
    else:
        store_u8(position + 8, top | MORE)
        store_u8(position + 9, ONE)
    return position + size


MALFORMED, STOP = -1, -2

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)


@njit(forceinline=True)
def read_varint(position: Any, end: Any) -> Any:
    """Read the number at ``position``. Also return its end. Drops bits beyond the 64th, as protobuf does."""
    return read_varint_within(position, end, end)


@njit(forceinline=True)
def read_varint_within(position: Any, end: Any, limit: Any) -> Any:
    """Like :func:`read_varint`, with memory readable up to ``limit``, which is at or after ``end``."""
    if limit - position >= 8:
        word = load_u64(position)
        ends = ~word & MORE_IN_ALL
        after = position + (trailing_zeros(ends) + 1 >> 3)
        if ends != np.uint64(0) and after <= end:
            # All bits up to the end of the last byte of the number.
            return gather(word & (ends ^ (ends - ONE))), after
    return read_varint_slowly(position, end)


@njit
def read_varint_slowly(position: Any, end: Any) -> Any:
    """Like :func:`read_varint`, but byte by byte, for long numbers and near the end."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while position < end and shift < np.uint64(70):
        byte = load_u8(position)
        position += 1
        value |= (byte & SEVEN_BITS) << shift if shift < np.uint64(64) else np.uint64(0)
        if byte < MORE:
            return value, position
        shift += np.uint64(7)
    return value, MALFORMED


@njit(forceinline=True)
def read_tag(position: Any, end: Any) -> Any:
    """Read a field tag: field number times eight plus wire type."""
    if position < end:
        byte = load_u8(position)
        if byte < MORE:
            return np.int64(byte), (position + 1 if byte >= np.uint64(8) else MALFORMED)
    value, position = read_varint(position, end)
    if position >= 0 and (value < np.uint64(8) or value > np.uint64(0xFFFFFFFF)):
        return 0, MALFORMED
    return np.int64(value), position


@njit(forceinline=True)
def read_length(position: Any, end: Any) -> Any:
    """Return the length and start of length-delimited content that ends at or before ``end``."""
    if position < end:
        byte = load_u8(position)
        if byte < MORE:
            size = np.int64(byte)
            return size, (position + 1 if size < end - position else MALFORMED)
    value, position = read_varint(position, end)
    if position < 0 or value > np.uint64(end - position):
        return 0, MALFORMED
    return np.int64(value), position


@njit
def skip_value(tag: Any, position: Any, end: Any) -> Any:
    """Skip the value of an unknown field that is not a group."""
    wire = tag & 7
    if wire == VARINT:
        return read_varint(position, end)[1]
    if wire == LENGTH:
        size, position = read_length(position, end)
        return position if position < 0 else position + size
    size = 8 if wire == FIXED64 else 4 if wire == FIXED32 else end - position + 1
    return position + size if size <= end - position else MALFORMED


@njit
def skip_field(tag: Any, position: Any, end: Any, status: Any) -> Any:
    """Skip the value of an unknown field, including nested groups."""
    if tag & 7 != GROUP:
        return skip_value(tag, position, end)
    set_field(status, OPEN_GROUPS, tag >> 3)
    depth = 1
    while depth > 0:
        tag, position = read_tag(position, end)
        if position < 0:
            return MALFORMED
        if tag & 7 == GROUP:
            if depth == DEEPEST_GROUP:
                return MALFORMED
            set_field(status, OPEN_GROUPS + depth, tag >> 3)
            depth += 1
        elif tag & 7 == END_GROUP:
            depth -= 1
            if field(status, OPEN_GROUPS + depth) != tag >> 3:
                return MALFORMED
        else:
            position = skip_value(tag, position, end)
            if position < 0:
                return MALFORMED
    return position


# For a single tag: a helper that also handles messages with several tags makes decoding 5 to 7% slower.
@njit(forceinline=True)
def read_content(wanted: Any, position: Any, end: Any, status: Any) -> Any:
    """Return the size and start of a field's content if its tag is ``wanted``. Else skip the field, with size -1."""
    tag, position = read_tag(position, end)
    if position < 0:
        return 0, MALFORMED
    if tag != wanted:
        return -1, skip_field(tag, position, end, status)
    return read_length(position, end)


@njit(forceinline=True)
def same(a: Any, b: Any, size: Any) -> Any:
    """Whether ``size`` bytes are equal."""
    i = 0
    while i + 8 <= size:
        if load_u64(a + i) != load_u64(b + i):
            return False
        i += 8
    while i < size:
        if load_u8(a + i) != load_u8(b + i):
            return False
        i += 1
    return True


@njit
def compare(a: Any, size_a: Any, b: Any, size_b: Any) -> Any:
    """Return a negative number, zero or a positive number if key ``a`` sorts before, with or after ``b``
    (``in_wire_order``).
    """
    n = min(size_a, size_b)
    for i in range(n):
        difference = np.int64(load_u8(a + i)) - np.int64(load_u8(b + i))
        if difference != 0:
            return difference
    return size_b - size_a
