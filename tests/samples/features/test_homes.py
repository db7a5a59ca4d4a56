"""Where features are computed: over the rows of their view, over impressions, or over joined rows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.config import JobConfig, WindowView, load_config
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.features.row import IMPRESSION, ROWS, SampleColumns, made
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.views.features import ViewFeatures, absent_payloads
from ctr_samples.vocabulary import FittedState, FittedVocabulary
from tests.support.literal_frames import Frame
from tests.support.minimal_config import with_joins
from tests.support.whole_runs import write_config, write_rows

ITEM = "price: double, city: string, seen: int"
SCHEMA = (
    f"impression struct<impression_id: bigint, impression_time: timestamp, user: string, item: string>, "
    f"item struct<{ITEM}, age_s: double, matched: boolean>, profile struct<age: int, age_s: double, matched: boolean>, "
    "recent struct<items: array<string>, ages_s: array<double>, length: int, matched: boolean>"
)
STATE = FittedState("s", "l", 1, "r", "", (), {}, {"cities": FittedVocabulary(("Oslo", "Lund"), 1, 10)})


def job(**features: dict[str, Any]) -> JobConfig:
    return with_joins(
        {"item": "article", "profile": "user"},
        features=features,
        vocabularies={"cities": {"capacity": 10}, "counts": {"capacity": 2}},
        fitted={"path": "state"},
    )


def columns(frame: Frame, **features: dict[str, Any]) -> SampleColumns:
    return SampleColumns.of(frame(SCHEMA, []), job(**features), STATE)


@pytest.mark.parametrize(
    ("feature", "home"),
    [
        ({"from": "item.price", "dtype": "float32"}, "item"),
        ({"from": "item.matched", "dtype": "int64"}, "item"),
        ({"expr": "case item.city when 'Lund' then item.seen else 0 end", "dtype": "int64"}, "item"),
        ({"expr": "size(filter(array(item.seen), profile -> profile > 1))", "dtype": "int64"}, "item"),
        ({"from": "item.age_s", "dtype": "float32"}, ROWS),
        ({"expr": "item.price / profile.age", "dtype": "float32"}, ROWS),
        ({"expr": "hour(impression.impression_time) + item.seen", "dtype": "int64"}, ROWS),
        ({"from": "recent.length", "dtype": "int64"}, ROWS),
        ({"expr": "length(to_json(item))", "dtype": "int64"}, ROWS),
        ({"from": "impression.impression_time", "date_part": "hour", "dtype": "int64"}, IMPRESSION),
        ({"expr": "1 + 1", "dtype": "int64"}, IMPRESSION),
    ],
)
def test_a_feature_is_computed_over_as_few_rows_as_possible(frame: Frame, feature: dict[str, Any], home: str) -> None:
    assert columns(frame, f=feature).homes == {"f": home}


def test_a_cross_is_at_home_where_all_its_parts_are(frame: Frame) -> None:
    parts = {
        "city": {"from": "item.city", "dtype": "int64", "vocabulary": "cities"},
        "seen": {"from": "item.seen", "dtype": "int64"},
        "age": {"from": "profile.age", "dtype": "int64"},
        "one": {"cross": ["city", "seen"], "hash_buckets": 100, "dtype": "int64"},
        "two": {"cross": ["city", "age"], "hash_buckets": 100, "dtype": "int64"},
    }
    found = columns(frame, **parts)
    assert (found.homes["one"], found.homes["two"]) == ("item", ROWS)
    rows = frame(SCHEMA, []).select("item", "profile")
    assert "_feature_one" in found.add(rows, "item").columns


SHARES = """
name: s
timezone: UTC
sources: {log: {format: json, path: ROOT/log.json, schema: "at TIMESTAMP, user STRING, item STRING, n INT"}}
impressions: {source: log, time: at, keys: {user: user, item: item}, columns: {n: n}}
labels: {clicked: {expr: n > 0}}
vocabularies: {cities: {capacity: 10}}
fitted: {path: ROOT/fitted}
features:
  share: {expr: 100 div impression.n, dtype: int64}
  share_of_none: {expr: "100 div coalesce(impression.n, 0)", dtype: int64}
  hashed: {expr: 100 div impression.n, dtype: int64, hash_buckets: 10}
  token: {expr: "string(100 div impression.n)", dtype: int64, vocabulary: cities}
output: {path: ROOT/out}
split: {eval: 0}
"""


@pytest.mark.thorough
def test_a_feature_of_an_impression_is_not_computed_over_rows_that_are_no_samples(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [
        {"at": "2019-06-05T10:00:00Z", "user": "u", "item": "a", "n": 4},
        {"at": "2019-06-05T10:00:00Z", "user": "u", "n": 0},  # dropped: what was shown is unknown
        {"at": None, "user": "u", "item": "a", "n": 0},
        {"at": "2019-06-06T00:05:00Z", "user": "u", "item": "a", "n": 0},  # of the next day
        {"at": "2019-06-04T23:55:00Z", "user": "u", "item": "a", "n": None},
    ]
    write_rows(tmp_path / "log.json", rows)
    inputs = Inputs.read(spark, load_config(write_config(tmp_path, "c", SHARES)).config, date(2019, 6, 5))
    samples = SampleBuilder(inputs, STATE).build().samples.rows(inputs.watches.tasks)
    [row] = samples.select("share", "share_of_none", "hashed", "token").collect()
    assert (row["share"], row["share_of_none"]) == (25, 25)


SPELLINGS = """
name: s
timezone: UTC
sources:
  log: {format: json, path: ROOT/log.json, schema: "at TIMESTAMP, user STRING, shown STRING, n INT"}
  items: {format: json, path: ROOT/items.json, schema: "id STRING, Category STRING, price INT, `...1` INT, a MAP<STRING, INT>"}
  kinds: {format: json, path: ROOT/kinds.json, schema: "kind STRING, Name STRING"}
impressions: {source: log, time: at, keys: {user: user, item: shown}, columns: {n: n}}
labels: {clicked: {expr: n > 0}}
views:
  item: {source: items, on: item, key: id, static: true}
  kind: {source: kinds, on: item.category, key: kind, static: true}
  again: {source: kinds, on: item.CATEGORY, key: kind, static: true}
  seen:
    source: log
    on: user
    key: user
    event_time: at
    look_up: {item: shown}
    aggregates:
      windows: [1h, 2h]
      step: 1h
      counts: {all: "item is not null", dear: "item.Price > 3", odd: "item['...1'] = 7"}
histories: {recent: {source: log, on: user, last: 3, within: 1d}}
vocabularies: {names: {capacity: 9}}
fitted: {path: ROOT/fitted}
features:
FEATURES
output: {path: ROOT/out}
split: {eval: 0}
"""
WHOLE = '{"id":"a","Category":"x","price":5,"...1":7,"a":{"k":1},"matched":true}'
SPELLED: dict[str, tuple[dict[str, object], object]] = {
    "bracket": ({"expr": "item['price']", "dtype": "int64"}, 5),
    "whole": ({"expr": "to_json(item)", "dtype": "string"}, WHOLE),
    "blank": ({"expr": "item .price + item. price", "dtype": "int64"}, 10),
    "upper": ({"from": "item.Price", "dtype": "int64"}, 5),
    "matched": ({"from": "item.Matched", "dtype": "int64"}, 1),
    "dots": ({"from": "item.`...1`", "dtype": "int64"}, 7),
    "lambda": ({"expr": "aggregate(map_values(item.a), 0, (item, x) -> item + x)", "dtype": "int64"}, 1),
    "kind": ({"from": "kind.name", "dtype": "int64", "vocabulary": "names"}, None),
    "again": ({"expr": "upper(again['name'])", "dtype": "string"}, "ONE"),
    "history": ({"expr": "size(recent['items'])", "dtype": "int64"}, 0),
    "history_whole": (
        {"expr": "to_json(recent)", "dtype": "string"},
        '{"items":[],"ages_s":[],"length":0,"matched":false}',
    ),
    "shown": ({"expr": "impression['n'] + impression.N", "dtype": "int64"}, 8),
    "counted": ({"expr": "seen['all_1h']", "dtype": "int64"}, 0),
    "counted_whole": ({"expr": "length(to_json(seen)) > 0", "dtype": "int64"}, 1),
    "counted_upper": ({"from": "seen.Dear_2h", "dtype": "int64"}, 0),
    "counted_odd": ({"from": "seen.odd_2h", "dtype": "int64"}, 0),
}
"""Features, each with the value of one sample or None."""


@pytest.mark.thorough
@pytest.mark.parametrize("alone", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_feature_may_spell_a_field_in_any_way(spark: SparkSession, tmp_path: Path, alone: bool) -> None:
    features = "".join(f"  {name}: {json.dumps(feature)}\n" for name, (feature, _) in SPELLED.items())
    config = load_config(write_config(tmp_path, "c", SPELLINGS, {"FEATURES": features})).config
    write_rows(tmp_path / "log.json", [{"at": "2019-06-05T10:00:00Z", "user": "u", "shown": "a", "n": 4}])
    write_rows(tmp_path / "items.json", [{"id": "a", "Category": "x", "price": 5, "...1": 7, "a": {"k": 1}}])
    write_rows(tmp_path / "kinds.json", [{"kind": "x", "Name": "one"}])
    inputs = Inputs.read(spark, config, date(2019, 6, 5))
    state = replace(STATE, vocabularies={"names": FittedVocabulary(("one",), 1, 9)})
    chosen = [[name] for name in SPELLED] if alone else [list(SPELLED)]
    for names in chosen:
        some = replace(inputs, config=inputs.config.only(names), whole=inputs.config)
        [row] = SampleBuilder(some, state).build().samples.rows(inputs.watches.tasks).select(*names).collect()
        for name in names:
            assert SPELLED[name][1] in (None, row[name]), name


def test_rows_of_a_view_and_impressions_without_a_row_get_the_values_of_joined_rows(frame: Frame) -> None:
    features = {
        "price": {"from": "item.price", "dtype": "float32", "default": -1.0},
        "known": {"from": "item.matched", "dtype": "int64"},
        "city": {"from": "item.city", "dtype": "int64", "vocabulary": "cities"},
        "text": {"expr": "coalesce(item.city, 'nowhere')", "dtype": "string"},
        "share": {"expr": "item.seen * 2", "dtype": "int64", "nulls": "omit"},
        "several": {"expr": "item.seen + profile.age", "dtype": "int64"},
    }
    found, config = columns(frame, **features), job(**features)
    kind = frame(SCHEMA, []).schema["item"].dataType
    assert isinstance(kind, StructType)
    view = ViewFeatures("item", config.views["item"], found, kind, ("seen",))
    rows = frame(f"key string, payload struct<{ITEM}>", [("a", (2.5, "Lund", 7)), ("b", (None, None, None))])
    made = view.over(rows).select("key", "payload.*").orderBy("key")
    assert [field.name for field in view.payload] == made.columns[1:]
    assert [tuple(row) for row in made.collect()] == [
        ("a", 2.5, 1, 4, "Lund", 14, 7),
        ("b", -1.0, 1, 1, "nowhere", None, None),
    ]
    absent = absent_payloads(rows.sparkSession, found, [view])["item"].to_pylist()
    assert [tuple(row.values()) for row in absent] == [(-1.0, 0, 1, "nowhere", None, None)]


@pytest.mark.thorough
def test_impressions_without_a_row_get_the_ids_of_the_tokens_that_they_have(frame: Frame) -> None:
    of_cities = {"dtype": "int64", "vocabulary": "cities"}
    features = {
        "known": {"expr": "coalesce(item.city, 'Lund')", **of_cities},
        "absent": {"expr": "if(item.matched, item.city, 'Oslo')", **of_cities},
        "unknown": {"expr": "coalesce(item.city, 'Rome')", **of_cities},
        "empty": {"expr": "coalesce(item.city, '')", **of_cities},
        "hot": {"expr": "coalesce(item.city, 'Lund')", **of_cities, "multi_hot": True},
        "cross": {"cross": ["known", "absent"], "hash_buckets": 1_000_000, "dtype": "int64"},
        "age": {"expr": "if(profile.age > 17, 'Lund', 'Oslo')", **of_cities},
        "both": {"expr": "coalesce(item.city, if(profile.matched, 'Oslo', 'Lund'))", **of_cities},
        "user": {"expr": "coalesce(impression.user, 'Oslo')", **of_cities},
    }
    found, config = columns(frame, **features), job(**features)
    kinds = {name: cast(StructType, frame(SCHEMA, []).schema[name].dataType) for name in config.views}
    views = [ViewFeatures(name, config.views[name], found, kind, ()) for name, kind in kinds.items()]
    rows = frame(SCHEMA, [(None, (None, None, None, None, False), (None, None, False), None)]).select(*kinds)
    absent = absent_payloads(rows.sparkSession, found, views)
    for name in kinds:
        joined = found.add(rows, name).select(*[made(one) for one in found.at(name)]).collect()
        assert absent[name].to_pylist() == [row.asDict() for row in joined]
    ids = absent["item"].to_pylist()[0]
    assert [ids[made(name)] for name in ("known", "absent", "unknown", "empty")] == [4, 3, 2, 1]
    assert absent["profile"].to_pylist() == [{made("age"): 3}]


def test_an_empty_window_has_the_id_of_its_zero(frame: Frame) -> None:
    windows = {"step": "10m", "windows": ["1h"], "counts": {"clicks": "true"}}
    view = WindowView.model_validate(
        {"source": "b", "on": "item", "key": "k", "event_time": "t", "aggregates": windows}
    )
    config = job(of={"from": "item.clicks_1h", "dtype": "int64", "vocabulary": "counts"})
    counts = {"counts": FittedVocabulary(("3", "0"), oov_buckets=1, capacity=2)}
    item = "struct<clicks_1h: bigint, age_s: double, matched: boolean>"
    found = SampleColumns.of(frame(f"item {item}", []), config, replace(STATE, vocabularies=counts))
    kind = cast(StructType, frame(f"item {item}", []).schema["item"].dataType)
    absent = absent_payloads(frame("a int", []).sparkSession, found, [ViewFeatures("item", view, found, kind, ())])
    assert absent["item"].to_pylist() == [{made("of"): 4}]


def test_features_of_one_view_are_not_computed_over_joined_rows(frame: Frame) -> None:
    found = columns(
        frame, f={"from": "item.price", "dtype": "float32"}, g={"expr": "item.seen + profile.age", "dtype": "int64"}
    )
    joined = found.add(frame(SCHEMA, []).withColumn("other", F.lit(1)), ROWS)
    assert joined.columns[-2:] == ["other", "_feature_g"]
    assert (found.fields_of("item"), found.fields_of("profile"), found.fields_of(IMPRESSION)) == (
        {"seen"},
        {"age"},
        set(),
    )
