"""Kernel that writes framed records, row by row, from columns that are already int64, float32 or bytes.

``layout.Encoded`` names the fields of a column. Functions here identify a column by the address of its row in the
matrix. Sizes that must be summed are kept for one block of rows, so that they stay in the first-level cache.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np

from ctr_samples.codec.kernels.frames import seal_frames
from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import (
    copy,
    copy_padded,
    field,
    load_i64,
    load_u8,
    set_field,
    store_i64,
    store_u8,
    store_u64,
)
from ctr_samples.codec.kernels.wire import varint_size, write_varint
from ctr_samples.codec.layout import (
    BLOCK,
    BLOCK_SIZE,
    BYTES,
    FLOAT,
    FOOTER,
    GROUP_SIZE,
    HEADER,
    INT64,
    SLACK,
    Encoded,
)

KIND, STRIDE, OFFSETS, VALUES, BYTE_OFFSETS = (
    Encoded.KIND,
    Encoded.STRIDE,
    Encoded.OFFSETS,
    Encoded.VALUES,
    Encoded.BYTE_OFFSETS,
)
VALID, KEY, KEY_SIZE, STEPS = Encoded.VALID, Encoded.KEY, Encoded.KEY_SIZE, Encoded.STEPS
COLUMN_SIZE = 8 * Encoded.FIELDS

MESSAGE_TAG = np.uint64(0x0A)  # field 1, length-delimited

SHORT = 120
"""Maximum total size of key and list for which every length in an entry is below 128 and takes one byte."""


@njit(forceinline=True)
def field_size(size: Any) -> Any:
    """Return the size of a length-delimited field with ``size`` bytes of content and a one-byte tag."""
    return 1 + varint_size(size) + size


@njit(forceinline=True)
def write_field(position: Any, tag: Any, size: Any) -> Any:
    """Write tag and length. Return the start of the content."""
    store_u8(position, tag)
    return write_varint(position + 1, size)


@njit(forceinline=True)
def list_size(column: Any, first: Any, stop: Any) -> Any:
    """Return the size of an Int64List, FloatList or BytesList with values ``first`` to ``stop``."""
    if first == stop:
        return 0
    kind = field(column, KIND)
    if kind == FLOAT:
        return field_size(4 * (stop - first))
    size = 0
    if kind == INT64:
        values = field(column, VALUES)
        for i in range(first, stop):
            size += varint_size(load_i64(values + 8 * i))
        return field_size(size)
    offsets = field(column, BYTE_OFFSETS)
    for i in range(first, stop):
        size += field_size(load_i64(offsets + 8 * i + 8) - load_i64(offsets + 8 * i))
    return size


@njit
def write_feature(position: Any, column: Any, first: Any, stop: Any, size: Any) -> Any:
    """Write the content of a Feature whose list takes ``size`` bytes."""
    kind = field(column, KIND)
    position = write_field(position, np.uint64(kind << 3 | 2), size)
    if first == stop:
        return position
    values = field(column, VALUES)
    if kind == BYTES:
        offsets = field(column, BYTE_OFFSETS)
        for i in range(first, stop):
            begin = load_i64(offsets + 8 * i)
            n = load_i64(offsets + 8 * i + 8) - begin
            position = write_field(position, MESSAGE_TAG, n)
            copy(position, values + begin, n)
            position += n
        return position
    if kind == FLOAT:
        n = 4 * (stop - first)
        position = write_field(position, MESSAGE_TAG, n)
        copy(position, values + 4 * first, n)
        return position + n
    n = size - 2 if size < 130 else size - 1 - packed_length_size(size)
    position = write_field(position, MESSAGE_TAG, n)
    for i in range(first, stop):
        position = write_varint(position, load_i64(values + 8 * i))
    return position


@njit
def packed_length_size(size: Any) -> Any:
    """Return the number of length bytes in a packed field of ``size`` bytes."""
    n = varint_size(size)
    return n if field_size(size - 1 - n) == size else n - 1


@njit(forceinline=True)
def feature_range(column: Any, feature: Any) -> Any:
    """Return the start and end of a feature's values."""
    stride = field(column, STRIDE)
    if stride >= 0:
        return feature * stride, feature * stride + stride
    offsets = field(column, OFFSETS)
    return load_i64(offsets + 8 * feature), load_i64(offsets + 8 * feature + 8)


@njit(forceinline=True)
def value_size(column: Any, row: Any) -> Any:
    """Return the size of a row's map value: of its FeatureList, or of the list inside its Feature."""
    if field(column, STEPS) == 0:
        first, stop = feature_range(column, row)
        return list_size(column, first, stop)
    size = 0
    for step in range(load_i64(field(column, STEPS) + 8 * row), load_i64(field(column, STEPS) + 8 * row + 8)):
        first, stop = feature_range(column, step)
        size += field_size(field_size(list_size(column, first, stop)))
    return size


@njit(forceinline=True)
def entry_size(column: Any, size: Any) -> Any:
    """Return the size of a map entry (key and value), given the result of :func:`value_size`."""
    value = field_size(size) if field(column, STEPS) == 0 else size
    return field(column, KEY_SIZE) + varint_size(value) + value


@njit
def write_entry(position: Any, column: Any, row: Any, size: Any) -> Any:
    """Write one map entry, including its own tag and length."""
    key_size, steps = field(column, KEY_SIZE), field(column, STEPS)
    if steps == 0 and size > 0 and key_size + size < SHORT and field(column, KIND) != BYTES:
        return write_short_entry(position, column, row, size)
    position = write_field(position, MESSAGE_TAG, entry_size(column, size))
    copy_padded(position, field(column, KEY), key_size)
    position += key_size
    if steps != 0:
        return write_feature_list(position, column, row, size)
    position = write_varint(position, field_size(size))
    first, stop = feature_range(column, row)
    return write_feature(position, column, first, stop, size)


@njit(forceinline=True)
def write_short_entry(position: Any, column: Any, row: Any, size: Any) -> Any:
    """Write a numeric entry whose lengths all fit in one byte. Two stores write the tags and lengths around the key."""
    kind, key_size = field(column, KIND), field(column, KEY_SIZE)
    store_u64(position, np.uint64(0x0A | (key_size + 3 + size) << 8))
    copy_padded(position + 2, field(column, KEY), key_size)
    position += 2 + key_size
    store_u64(position, np.uint64((size + 2) | (kind << 3 | 2) << 8 | size << 16 | 0x0A << 24 | (size - 2) << 32))
    position += 5
    first, stop = feature_range(column, row)
    if kind == INT64:
        for address in range(field(column, VALUES) + 8 * first, field(column, VALUES) + 8 * stop, 8):
            position = write_varint(position, load_i64(address))
        return position
    copy(position, field(column, VALUES) + 4 * first, size - 2)
    return position + size - 2


@njit
def write_feature_list(position: Any, column: Any, row: Any, size: Any) -> Any:
    """Write the length and content of a FeatureList of ``size`` bytes."""
    position = write_varint(position, size)
    for step in range(load_i64(field(column, STEPS) + 8 * row), load_i64(field(column, STEPS) + 8 * row + 8)):
        first, stop = feature_range(column, step)
        n = list_size(column, first, stop)
        position = write_field(position, MESSAGE_TAG, field_size(n))
        position = write_feature(position, column, first, stop, n)
    return position


@njit
def measure(column: Any, row: Any, count: Any, sizes: Any, totals: Any) -> Any:
    """Store the value sizes of ``count`` rows at ``sizes`` (-1: key omitted) and add their entry sizes to ``totals``.

    Works on a whole column, so that values constant across rows are looked up once.
    """
    valid, key_size, kind = field(column, VALID), field(column, KEY_SIZE), field(column, KIND)
    plain = field(column, STEPS) == 0 and field(column, STRIDE) > 0
    constant = plain and kind == FLOAT
    one_integer = plain and kind == INT64 and field(column, STRIDE) == 1 and key_size < SHORT - 12
    values = field(column, VALUES) + 8 * row
    size, entry = 0, 0
    if constant:
        size = value_size(column, row)
        entry = field_size(entry_size(column, size))
    for i in range(count):
        if valid != 0 and load_u8(valid + row + i) == 0:
            store_i64(sizes + 8 * i, -1)
            continue
        if one_integer:
            size = 2 + varint_size(load_i64(values + 8 * i))
            entry = key_size + size + 5
        elif not constant:
            size = value_size(column, row + i)
            entry = field_size(entry_size(column, size))
        store_i64(sizes + 8 * i, size)
        store_i64(totals + 8 * i, load_i64(totals + 8 * i) + entry)


@njit
def measure_block(columns: Any, group: Any, row: Any, count: Any, sizes: Any, totals: Any) -> Any:
    """Measure ``count`` rows. Writes BLOCK numbers per column to ``sizes``, and per group to ``totals``."""
    while field(group, 0) != 0:
        for i in range(count):
            store_i64(totals + 8 * i, 0)
        for c in range(field(group, 1), field(group, 2)):
            measure(columns + c * COLUMN_SIZE, row, count, sizes + c * BLOCK_SIZE, totals)
        group += GROUP_SIZE
        totals += BLOCK_SIZE


@njit
def message_size(group: Any, totals: Any) -> Any:
    """Return the size of a message, given the sizes of its maps in ``totals``."""
    size = 0
    while field(group, 0) != 0:
        size += field_size(load_i64(totals))
        group += GROUP_SIZE
        totals += BLOCK_SIZE
    return size


@njit
def write_message(position: Any, columns: Any, group: Any, row: Any, sizes: Any, totals: Any) -> Any:
    """Write one message. ``sizes`` and ``totals`` point to this row's results of :func:`measure_block`."""
    while field(group, 0) != 0:
        position = write_field(position, np.uint64(field(group, 0)), load_i64(totals))
        for c in range(field(group, 1), field(group, 2)):
            size = load_i64(sizes + c * BLOCK_SIZE)
            if size >= 0:
                position = write_entry(position, columns + c * COLUMN_SIZE, row, size)
        group += GROUP_SIZE
        totals += BLOCK_SIZE


@njit
def write_records(
    columns: Any, count: Any, groups: Any, scratch: Any, offsets: Any, base: Any, capacity: Any, first: Any, rows: Any
) -> Any:
    """Write frames for rows ``first`` to ``rows`` at ``base + offsets[first]`` and return the first unwritten row.

    ``columns`` holds ``count`` columns. ``scratch`` has BLOCK_SIZE bytes per column and per group. Returns early if the
    next row may not fit into ``capacity``.
    """
    totals = scratch + count * BLOCK_SIZE
    for start in range(first, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        measure_block(columns, groups, start, stop - start, scratch, totals)
        for row in range(start, stop):
            place = 8 * (row - start)
            size = message_size(groups, totals + place)
            frame = field(offsets, row)
            end = frame + HEADER + size + FOOTER
            if end + SLACK > capacity:
                seal_frames(base, offsets, start, row)
                return row
            store_u64(base + frame, np.uint64(size))
            write_message(base + frame + HEADER, columns, groups, row, scratch + place, totals + place)
            set_field(offsets, row + 1, end)
        seal_frames(base, offsets, start, stop)
    return rows


@njit
def write_byte_arrays(values: Any, limits: Any, offsets: Any, base: Any, first: Any, rows: Any) -> Any:
    """Like :func:`write_records`, but the messages are the bytes in ``values``, delimited by ``limits``.

    The caller provides room for all rows.
    """
    for start in range(first, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        for row in range(start, stop):
            begin = field(limits, row)
            size = field(limits, row + 1) - begin
            frame = field(offsets, row)
            store_u64(base + frame, np.uint64(size))
            copy(base + frame + HEADER, values + begin, size)
            set_field(offsets, row + 1, frame + HEADER + size + FOOTER)
        seal_frames(base, offsets, start, stop)
    return rows
