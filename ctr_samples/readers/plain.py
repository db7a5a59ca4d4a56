"""A reader that uses TensorFlow's own reader and parser. Yields the same batches as the native engine, without our
decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.descriptions import parsing
from ctr_samples.errors import ContractError
from ctr_samples.readers.order import LANES, Epoch
from ctr_samples.readers.sample_set import SampleSet
from ctr_samples.readers.stream import Reading
from ctr_samples.shards.naming import compression_of

_MOST_VALUES = 2**31 - 1
_COMPRESSION = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}


def records_of(samples: SampleSet, reading: Reading) -> Any:
    """Build a dataset of batches of serialized records, in a worker's order."""
    order, batch_size = reading.order_of(samples), reading.batch_size
    lanes = order.lanes if reading.rest is None else LANES * len(reading.rest.spans)
    files = tf.constant([samples.storage.locate(shard.path) for shard in samples.shards])
    kinds = tf.constant([_COMPRESSION[compression_of(shard.path)] for shard in samples.shards])

    def read(piece: Any) -> Any:
        shard, first, stop = piece[0], piece[1], piece[2]
        return tf.data.TFRecordDataset(files[shard], kinds[shard]).skip(first).take(stop - first)

    def of_epoch(number: Any, left_out: Any) -> Any:
        pieces, blocks = tf.numpy_function(
            lambda n, k: planned(reading.epoch_of(samples, int(n), int(k))), [number, left_out], [tf.int64] * 2
        )
        pieces, blocks = tf.ensure_shape(pieces, [None, 4]), tf.ensure_shape(blocks, [None, 5])
        if not order.shuffle:
            return tf.data.Dataset.from_tensor_slices(pieces[:, 1:]).flat_map(read).batch(batch_size)
        read_lanes = [
            tf.data.Dataset.from_tensor_slices(tf.boolean_mask(pieces[:, 1:], pieces[:, 0] == lane))
            .flat_map(read)
            .batch(order.window)
            for lane in range(lanes)  # of some epochs, fewer are in use
        ]
        turns = tf.data.Dataset.from_tensor_slices(blocks[:, 0])
        chosen = tf.data.Dataset.choose_from_datasets(read_lanes, turns, stop_on_empty_dataset=False)
        numbered = tf.data.Dataset.zip((chosen, tf.data.Dataset.from_tensor_slices(blocks)))
        return numbered.map(lambda records, block: permuted(records, number, block)).rebatch(batch_size)

    def permuted(records: Any, number: Any, block: Any) -> Any:
        arguments = [number, block[1], block[2]]
        rows = tf.numpy_function(lambda e, b, n: order.permutation(int(e), int(b), int(n)), arguments, tf.int64)
        return tf.ensure_shape(tf.gather(records, rows[block[3] : block[4]]), [None])

    def left() -> Any:
        yield from reading.begins(samples)

    signature = (tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.int64))
    return tf.data.Dataset.from_generator(left, output_signature=signature).flat_map(of_epoch)


def planned(plan: Epoch) -> tuple[Any, Any]:
    """Return the plan of an epoch as two tables: (lane, shard, first, stop) of each piece, and (lane, number, records,
    first row, stop) of each block.
    """
    pieces = [(lane, one.shard, one.first, one.stop) for lane, pieces in enumerate(plan.lanes) for one in pieces]
    blocks = [(b.lane, b.number, b.records, *b.rows) for b in plan.blocks]
    return np.array(pieces, np.int64).reshape(-1, 4), np.array(blocks, np.int64).reshape(-1, 5)


def check_size(contract: ExampleContract, batch_size: int) -> None:
    """Raise ContractError for batches with more values than TensorFlow's parser can count, which would kill the
    process.
    """
    for spec in contract.features:
        if spec.size is not None and spec.size * batch_size > _MOST_VALUES:
            raise ContractError(
                f"{batch_size:,} records with {spec.size:,} values of the feature {spec.name!r} each are more than TensorFlow "
                f"can parse at once ({_MOST_VALUES:,} values); use smaller batches or the native engine."
            )


class Parser:
    """A parser of serialized records with ``tf.io``, as described by contract.json. Same columns as the native engine."""

    def __init__(self, contract: ExampleContract) -> None:
        self._contract = contract
        self._specs = {}
        for name, form in parsing(_raw_columns(contract)).items():
            arguments = {key: value for key, value in form.items() if key != "kind"}
            arguments["dtype"] = tf.as_dtype(arguments["dtype"])
            if form["kind"] in ("RaggedFeature", "FixedLenSequenceFeature"):
                self._specs[name] = tf.io.RaggedFeature(arguments["dtype"], row_splits_dtype=tf.int64)
            else:
                self._specs[name] = getattr(tf.io, form["kind"])(**_with_default(arguments, contract, name))

    def __call__(self, records: Any) -> dict[str, Any]:
        """Parse records to columns by name. Runs while a graph is traced."""
        parsed = self._parsed(records)
        for spec in self._contract.features:
            if spec.encoding != "list":
                parsed[spec.name] = _unpacked(parsed[spec.name], spec)
            elif spec.sequence and spec.name in parsed:
                parsed[spec.name] = _steps(parsed[spec.name], spec)
        return {name: parsed[name] for name in self._specs}

    def _parsed(self, records: Any) -> dict[str, Any]:
        if self._contract.record != "sequence_example":
            return dict(tf.io.parse_example(records, self._specs))
        lists = {f.name for f in self._contract.features if f.sequence}
        context = {name: spec for name, spec in self._specs.items() if name not in lists}
        sequences = {name: spec for name, spec in self._specs.items() if name in lists}
        context_columns, steps, _ = tf.io.parse_sequence_example(records, context, sequences)
        return {**context_columns, **steps}


def _raw_columns(contract: ExampleContract) -> ExampleContract:
    """Replace packed tensors in the contract with their raw bytes."""
    plain = [
        f if f.encoding == "list" else replace(f, dtype="bytes", shape=(), encoding="list") for f in contract.features
    ]
    return replace(contract, features=tuple(plain))


def _with_default(arguments: Mapping[str, Any], contract: ExampleContract, name: str) -> dict[str, Any]:
    """Add the contract's default for a missing key, which an older writer may have omitted."""
    spec = next((f for f in contract.features if f.name == name), None)
    if spec is None or spec.nulls != "default" or spec.encoding != "list" or spec.shape is None:
        return dict(arguments)
    default: Any = spec.default if spec.shape == () else np.full(spec.shape, spec.default).tolist()
    return {**arguments, "default_value": default}


def _steps(column: Any, spec: FeatureSpec) -> Any:
    """Reshape each step of a FeatureList to the shape in the contract."""
    if spec.shape is None:
        return column
    values = tf.reshape(column.flat_values, [-1, *spec.shape])
    return tf.RaggedTensor.from_row_splits(values, column.row_splits, validate=False)


def _unpacked(column: Any, spec: FeatureSpec) -> Any:
    """Unpack tensors stored as bytes values."""
    dtype = tf.as_dtype(spec.dtype)
    if spec.shape is None:
        lists = tf.RaggedTensorSpec([None], dtype, 0, tf.int64)
        return tf.map_fn(lambda value: _one(value, spec, tf.constant([], dtype)), column, fn_output_signature=lists)
    if spec.encoding == "raw":
        width = prod(spec.shape) * dtype.size
        flat = tf.io.decode_raw(column, dtype, fixed_length=width) if width else tf.zeros([tf.size(column), 0], dtype)
        return tf.reshape(flat, [-1, *spec.shape])
    return tf.map_fn(lambda value: _one(value, spec, tf.zeros(spec.shape, dtype)), column, fn_output_signature=dtype)


def _one(value: Any, spec: FeatureSpec, empty: Any) -> Any:
    def content() -> Any:
        if spec.encoding == "raw":
            return tf.io.decode_raw(value, empty.dtype)
        return tf.reshape(tf.io.parse_tensor(value, empty.dtype), [-1] if spec.shape is None else list(spec.shape))

    return tf.cond(tf.equal(value, b""), lambda: empty, content)
