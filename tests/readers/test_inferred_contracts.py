"""TensorFlow's own parser takes the records of another program by the contract that `infer` prints of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.contract import ExampleContract
from ctr_samples.readers.plain import Parser
from tests.support.command_line import invoke

tf = pytest.importorskip("tensorflow")

EXAMPLES: list[dict[str, Any]] = [
    {"user": [1], "price": [0.5], "vector": [1.0, 2.0], "tags": [b"a"], "country": [b"DE"], "label": [1]},
    {"user": [2], "vector": [3.0, 4.0], "tags": [b"a", b"b"], "label": [0]},
    {"user": [3], "price": [1.5], "vector": [5.0, 6.0], "country": [b"FR"], "label": [0]},
]
"""Of each kind of feature that there is: single, of a fixed length, of any length; missing here and there."""


def example_of(features: dict[str, Any]) -> bytes:
    kinds = {int: ("int64_list", tf.train.Int64List), float: ("float_list", tf.train.FloatList)}
    message = tf.train.Example()
    for name, values in features.items():
        field, make = kinds.get(type(values[0]), ("bytes_list", tf.train.BytesList))
        message.features.feature[name].CopyFrom(tf.train.Feature(**{field: make(value=values)}))
    return bytes(message.SerializeToString())


def written(file: Path, records: list[bytes], compression: str) -> Path:
    with tf.io.TFRecordWriter(str(file), compression) as writer:
        for record in records:
            writer.write(record)
    return file


def inferred(file: Path) -> ExampleContract:
    result = invoke("infer", str(file), "--all")
    assert result.exit_code == 0, result.stderr
    return ExampleContract.from_dict(json.loads(result.stdout))


def plain(value: Any) -> Any:
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_examples_are_parsed_by_their_inferred_contract(tmp_path: Path, compression: str) -> None:
    file = written(tmp_path / "part-0", [example_of(features) for features in EXAMPLES], compression)
    batch = next(iter(tf.data.TFRecordDataset(str(file), compression).batch(3).map(Parser(inferred(file)))))
    assert {name: plain(column) for name, column in batch.items()} == {
        "user": [1, 2, 3],
        "price": [0.5, 0.0, 1.5],
        "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        "tags": [[b"a"], [b"a", b"b"], []],
        "country": [b"DE", b"", b"FR"],
        "label": [1, 0, 0],
    }
    assert isinstance(batch["tags"], tf.RaggedTensor)
    assert batch["vector"].shape == (3, 2)


def test_sequence_examples_are_parsed_by_their_inferred_contract(tmp_path: Path) -> None:
    records = []
    for steps in ([1, 2], [3]):
        message = tf.train.SequenceExample()
        message.context.feature["user"].int64_list.value.append(len(steps))
        for step in steps:
            message.feature_lists.feature_list["items"].feature.add().int64_list.value.append(step)
        records.append(message.SerializeToString())
    file = written(tmp_path / "part-0", records, "")
    batch = next(iter(tf.data.TFRecordDataset(str(file)).batch(2).map(Parser(inferred(file)))))
    assert {name: plain(column) for name, column in batch.items()} == {"user": [2, 1], "items": [[1, 2], [3]]}


def test_a_record_without_what_every_other_has_is_refused_by_the_parser(tmp_path: Path) -> None:
    file = written(tmp_path / "part-0", [example_of(features) for features in EXAMPLES], "")
    parser = Parser(inferred(file))
    with pytest.raises(tf.errors.InvalidArgumentError, match="user"):
        parser([example_of({"price": [0.5], "vector": [1.0, 2.0], "label": [1]})])
