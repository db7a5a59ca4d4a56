"""Kernel that reads messages into columns, following all protobuf rules and checking every length.

Parsing functions take a start position and the ``end`` that they must not pass. They return the position after the
parsed data, or a negative number: MALFORMED, or STOP with the reason in ``status``.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np

from ctr_samples.codec.kernels.expected import go_to, read_expected
from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.lists import fill_absent, read_bytes_list, read_float_list, read_int64_list, stop_for
from ctr_samples.codec.kernels.memory import copy, fetch, field, set_field, store_i64, store_u8
from ctr_samples.codec.kernels.wire import (
    LENGTH,
    MALFORMED,
    STOP,
    compare,
    read_content,
    read_length,
    read_tag,
    same,
    skip_field,
)
from ctr_samples.codec.layout import (
    ABSENT,
    BROKEN,
    COLUMN,
    DONE,
    FLOAT,
    FOOTER,
    GROUP_SIZE,
    INT64,
    NEED_STEPS,
    REASON,
    WRONG_COUNT,
    WRONG_KIND,
    Decoded,
)

MISSING, PRESENT, MISFIT = range(3)
KEY, KEY_SIZE, KIND, COUNT, REQUIRED, SEQUENCE = (
    Decoded.KEY,
    Decoded.KEY_SIZE,
    Decoded.KIND,
    Decoded.COUNT,
    Decoded.REQUIRED,
    Decoded.SEQUENCE,
)
VALUES, VALUE_ROOM, BYTES_AT, BYTE_ROOM = Decoded.VALUES, Decoded.VALUE_ROOM, Decoded.BYTES_AT, Decoded.BYTE_ROOM
BYTE_OFFSETS, OFFSETS, STEPS, STEP_ROOM = Decoded.BYTE_OFFSETS, Decoded.OFFSETS, Decoded.STEPS, Decoded.STEP_ROOM
VALID, FOUND, STATE = Decoded.VALID, Decoded.FOUND, Decoded.STATE
USED, BYTES_USED, STEPS_USED = Decoded.USED, Decoded.BYTES_USED, Decoded.STEPS_USED
FIRST, FIRST_BYTE, FIRST_STEP = Decoded.FIRST, Decoded.FIRST_BYTE, Decoded.FIRST_STEP
COLUMN_SIZE = 8 * Decoded.FIELDS

PATIENCE = 16
"""Number of consecutive records in another form after which the fast path is no longer tried."""


@njit(forceinline=True)
def find_column(columns: Any, first: Any, stop: Any, guess: Any, key: Any, size: Any) -> Any:
    """Return the column named by ``size`` bytes at ``key``, or -1. ``guess`` is right for records in our own order."""
    if guess < stop:
        column = columns + guess * COLUMN_SIZE
        if field(column, KEY_SIZE) == size and same(field(column, KEY), key, size):
            return guess
    while first < stop:
        middle = (first + stop) // 2
        column = columns + middle * COLUMN_SIZE
        order = compare(key, size, field(column, KEY), field(column, KEY_SIZE))
        if order == 0:
            return middle
        if order < 0:
            stop = middle
        else:
            first = middle + 1
    return -1


@njit(forceinline=True)
def forget_feature(column: Any, first: Any, first_byte: Any) -> Any:
    """Drop the values of the current Feature, which started at ``first``."""
    set_field(column, USED, first)
    set_field(column, BYTES_USED, first_byte)


@njit
def read_feature(column: Any, first: Any, first_byte: Any, position: Any, end: Any, status: Any) -> Any:
    """Read a Feature. Its list is a oneof: the last kind wins, and chunks of the same kind are concatenated."""
    wanted = field(column, KIND)
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
        if field(column, FOUND) != kind:
            forget_feature(column, first, first_byte)
            set_field(column, FOUND, kind)
        if kind != wanted:
            position += size
        elif kind == INT64:
            position = read_int64_list(column, position, position + size, status)
        elif kind == FLOAT:
            position = read_float_list(column, position, position + size, status)
        else:
            position = read_bytes_list(column, position, position + size, status)
        if position < 0:
            return position
    return position


@njit(forceinline=True)
def misfit(column: Any, first: Any, first_byte: Any, strict: Any, status: Any) -> Any:
    """Return zero if the current Feature has the contract's kind and count. Otherwise stop, or mark it as a misfit."""
    found, wanted = field(column, FOUND), field(column, COUNT)
    count = field(column, USED) - first
    if found != 0 and found != field(column, KIND):
        reason, detail = WRONG_KIND, found
    elif wanted >= 0 and count != wanted:
        reason, detail = WRONG_COUNT, count
    else:
        return 0
    if strict:
        return stop_for(status, reason, detail)
    forget_feature(column, first, first_byte)
    set_field(column, STATE, MISFIT)
    return 0


@njit
def read_feature_list(column: Any, position: Any, end: Any, strict: Any, status: Any) -> Any:
    """Read a FeatureList. Each Feature is one step."""
    while position < end:
        size, position = read_content(8 + LENGTH, position, end, status)
        if position < 0:
            return MALFORMED
        if size < 0:
            continue
        step = field(column, STEPS_USED)
        if step + 1 > field(column, STEP_ROOM):
            return stop_for(status, NEED_STEPS, step + 1)
        first, first_byte = field(column, USED), field(column, BYTES_USED)
        set_field(column, FOUND, 0)
        position = read_feature(column, first, first_byte, position, position + size, status)
        if position < 0:
            return position
        if misfit(column, first, first_byte, strict, status) < 0:
            return STOP
        store_i64(field(column, OFFSETS) + 8 * step + 8, field(column, USED))
        set_field(column, STEPS_USED, step + 1)
    return position


@njit(forceinline=True)
def read_value(column: Any, position: Any, end: Any, strict: Any, status: Any) -> Any:
    """Read the value of a map entry."""
    if field(column, SEQUENCE) != 0:
        return read_feature_list(column, position, end, strict, status)
    return read_feature(column, field(column, FIRST), field(column, FIRST_BYTE), position, end, status)


@njit(forceinline=True)
def begin_entry(column: Any) -> Any:
    """Discard an earlier entry with the same key, since the last entry wins."""
    forget_feature(column, field(column, FIRST), field(column, FIRST_BYTE))
    set_field(column, STEPS_USED, field(column, FIRST_STEP))
    set_field(column, FOUND, 0)
    set_field(column, STATE, PRESENT)


@njit
def read_entry(columns: Any, group: Any, guess: Any, position: Any, end: Any, strict: Any, status: Any) -> Any:
    """Read one map entry. Return its end and the column likely to follow.

    Key and value may come in any order and repeatedly. The last key wins, and values are merged.
    """
    begin = position
    key, key_size = position, 0
    value, value_size, values = position, 0, 0
    while position < end:
        tag, position = read_tag(position, end)
        if position < 0:
            return MALFORMED, guess
        if tag != 8 + LENGTH and tag != 16 + LENGTH:
            position = skip_field(tag, position, end, status)
            if position < 0:
                return MALFORMED, guess
            continue
        size, position = read_length(position, end)
        if position < 0:
            return MALFORMED, guess
        if tag == 8 + LENGTH:
            key, key_size = position, size
        else:
            value, value_size, values = position, size, values + 1
        position += size
    found = find_column(columns, field(group, 1), field(group, 2), guess, key, key_size)
    if found < 0:
        return end, guess
    set_field(status, COLUMN, found)
    column = columns + found * COLUMN_SIZE
    begin_entry(column)
    if values == 1:
        position = read_value(column, value, value + value_size, strict, status)
    elif values > 1:
        position = read_values(column, begin, end, strict, status)
    return (position if position < 0 else end), found + 1


@njit
def read_values(column: Any, position: Any, end: Any, strict: Any, status: Any) -> Any:
    """Merge the values of an entry with several values. The entry has already been read once and is well formed."""
    while position < end:
        size, position = read_content(16 + LENGTH, position, end, status)
        if size < 0:
            continue
        position = read_value(column, position, position + size, strict, status)
        if position < 0:
            return position
    return position


@njit
def read_map(columns: Any, group: Any, position: Any, end: Any, strict: Any, status: Any) -> Any:
    """Read a Features or FeatureLists message."""
    guess = field(group, 1)
    while position < end:
        size, position = read_content(8 + LENGTH, position, end, status)
        if position < 0:
            return MALFORMED
        if size < 0:
            continue
        position, guess = read_entry(columns, group, guess, position, position + size, strict, status)
        if position < 0:
            return position
    return position


@njit
def read_message(columns: Any, groups: Any, position: Any, end: Any, strict: Any, status: Any) -> Any:
    """Read an Example or SequenceExample."""
    while position < end:
        tag, position = read_tag(position, end)
        if position < 0:
            return MALFORMED
        group = groups
        while field(group, 0) != 0 and field(group, 0) != tag:
            group += GROUP_SIZE
        if field(group, 0) == 0:
            position = skip_field(tag, position, end, status)
            if position < 0:
                return MALFORMED
            continue
        size, position = read_length(position, end)
        if position < 0:
            return MALFORMED
        position = read_map(columns, group, position, position + size, strict, status)
        if position < 0:
            return position
    return position


@njit
def begin_row(columns: Any, count: Any, row: Any) -> Any:
    """Prepare every column for the record in ``row``, which may already have been partly read."""
    for c in range(count):
        column = columns + c * COLUMN_SIZE
        step = field(field(column, STEPS), row) if field(column, SEQUENCE) != 0 else row
        set_field(column, FIRST_STEP, step)
        set_field(column, STEPS_USED, step)
        first = field(field(column, OFFSETS), step) if field(column, OFFSETS) != 0 else row * field(column, COUNT)
        go_to(column, first)
        set_field(column, FIRST, first)
        set_field(column, FIRST_BYTE, field(column, BYTES_USED))
        set_field(column, STATE, MISSING)


@njit
def end_absent(column: Any, state: Any, strict: Any, status: Any) -> Any:
    """Handle a feature that is absent or does not fit."""
    if state == MISSING and strict and field(column, REQUIRED) != 0:
        return stop_for(status, ABSENT, 0)
    forget_feature(column, field(column, FIRST), field(column, FIRST_BYTE))
    set_field(column, STEPS_USED, field(column, FIRST_STEP))
    if field(column, SEQUENCE) == 0 and field(column, COUNT) > 0:
        return fill_absent(column, field(column, COUNT), status)
    return 0


@njit(forceinline=True)
def end_column(column: Any, row: Any, strict: Any, status: Any) -> Any:
    """Check one feature of the current record, and store its end."""
    sequence = field(column, SEQUENCE) != 0
    state = field(column, STATE)
    if state == PRESENT and not sequence:
        if field(column, FOUND) == 0:
            state = MISSING
        elif misfit(column, field(column, FIRST), field(column, FIRST_BYTE), strict, status) < 0:
            return STOP
        else:
            state = field(column, STATE)
    store_u8(field(column, VALID) + row, np.uint64(state == PRESENT))
    if state != PRESENT and end_absent(column, state, strict, status) < 0:
        return STOP
    if sequence:
        store_i64(field(column, STEPS) + 8 * row + 8, field(column, STEPS_USED))
    elif field(column, OFFSETS) != 0:
        store_i64(field(column, OFFSETS) + 8 * row + 8, field(column, USED))
    return 0


@njit
def end_row(columns: Any, count: Any, row: Any, strict: Any, status: Any) -> Any:
    """Check all features of a record."""
    for c in range(count):
        if end_column(columns + c * COLUMN_SIZE, row, strict, status) < 0:
            set_field(status, COLUMN, c)
            return STOP
    return 0


@njit
def read_records(
    columns: Any, count: Any, groups: Any, begins: Any, ends: Any, first: Any, rows: Any, strict: Any, status: Any
) -> Any:
    """Read messages ``first`` to ``rows`` into ``count`` columns and return the first unread message. ``begins`` and
    ``ends`` are the message addresses; each message is followed by the footer of its frame.

    Stops early, with the reason in ``status``, if the record is invalid or more room is needed. In the latter case grow
    the room and call again with the returned row; the record is then read again.
    """
    plain = field(groups + GROUP_SIZE, 0) == 0
    unexpected = 0
    for row in range(first, rows):
        begin, end = field(begins, row), field(ends, row)
        if row + 1 < rows:
            fetch(field(begins, row + 1), field(ends, row + 1))
        if plain and unexpected < PATIENCE:
            if read_expected(columns, count, begin, end, end + FOOTER, row, status):
                unexpected = 0
                continue
            unexpected += 1
        begin_row(columns, count, row)
        set_field(status, COLUMN, -1)
        result = read_message(columns, groups, begin, end, strict != 0, status)
        if result >= 0:
            result = end_row(columns, count, row, strict != 0, status)
        if result == MALFORMED:
            set_field(status, REASON, BROKEN)
        if result < 0:
            return row
    begin_row(columns, count, rows)
    set_field(status, REASON, DONE)
    return rows


@njit
def read_byte_arrays(begins: Any, ends: Any, rows: Any, target: Any, limits: Any) -> Any:
    """Concatenate all messages in ``target``. ``limits`` receives the end of each message."""
    for row in range(rows):
        begin = field(begins, row)
        size = field(ends, row) - begin
        copy(target + field(limits, row), begin, size)
        set_field(limits, row + 1, field(limits, row) + size)
    return rows
