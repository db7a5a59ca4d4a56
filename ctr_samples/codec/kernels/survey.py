"""Kernel that surveys the keys of records, with their kinds and numbers of values.

Each key found is a row of an int64 matrix (``layout.Surveyed``). Functions return the position after the surveyed data,
MALFORMED or STOP.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import field, load_i64, load_u8, set_field
from ctr_samples.codec.kernels.wire import (
    LENGTH,
    MALFORMED,
    MORE,
    STOP,
    VARINT,
    read_content,
    read_length,
    read_tag,
    same,
    skip_field,
)
from ctr_samples.codec.layout import (
    BROKEN,
    BYTES,
    DONE,
    FLOAT,
    FOOTER,
    HEADER,
    INT64,
    NEED_VALUES,
    REASON,
    Surveyed,
)

NOT_ASCII = -0x7F7F7F7F7F7F7F80
"""Mask of the highest bit in each of eight bytes."""


@njit
def after(first: Any) -> Any:
    """Return the number of bytes after a first byte (0: invalid), and the range of the second byte. Later bytes are 80
    to BF.
    """
    if first < 0xC2 or first > 0xF4:
        return 0, 0x80, 0xBF
    more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    return more, low, high


@njit
def is_utf8(position: Any, end: Any) -> Any:
    """Return 1 if the bytes are well-formed UTF-8, else 0. No overlong forms, surrogates or values over U+10FFFF."""
    while position < end:
        if position + 8 <= end and load_i64(position) & NOT_ASCII == 0:
            position += 8
            continue
        first = load_u8(position)
        position += 1
        if first < 0x80:
            continue
        more, low, high = after(first)
        if more == 0 or position + more > end:
            return 0
        for _ in range(more):
            byte = load_u8(position)
            if byte < low or byte > high:
                return 0
            low, high = 0x80, 0xBF
            position += 1
    return 1


KEY, KEY_SIZE, SEQUENCE, KINDS, FEWEST, MOST, BINARY, HASH, FIRST, NEXT = (
    Surveyed.KEY,
    Surveyed.KEY_SIZE,
    Surveyed.SEQUENCE,
    Surveyed.KINDS,
    Surveyed.FEWEST,
    Surveyed.MOST,
    Surveyed.BINARY,
    Surveyed.HASH,
    Surveyed.FIRST,
    Surveyed.NEXT,
)
USED, ROOM = Surveyed.USED, Surveyed.ROOM
ROW_SIZE = 8 * Surveyed.FIELDS


@njit
def count_varints(position: Any, end: Any) -> Any:
    """Count the varints in a packed field by their final bytes."""
    count = 0
    while position < end:
        count += load_u8(position) < MORE
        position += 1
    return count


@njit
def count_values(key: Any, kind: Any, position: Any, end: Any, status: Any) -> Any:
    """Count the values in a BytesList, FloatList or Int64List, or return MALFORMED. Marks keys with non-text values."""
    count = 0
    while position < end:
        tag, position = read_tag(position, end)
        if position < 0:
            return MALFORMED
        if tag == 8 + LENGTH:
            size, position = read_length(position, end)
            if position < 0:
                return MALFORMED
            if kind == BYTES:
                count += 1
                if field(key, BINARY) == 0 and is_utf8(position, position + size) == 0:
                    set_field(key, BINARY, 1)
            elif kind == FLOAT:
                count += size >> 2
            else:
                count += count_varints(position, position + size)
            position += size
        else:
            count += tag >> 3 == 1 and tag & 7 == (VARINT if kind == INT64 else 5) and kind != BYTES
            position = skip_field(tag, position, end, status)
            if position < 0:
                return MALFORMED
    return count


@njit
def survey_feature(key: Any, position: Any, end: Any, status: Any) -> Any:
    """Record the kind and number of values of one Feature. A Feature without a kind counts as absent."""
    found, count = 0, 0
    while position < end:
        tag, position = read_tag(position, end)
        if position < 0:
            return MALFORMED
        kind = tag >> 3
        if tag & 7 != LENGTH or kind > INT64:
            position = skip_field(tag, position, end, status)
            if position < 0:
                return MALFORMED
            continue
        size, position = read_length(position, end)
        if position < 0:
            return MALFORMED
        more = count_values(key, kind, position, position + size, status)
        if more < 0:
            return MALFORMED
        count = more + (count if kind == found else 0)
        found = kind
        position += size
    if found != 0:
        set_field(key, KINDS, field(key, KINDS) | (1 << found))
        set_field(key, FEWEST, min(field(key, FEWEST), count))
        set_field(key, MOST, max(field(key, MOST), count))
    return position


@njit
def survey_feature_list(key: Any, position: Any, end: Any, status: Any) -> Any:
    """Survey each step of a FeatureList."""
    while position < end:
        size, position = read_content(8 + LENGTH, position, end, status)
        if size >= 0 and position >= 0:
            position = survey_feature(key, position, position + size, status)
        if position < 0:
            return MALFORMED
    return position


@njit
def hash_of(name: Any, size: Any) -> Any:
    """Return the FNV-1a hash of ``size`` bytes at ``name``, as a non-negative number."""
    value = -3750763034362895579
    for position in range(name, name + size):
        value = (value ^ load_u8(position)) * 1099511628211
    return (value ^ value >> 32) & 0x7FFFFFFFFFFFFFFF


@njit
def add_to_chain(keys: Any, index: Any, room: Any) -> Any:
    """Insert a row's key at the head of its hash chain."""
    row = keys + index * ROW_SIZE
    head = keys + field(row, HASH) % room * ROW_SIZE
    set_field(row, NEXT, field(head, FIRST))
    set_field(head, FIRST, index + 1)


@njit
def chain_again(keys: Any, status: Any) -> Any:
    """Rebuild the hash chains for a new number of rows."""
    used, room = field(status, USED), field(status, ROOM)
    for index in range(room):
        set_field(keys + index * ROW_SIZE, FIRST, 0)
    for index in range(used):
        add_to_chain(keys, index, room)


@njit
def is_key(row: Any, sequence: Any, name: Any, size: Any) -> Any:
    """Whether a row holds the given key."""
    return field(row, KEY_SIZE) == size and field(row, SEQUENCE) == sequence and same(field(row, KEY), name, size)


@njit
def find_key(keys: Any, sequence: Any, name: Any, size: Any, guess: Any, status: Any) -> Any:
    """Return the row of a key, adding new keys. Return STOP if there is no room."""
    used, room = field(status, USED), field(status, ROOM)
    if guess < used and is_key(keys + guess * ROW_SIZE, sequence, name, size):
        return guess
    hashed = hash_of(name, size)
    index = field(keys + hashed % room * ROW_SIZE, FIRST) - 1
    while index >= 0:
        row = keys + index * ROW_SIZE
        if field(row, HASH) == hashed and is_key(row, sequence, name, size):
            return index
        index = field(row, NEXT) - 1
    if used == room:
        set_field(status, REASON, NEED_VALUES)
        return STOP
    row = keys + used * ROW_SIZE
    set_field(row, KEY, name)
    set_field(row, KEY_SIZE, size)
    set_field(row, SEQUENCE, sequence)
    set_field(row, KINDS, 0)
    set_field(row, FEWEST, 1 << 62)
    set_field(row, MOST, 0)
    set_field(row, BINARY, 0)
    set_field(row, HASH, hashed)
    add_to_chain(keys, used, room)
    set_field(status, USED, used + 1)
    return used


@njit
def survey_entry(keys: Any, sequence: Any, guess: Any, position: Any, end: Any, status: Any) -> Any:
    """Survey one map entry. Return the index of its key, or a negative number. Repeated values are each surveyed."""
    begin = position
    name, name_size = position, 0
    while position < end:
        tag, position = read_tag(position, end)
        if position < 0:
            return MALFORMED
        if tag != 8 + LENGTH and tag != 16 + LENGTH:
            position = skip_field(tag, position, end, status)
            if position < 0:
                return MALFORMED
            continue
        size, position = read_length(position, end)
        if position < 0:
            return MALFORMED
        if tag == 8 + LENGTH:
            name, name_size = position, size
        position += size
    index = find_key(keys, sequence, name, name_size, guess, status)
    if index < 0:
        return index
    key = keys + index * ROW_SIZE
    position = begin
    while position < end:
        size, position = read_content(16 + LENGTH, position, end, status)
        if size < 0:
            continue
        if sequence != 0:
            position = survey_feature_list(key, position, position + size, status)
        else:
            position = survey_feature(key, position, position + size, status)
        if position < 0:
            return position
    return index


@njit
def survey_map(keys: Any, sequence: Any, position: Any, end: Any, status: Any) -> Any:
    """Survey a Features or FeatureLists message."""
    guess = 0
    while position < end:
        size, position = read_content(8 + LENGTH, position, end, status)
        if position < 0:
            return MALFORMED
        if size < 0:
            continue
        index = survey_entry(keys, sequence, guess, position, position + size, status)
        if index < 0:
            return index
        guess = index + 1
        position += size
    return position


@njit
def survey_records(keys: Any, sequences: Any, base: Any, offsets: Any, first: Any, rows: Any, status: Any) -> Any:
    """Survey records ``first`` to ``rows``. Return the first unsurveyed record, with the reason in ``status``.

    ``sequences`` is nonzero for SequenceExamples. NEED_VALUES asks for more room for keys; the record is then surveyed
    again, without changing earlier results.
    """
    set_field(status, REASON, DONE)
    chain_again(keys, status)
    for row in range(first, rows):
        position = base + field(offsets, row) + HEADER
        end = base + field(offsets, row + 1) - FOOTER
        while position < end:
            tag, position = read_tag(position, end)
            if position >= 0:
                if tag == 8 + LENGTH or (tag == 16 + LENGTH and sequences != 0):
                    size, position = read_length(position, end)
                    if position >= 0:
                        position = survey_map(keys, tag >> 4, position, position + size, status)
                else:
                    position = skip_field(tag, position, end, status)
            if position < 0:
                if position == MALFORMED:
                    set_field(status, REASON, BROKEN)
                return row
    return rows
