"""Features that are one column of joined rows: Python makes of it what Spark's expressions make."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.features import row
from ctr_samples.samples.features.pairs import PAIRS
from ctr_samples.samples.features.row import ROWS, SampleColumns, made
from tests.support.minimal_config import with_joins

USER = pa.struct(
    [
        ("weights", pa.map_(pa.string(), pa.float64())),
        ("small", pa.map_(pa.string(), pa.float32())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("prices", pa.map_(pa.string(), pa.decimal128(9, 2))),
        ("names", pa.map_(pa.string(), pa.string())),
        ("age_s", pa.float64()),
        ("matched", pa.bool_()),
    ]
)
ITEM = pa.struct(
    [("topics", pa.list_(pa.string())), ("channel", pa.string()), ("age_s", pa.float64()), ("matched", pa.bool_())]
)
RECENT = pa.struct(
    [
        ("items", pa.list_(pa.string())),
        ("ages_s", pa.list_(pa.float64())),
        ("prices", pa.list_(pa.float32())),
        ("days", pa.list_(pa.int32())),
        ("length", pa.int32()),
        ("matched", pa.bool_()),
    ]
)
WEIGHTS = {"lookup": {"map": "user.weights", "under": "item.channel"}, "dtype": "float32"}
OF_TOPICS = {"lookup": {"map": "user.weights", "keys": "item.topics"}, "dtype": "float32"}
COUNTS = {"lookup": {"map": "user.counts", "keys": "item.topics"}, "dtype": "int64"}
DIRECT: dict[str, dict[str, Any]] = {
    "age": {"from": "user.age_s", "dtype": "float32"},
    "age_or_none": {"from": "user.age_s", "dtype": "float32", "nulls": "omit"},
    "age_or_less": {"from": "user.age_s", "dtype": "float32", "default": -1},
    "length": {"from": "recent.length", "dtype": "int64"},
    "length_as_number": {"from": "Recent.LENGTH", "dtype": "float32"},
    "has_history": {"from": "recent.matched", "dtype": "int64", "default": 2},
    "sum": {**OF_TOPICS, "lookup": {**OF_TOPICS["lookup"], "reduce": "sum"}, "default": -2},
    "count": {**COUNTS, "lookup": {**COUNTS["lookup"], "reduce": "count"}},
    "share": {"overlap": {"of": "recent.items", "with": "item.topics", "as": "share_of"}, "dtype": "float32"},
    "ages": {"from": "recent.ages_s", "dtype": "float32", "shape": [3], "default": -1},
    "ages_in_capitals": {"from": "RECENT.Ages_S", "dtype": "float32", "shape": [3]},
    "ages_in_two": {"from": "recent.ages_s", "dtype": "float32", "shape": [2, 2], "nulls": "omit"},
    "ages_of_any_length": {"from": "recent.ages_s", "dtype": "float32", "ragged": True},
    "ages_filled": {"from": "recent.ages_s", "dtype": "float32", "ragged": True, "fill": 7.5, "nulls": "omit"},
    "days": {"from": "recent.days", "dtype": "int64", "shape": [3], "fill": 5},
    "days_as_numbers": {"from": "recent.days", "dtype": "float32", "ragged": True},
    "greatest": {"from": "recent.prices", "dtype": "float32", "shape": [2], "top_k": 2},
    "greatest_filled": {"from": "recent.prices", "dtype": "float32", "shape": [4], "top_k": 4, "fill": 9},
    "least": {"from": "recent.prices", "dtype": "float32", "ragged": True, "top_k": 2, "order": "smallest"},
    "greatest_days": {"from": "recent.days", "dtype": "int64", "shape": [2], "top_k": 2, "nulls": "omit"},
    "weights": {**WEIGHTS, "shape": [3], "top_k": 3},
    "weights_of_any_length": {**WEIGHTS, "ragged": True},
    "least_weights": {**WEIGHTS, "ragged": True, "top_k": 2, "order": "smallest", "nulls": "omit"},
    "small": {"lookup": {"map": "user.small", "under": "item.channel"}, "dtype": "float32", "shape": [2], "pad": True},
    "counts": {"lookup": {"map": "user.counts", "under": "item.channel"}, "dtype": "int64", "shape": [2], "top_k": 2},
    "of_topics": {**OF_TOPICS, "shape": [3], "pad": True, "fill": 0.5},
    "of_topics_or_null": {**OF_TOPICS, "ragged": True},
    "counts_of_topics": {**COUNTS, "shape": [2], "pad": True, "default": 9},
    "ids": {"from": "recent.items", "dtype": "int64", "ragged": True, "hash_buckets": 50},
    "ids_in_shape": {"from": "recent.items", "dtype": "int64", "shape": [3], "hash_buckets": 50},
    "ids_of_days": {"from": "recent.days", "dtype": "int64", "shape": [2], "hash_buckets": 9, "salt": "day"},
    "id": {"from": "recent.length", "dtype": "int64", "hash_buckets": 9},
    "id_or_none": {"from": "recent.length", "dtype": "int64", "hash_buckets": 9, "nulls": "omit"},
    "ids_of_texts": {
        "lookup": {"map": "user.names", "keys": "item.topics"}, "dtype": "int64", "shape": [3], "hash_buckets": 99,
    },
    "id_of_text": {"lookup": {"map": "user.names", "keys": "item.channel"}, "dtype": "int64", "hash_buckets": 99},
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "log": {"from": "user.age_s", "dtype": "float32", "clip": [0, 10], "log1p": True},
    "bucket": {"from": "recent.length", "dtype": "int64", "boundaries": [1, 2]},
    "keys": {"lookup": {"map": "user.counts", "under": "item.channel"}, "part": "keys", "dtype": "string", "ragged": True},
    "decimals": {"lookup": {"map": "user.prices", "under": "item.channel"}, "dtype": "float32", "ragged": True},
    "text": {"from": "recent.items", "dtype": "string", "ragged": True},
    "hot": {"from": "recent.items", "dtype": "float32", "hash_buckets": 9, "multi_hot": True},
    "id_of_number": {"from": "user.age_s", "dtype": "int64", "hash_buckets": 9},
    "sql": {"expr": "user.age_s + recent.length", "dtype": "float32"},
    "first": {"expr": "recent.ages_s[0]", "dtype": "float32"},
}  # fmt: skip


def job(features: dict[str, Any]) -> JobConfig:
    return with_joins({"item": "article", "user": "user"}, features=features)


def random_rows(count: int, seed: int) -> pa.Table:
    one = random.Random(seed)
    numbers = [None, math.nan, -math.inf, math.inf, -0.0, 0.0, -1.5, 0.25, 0.25, 1e300]
    small = [None, math.nan, -0.0, 0.0, -1.5, 0.25, 3.0, 3.0]
    whole = [None, -(2**31), 2**31 - 1, -1, 0, 1, 1]
    texts = ["a", "b", "c", "7:a", "7:b", "7:c", "7:d", "8:a"]

    def some(values: list[Any]) -> Any:
        return None if one.random() < 0.2 else [one.choice(values) for _ in range(one.randrange(6))]

    def entries(values: list[Any]) -> Any:
        keys = one.sample(texts, one.randrange(len(texts)))
        return None if one.random() < 0.2 else [(key, one.choice(values)) for key in keys]

    def user() -> Any:
        large = [*whole, -(2**63), 2**63 - 1]
        maps = {
            "weights": entries(numbers),
            "small": entries(small),
            "counts": entries(large),
            "prices": entries([None]),
        }
        names = [(key, one.choice([None, "", "ü", "a"])) for key in ("7", "a", "b")]
        return {**maps, "names": names, "age_s": one.choice(numbers), "matched": True}

    def recent() -> Any:
        lists = {
            "items": some([*texts, "", "ü", None]),
            "ages_s": some(numbers),
            "prices": some(small),
            "days": some(whole),
        }
        return {**lists, "length": one.choice(whole), "matched": one.choice([True, False, None])}

    def item() -> Any:
        return {"topics": some([*texts, None]), "channel": one.choice(["7", "8", None]), "age_s": 1.0, "matched": True}

    def rows(kind: pa.StructType, make: Any) -> pa.Array:
        return pa.array([make() if one.random() < 0.9 else None for _ in range(count)], kind)

    impressions = pa.array(
        [{"user": "u", "item": "i"}] * count, pa.struct([("user", pa.string()), ("item", pa.string())])
    )
    return pa.table(
        {"impression": impressions, "user": rows(USER, user), "item": rows(ITEM, item), "recent": rows(RECENT, recent)}
    )


def test_direct_features_have_the_values_of_the_expressions_of_spark(spark: SparkSession) -> None:
    rows = spark.createDataFrame(random_rows(400, 3)).localCheckpoint()
    columns = SampleColumns.of(rows.limit(0), job(DIRECT), None)
    assert columns.at(ROWS) == tuple(DIRECT)
    assert [*columns.direct] == [*DIRECT]
    names = [made(name) for name in DIRECT]
    by_spark = columns.add(rows, ROWS).select(names)
    in_python = columns.with_direct(Stage.of(rows))
    assert [in_python.kind[name].dataType for name in names] == [field.dataType for field in by_spark.schema]
    wanted, found = by_spark.toArrow().to_pydict(), in_python.rows().select(names).toArrow().to_pydict()
    for name in names:  # as text, in which NaN is equal to itself, and -0.0 not to 0.0
        assert list(map(repr, found[name])) == list(map(repr, wanted[name])), name


def test_features_that_take_an_expression_are_not_direct(spark: SparkSession) -> None:
    rows = spark.createDataFrame(random_rows(1, 3))
    columns = SampleColumns.of(rows.limit(0), job({**OTHERS, "age": DIRECT["age"]}), None)
    assert [*columns.direct] == ["age"]
    assert columns.but_direct().at(ROWS) == tuple(OTHERS)


def test_what_direct_features_are_made_of_may_be_gone_when_spark_computes_others(spark: SparkSession) -> None:
    rows = spark.createDataFrame(random_rows(20, 3))
    columns = SampleColumns.of(rows.limit(0), job({"sum": DIRECT["sum"], "sql": OTHERS["sql"]}), None)
    stage = columns.with_direct(Stage.of(rows))
    left = stage.rows().drop(PAIRS, "item").withColumn("user", F.col("user").dropFields("weights"))
    assert columns.but_direct().add(left, ROWS).toArrow().column_names[-2:] == [made("sum"), made("sql")]


def test_rows_of_long_lists_are_made_in_pieces(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = random_rows(400, 7)
    columns = SampleColumns.of(spark.createDataFrame(rows.slice(0, 0)), job(DIRECT), None)
    stage = columns.with_direct(Stage.of(spark.createDataFrame(rows)))
    (pairs, *_, direct), batches = stage.steps, rows.to_batches()
    (whole,) = direct(pairs(batches))
    monkeypatch.setattr(row, "_VALUES", 5000)
    pieces = [*direct(pairs(batches))]
    assert len(pieces) > 1
    assert repr(pa.Table.from_batches(pieces).to_pylist()) == repr(whole.to_pylist())
