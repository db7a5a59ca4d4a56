"""Served logs of every form, with ids or keys, and the sentence for each that does not fit."""

from __future__ import annotations

import json
from datetime import timedelta
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
from ctr_samples.served.log import ServedLog
from ctr_samples.served.run import Task, compare_served
from ctr_samples.serving import load_assembler
from ctr_samples.shards import open_storage, require_manifest
from ctr_samples.sparksql.observations import Silent
from tests.served.served_day import DAY, SHOWN, Day
from tests.support.small_days import published

pytestmark = pytest.mark.thorough

KEY = FeatureSpec("impression_id", "int64", role="key")
CLICKED = FeatureSpec("clicked", "int64", role="label")


def with_nan(split: str, first: int) -> pa.RecordBatch:
    """Fifty samples, four of five with NaN."""
    ids = range(first, first + 50)
    ages = pa.array([float("nan") if n % 5 else n for n in ids], pa.float32())
    return pa.RecordBatch.from_pydict({"impression_id": list(ids), "age": ages, "clicked": [n % 2 for n in ids]})


def test_json_and_csv_say_the_same_as_parquet(spark: SparkSession, day: Day) -> None:
    lines = day.served(change=lambda line: line.update(age=line["age"] + (line["n"] < 600)))
    frame = pd.DataFrame(lines)
    frame["at"] = frame["at"].map(lambda at: at.isoformat())
    frame.to_csv(day.root / "served.csv", index=False)
    frame.to_json(day.root / "served.jsonl.gz", orient="records", lines=True, double_precision=15)
    for name in ("served.csv", "served.jsonl.gz"):
        found = day.compared(spark, day.root / name, causes=False).features
        assert {name: one.differ for name, one in found.items()} == {**dict.fromkeys(found, 0), "age": 600}
        assert sum(n for n, _ in found["age"].by_hour) == SHOWN
        assert sum(n for _, n in found["age"].by_hour) == 600


def test_nan_of_the_samples_is_served_in_parquet_and_csv(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    samples = tmp_path / "samples"
    published(samples, ExampleContract((KEY, FeatureSpec("age", "float32"), CLICKED)), with_nan)
    frame = pd.DataFrame({"impression_id": range(500), "age": [float("nan") if n % 5 else n for n in range(500)]})
    frame.to_parquet(tmp_path / "served.parquet")
    frame.to_csv(tmp_path / "served.csv", index=False, na_rep="NaN")
    storage = open_storage(samples)
    manifest = require_manifest(storage, DAY)
    for name in ("served.parquet", "served.csv"):
        log = ServedLog.open(str(tmp_path / name), ExampleContract.from_dict(dict(manifest.contract)), ServedConfig())
        task = Task(storage, manifest, log, load_config(day.root / "c.yaml").config, DAY, name)
        found = compare_served(task, lambda: (spark, Silent()), causes=False, propose=False)
        assert found.features["age"].equal == 500


def test_columns_may_be_nested_and_have_other_names(spark: SparkSession, day: Day) -> None:
    path = day.root / "nested.json"
    lines = day.served()
    path.write_text(
        "".join(json.dumps({"id": str(one["impression_id"]), "f": {"years": one["age"]}}) + "\n" for one in lines)
    )
    served = ServedConfig(id="id", columns={"age": "f.years"})
    found = day.compared(spark, path, served)
    assert {name: one.equal for name, one in found.features.items()} == {"age": SHOWN}
    assert list(found.not_logged)[:4] == ["n", "score", "price", "red"]


def test_keys_and_times_find_the_impressions(spark: SparkSession, day: Day) -> None:
    lines = day.served()
    for line in lines:
        del line["impression_id"]
        line["at"] += timedelta(milliseconds=300)
    found = day.compared(spark, lines, ServedConfig(keys={"user": "u", "item": "i"}, time="at"))
    matched = found.coverage.matched
    assert matched + found.coverage.not_served == SHOWN
    assert matched > 0.99 * SHOWN
    assert found.features["age"].differ == 0


OF_AGE = {"impression_id": 1, "age": 2.0}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"id": 1, "age": 2.0}, "has no column 'impression_id' with the id .* it has id, age"),
    ({}, {"impression_id": 1, "size": 2.0}, "has none of the features of the samples; it has impression_id, size"),
    ({}, {"impression_id": "abc", "age": 2.0}, "'impression_id' holds 'abc'; expected the `impression_id`"),
    (
        {},
        OF_AGE,
        "None of the 1 served lines has a sample of 2019-06-05: their ids, such as 1",
    ),
    ({"columns": {"agee": "age"}}, OF_AGE, "no feature 'agee'; did you mean 'age'"),
    (
        {"columns": {"age": "x.y"}},
        OF_AGE,
        "has no column 'x.y'; it has impression_id, age",
    ),
    ({"time": "at"}, OF_AGE, "served.time: .* has no column 'at'"),
    (
        {"time": "at"},
        {"impression_id": 1, "age": 2.0, "at": "2019-06-05T10:00:00"},
        "has no zone; expected one",
    ),
    ({"keys": {"user": "uid"}}, {"u": 1, "age": 2.0}, "served.keys.user: .* has no column 'uid'; it has u, age"),
]


def test_logs_that_do_not_fit_are_refused_in_a_sentence(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    for served, line, message in REFUSED:
        path.write_text(json.dumps(line) + "\n")
        with pytest.raises(InputError, match=message):
            day.compared(spark, path, ServedConfig.model_validate(served))
    (tmp_path / "empty").mkdir()
    for directory in (tmp_path / "empty", day.root / "out"):
        with pytest.raises(
            InputError, match=r"has no files of a served log; expected tf.Examples, Parquet, JSON lines or CSV"
        ):
            day.compared(spark, directory)
    first, *rest = day.served()
    later = {**first, "at": first["at"] + timedelta(hours=8)}
    with pytest.raises(InputError, match=r"nearest impression of their keys is .* away: check the time zone"):
        day.compared(spark, [later], ServedConfig(keys={"user": "u", "item": "i"}, time="at"))
    with pytest.raises(InputError, match=r"the column 'age' is string; expected numbers, as the samples"):
        day.compared(spark, [{**line, "age": "old"} for line in (first, *rest)])


def test_examples_of_the_assembler_are_compared_byte_by_byte_with_the_samples(spark: SparkSession, day: Day) -> None:
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
    found = day.compared(spark, day.root / "examples.tfrecord", ServedConfig())
    assert {name: one.equal for name, one in found.features.items()} == dict.fromkeys(found.features, SHOWN)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("keys: {usr: u}", "served.keys.usr: impressions have no key 'usr'; did you mean 'user'"),
        ("columns: {agee: a}", "served.columns.agee: there is no feature 'agee'; did you mean 'age'"),
        ("tolerance: {agee: 1}", "served.tolerance.agee: there is no feature 'agee'; did you mean 'age'"),
    ],
)
def test_names_that_the_configuration_lacks_are_refused(day: Day, tmp_path: Path, section: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text((day.root / "c.yaml").read_text() + f"served:\n  {section}\n")
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "c.yaml")
