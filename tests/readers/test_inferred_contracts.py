"""TensorFlow's own parser takes the records of another program by the contract that `infer` prints of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.contract import ExampleContract
from ctr_samples.readers.plain import Parser
from tests.support.command_line import invoke
from tests.support.tensorflow_files import example, sequence_example, tensorflow_writes, tf

EXAMPLES: list[dict[str, Any]] = [
    {"user": [1], "price": [0.5], "vector": [1.0, 2.0], "tags": [b"a"], "country": [b"DE"], "label": [1]},
    {"user": [2], "vector": [3.0, 4.0], "tags": [b"a", b"b"], "label": [0]},
    {"user": [3], "price": [1.5], "vector": [5.0, 6.0], "country": [b"FR"], "label": [0]},
]
"""Of each kind of feature that there is: single, of a fixed length, of any length; missing here and there."""


def inferred(file: Path) -> ExampleContract:
    result = invoke("infer", str(file), "--all")
    assert result.exit_code == 0, result.stderr
    return ExampleContract.from_dict(json.loads(result.stdout))


def plain(value: Any) -> Any:
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_examples_are_parsed_by_their_inferred_contract(tmp_path: Path, compression: str) -> None:
    file = tensorflow_writes(
        tmp_path / "part-0", *[example(**features) for features in EXAMPLES], compression=compression
    )
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
    records = [sequence_example({"user": [len(items)]}, {"items": [[i] for i in items]}) for items in ([1, 2], [3])]
    file = tensorflow_writes(tmp_path / "part-0", *records)
    batch = next(iter(tf.data.TFRecordDataset(str(file)).batch(2).map(Parser(inferred(file)))))
    assert {name: plain(column) for name, column in batch.items()} == {"user": [2, 1], "items": [[1, 2], [3]]}


def test_a_record_without_what_every_other_has_is_refused_by_the_parser(tmp_path: Path) -> None:
    file = tensorflow_writes(tmp_path / "part-0", *[example(**features) for features in EXAMPLES])
    parser = Parser(inferred(file))
    with pytest.raises(tf.errors.InvalidArgumentError, match="user"):
        parser([example(price=[0.5], vector=[1.0, 2.0], label=[1])])
