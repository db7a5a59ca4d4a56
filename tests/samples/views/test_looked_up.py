"""Counts by what another table says of each action, as of the action, against the definition in plain Python."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.explain.gather import Gatherer, Sought
from ctr_samples.explain.rules import judge_rows
from ctr_samples.job import run as job
from ctr_samples.job.checking import problems
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.training_rows import only_fitted
from tests.support.marks import slow_except
from tests.support.project import PROJECT
from tests.support.whole_runs import write_rows

DAY = date(2019, 6, 5)
START = int(datetime(2019, 6, 5, tzinfo=UTC).timestamp())
STEP, WINDOW = 600, 36 * 600
Table = Sequence[Mapping[str, Any]]
CONFIG = """
name: rates
timezone: UTC
sources:
  log: {format: json, path: DIR/log.json, schema: "at BIGINT, i BIGINT, clicked BOOLEAN"}
  clicks: {format: json, path: "DIR/clicks.json", schema: "at BIGINT, i BIGINT, bot BOOLEAN"}
  items: {format: json, path: "DIR/items.json", schema: "i BIGINT, category BIGINT, brand STRING, at BIGINT, known BIGINT"}
impressions:
  source: log
  time: timestamp_seconds(at)
  keys: {item: i, quarter: "hour(timestamp_seconds(at)) DIV 6"}
  identity: row
labels:
  clicked: {expr: clicked}
views:
  item:
    source: items
    on: item
    key: i
    event_time: timestamp_seconds(at)
    available_time: timestamp_seconds(known)
    ttl: 20h
  shown:
    source: log
    look_up: {item: i}
    on: item.category
    key: item.category
    event_time: timestamp_seconds(at)
    aggregates: {windows: [6h], step: 10m, counts: {all: "true", branded: "item.brand = 'x'"}, distinct: {brands: item.brand}}
  clicked_on:
    source: clicks
    where: NOT bot
    look_up: {item: i}
    on: item.category
    key: item.category
    event_time: timestamp_seconds(at)
    aggregates: {windows: [6h], step: 10m, counts: {all: "true"}}
  by_quarter:
    source: clicks
    where: "i > 0 AND item.brand = 'x'"
    look_up: {item: i}
    on: [item.category, quarter]
    key: [item.category, "hour(timestamp_seconds(at)) DIV 6"]
    event_time: timestamp_seconds(at)
    aggregates: {windows: [6h], step: 10m, counts: {all: "true"}}
features:
  rate: {expr: "(clicked_on.all_6h + 1) / (shown.all_6h + 50)", dtype: float32}
  quarter: {from: by_quarter.all_6h, dtype: int64}
  branded: {from: shown.branded_6h, dtype: int64}
  brands: {from: shown.brands_6h, dtype: int64}
output: {path: DIR/out}
"""


def written(directory: Path, tables: Mapping[str, Table], text: str = CONFIG) -> Path:
    for name in ("log", "clicks", "items"):
        write_rows(directory / f"{name}.json", tables.get(name, ()))
    (directory / "c.yaml").write_text(text.replace("DIR", str(directory)))
    return directory / "c.yaml"


def random_tables(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Few keys and few instants, so that ties, gaps and items that change their category are frequent."""

    def instant(first: int = -144) -> int:
        return START + STEP * rng.randint(first, 143)

    def one_of(*values: Any) -> Any:
        return rng.choice((*values, None))

    items = {}
    for _ in range(40):
        row = {"i": rng.randint(1, 4), "category": one_of(7, 8), "brand": one_of("x", "y"), "at": instant()}
        row["known"] = row["at"] + STEP * rng.randint(0, 12)
        items[row["i"], row["at"], row["known"]] = row
    log = [{"at": instant(0), "i": rng.randint(1, 4), "clicked": False} for _ in range(100)]
    clicks = [{"at": instant(0), "i": one_of(1, 2, 3, 4), "bot": rng.random() < 0.3} for _ in range(60)]
    return {"log": log, "clicks": clicks, "items": list(items.values())}


def item_as_of(items: Table, at: int, key: int | None) -> Mapping[str, Any]:
    """The row of an item with the greatest event time, then available time, before ``at`` and known by then."""
    seen = [row for row in items if row["i"] == key is not None and row["at"] < at and row["known"] <= at]
    best = max(seen, key=lambda row: (row["at"], row["known"]), default={})
    return best if best and best["at"] >= at - 20 * 3600 else {}


def counted(items: Table, actions: Table, at: int, category: int | None) -> list[Mapping[str, Any]]:
    """The items of the actions in the six hours of whole steps before ``at``, in this category as of the action."""
    within = [row for row in actions if at - WINDOW <= row["at"] <= at - STEP]
    found = [item_as_of(items, row["at"], row["i"]) | {"action": row["at"]} for row in within]
    return [item for item in found if item.get("category") == category is not None]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", slow_except([1], [1, 2]))
def test_rates_of_two_logs_by_an_attribute_agree_with_the_definition(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    tables = random_tables(random.Random(seed))
    inputs = Inputs.read(spark, load_config(written(tmp_path, tables)).config, DAY)
    ours = sorted(
        (
            int(row.impression.impression_time.timestamp()),
            row.impression.item,
            row.clicked_on.all_6h,
            row.shown.all_6h,
            row.shown.branded_6h,
            row.shown.brands_6h,
            row.by_quarter.all_6h,
        )
        for row in SampleBuilder(inputs).joined().collect()
    )
    items, theirs = tables["items"], []
    for shown in tables["log"]:
        at = shown["at"]
        category = item_as_of(items, at, shown["i"]).get("category")
        clicks = counted(items, [row for row in tables["clicks"] if not row["bot"]], at, category)
        impressions = counted(items, tables["log"], at, category)
        every = counted(items, tables["clicks"], at, category)
        quarter = [row for row in every if row["action"] % 86400 // 21600 == at % 86400 // 21600]
        quarter = [row for row in quarter if row["brand"] == "x"]
        brands = [row["brand"] for row in impressions]
        theirs.append(
            (at, shown["i"], len(clicks), len(impressions), brands.count("x"), len({*brands} - {None}), len(quarter))
        )
    assert ours == sorted(theirs)
    assert len({row[2] for row in ours}) > 3, "the counts differ between impressions"


@pytest.mark.slow
def test_an_explanation_shows_the_counts_that_a_run_joins(spark: SparkSession, tmp_path: Path) -> None:
    config = load_config(written(tmp_path, random_tables(random.Random(3)))).config
    inputs = Inputs.read(spark, config, DAY, watched=False)
    row = max(SampleBuilder(inputs).joined().collect(), key=lambda one: one.shown.all_6h)
    evidence_of = Gatherer(inputs).gather(Sought(row.impression.impression_id))
    evidence = evidence_of.views["shown"]
    assert evidence.key == row.item.category
    assert evidence.rules is not None
    taken = [one.what for one in judge_rows(evidence_of.impression.time, evidence.rows, evidence.rules) if one.taken]
    assert [one.values["all_6h"] for one in taken] == [row.shown.all_6h]
    assert row.shown.all_6h > 0


@pytest.mark.thorough
def test_a_view_named_as_a_column_of_the_log_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    text = CONFIG.replace('"at BIGINT, i BIGINT, bot BOOLEAN"', '"at BIGINT, i BIGINT, bot BOOLEAN, item STRING"')
    config = load_config(written(tmp_path, random_tables(random.Random(1)), text)).config
    with pytest.raises(
        InputError, match=r"views\.clicked_on\.look_up: the source 'clicks' has a column 'item' already"
    ):
        SampleBuilder(Inputs.read(spark, config, DAY)).joined()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("look_up: {item: i}", "look_up: {itme: i}", "there is no view 'itme'; did you mean 'item'"),
        ("look_up: {item: i}", "look_up: {clicked_on: i}", "'clicked_on' has counts; expected a view whose rows"),
        (
            "look_up: {item: i}",
            "look_up: {item: [i, at]}",
            "found 2 key.* for 'item'; expected one expression for each of its 1",
        ),
    ],
)
def test_what_is_looked_up_is_checked(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path, {}, CONFIG.replace(old, new, 1)))


def test_the_rows_that_are_looked_up_must_be_read(tmp_path: Path) -> None:
    text = CONFIG.replace("DIR/clicks.json", "DIR/clicks/{date}.json").replace(
        "DIR/items.json", "DIR/items/{date}.json"
    )
    text = text.replace('format: json, path: "DIR/clicks', 'format: json, days_before: 1, path: "DIR/clicks')
    text = text.replace('format: json, path: "DIR/items', 'format: json, days_before: 1, path: "DIR/items')
    with pytest.raises(ConfigError, match=r"needs 2 day.* but 1 are read; set `sources.items.days_before: 2`"):
        load_config(written(tmp_path, {}, text))


@pytest.mark.thorough
def test_a_run_publishes_such_counts_and_its_canary_agrees(spark: SparkSession, tmp_path: Path) -> None:
    tables = random_tables(random.Random(4))
    tables["clicks"] = [row for row in tables["clicks"] if row["i"] is not None]
    result = job.run(spark, load_config(written(tmp_path, tables)), DAY, force=True)
    assert (result.published, result.manifest.records) == (True, 100)


@pytest.mark.thorough
def test_the_click_rate_of_the_how_to_fits_such_logs(spark: SparkSession, tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (PROJECT / "docs/how-to.md").read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "clicked_in_category" in block]
    text = CONFIG.replace("    available_time: timestamp_seconds(known)\n", "")
    written(tmp_path, random_tables(random.Random(1)), text)
    (tmp_path / "example.yaml").write_text(f"base: c.yaml\noutput: {{path: other}}\n{example}")
    loaded = load_config(tmp_path / "example.yaml")
    assert {"shown_in_category", "clicked_in_category"} < {*loaded.config.views}
    assert problems(spark, loaded, DAY) == []


def test_late_rows_of_what_is_looked_up_are_never_taken_for_unseen(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, {})).config
    assert config.joins_anew == "`views.shown.look_up` may see rows that no impression sees"
    plain = (
        CONFIG.replace("    look_up: {item: i}\n", "")
        .replace("item.brand", "i")
        .replace("key: item.category", "key: i")
    )
    assert load_config(written(tmp_path, {}, plain.replace("key: [item.category", "key: [i"))).config.joins_anew is None


def test_fitting_reads_what_is_looked_up(tmp_path: Path) -> None:
    text = CONFIG.replace("on: item.category\n    key: item.category", "on: item\n    key: item.category", 1)
    text = text.replace(
        "{from: shown.brands_6h, dtype: int64}", "{from: shown.brands_6h, dtype: float32, scale: standardise}"
    )
    config = load_config(written(tmp_path, {}, text + "fitted: {path: DIR/fitted}\n")).config
    assert set(only_fitted(config).views) == {"shown", "item"}
