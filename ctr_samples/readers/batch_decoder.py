"""Framed records to columns of NumPy arrays, which are the decoder's own memory and not copies of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from ctr_samples.codec import EncodedBatch, ExampleDecoder
from ctr_samples.codec.tensors import tensor_prefix
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import DamagedFile
from ctr_samples.readers.arrays import Array, Columns, Ragged, Sparse

SPARSE = "features"
"""The name of the one column that indices and values of the layout ``sparse`` become."""

_ARROW: dict[Any, np.dtype[Any]] = {pa.int64(): np.dtype("<i8"), pa.float32(): np.dtype("<f4")}
_NUMPY: dict[str, np.dtype[Any]] = {"int64": np.dtype("<i8"), "float32": np.dtype("<f4"), "float64": np.dtype("<f8")}


class BatchDecoder:
    """Decodes records of a contract, or some of its features. Keeps no state and may serve several threads.

    A feature that a record does not have is 0, or an empty text or list, or its declared default.
    """

    def __init__(self, contract: ExampleContract, names: Sequence[str] | None = None) -> None:
        wanted = [f for f in contract.features if names is None or f.name in names]
        self.contract = replace(contract, features=tuple(wanted))
        self._sparse = contract.layout == "sparse" and any(f.role == "feature" for f in wanted)
        self._size = sum(part.size for part in contract.parts)
        self._decoder = ExampleDecoder(replace(contract, features=tuple(map(_on_the_wire, wanted))))

    def decode(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Columns:
        """All records between the offsets, whose frames have been checked. Raises as ExampleDecoder does."""
        batch = self._decoder.decode_frames(data, offsets)
        columns: Columns = {
            spec.name: _column(array, spec) for spec, array in zip(self.contract.features, batch.columns, strict=True)
        }
        if self._sparse:
            indices, values = columns.pop("indices"), columns.pop("values")
            assert isinstance(indices, Ragged)
            assert isinstance(values, Ragged)
            columns = {SPARSE: Sparse(indices, values, self._size), **columns}
        return columns


def gathered(parts: Sequence[EncodedBatch], order: npt.NDArray[np.int64] | None) -> EncodedBatch:
    """Some runs of records as one, in another order if there is one. Without either nothing is copied."""
    if len(parts) == 1 and order is None:
        return parts[0]
    arrays = [_as_binary(part) for part in parts]
    records = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    if order is not None:
        records = records.take(pa.array(order))
    _, offsets, data = records.buffers()
    return EncodedBatch(np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int64, len(records) + 1))


def _as_binary(part: EncodedBatch) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(part.offsets)), pa.py_buffer(part.buffer)]
    return pa.Array.from_buffers(pa.large_binary(), len(part), buffers)


def _on_the_wire(spec: FeatureSpec) -> FeatureSpec:
    """Tensors as the bytes that they are; the values inside are found for a whole column at once."""
    if spec.encoding == "list":
        return spec
    return replace(
        spec, dtype="bytes", shape=(), encoding="list", nulls="fail" if spec.nulls == "fail" else "omit", default=None
    )


def _column(array: pa.Array, spec: FeatureSpec) -> Any:
    if spec.encoding != "list":
        return _tensors(array, spec)
    if not spec.sequence:
        return _feature(array, spec)
    return Ragged(_feature(array.values, replace(spec, sequence=False)), _splits(array))


def _feature(array: pa.Array, spec: FeatureSpec) -> Any:
    if spec.shape is None:
        return Ragged(_flat(array.values), _splits(array))
    values = array
    for _ in spec.shape:
        values = values.values
    # The decoder's kernels put zeros where a feature is absent.
    return _flat(values).reshape(len(array), *spec.shape)


def _splits(array: pa.Array) -> Array:
    return array.offsets.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _flat(array: pa.Array) -> Array:
    """The values of an array without children; texts become bytes objects."""
    if pt.is_binary(array.type):
        return _texts(array)
    return np.asarray(_Memory(array.buffers()[1], _ARROW[array.type], len(array)))


def _texts(array: pa.Array) -> Array:
    """As ``to_numpy``, which would import pandas for it."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1).tolist()
    content = data.to_pybytes() if data is not None else b""
    texts = np.empty(len(array), object)
    texts[:] = [content[first:stop] for first, stop in itertools.pairwise(ends)]
    return texts


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    mask = array.buffers()[0]
    if not array.null_count:
        return np.ones(len(array), bool)
    bits = np.frombuffer(mask, np.uint8)
    return np.unpackbits(bits, count=len(array), bitorder="little").view(bool)


class _Memory:
    """Lends the memory of a buffer to an array that may be written to: nobody else has it."""

    def __init__(self, buffer: pa.Buffer, dtype: np.dtype[Any], count: int) -> None:
        self._buffer = buffer
        self.__array_interface__ = {
            "version": 3,
            "shape": (count,),
            "typestr": dtype.str,
            "data": (buffer.address, False),
        }


def _tensors(array: pa.Array, spec: FeatureSpec) -> Any:
    """Tensors of one shape as one array; of any length as lists."""
    dtype = _NUMPY[spec.dtype]
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1).astype(np.int64)
    if spec.size is None:
        return _tensors_of_any_length(array, offsets, spec)
    prefix = tensor_prefix(spec, spec.size) if spec.encoding == "tensor" else b""
    width = len(prefix) + spec.size * dtype.itemsize
    valid = _valid(array)
    if (np.diff(offsets)[valid] != width).any():
        raise _not_a_tensor(spec)
    content = np.frombuffer(array.buffers()[2], np.uint8, int(offsets[-1])).reshape(int(valid.sum()), width)
    if prefix and (content[:, : len(prefix)] != np.frombuffer(prefix, np.uint8)).any():
        raise _not_a_tensor(spec)
    rows = np.zeros((len(array), width - len(prefix)), np.uint8)
    rows[valid] = content[:, len(prefix) :]
    return rows.view(dtype).reshape(len(array), *(spec.shape or ()))


def _tensors_of_any_length(array: pa.Array, offsets: Array, spec: FeatureSpec) -> Ragged:
    dtype = _NUMPY[spec.dtype]
    data = array.buffers()[2].to_pybytes() if array.buffers()[2] is not None else b""
    rows = []
    for first, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        content = data[first:stop]
        if content and spec.encoding == "tensor":
            content = _content(content, spec)
        if len(content) % dtype.itemsize:
            raise _not_a_tensor(spec)
        rows.append(np.frombuffer(content, dtype))
    return Ragged(np.concatenate(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64))


def _content(message: bytes, spec: FeatureSpec) -> bytes:
    width = _NUMPY[spec.dtype].itemsize
    for count in range(len(message) // width, max(-1, len(message) // width - 8), -1):
        prefix = tensor_prefix(spec, count)
        if len(prefix) + count * width == len(message) and message.startswith(prefix):
            return message[len(prefix) :]
    raise _not_a_tensor(spec)


def _not_a_tensor(spec: FeatureSpec) -> DamagedFile:
    shape = None if spec.shape is None else list(spec.shape)
    return DamagedFile(
        f"A value of the feature {spec.name!r} is not a tensor of {spec.dtype} with shape {shape} in the encoding "
        f"{spec.encoding!r}; read with the contract the file was written with."
    )
