"""Served logs of every form, with ids or keys, and the sentence for each that does not fit."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf
from pyspark.sql import SparkSession

from ctr_samples.config import Served as ServedConfig
from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.serving import load_assembler
from tests.served.served_day import DAY, SHOWN, WITH_TIMES, Day, small_compared, small_lines
from tests.support.small_days import published
from tests.support.whole_runs import write_rows

KEY = FeatureSpec("impression_id", "int64", role="key")
CLICKED = FeatureSpec("clicked", "int64", role="label")


def with_nan(split: str, first: int) -> pa.RecordBatch:
    """Fifty samples, four of five with NaN."""
    ids = range(first, first + 50)
    ages = pa.array([float("nan") if n % 5 else n for n in ids], pa.float32())
    return pa.RecordBatch.from_pydict({"impression_id": list(ids), "age": ages, "clicked": [n % 2 for n in ids]})


def test_json_and_csv_say_the_same_as_parquet(small: Path) -> None:
    begin = datetime(2019, 6, 5, tzinfo=UTC)
    frame = pd.DataFrame(small_lines(wrong=60)).drop(columns="vector")
    frame["at"] = [(begin + timedelta(minutes=n)).isoformat() for n in range(500)]
    frame.to_parquet(small / "served.parquet")
    frame.to_csv(small / "served.csv", index=False)
    frame.to_json(small / "served.jsonl.gz", orient="records", lines=True, double_precision=15)
    for name in ("served.parquet", "served.csv", "served.jsonl.gz"):
        found = small_compared(small, small / name, WITH_TIMES).features
        assert {name: one.differ for name, one in found.items()} == {"number": 60, "city": 0, "name": 0}
        assert [n for n, _ in found["number"].by_hour] == [*[60] * 8, 20, *[0] * 15]
        assert [n for _, n in found["number"].by_hour] == [60, *[0] * 23]


def test_nan_of_the_samples_is_served_in_parquet_and_csv(small: Path) -> None:
    shutil.rmtree(small / "out")
    published(small / "out", ExampleContract((KEY, FeatureSpec("age", "float32"), CLICKED)), with_nan)
    frame = pd.DataFrame({"impression_id": range(500), "age": [float("nan") if n % 5 else n for n in range(500)]})
    frame.to_parquet(small / "served.parquet")
    frame.to_csv(small / "served.csv", index=False, na_rep="NaN")
    for name in ("served.parquet", "served.csv"):
        assert small_compared(small, small / name).features["age"].equal == 500


def test_columns_may_be_nested_have_other_names_and_be_in_some_files_only(small: Path) -> None:
    lines = [{"id": str(one["impression_id"]), "f": {"value": one["number"]}} for one in small_lines()]
    write_rows(small / "parts/a.json", lines[:5])
    write_rows(small / "parts/b.json", [{**one, "city": 9} for one in lines[5:]])
    found = small_compared(small, small / "parts", ServedConfig(id="id", columns={"number": "f.value"}))
    assert list(found.features) == ["number", "city"]
    assert found.features["number"].equal == 500
    assert (found.features["city"].different, found.features["city"].only_offline) == (495, 5)
    assert found.not_logged == ("vector", "name")


@pytest.mark.thorough
def test_keys_and_times_find_the_impressions(spark: SparkSession, day: Day) -> None:
    lines = day.served()
    for line in lines:
        del line["impression_id"]
        line["at"] += timedelta(milliseconds=300)
    by_keys = ServedConfig(keys={"user": "u", "item": "i"}, time="at")
    found = day.compared(spark, lines, by_keys)
    matched = found.coverage.matched
    assert matched + found.coverage.not_served == SHOWN
    assert matched > 0.99 * SHOWN
    assert found.features["age"].differ == 0
    later = {**lines[0], "at": lines[0]["at"] + timedelta(hours=8)}
    with pytest.raises(InputError, match=r"nearest impression of their keys is .* away: check the time zone"):
        day.compared(spark, [later], by_keys)


LINE = {"impression_id": 1000, "city": 2}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"id": 1, "city": 2}, "has no column 'impression_id' with the id .* it has id, city"),
    ({}, {"impression_id": 1, "size": 2}, "has none of the features of the samples; it has impression_id, size"),
    ({}, {"impression_id": "abc", "city": 2}, "'impression_id' holds 'abc'; expected the `impression_id`"),
    ({}, {"impression_id": 1, "number": "old"}, "the column 'number' is string; expected numbers, as the samples"),
    ({}, LINE, "None of the 1 served lines has a sample of 2019-06-05: their ids, such as 1000"),
    ({"columns": {"cty": "city"}}, LINE, "no feature 'cty'; did you mean 'city'"),
    ({"columns": {"city": "x.y"}}, LINE, "has no column 'x.y'; it has impression_id, city"),
    ({"time": "at"}, LINE, "served.time: .* has no column 'at'"),
    ({"time": "at"}, {**LINE, "at": "2019-06-05T10:00:00"}, "has no zone; expected one"),
    ({"keys": {"user": "uid"}}, {"u": 1, "city": 2}, "served.keys.user: .* has no column 'uid'; it has u, city"),
    ({}, {**LINE, "impression_id": 2**60}, "They went through a double, which rounds them; log them as text"),
]


def test_logs_that_do_not_fit_are_refused_in_a_sentence(small: Path) -> None:
    for served, line, message in REFUSED:
        with pytest.raises(InputError, match=message):
            small_compared(small, [line], ServedConfig.model_validate(served))
    (small / "empty").mkdir()
    for directory in (small / "empty", small / "out"):
        with pytest.raises(
            InputError, match=r"has no files of a served log; expected tf.Examples, Parquet, JSON lines or CSV"
        ):
            small_compared(small, directory)


@pytest.mark.thorough
def test_lines_and_examples_of_a_faultless_service_have_no_difference(spark: SparkSession, day: Day) -> None:
    assembler = load_assembler(day.root / "out", date=DAY)
    examples = []
    for line in day.served():
        user = {"age": line["age"], "score": line["score"] / 2}
        item = {"price": line["price"], "color": "red" if line["red"] else "blue"}
        # A service without a row has the product that the job has by default.
        lists = {"scores": [line["product"]], "prices": [1.0]}
        rows = {"user": user | lists, "item": item | lists}
        rows["home"] = {"code": line["home"]}
        rows["shows"] = {"all_1h": line["shows_1h"], "all_6h": line["shows_6h"]}
        given = {name: line[name] for name in ("score", "red", "fit", "impression_id")}
        examples.append(
            assembler.assemble(
                {"n": line["n"], "impression_time": line["at"], "place": {3: "home", 4: "search"}[line["place"]]},
                rows,
                given,
            )
        )
    with tf.io.TFRecordWriter(str(day.root / "examples.tfrecord")) as writer:
        for example in examples:
            writer.write(example)
    for lines in (day.served(), day.root / "examples.tfrecord"):
        found = day.compared(spark, lines, WITH_TIMES if isinstance(lines, list) else ServedConfig())
        assert found.coverage.matched == found.coverage.samples == SHOWN
        assert {name: one.equal for name, one in found.features.items()} == dict.fromkeys(found.features, SHOWN)
        assert found.beyond == ()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("keys: {usr: u}", "served.keys.usr: impressions have no key 'usr'; did you mean 'user'"),
        ("columns: {numbr: a}", "served.columns.numbr: there is no feature 'numbr'; did you mean 'number'"),
        ("tolerance: {numbr: 1}", "served.tolerance.numbr: there is no feature 'numbr'; did you mean 'number'"),
    ],
)
def test_names_that_the_configuration_lacks_are_refused(small: Path, section: str, message: str) -> None:
    with (small / "c.yaml").open("a") as config:
        config.write(f"served:\n  {section}\n")
    with pytest.raises(ConfigError, match=message):
        load_config(small / "c.yaml")
