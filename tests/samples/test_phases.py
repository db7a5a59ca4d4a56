"""What waits until samples are in their final place, and that it gives the same shards as what does not wait."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.job.gate import read_metrics
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.phases import phases_of
from ctr_samples.samples.views.as_of import JoinStep
from ctr_samples.shards import open_storage
from ctr_samples.sparksql.session import run_session

DAY = date(2019, 6, 5)
LOG = [
    {"t": f"2019-06-05 {hour:02}:10:00", "kind": kind, "user": user, "item": item}
    for hour in range(24)
    for user, item in [(f"u{hour % 3}" if hour % 5 else None, f"i{hour % 4}")]
    for kind in (("shown", "click") if hour % 6 == 0 else ("shown",))
]
TABLES: dict[str, list[dict[str, Any]]] = {
    "log": LOG,
    "users": [{"k": f"u{n}", "v": float(n), "t": f"2019-06-05 0{n}:00:00"} for n in (0, 1)],
    "items": [{"k": f"i{n}", "v": n / 2, "g": f"g{n % 2}", "t": f"2019-06-04 1{n}:00:00"} for n in (0, 1, 2)],
    "groups": [{"k": f"g{n}", "v": n + 5.0, "t": "2019-06-05 05:00:00"} for n in (0, 1)],
    "prices": [{"k": f"i{n}", "v": n + 0.25, "t": "2019-06-05 07:00:00"} for n in (1, 3)],
}
CONFIG = """
name: phases
timezone: UTC
sources:
  log: {format: json, path: ROOT/log.json, schema: "t STRING, kind STRING, user STRING, item STRING"}
  users: {format: json, path: ROOT/users.json, schema: "k STRING, v DOUBLE, t STRING"}
  items: {format: json, path: ROOT/items.json, schema: "k STRING, v DOUBLE, g STRING, t STRING"}
  groups: {format: json, path: ROOT/groups.json, schema: "k STRING, v DOUBLE, t STRING"}
  prices: {format: json, path: ROOT/prices.json, schema: "k STRING, v DOUBLE, t STRING"}
impressions: {source: log, where: kind = 'shown', time: t, keys: {user: user, item: item}, identity: row}
labels:
  clicked: {source: log, where: kind = 'click', window: 1h}
views:
  user: {source: users, on: user, key: k, event_time: t, ttl: 1d, method: USER}
  item: {source: items, on: item, key: k, event_time: t, ttl: 3d, method: ITEM}
  group: {source: groups, on: item.g, key: k, event_time: t, ttl: 1d, method: GROUP}
  price: {source: prices, on: item, key: k, event_time: t, ttl: 1d, method: PRICE}
HISTORIESfeatures:
  hour: {from: impression.impression_time, date_part: hour, dtype: int64}
  of_group: {from: group.v, dtype: float32}
  item: {from: item.g, dtype: int64, hash_buckets: 16}
  feature_item: {from: item.v, dtype: float32}
  affordable: {expr: 'price.v - coalesce(user.v, 0)', dtype: float32}
  age: {from: user.v, dtype: int64, hash_buckets: 8}
output: {path: ROOT/out, partitions: 2}
"""
ALL = ["hour", "of_group", "item", "feature_item", "affordable", "age"]
UNION_OF_USER = {"USER": "shuffle"}


def config_path(root: Path, extra: str = "", **methods: str) -> Path:
    histories = "histories: {last: {source: log, where: kind = 'click', on: user, last: 3, within: 1d}}\n"
    text = CONFIG.replace("HISTORIES", histories if "last." in extra else "")
    for name in ("USER", "ITEM", "GROUP", "PRICE"):
        text = text.replace(f"method: {name}", f"method: {methods.get(name, 'intervals')}")
    path = root / "phases.yaml"
    path.write_text(text.replace("output:", extra + "output:").replace("ROOT", str(root)))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, rows in TABLES.items():
        (tmp_path / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@dataclass(frozen=True)
class Split:
    before: list[str]
    features: list[str]
    after: list[str]


def split(
    root: Path, extra: str = "", moved: Sequence[str] = (), crossed: Sequence[set[str]] = (), **methods: str
) -> Split:
    """The phases of views that are joined by ``intervals`` unless ``methods`` say otherwise."""
    config = load_config(config_path(root, extra, **methods)).config
    steps = [JoinStep(view.method or "shuffle", (name,), view.joined_on, "") for name, view in config.views.items()]
    together = [
        {"features.hour"},
        {"features.of_group", "views.group"},
        {"features.item", "views.item"},
        {"features.feature_item", "views.item"},
        {"features.affordable", "views.price", "views.user"},
        {"features.age", "views.user"},
        *crossed,
    ]
    if "last." in extra:
        together.append({"features.again", "histories.last", "views.item"})
    phases = phases_of(config, steps, together, moved)
    before, after = ([name for step in part for name in step.views] for part in (phases.before, phases.after))
    return Split(before, list(phases.features), after)


def test_everything_waits_where_nothing_moves(root: Path) -> None:
    assert split(root) == Split([], [], ["user", "item", "group", "price"])


def test_what_is_used_with_a_view_that_moves_does_not_wait(root: Path) -> None:
    assert split(root, USER="shuffle") == Split(["user", "price"], ["affordable", "age"], ["item", "group"])


def test_a_view_that_gives_a_key_to_one_that_moves_does_not_wait(root: Path) -> None:
    found = split(root, GROUP="shuffle")
    assert found == Split(["item", "group"], ["of_group", "item", "feature_item"], ["user", "price"])


def test_a_feature_that_moves_rows_takes_its_view_along(root: Path) -> None:
    assert split(root, moved=["age"]) == Split(["user", "price"], ["affordable", "age"], ["item", "group"])
    assert split(root, moved=["hour"]) == Split([], ["hour"], ["user", "item", "group", "price"])


def test_crossed_features_are_made_together(root: Path) -> None:
    found = split(root, moved=["hour"], crossed=[{"features.both", "features.hour", "features.age"}])
    assert found.features == ["hour", "affordable", "age"]


def test_what_is_used_with_a_history_does_not_wait(root: Path) -> None:
    extra = "  again: {expr: 'array_contains(last.items, item.g)', dtype: int64}\n"
    found = split(root, extra)
    assert found == Split(["item", "group"], ["of_group", "item", "feature_item", "again"], ["user", "price"])


def test_no_view_means_that_all_features_are_made_first_if_any_must_be(root: Path) -> None:
    methods = {"USER": "shuffle", "ITEM": "shuffle"}
    assert split(root, **methods) == Split(["user", "item", "group", "price"], ALL, [])


def test_views_that_wait_do_not_travel(spark: SparkSession, root: Path) -> None:
    config = load_config(config_path(root, **UNION_OF_USER)).config
    inputs = Inputs.read(run_session(spark, config.timezone), config, DAY, watched=False)
    samples: Any = SampleBuilder(inputs).build().samples
    travels = moved_columns(samples._jdf.queryExecution().optimizedPlan())
    assert {"_feature_affordable", "_feature_age", "clicked"} <= travels
    assert not travels & {"user", "item", "price", "group", "_feature_item", "_feature_feature_item"}


def moved_columns(plan: Any) -> set[str]:
    """The columns of the last shuffle of a plan."""
    while plan.getClass().getSimpleName() != "RepartitionByExpression":
        plan = plan.children().apply(0)
    return {plan.output().apply(n).name() for n in range(plan.output().size())}


@pytest.mark.parametrize(
    "methods",
    [
        UNION_OF_USER,
        {"GROUP": "shuffle"},
        {"PRICE": "shuffle"},
        dict.fromkeys(("USER", "ITEM", "GROUP", "PRICE"), "shuffle"),
    ],
)
@pytest.mark.slow
def test_shards_and_counts_are_the_same_whatever_waits(
    spark: SparkSession, root: Path, methods: dict[str, str]
) -> None:
    found = [published(spark, root, **some) for some in ({}, methods)]
    assert found[0] == found[1]


def published(spark: SparkSession, root: Path, **methods: str) -> tuple[Any, ...]:
    """The checksums of the shards, and what was counted of the views."""
    manifest = job.run(spark, load_config(config_path(root, **methods)), DAY, force=True).manifest
    metrics = read_metrics(open_storage(root / "out"), manifest)
    assert metrics is not None
    shards = sorted((shard.split, shard.partition, shard.records, shard.crc32c) for shard in manifest.shards)
    return shards, metrics.views
