"""Whatever the batch: the bytes are TensorFlow's, and they read back as what was written.

A normal run tries a few thousand batches; ``HYPOTHESIS_PROFILE=nightly`` tries more than a hundred thousand.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ctr_samples.codec import ExampleDecoder, ExampleEncoder, frame_offsets
from ctr_samples.codec.reference import ReferenceEncoder
from ctr_samples.contract import ExampleContract, FeatureSpec
from tests.codec.framing import messages_of
from tests.codec.random_batches import samples

Sample = tuple[ExampleContract, pa.RecordBatch]


def same(a: Any, b: Any) -> bool:
    """Equality in which NaN equals NaN."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


@pytest.mark.thorough
@pytest.mark.parametrize("record", ["example", "sequence_example"])
@given(data=st.data())
def test_the_bytes_are_those_that_tensorflow_writes(record: str, data: st.DataObject) -> None:
    contract, batch = data.draw(samples(record))
    encoded = ExampleEncoder(contract).encode(batch)
    expected = ReferenceEncoder(contract).encode(batch)
    assert messages_of(encoded) == messages_of(expected)
    assert encoded.buffer.tobytes() == expected.buffer.tobytes()
    assert encoded.offsets.tolist() == expected.offsets.tolist() == frame_offsets(encoded.buffer).tolist()


@pytest.mark.some(1)
@pytest.mark.parametrize("record", ["example", "sequence_example"])
@given(data=st.data())
def test_what_is_decoded_encodes_to_the_same_bytes(record: str, data: st.DataObject) -> None:
    contract, batch = data.draw(samples(record))
    encoded = ExampleEncoder(contract).encode(batch)
    decoded = ExampleDecoder(contract).decode(encoded.buffer)
    decoded.validate(full=True)
    again = ExampleEncoder(contract).encode(decoded)
    assert again.buffer.tobytes() == encoded.buffer.tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize("record", ["example", "sequence_example"])
@given(data=st.data())
def test_the_decoder_agrees_with_protobuf(record: str, data: st.DataObject) -> None:
    contract, batch = data.draw(samples(record))
    encoded = ExampleEncoder(contract).encode(batch)
    decoded = ExampleDecoder(contract).decode(encoded.buffer)
    for row, message in enumerate(messages_of(encoded)):
        parsed = _parsed(message, record)
        for spec in contract.features:
            if spec.encoding == "list":
                values = decoded[spec.name][row].as_py()
                assert same(_flat(values, spec), _values(parsed, spec))


def _parsed(message: bytes, record: str) -> Any:
    return (
        tf.train.SequenceExample.FromString(message)
        if record == "sequence_example"
        else tf.train.Example.FromString(message)
    )


def _values(parsed: Any, spec: FeatureSpec) -> Any:
    """What protobuf sees under the name: flat values, a list of them for each step, or None."""
    if spec.sequence:
        lists = parsed.feature_lists.feature_list
        return [_of_feature(f, spec) for f in lists[spec.name].feature] if spec.name in lists else None
    context = parsed.context if hasattr(parsed, "context") else parsed.features
    return _of_feature(context.feature[spec.name], spec) if spec.name in context.feature else None


def _of_feature(feature: Any, spec: FeatureSpec) -> list[Any]:
    kind = {"int64": "int64_list", "float32": "float_list", "bytes": "bytes_list"}[spec.dtype]
    return list(getattr(feature, kind).value)


def _flat(value: Any, spec: FeatureSpec) -> Any:
    if value is None:
        return None
    if spec.sequence:
        return [step if isinstance(step, list) else [step] for step in value]
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = [item for inner in value for item in inner]
    return value if isinstance(value, list) else [value]


@given(data=st.data())
def test_every_slice_has_the_bytes_of_its_rows(data: st.DataObject) -> None:
    contract, batch = data.draw(samples())
    encoded = ExampleEncoder(contract).encode(batch)
    first = data.draw(st.integers(0, batch.num_rows))
    stop = data.draw(st.integers(first, batch.num_rows))
    part = ExampleEncoder(contract).encode(batch.slice(first, stop - first))
    assert part.buffer.tobytes() == encoded.records(first, stop).tobytes()


@given(data=st.data())
def test_the_decoder_agrees_with_parse_example(data: st.DataObject) -> None:
    contract, batch = data.draw(samples())
    kept = tuple(f for f in contract.features if f.encoding == "list" and f.shape != (0,))
    contract = ExampleContract(kept)
    batch = batch.select([f.name for f in kept])
    if not kept or not batch.num_rows:
        return
    encoded = ExampleEncoder(contract).encode(batch)
    decoded = ExampleDecoder(contract).decode(encoded.buffer)
    types = {"int64": tf.int64, "float32": tf.float32, "bytes": tf.string}
    parsed = tf.io.parse_example(
        tf.constant(messages_of(encoded)), {f.name: tf.io.RaggedFeature(types[f.dtype]) for f in kept}
    )
    for spec in kept:
        expected = parsed[spec.name].to_list()
        values = [_flat(v, spec) or [] for v in decoded[spec.name].to_pylist()]
        assert same(values, expected)
