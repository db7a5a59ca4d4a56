"""Convert columns to tensors, with types and shapes from the contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.readers.arrays import Array, Columns, Ragged, Sparse
from ctr_samples.readers.batch_decoder import SPARSE, scalars_of

_DTYPES = {"int64": "int64", "float32": "float32", "float64": "float64", "bytes": "string"}


def column_specs(contract: ExampleContract) -> list[FeatureSpec]:
    """Return the features in column form: the indices and values of the layout ``sparse`` become one feature."""
    if contract.layout != "sparse":
        return list(contract.features)
    others = [f for f in contract.features if f.role != "feature"]
    return [FeatureSpec(SPARSE, "float32", None), *others] if len(others) < len(contract.features) else others


class TensorForm:
    """Splits batches into plain arrays for TensorFlow, and rebuilds tensors from the arrays.

    Scalars of the same dtype are passed as one array.
    """

    def __init__(self, contract: ExampleContract, batch: int | None) -> None:
        self._batch = batch
        self._sparse = sum(part.size for part in contract.parts) if contract.layout == "sparse" else None
        self._scalars = scalars_of(contract)
        together = {spec.name for specs in self._scalars for spec in specs}
        self._others = [spec for spec in column_specs(contract) if spec.name not in together]

    def dtypes(self) -> list[Any]:
        """Return the TensorFlow types of the arrays."""
        import tensorflow as tf

        names = [specs[0].dtype for specs in self._scalars] + [name for f in self._others for name in self._types(f)]
        return [tf.as_dtype(name) for name in names]

    def arrays(self, columns: Columns) -> list[Array]:
        """Return the arrays of a batch, without copies."""
        others = [array for spec in self._others for array in _arrays(columns.others[spec.name])]
        return [*(scalars.values for scalars in columns.scalars), *others]

    def columns(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """Build Tensors, RaggedTensors and SparseTensors with static shapes. Runs while a graph is traced."""
        import tensorflow as tf

        rest = iter(tensors)
        columns: dict[str, Any] = {}
        for specs in self._scalars:
            rows = tf.unstack(tf.ensure_shape(next(rest), [len(specs), self._batch]))
            columns.update(zip([spec.name for spec in specs], rows, strict=True))
        columns.update({spec.name: self._column(spec, rest) for spec in self._others})
        return columns

    def _types(self, spec: FeatureSpec) -> list[str]:
        dtype = _DTYPES[spec.dtype]
        if self._is_sparse(spec):
            return ["int64", dtype, "int64"]
        return [dtype, *["int64"] * (spec.sequence + (spec.shape is None))]

    def _is_sparse(self, spec: FeatureSpec) -> bool:
        return self._sparse is not None and spec.name == SPARSE

    def _column(self, spec: FeatureSpec, tensors: Iterator[Any]) -> Any:
        import tensorflow as tf

        if self._is_sparse(spec):
            indices, values = tf.ensure_shape(next(tensors), [None, 2]), tf.ensure_shape(next(tensors), [None])
            rows = tf.ensure_shape(next(tensors), [])
            if self._batch is not None:
                rows = self._batch
            return tf.SparseTensor(indices, values, tf.stack([tf.cast(rows, tf.int64), self._sparse]))
        if spec.sequence or spec.shape is None:
            inside = () if spec.shape is None else spec.shape
            tensor = tf.ensure_shape(next(tensors), [None, *inside])
            # The innermost lists come first.
            for level in reversed(range(spec.sequence + (spec.shape is None))):
                splits = tf.ensure_shape(next(tensors), [None if level or self._batch is None else self._batch + 1])
                tensor = tf.RaggedTensor.from_row_splits(tensor, splits, validate=False)
            return tensor
        return tf.ensure_shape(next(tensors), [self._batch, *(spec.shape or ())])


def _arrays(column: Any) -> Iterator[Array]:
    if isinstance(column, Sparse):
        splits = column.indices.row_splits
        rows = np.repeat(np.arange(len(column)), np.diff(splits))
        yield np.stack([rows, column.indices.values], axis=1)
        yield column.values.values
        yield np.array(len(column))
    elif isinstance(column, Ragged):
        yield from _arrays(column.values)
        yield column.row_splits
    else:
        yield column


def raw_columns(contract: ExampleContract) -> ExampleContract:
    """Replace packed tensors in the contract with their raw bytes."""
    plain = [
        f if f.encoding == "list" else replace(f, dtype="bytes", shape=(), encoding="list") for f in contract.features
    ]
    return replace(contract, features=tuple(plain))
