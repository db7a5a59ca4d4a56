"""Build structs, maps, lists of lists and vectors from the corresponding flat features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.codec.kernel_columns import take_apart, validity
from ctr_samples.tfrecord.casts import mask_of


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
