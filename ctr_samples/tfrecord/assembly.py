"""Build structs, maps, lists of lists and vectors from the corresponding flat features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ShortType,
)

from ctr_samples.codec.kernel_columns import take_apart, validity
from ctr_samples.contract import TimeUnit
from ctr_samples.tfrecord.schema import TEXTS, TIMESTAMPS

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, DateType: 32}
_PER_MICROSECOND = {"D": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}


class MisfitError(Exception):
    """Raised for a value that its column's type cannot hold. ``row`` is its row in the array that was cast."""

    def __init__(self, row: int, value: object, problem: str) -> None:
        super().__init__(problem)
        self.row, self.value, self.problem = row, value, problem


def cast(array: pa.Array, kind: DataType, target: pa.DataType, unit: TimeUnit | None) -> pa.Array:
    """Cast values, lists or lists of lists to ``kind``. ``target`` is the Arrow type that Spark expects.

    ``unit`` is the unit of dates and timestamps. Raises MisfitError for the first value that does not fit.
    """
    if not isinstance(kind, ArrayType):
        return _cast_values(array, kind, target, unit)
    lists = take_apart(array)
    try:
        values = cast(lists.values, kind.elementType, target.value_type, unit)
    except MisfitError as error:
        raise MisfitError(lists.owner(error.row), error.value, error.problem) from None
    offsets = pa.py_buffer(lists.offsets.astype(np.int32))
    return pa.Array.from_buffers(target, len(array), [mask_of(array), offsets], children=[values])


def mask_of(array: pa.Array) -> pa.Buffer | None:
    """Return the Arrow bitmap of the rows that are not null, or None if all are valid."""
    valid = validity(array)
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _cast_values(array: pa.Array, kind: DataType, target: pa.DataType, unit: TimeUnit | None) -> pa.Array:
    if isinstance(kind, BooleanType):
        _refuse(array, lambda: pc.and_(pc.not_equal(array, 0), pc.not_equal(array, 1)), "is neither 0 nor 1")
        return pc.equal(array, 1)
    if type(kind) in _BITS:
        narrow = _narrowed(array, _BITS[type(kind)], kind.simpleString())
        return narrow.view(target) if isinstance(kind, DateType) else narrow
    if isinstance(kind, TIMESTAMPS):
        return _microseconds(array, unit).view(target)
    if isinstance(kind, DecimalType):
        return _decimals(array, kind, target)
    if isinstance(kind, DoubleType):
        return pc.cast(array, target)
    return _texts(array, target) if isinstance(kind, TEXTS) else pc.cast(array, target)


def _narrowed(array: pa.Array, bits: int, name: str) -> pa.Array:
    limit = 2 ** (bits - 1)
    too_far = f"does not fit into {name}"
    _refuse(array, lambda: pc.or_(pc.less(array, -limit), pc.greater_equal(array, limit)), too_far)
    return pc.cast(array, {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}[bits])


def _microseconds(array: pa.Array, unit: TimeUnit | None) -> pa.Array:
    if unit == "ns":
        toward_zero = pc.divide(array, 1000)
        return pc.subtract(toward_zero, pc.cast(pc.less(array, pc.multiply(toward_zero, 1000)), pa.int64()))
    factor = _PER_MICROSECOND[unit or "us"]
    limit = (2**63 - 1) // factor
    _refuse(array, lambda: pc.or_(pc.less(array, -limit), pc.greater(array, limit)), "does not fit into timestamp")
    return pc.multiply(array, factor)


def _decimals(array: pa.Array, kind: DecimalType, target: pa.DataType) -> pa.Array:
    return _cast_each(pc.cast(array, pa.float64()), target, f"does not fit into {kind.simpleString()}")


def _texts(array: pa.Array, target: pa.DataType) -> pa.Array:
    return _cast_each(array, target, "is not UTF-8; read the column as binary")


def _cast_each(array: pa.Array, target: pa.DataType, problem: str) -> pa.Array:
    """Cast values of which some may not fit. Raises MisfitError for the first one."""
    try:
        return pc.cast(array, target)
    except pa.ArrowInvalid:
        for row, value in enumerate(array):
            try:
                pc.cast(value, target)
            except pa.ArrowInvalid:
                found = value.as_py()
                raise MisfitError(row, found[:40] if isinstance(found, bytes) else found, problem) from None
        raise


def _refuse(array: pa.Array, wrong: Callable[[], pa.Array], problem: str) -> None:
    position = pc.index(wrong(), pa.scalar(True)).as_py()
    if position >= 0:
        raise MisfitError(position, array[position].as_py(), problem)


class ColumnError(Exception):
    """Raised for a feature that does not fit its column, in record ``row`` of the batch."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row


def struct_of(children: list[pa.Array], target: pa.DataType) -> pa.Array:
    """Build a struct, null if all its fields are null: records do not distinguish a null struct from a struct of nulls."""
    present = np.zeros(len(children[0]), bool)
    for child in children:
        valid = validity(child)
        present |= True if valid is None else valid
    mask = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(target, len(present), [mask], children=children)


def map_of(name: str, keys: pa.Array, items: pa.Array, target: pa.DataType) -> pa.Array:
    """Build maps from a list of keys and a list of values per row. Raises ColumnError if their lengths differ."""
    ours, theirs = take_apart(keys), take_apart(items)
    _same_lengths(name, ours.offsets, theirs.offsets, "keys and values")
    repeated = _first_repeated(keys)
    if repeated is not None:
        raise ColumnError(repeated, f"a key of {name!r} is there twice")
    pairs = target.field(0).type  # in Arrow a map is a list of structs
    entries = pa.Array.from_buffers(pairs, len(ours.values), [None], children=[ours.values, theirs.values])
    offsets = pa.py_buffer(ours.offsets.astype(np.int32))
    return pa.Array.from_buffers(target, len(keys), [mask_of(keys), offsets], children=[entries])


def _first_repeated(keys: pa.Array) -> int | None:
    """Return the first row with a duplicate key, which Spark's maps cannot hold, or None."""
    lists = take_apart(keys)
    rows = np.repeat(np.arange(len(keys)), np.diff(lists.offsets))
    pairs = pa.table({"row": rows, "key": lists.values})
    counted = pairs.group_by(["row", "key"]).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1))["row"]
    return pc.min(repeated).as_py() if len(repeated) else None


def lists_of_lists(name: str, values: pa.Array, lengths: pa.Array, target: pa.DataType) -> pa.Array:
    """Build a list of lists from its values and the length of each inner list."""
    flat, counts = take_apart(values), take_apart(lengths)
    sizes = counts.values.to_numpy()
    negative = np.flatnonzero(sizes < 0)
    if len(negative):
        raise ColumnError(counts.owner(int(negative[0])), f"{name!r} has a negative row length")
    # A sum of lengths beyond that of all values could wrap around to the right one.
    inner = np.concatenate([[0], np.cumsum(np.minimum(sizes, len(flat.values) + 1))])
    _same_lengths(name, inner[counts.offsets], flat.offsets, "row lengths and values")
    steps = pa.Array.from_buffers(
        target.value_type, len(inner) - 1, [None, pa.py_buffer(inner.astype(np.int32))], children=[flat.values]
    )
    offsets = pa.py_buffer(counts.offsets.astype(np.int32))
    return pa.Array.from_buffers(target, len(lengths), [mask_of(lengths), offsets], children=[steps])


def vectors_of(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Build dense Spark ML vectors from lists of values."""
    count = len(values)
    lists = take_apart(values)
    doubles = pc.cast(lists.values, pa.float64())
    dense = pa.Array.from_buffers(
        target.field("values").type, count, [None, pa.py_buffer(lists.offsets.astype(np.int32))], children=[doubles]
    )
    empty = [pa.nulls(count, target.field(part).type) for part in ("size", "indices")]
    kind = pa.repeat(pa.scalar(1, pa.int8()), count)
    return pa.Array.from_buffers(target, count, [mask_of(values)], children=[kind, *empty, dense])


def _same_lengths(name: str, left: Any, right: Any, what: str) -> None:
    wrong = np.flatnonzero(np.diff(left) != np.diff(right))
    if len(wrong):
        raise ColumnError(int(wrong[0]), f"the {what} of {name!r} do not belong together")
