"""Numbers for equal values, and sort orders over several columns. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.codec.machine_code import kernels

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def usual(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches from Spark with text, bytes and lists of 32-bit offsets, whatever its settings make of them.

    A batch with more of them than such a column can hold is cut into halves.
    """
    seen = wanted = pa.schema([])
    for rows in batches:
        if rows.schema != seen:
            seen = rows.schema
            wanted = pa.schema([field.with_type(usual_type(field.type)) for field in seen])
        yield from [rows] if seen == wanted else _cast(rows, wanted)


def usual_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with 32-bit offsets for a large type or a view of text or bytes, also of nested values."""
    types = pa.types
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([field.with_type(usual_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(*[field.with_type(usual_type(field.type)) for field in (kind.key_field, kind.item_field)])
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(usual_type(kind.value_type)))
    return kind


def _cast(rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    half = rows.num_rows // 2
    if rows.nbytes > MOST_BYTES and half:
        yield from _cast(rows.slice(0, half), schema)
        yield from _cast(rows.slice(half), schema)
    else:
        yield rows.cast(schema)


MOST_BYTES = 2**31 - 1
"""Bytes of text that a column with 32-bit offsets can hold."""
_BYTES = pa.large_binary()
_LARGE = {pa.string(): pa.large_string(), pa.binary(): _BYTES}

BATCH = 1 << 16
"""Rows of a batch that a task hands on."""


def batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of equal size, however many blocks they came in. Each step costs time for each batch."""
    for start in range(0, rows.num_rows, BATCH):
        yield from rows.slice(start, BATCH).combine_chunks().to_batches()


def integers(column: pa.Array | pa.ChunkedArray) -> Integers:
    """Return integers or times, with 0 for null. A time is in the unit of its type."""
    column = whole(column)
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, 0)
    numbers: Integers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def there(column: pa.Array | pa.ChunkedArray) -> Flags:
    """Return whether each value is not null."""
    flags: Flags = whole(pc.is_valid(column)).to_numpy(zero_copy_only=False)
    return flags


def flags(column: pa.Array | pa.ChunkedArray) -> Flags:
    """Return conditions, with null as false."""
    values: Flags = whole(pc.fill_null(column, False)).to_numpy(zero_copy_only=False)
    return values.copy()


def codes_of(*columns: pa.Array | pa.ChunkedArray) -> list[Integers]:
    """Return equal numbers for equal values of all columns, which have one type, and -1 for null.

    The values are compared, not only their hashes.
    """
    chunks = [
        chunk for column in columns for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    ]
    kind = columns[0].type
    every = pa.chunked_array([comparable(chunk) for chunk in chunks], pa.binary() if pa.types.is_string(kind) else kind)
    encoded = every.dictionary_encode().unify_dictionaries()
    indices = [pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    numbers = np.concatenate(indices).astype(np.int64) if indices else np.empty(0, np.int64)
    return np.split(numbers, np.cumsum([len(column) for column in columns])[:-1])


def comparable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return text as bytes, because Spark's text may not be valid UTF-8, and other values as they are."""
    column = whole(column)
    return column.view(pa.binary()) if pa.types.is_string(column.type) else column


def ranks(column: pa.Array | pa.ChunkedArray) -> Integers:
    """Return the order of values as numbers, equal for equal values: 0 for null, then from 1 on."""
    values, numbers = comparable(column), np.zeros(len(column), np.int64)
    known = there(values)
    if known.any():
        numbers[known] = pc.rank(values.drop_null(), tiebreaker="dense").to_numpy()
    return numbers


def texts(column: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """Return values as text. Text that is not valid UTF-8 has replacement characters."""
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    return [None if value is None else value.decode(errors="replace") for value in column.cast(pa.binary()).to_pylist()]


def greatest(ranks: Integers, most: int) -> Integers:
    """Return the places of the ``most`` greatest ranks, and of those equal to the least of them."""
    if len(ranks) <= most:
        return np.arange(len(ranks))
    return np.flatnonzero(ranks >= np.partition(ranks, -most)[-most])


def place_of_texts(parts: Sequence[pa.Array | pa.ChunkedArray]) -> Integers:
    """Return the place of keys, given their parts as text: Spark's ``xxhash64`` of all parts, where null adds nothing."""
    hashes = np.full(len(parts[0]), 42, np.int64)
    for part in parts:
        text = whole(part).cast(pa.large_binary())
        seeds = hashes.copy()
        _, offsets, data = text.buffers()
        if data is not None and len(text):
            kernels().hash_texts(len(text), offsets.address + 8 * text.offset, data.address, hashes.ctypes.data)
            hashes = np.where(there(text), hashes, seeds)
    return hashes


def shuffle_hashes(ids: Integers) -> Integers:
    """Return the hashes of ids that order the samples."""
    return stable_hashes("shuffle", pa.array(ids))


def stable_hashes(salt: str, values: pa.Array) -> Integers:
    """Return the :func:`ctr_samples.sparksql.columns.stable_hash` of each text or integer."""
    texts = values if pa.types.is_string(values.type) else values.cast(pa.string())
    before, separator = (pa.scalar(part, _BYTES) for part in (salt.encode(), b"\x1f"))
    known = pc.fill_null(texts.cast(_BYTES), b"\x00")
    return place_of_texts([pc.binary_join_element_wise(before, known, separator)])


def joint(codes: Sequence[Integers]) -> Integers:
    """Combine the codes of several columns into one: -1 where any of them is -1."""
    return reduce(_pair, codes)


def _pair(one: Integers, other: Integers) -> Integers:
    size = int(other.max(initial=0)) + 1
    if len(one) and int(one.max()) > (2**62) // size:
        one = np.where(one < 0, -1, np.unique(one, return_inverse=True)[1])
    return np.where((one < 0) | (other < 0), -1, one * size + other)


def apart(codes: Sequence[Integers]) -> Integers:
    """Combine the codes of several columns into one, with null as a value like any other."""
    return reduce(_pair, [code + 1 for code in codes])


def in_order(keys: Sequence[npt.NDArray[Any]]) -> Integers:
    """Return the rows sorted by several columns of integers or flags, the first one first. Equal rows keep their order.

    As many bits of the columns as fit in one number are sorted first, which NumPy does many times as fast. Rows that
    are equal in these bits are then sorted by all columns.
    """
    packed = _packed(keys)
    order: Integers = np.argsort(packed)
    tied = ~begins(packed[order])
    if tied.any():
        tied[:-1] |= tied[1:]
        rows = np.sort(order[tied])
        order[tied] = rows[np.lexsort([key[rows] for key in keys[::-1]])]
    return order


def _packed(keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.uint64]:
    """Return a number for each row that never descends where the columns ascend: their first bits that differ."""
    packed, left = np.zeros(len(keys[0]), np.uint64), 63
    for key in keys:
        if not len(key) or not left:
            break
        numbers = key.astype(np.int64, copy=False)
        least = int(numbers.min())
        bits = (int(numbers.max()) - least).bit_length()
        above = numbers.view(np.uint64) - np.uint64(least % 2**64)
        taken = min(bits, left)
        packed = (packed << np.uint64(taken)) | (above >> np.uint64(bits - taken))
        left -= taken
    return packed


def bytes_of_lists(column: pa.Array) -> Doubles:
    """Return the approximate size of each list or map: its share of all elements, whose sizes may differ."""
    sizes: Doubles = np.diff(column.offsets.to_numpy()) * (column.values.nbytes / max(1, len(column.values)))
    return sizes


@dataclass(frozen=True, slots=True)
class Picked:
    """A column whose rows are picked many times. Lists of one length are picked as rows of a matrix, which is faster."""

    column: pa.Array
    matrix: npt.NDArray[Any] | None

    @classmethod
    def of(cls, column: pa.Array | pa.ChunkedArray) -> Self:
        """Prepare a column, which may have more text or bytes than an array of its type can hold."""
        if column.nbytes > MOST_BYTES:
            column = column.cast(_LARGE.get(column.type, column.type))
        column = whole(column)
        kind = column.type
        if not pa.types.is_list(kind) or not _is_number(kind.value_type) or column.null_count or not len(column):
            return cls(column, None)
        values, sizes = column.flatten(), pc.list_value_length(column)
        size = sizes[0].as_py()
        if values.null_count or size == 0 or pc.any(pc.not_equal(sizes, size)).as_py():
            return cls(column, None)
        return cls(column, values.to_numpy().reshape(len(column), size))

    def shared(self, places: Integers) -> pa.DictionaryArray:
        """Return the rows at some places as their numbers, beside the column itself. Copies no value."""
        return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), self.column)

    def take(self, places: Integers) -> pa.Array:
        """Return the rows at some places."""
        if self.matrix is None or self.matrix.shape[1] * len(places) >= 2**31:
            return _taken(self.column, pa.array(places))  # Arrow refuses lists that are too large
        rows, size = self.matrix[places], self.matrix.shape[1]
        ends = np.arange(0, len(places) * size + 1, size, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), pa.array(rows.reshape(-1)), type=self.column.type)


def _taken(column: pa.Array, places: pa.Array) -> pa.Array:
    kind = usual_type(column.type)
    taken = column.take(places)
    return taken if kind == column.type else taken.cast(kind)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose structs have the values of fields that are :meth:`Picked.shared`."""
    return pa.RecordBatch.from_arrays([plain_column(column) for column in rows.columns], rows.schema.names)


def plain_column(column: pa.Array) -> pa.Array:
    """Return a column, or a struct of columns, with its values where rows are :meth:`Picked.shared`."""
    if pa.types.is_dictionary(column.type):
        return _taken(column.dictionary, column.indices)
    if not pa.types.is_struct(column.type) or not any(pa.types.is_dictionary(field.type) for field in column.type):
        return column
    return pa.StructArray.from_arrays([plain_column(one) for one in column.flatten()], column.type.names)


def spread(starts: Integers, sizes: Integers) -> Integers:
    """Return the numbers of runs, one run after the other, given where each starts and how many it has."""
    return np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))


def begins(sorted_codes: npt.NDArray[np.integer[Any]]) -> Flags:
    """Return whether each row of sorted codes is the first of its code."""
    first = np.ones(len(sorted_codes), np.bool_)
    first[1:] = sorted_codes[1:] != sorted_codes[:-1]
    return first


def mixed(numbers: Integers) -> Integers:
    """Return a hash of each number: the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        one = numbers.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        one = (one ^ (one >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        one = (one ^ (one >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (one ^ (one >> np.uint64(31))).view(np.int64)
