"""Find the source of each feature in a contract: a column, or part of a struct, map, vector or nested list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from ctr_samples.codec.kernel_columns import Lists, is_list, offsets_of, plain, plain_type, take_apart, validity

Extract = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the feature ``name``. ``type`` is the value type before conversion; ``extract`` reads the values
    from the column.
    """

    name: str
    column: str
    type: pa.DataType
    extract: Extract


def sources_of(column: str, kind: pa.DataType, wanted: Collection[str]) -> list[Source]:
    """List the sources of the features in a column, under their names in the contract.

    A ``wanted`` name denotes the whole column. Otherwise a struct gives ``outer.inner``, a map ``name.keys`` and
    ``name.values``, a Spark ML vector ``name.indices`` and ``name.values``, a nested list ``name.values`` and
    ``name.row_lengths``. Any other column is its own source; the caller rejects it because the contract lacks its name.
    """
    return [Source(name, column, part, extract) for name, part, extract in _parts(column, kind, plain, wanted)]


def _parts(
    name: str, kind: pa.DataType, extract: Extract, wanted: Collection[str]
) -> Iterator[tuple[str, pa.DataType, Extract]]:
    kind = plain_type(kind)
    if is_vector(kind):
        if name in wanted:
            yield name, pa.large_list(pa.float64()), _then(extract, dense_vector)
        else:
            yield f"{name}.indices", pa.large_list(pa.int32()), _then(extract, sparse_indices)
            yield f"{name}.values", pa.large_list(pa.float64()), _then(extract, sparse_values)
    elif name in wanted:
        yield name, kind, extract
    elif pt.is_struct(kind):
        for i in range(kind.num_fields):
            field = kind.field(i)
            yield from _parts(f"{name}.{field.name}", field.type, _then(extract, _field(i)), wanted)
    elif pt.is_map(kind):
        yield f"{name}.keys", pa.large_list(plain_type(kind.key_type)), _then(extract, _map_side(0))
        yield f"{name}.values", pa.large_list(plain_type(kind.item_type)), _then(extract, _map_side(1))
    elif is_list(kind) and is_list(plain_type(kind.value_type)):
        inner = plain_type(plain_type(kind.value_type).value_type)
        yield f"{name}.values", pa.large_list(inner), _then(extract, ragged_values)
        yield f"{name}.row_lengths", pa.large_list(pa.int64()), _then(extract, ragged_lengths)
    else:
        yield name, kind, extract


def _then(first: Extract, second: Extract) -> Extract:
    return lambda array: second(first(array))


def _field(index: int) -> Extract:
    # StructArray.flatten, unlike field(), respects slices and makes the fields of a null struct null.
    return lambda array: plain(array.flatten()[index])


def _map_side(index: int) -> Extract:
    def extract(array: pa.Array) -> pa.Array:
        entries = take_apart(array)
        return _lists(Lists(entries.offsets, plain(entries.values.flatten()[index])), array)

    return extract


def _lists(lists: Lists, like: pa.Array) -> pa.Array:
    """Build a large_list array from ``lists``, null where ``like`` is null."""
    valid = validity(like)
    mask = None if valid is None else pa.array(~valid)
    return pa.LargeListArray.from_arrays(pa.array(lists.offsets), lists.values, mask=mask)


def ragged_values(array: pa.Array) -> pa.Array:
    """Flatten the inner lists of a list of lists. Raises NullListError for a null inner list."""
    outer = take_apart(array)
    inner = take_apart(outer.values)
    return _lists(Lists(inner.offsets[outer.offsets], _with_null_lists(outer, inner)), array)


def _with_null_lists(outer: Lists, inner: Lists) -> pa.Array:
    if outer.values.null_count:
        raise NullListError(outer.owner(int(np.flatnonzero(~validity(outer.values))[0])))  # type: ignore[operator]
    return inner.values


def ragged_lengths(array: pa.Array) -> pa.Array:
    """Return the length of each inner list."""
    outer = take_apart(array)
    inner = take_apart(outer.values)
    return _lists(Lists(outer.offsets, pa.array(np.diff(inner.offsets))), array)


class NullListError(Exception):
    """Raised for a null list inside a list, in row ``row``."""

    def __init__(self, row: int) -> None:
        super().__init__("a null list inside a list")
        self.row = row


# Spark's VectorUDT: type 0 is sparse (size, indices, values), type 1 is dense (values).
VECTOR_FIELDS = {"type": pa.int8(), "size": pa.int32()}
SPARSE = 0


def is_vector(kind: pa.DataType) -> bool:
    """Whether a struct is a Spark ML vector in Spark's Arrow form."""
    if not pt.is_struct(kind) or [kind.field(i).name for i in range(kind.num_fields)] != [
        "type",
        "size",
        "indices",
        "values",
    ]:
        return False
    indices, values = kind.field("indices").type, kind.field("values").type
    return (
        all(kind.field(name).type == expected for name, expected in VECTOR_FIELDS.items())
        and is_list(indices)
        and is_list(values)
        and indices.value_type == pa.int32()
        and values.value_type == pa.float64()
    )


@dataclass(frozen=True, slots=True)
class _Vectors:
    sparse: np.ndarray[tuple[int], np.dtype[np.bool_]]
    size: np.ndarray[tuple[int], np.dtype[np.int64]]
    indices: Lists
    values: Lists


def _vectors(array: pa.Array) -> _Vectors:
    kind, size, indices, values = array.flatten()
    sparse = kind.fill_null(1).to_numpy() == SPARSE
    values = take_apart(values)
    length = np.where(sparse, size.fill_null(0).to_numpy(), np.diff(values.offsets)).astype(np.int64)
    return _Vectors(sparse, length, take_apart(indices), values)


def dense_vector(array: pa.Array) -> pa.Array:
    """Expand every vector to a dense list. Positions missing from a sparse vector are zero."""
    vectors = _vectors(array)
    offsets = offsets_of(vectors.size)
    flat = np.zeros(int(offsets[-1]), np.float64)
    flat[_positions(vectors, offsets)] = vectors.values.values.to_numpy()
    return _lists(Lists(offsets, pa.array(flat)), array)


def sparse_indices(array: pa.Array) -> pa.Array:
    """Return the positions of the values of each vector. A dense vector has all positions."""
    vectors = _vectors(array)
    zero = np.zeros(len(array) + 1, np.int64)
    positions = _positions(vectors, zero).astype(np.int32)
    return _lists(Lists(vectors.values.offsets, pa.array(positions)), array)


def sparse_values(array: pa.Array) -> pa.Array:
    """Return the values at the positions of :func:`sparse_indices`."""
    return _lists(_vectors(array).values, array)


def _positions(
    vectors: _Vectors, base: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the target position of each value: its position in the vector plus the row's ``base``."""
    counts = np.diff(vectors.values.offsets)
    places = np.arange(int(vectors.values.offsets[-1])) - np.repeat(vectors.values.offsets[:-1], counts)
    from_sparse = np.repeat(vectors.sparse, counts)
    places[from_sparse] = vectors.indices.values.to_numpy()
    return places + np.repeat(base[:-1], counts)
