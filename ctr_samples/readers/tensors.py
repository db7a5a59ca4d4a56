"""Build ``tf.data`` pipelines of samples, with types and shapes from the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import tensorflow as tf

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.readers.arrays import Array, Columns, Ragged, Sparse
from ctr_samples.readers.batch_decoder import SPARSE, scalars_of
from ctr_samples.readers.plain import Parser, check_size, records_of
from ctr_samples.readers.sample_set import SampleSet
from ctr_samples.readers.standing import beginning, parts_of
from ctr_samples.readers.stream import Reading, columns_of

MASK = "__mask"
_DTYPES = {"int64": "int64", "float32": "float32", "float64": "float64", "bytes": "string"}


def dataset_of(
    samples: SampleSet, reading: Reading, engine: str = "native", *, keys: bool = False, pad: bool = False
) -> Any:
    """Like :func:`load_dataset`, but takes samples that are open: always the same generations."""
    contract = samples.contract
    names = None if keys else [f.name for f in contract.features if f.role != "key"]
    wanted = contract if names is None else _with_only(contract, names)
    parts = [part for _, part in parts_of(beginning(samples, reading), lambda epoch: samples, samples, reading)]
    if engine == "native":
        form = TensorForm(wanted, reading.batch_size if reading.drop_remainder else None)
        dataset = dataset_from(lambda: _in_turn(samples, parts, names), form, _arranged(wanted, pad=pad))
    else:
        check_size(wanted, reading.batch_size)
        parse, arranged = Parser(wanted), _arranged(wanted, pad=pad)
        records = [records_of(samples, part) for part in parts]
        dataset = reduce(tf.data.Dataset.concatenate, records).map(
            lambda batch: arranged(parse(batch)), num_parallel_calls=reading.decoders
        )
    dataset = with_length(dataset.prefetch(2), length(samples, parts))
    dataset.steps_per_epoch = reading.steps_of(samples)
    return dataset


def _in_turn(samples: SampleSet, parts: Sequence[Reading], names: Sequence[str] | None) -> Iterator[Columns]:
    for part in parts:
        yield from columns_of(samples, part, names)


def _with_only(contract: ExampleContract, names: Sequence[str]) -> ExampleContract:
    return replace(contract, features=tuple(f for f in contract.features if f.name in names))


def _arranged(contract: ExampleContract, *, pad: bool) -> Any:
    """Return a function that maps columns to ``(features, labels)`` or ``(features, labels, weight)``."""
    specs = column_specs(contract)
    features = [f.name for f in specs if f.role in ("feature", "key")]
    labels = [f.name for f in specs if f.role in ("label", "mask")]
    weights = [f.name for f in specs if f.role == "weight"]

    def arrange(columns: dict[str, Any]) -> tuple[Any, ...]:
        target = columns[labels[0]] if len(labels) == 1 else {name: columns[name] for name in labels}
        inputs = {name: columns[name] for name in features}
        return padded(inputs) if pad else inputs, target, *[columns[name] for name in weights]

    return arrange


def padded(features: dict[str, Any]) -> dict[str, Any]:
    """Return lists as dense tensors, filled up to the longest list of the batch with 0 or empty text. ``<name>__mask`` is 1
    where a list has a value.
    """
    made: dict[str, Any] = {}
    for name, column in features.items():
        if isinstance(column, tf.RaggedTensor):
            there = column.with_flat_values(tf.ones(tf.shape(column.flat_values)[:1]))
            made |= {name: column.to_tensor(), f"{name}{MASK}": there.to_tensor()}
        else:
            made[name] = column
    return made


def dataset_from(
    batches: Callable[[], Iterator[Columns]], form: TensorForm, arranged: Callable[[dict[str, Any]], Any]
) -> Any:
    """Build a dataset by applying ``arranged`` to the tensors of each batch.

    Each iteration over the dataset calls ``batches`` once, and closes the resulting iterator.
    """

    def arrays() -> Iterator[tuple[Any, ...]]:
        iterator = batches()
        try:
            for columns in iterator:
                yield tuple(form.arrays(columns))
        finally:
            iterator.close()  # type: ignore[attr-defined]

    signature = tuple(tf.TensorSpec(None, dtype) for dtype in form.dtypes())
    dataset = tf.data.Dataset.from_generator(arrays, output_signature=signature)
    options = tf.data.Options()
    # An ending iterator waits for the tuner's next check, up to as long as it has run; and there is nothing to tune
    # here.
    options.autotune.enabled = False
    return dataset.map(lambda *tensors: arranged(form.columns(tensors))).with_options(options)


def with_length(dataset: Any, steps: int | None) -> Any:
    """Set the number of batches, so that Keras knows it. None means infinite."""
    count = tf.data.INFINITE_CARDINALITY if steps is None else steps
    return dataset.apply(tf.data.experimental.assert_cardinality(count))


def length(samples: SampleSet, parts: Sequence[Reading]) -> int | None:
    """Return the number of batches of all parts. None means infinite."""
    count = 0
    for part in parts:
        steps = part.steps_of(samples)
        if steps and part.epochs is None and part.rest is None:
            return None
        count += sum(steps - skip for _, skip in part.begins(samples)) if steps else 0
    return count


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
        names = [specs[0].dtype for specs in self._scalars] + [name for f in self._others for name in self._types(f)]
        return [tf.as_dtype(name) for name in names]

    def arrays(self, columns: Columns) -> list[Array]:
        """Return the arrays of a batch, without copies."""
        others = [array for spec in self._others for array in _arrays(columns.others[spec.name])]
        return [*(scalars.values for scalars in columns.scalars), *others]

    def columns(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """Build Tensors, RaggedTensors and SparseTensors with static shapes. Runs while a graph is traced."""
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
