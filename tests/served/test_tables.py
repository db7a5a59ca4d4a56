"""Rows of served logs as they are in their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.codec import ExampleEncoder
from ctr_samples.config import Served
from ctr_samples.contract import ExampleContract, FeatureSpec, Part
from ctr_samples.errors import InputError
from ctr_samples.served.keys import ImpressionIndex, codes_of
from ctr_samples.served.log import ServedLog
from tests.support.whole_runs import write_rows

KEY = FeatureSpec("impression_id", "int64", role="key")
CONTRACT = ExampleContract(
    (
        KEY,
        FeatureSpec("vector", "float32", (2,)),
        FeatureSpec("matrix", "float32", (2, 2)),
        FeatureSpec("number", "float32"),
        FeatureSpec("day", "bytes"),
    )
)
DENSE = ExampleContract(
    (KEY, FeatureSpec("features", "float32", (3,))), layout="dense", parts=(Part("a", 0, 1), Part("b", 1, 2))
)


def rows(log: Path, contract: ExampleContract = CONTRACT) -> list[dict[str, Any]]:
    return [row for batch in ServedLog.open(str(log), contract, Served()).batches(None) for row in batch.to_pylist()]


def of_json(lines: list[dict[str, Any]], directory: Path) -> Path:
    write_rows(directory / "served.json", lines)
    return directory / "served.json"


def of_examples(contract: ExampleContract, columns: dict[str, list[Any]], directory: Path) -> Path:
    batch = ExampleEncoder(contract).encode(pa.RecordBatch.from_pydict(columns))
    (directory / "served.tfrecord").write_bytes(batch.buffer.tobytes())
    return directory / "served.tfrecord"


def test_a_column_of_json_that_only_the_last_line_has_is_read(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [{"impression_id": n, "number": 1.0} for n in range(1500)]
    found = rows(of_json([*lines, {"impression_id": 1500, "day": "2018-08-14", "vector": [1, 2.5]}], tmp_path))
    assert found[1499] == {"_id": 1499, "number": 1.0, "day": None, "vector": None}
    assert found[1500] == {"_id": 1500, "number": None, "day": "2018-08-14", "vector": [1.0, 2.5]}


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("day", ["2018-08-14", "2018-08-14T10:00:00", "2018-08-14 10:00:00Z", "01234"])
def test_text_that_looks_like_a_number_or_a_time_stays_text(tmp_path: Path, form: str, day: str) -> None:
    line = {"impression_id": 1, "u": "00001", "at": 1_559_692_800, "day": day}
    path = of_json([line], tmp_path)
    if form == "csv":
        path = tmp_path / "served.csv"
        path.write_text(f"{','.join(line)}\n{','.join(map(str, line.values()))}\n")
    assert rows(path) == [{"_id": 1, "day": day}]
    at = np.array([1_559_692_800_000_000])
    index = ImpressionIndex(codes_of([pa.array(["00001"])]), np.array([0, 1]), at, np.array([7]), 1_000_000)
    log = ServedLog.open(str(path), CONTRACT, Served(keys={"user": "u"}, time="at"))
    assert [batch["_id"].to_pylist() for batch in log.batches(index)] == [[7]]


def test_nan_in_json_is_a_number(tmp_path: Path) -> None:
    found = rows(of_json([{"impression_id": 1, "number": float("nan"), "vector": [1.0, float("inf")]}], tmp_path))
    assert [str(found[0]["number"]), found[0]["vector"]] == ["nan", [1.0, float("inf")]]


def test_lists_of_another_length_in_examples_are_values(tmp_path: Path) -> None:
    logged = ExampleContract(tuple(FeatureSpec(f.name, f.dtype, None) for f in CONTRACT.features))
    columns: dict[str, list[Any]] = {"impression_id": [[1], [2]], "vector": [[1.0, 2.0, 3.0], None]}
    columns |= {"matrix": [[1.0, 2.0], None], "number": [[1.0, 2.0], None], "day": [[b"a", b"b"], None]}
    first, second = rows(of_examples(logged, columns, tmp_path))
    assert first == {"_id": 1, "vector": [1, 2, 3], "matrix": [1, 2], "number": [1, 2], "day": [b"a", b"b"]}
    assert second == {"_id": 2, **dict.fromkeys(CONTRACT.names("feature"))}


def test_a_joined_vector_of_examples_is_taken_apart(tmp_path: Path) -> None:
    log = of_examples(DENSE, {"impression_id": [1], "features": [[1.0, 2.0, 3.0]]}, tmp_path)
    assert rows(log, DENSE) == [{"_id": 1, "a": 1.0, "b": [2.0, 3.0]}]


@pytest.mark.parametrize("vector", [[1.0, 2.0], None])
def test_an_example_without_the_whole_joined_vector_is_refused_in_a_sentence(
    tmp_path: Path, vector: list[float] | None
) -> None:
    logged = ExampleContract((KEY, FeatureSpec("features", "float32", None)))
    log = of_examples(logged, {"impression_id": [1, 2], "features": [[1.0, 2.0, 3.0], vector]}, tmp_path)
    with pytest.raises(
        InputError, match=r"1 of 2 examples of .* have no 'features' of 3 numbers, in which the samples"
    ):
        rows(log, DENSE)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("cut.json.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03K", "cut.json.gz is no whole gzip file"),
        ("none.json.gz", b'{"impression_id": 1}', "none.json.gz is no whole gzip file"),
        ("lost.json", b'{"impression_id": 1e18, "number": 1}\n', "floats, in which ids lose their last digits"),
        ("inside.json", b'{"impression_id": {"id": 1}, "number": 1}\n', "expected the `impression_id` of the samples"),
        ("struct.json", b'{"impression_id": 1, "day": {"code": 1}}\n', "the column 'day' is struct<.*; expected text"),
    ],
)
def test_files_that_cannot_be_compared_are_refused_in_a_sentence(
    tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=why):
        rows(tmp_path / name)
