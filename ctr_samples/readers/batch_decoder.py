"""Decode framed records to columns of NumPy arrays that share the decoder's memory."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ctr_samples.codec.decoder import ExampleDecoder, Messages, byte_arrays
from ctr_samples.codec.kernel_columns import offsets_of
from ctr_samples.codec.plan import in_wire_order
from ctr_samples.codec.tensors import tensor_prefix
from ctr_samples.codec.values import wire_scalar
from ctr_samples.codec.wire_arrays import WireArray, WireLayout
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import DamagedFile
from ctr_samples.readers.arrays import Array, Columns, Ragged, Scalars, Sparse

SPARSE = "features"
"""Name of the column that combines indices and values in the layout ``sparse``."""

_NUMPY: dict[str, np.dtype[Any]] = {"int64": np.dtype("<i8"), "float32": np.dtype("<f4"), "float64": np.dtype("<f8")}


def scalars_of(contract: ExampleContract) -> list[list[FeatureSpec]]:
    """Return the features in each :class:`Scalars` that a BatchDecoder of the contract returns."""
    return WireLayout(in_wire_order(contract)).scalars


class BatchDecoder:
    """Decodes all or some features of a contract's records. Stateless; several threads may share it.

    A feature missing from a record decodes to its declared default, or else to 0, an empty string or an empty list.
    """

    def __init__(self, contract: ExampleContract, names: Sequence[str] | None = None) -> None:
        wanted = [f for f in contract.features if names is None or f.name in names]
        self.contract = replace(contract, features=tuple(wanted))
        self._sparse = contract.layout == "sparse" and any(f.role == "feature" for f in wanted)
        self._size = sum(part.size for part in contract.parts)
        self._decoder = ExampleDecoder(self.contract)

    def decode(self, messages: Messages) -> Columns:
        """Decode all messages. Raises the same errors as ExampleDecoder."""
        if self.contract.record == "byte_array":
            limits, content = byte_arrays(messages)
            return Columns((), {self.contract.features[0].name: _texts(limits, content)})
        arrays = self._decoder.read(messages)
        scalars = tuple(_scalars(columns, matrix) for columns, matrix in arrays.scalars)
        others = {column.spec.name: _column(column) for column in arrays.others}
        if self._sparse:
            indices, values = others.pop("indices"), others.pop("values")
            assert isinstance(indices, Ragged)
            assert isinstance(values, Ragged)
            others[SPARSE] = Sparse(indices, values, self._size)
        return Columns(scalars, others)


def _scalars(columns: Sequence[WireArray], matrix: Array) -> Scalars:
    for row, column in zip(matrix, columns, strict=True):
        if column.spec.nulls == "default" and not column.valid.all():
            row[~column.valid.view(bool)] = column.spec.default
    return Scalars(tuple(column.spec.name for column in columns), matrix)


def _column(wire: WireArray) -> Any:
    spec, valid = wire.spec, wire.valid.view(bool)
    if spec.encoding != "list":
        return _tensors(wire, valid)
    values = wire.content if wire.bytes is None else _texts(wire.value_offsets, wire.content)
    column = Ragged(values, wire.offsets) if spec.shape is None else values.reshape(-1, *spec.shape)
    if spec.sequence:
        column = Ragged(column, wire.steps)
    if spec.nulls == "default" and not valid.all():
        column = _with_default(column, valid, wire_scalar(spec, spec.default, "default").as_py())
    return column


def _with_default(column: Any, valid: npt.NDArray[np.bool_], default: Any) -> Any:
    """Fill each row that is not ``valid`` with the default: a single value, or as many values as the shape needs."""
    if not isinstance(column, Ragged):
        column[~valid] = default
        return column
    lengths = np.where(valid, np.diff(column.row_splits), 1)
    return Ragged(_spread(column.values, np.repeat(valid, lengths), default), offsets_of(lengths))


def _spread(values: Any, there: npt.NDArray[np.bool_], default: Any) -> Any:
    """Place the values at the positions marked in ``there``, and the default everywhere else."""
    if isinstance(values, Ragged):
        lengths = np.ones(len(there), np.int64)
        lengths[there] = np.diff(values.row_splits)
        return Ragged(_spread(values.values, np.repeat(there, lengths), default), offsets_of(lengths))
    spread = np.full((len(there), *values.shape[1:]), default, values.dtype)
    spread[there] = values
    return spread


def _texts(ends: Array, content: Array) -> Array:
    """Convert text bytes and offsets to an array of bytes objects."""
    data, limits = content.tobytes(), ends.tolist()
    texts = np.empty(len(limits) - 1, object)
    texts[:] = [data[first:stop] for first, stop in itertools.pairwise(limits)]
    return texts


def _tensors(wire: WireArray, valid: npt.NDArray[np.bool_]) -> Any:
    """Decode fixed-shape tensors to one array, and variable-length tensors to lists."""
    spec, offsets = wire.spec, wire.value_offsets
    if spec.size is None:
        return _tensors_of_any_length(offsets.tolist(), wire.content.tobytes(), spec)
    dtype = _NUMPY[spec.dtype]
    prefix = tensor_prefix(spec, spec.size) if spec.encoding == "tensor" else b""
    width = len(prefix) + spec.size * dtype.itemsize
    if (np.diff(offsets)[valid] != width).any():
        raise _not_a_tensor(spec)
    content = wire.content.reshape(int(valid.sum()), width)
    if prefix and (content[:, : len(prefix)] != np.frombuffer(prefix, np.uint8)).any():
        raise _not_a_tensor(spec)
    rows = np.zeros((len(valid), width - len(prefix)), np.uint8)
    rows[valid] = content[:, len(prefix) :]
    return rows.view(dtype).reshape(len(valid), *(spec.shape or ()))


def _tensors_of_any_length(offsets: list[int], data: bytes, spec: FeatureSpec) -> Ragged:
    dtype = _NUMPY[spec.dtype]
    rows = []
    for first, stop in itertools.pairwise(offsets):
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
