"""Batch columns in the form that kernels need: flat values of a wire type, and the range of each feature's values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lists:
    """A list column as offsets and values: list i holds ``values[offsets[i]:offsets[i + 1]]``.

    Only the values of the slice are kept. A null list has no values; null masks are kept elsewhere.
    """

    offsets: Offsets
    values: pa.Array

    def owner(self, position: int) -> int:
        """Return the index of the list that holds the value at ``position``."""
        return int(np.searchsorted(self.offsets, position, side="right")) - 1


def is_list(kind: pa.DataType) -> bool:
    """Whether values of this type are lists that the wire contract supports."""
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


def plain(array: pa.Array) -> pa.Array:
    """Decode dictionaries, and convert view types, which Arrow cannot filter inside lists."""
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = plain_type(array.type)
    return array if kind == array.type else array.cast(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the result of :func:`plain`."""
    if pt.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pt.is_string_view(kind):
        return pa.large_string()
    if pt.is_binary_view(kind):
        return pa.large_binary()
    if not is_list(kind) or plain_type(kind.value_type) == kind.value_type:
        return kind
    inner = plain_type(kind.value_type)
    if pt.is_fixed_size_list(kind):
        return pa.list_(inner, kind.list_size)
    return pa.large_list(inner) if pt.is_large_list(kind) else pa.list_(inner)


def take_apart(array: pa.Array) -> Lists:
    """Return the offsets and values of a list, large list, fixed-size list or map array, sliced or not."""
    if len(array) == 0:
        return Lists(np.zeros(1, np.int64), plain(array.values.slice(0, 0)))
    if pt.is_fixed_size_list(array.type):
        size = array.type.list_size
        offsets = np.arange(len(array) + 1, dtype=np.int64) * size
        values = array.values.slice(array.offset * size, len(array) * size)
    else:
        offsets = array.offsets.to_numpy().astype(np.int64)
        values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        offsets -= offsets[0]
    if array.null_count:
        return Lists(*_without_null_lists(offsets, values, array))
    return Lists(offsets, plain(values))


def _without_null_lists(offsets: Offsets, values: pa.Array, array: pa.Array) -> tuple[Offsets, pa.Array]:
    """Remove values covered by null lists. Every null fixed-size list covers values."""
    valid, lengths = array.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets)
    if not lengths[~valid].any():
        return offsets, plain(values)
    kept = pa.array(np.repeat(valid, lengths))
    return offsets_of(np.where(valid, lengths, 0)), plain(values.filter(kept))


def offsets_of(lengths: npt.NDArray[np.int64]) -> Offsets:
    """Return the start of each list, and the end of the last list."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def with_default(lists: Lists, valid: npt.NDArray[np.bool_], default: pa.Scalar, count: int) -> Lists:
    """Replace each list that is not ``valid`` with ``count`` copies of ``default``."""
    old = np.diff(lists.offsets)
    new = np.where(valid, old, count)
    take = np.full(int(new.sum()), len(lists.values), np.int64)
    take[np.repeat(valid, new)] = np.flatnonzero(np.repeat(valid, old))
    extended = pa.concat_arrays([lists.values, pa.array([default.as_py()], lists.values.type)])
    return Lists(offsets_of(new), extended.take(pa.array(take)))


def with_default_step(
    rows: Lists, steps: Lists, valid: npt.NDArray[np.bool_], default: pa.Scalar, count: int
) -> tuple[Lists, Lists]:
    """Replace each row that is not ``valid`` with one step of ``count`` copies of ``default``."""
    lengths = np.diff(steps.offsets)
    marked = with_default(Lists(rows.offsets, pa.array(np.ones(len(lengths), np.int64))), valid, pa.scalar(0), 1)
    original = marked.values.to_numpy() == 1
    spaced = np.zeros(len(original), np.int64)
    spaced[original] = lengths
    return marked, with_default(Lists(offsets_of(spaced), steps.values), original, default, count)


def validity(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return the mask of the rows that are not null, or None if all are valid."""
    if not array.null_count:
        return None
    mask: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


@dataclass(frozen=True, slots=True)
class WireColumn:
    """The kernel input to encode one feature; see ``layout.Encoded``.

    ``values`` is an array of the wire type. ``stride`` is the number of values per feature if it is constant; otherwise
    ``offsets`` delimits the values of each feature. ``steps`` is set for a FeatureList.
    """

    values: pa.Array
    stride: int = -1
    offsets: Offsets | None = None
    valid: npt.NDArray[np.bool_] | None = None
    steps: Offsets | None = None

    def keep(self, valid: npt.NDArray[np.bool_] | None) -> WireColumn:
        """Return the column with a mask of the rows that have the key."""
        return replace(self, valid=valid)

    def fixed_buffer(self) -> npt.NDArray[np.uint8]:
        """Return the bytes of numeric values, from the start of this slice."""
        width = self.values.type.bit_width // 8
        return _bytes(self.values.buffers()[1])[self.values.offset * width :]

    def binary_buffers(self) -> tuple[Offsets, npt.NDArray[np.uint8]]:
        """Return the byte offsets of the values in this slice, and the bytes that they delimit."""
        _, offsets, data = self.values.buffers()
        if len(self.values) == 0:
            return np.zeros(1, np.int64), np.empty(0, np.uint8)
        limits = np.frombuffer(offsets, np.int64)[self.values.offset : self.values.offset + len(self.values) + 1]
        return limits, _bytes(data)


def _bytes(buffer: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    if buffer is None or buffer.size == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(buffer, np.uint8)


def with_nulls_replaced(array: pa.Array, default: object) -> pa.Array:
    """Replace nulls with ``default`` or, for lists, with copies of it: the full size if fixed, else one value."""

    def shaped(kind: pa.DataType) -> object:
        if pt.is_fixed_size_list(kind):
            return [shaped(kind.value_type)] * kind.list_size
        return [shaped(kind.value_type)] if is_list(kind) else default

    value = pa.array([shaped(array.type)], array.type)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    places = np.where(valid, np.arange(len(array)), len(array))
    return pa.concat_arrays([array, value]).take(pa.array(places))


def shaped(values: pa.Array, shape: tuple[int, ...], rows: int, mask: pa.Buffer | None) -> pa.Array:
    """View flat values as ``rows`` nested fixed-size lists, without a copy."""
    array = values
    for depth in range(len(shape) - 1, -1, -1):
        length = rows * int(np.prod(shape[:depth], dtype=np.int64))
        buffers = [mask if depth == 0 else None]
        array = pa.Array.from_buffers(pa.list_(array.type, shape[depth]), length, buffers, children=[array])
    return array
