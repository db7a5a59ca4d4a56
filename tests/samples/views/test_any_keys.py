"""Views on any keys, on several together and on columns of other views, and counts by what another view says of each action.

Against the definition in plain Python.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.explain.gather import Gatherer, Sought
from ctr_samples.explain.rules import RowEvidence, judge_rows
from ctr_samples.job.checking import problems
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.training_rows import only_fitted
from ctr_samples.samples.views.as_of.planning import plan_joins
from ctr_samples.samples.views.counts import match_facts
from ctr_samples.samples.views.joiner import declared_facts
from tests.support.project import PROJECT
from tests.support.whole_runs import made, write_rows

DAY = date(2019, 6, 5)
START = datetime(2019, 6, 5, tzinfo=UTC)
CONFIG = """
name: keys
timezone: UTC
sources:
  log: {format: json, path: log.json, schema: "at BIGINT, u STRING, i BIGINT, a STRING, q STRING, clicked BOOLEAN"}
  items:
    format: json
    path: items.json
    schema: "i BIGINT, category BIGINT, brand STRING, v INT, at BIGINT, known BIGINT, until BIGINT"
  categories: {format: json, path: categories.json, schema: "c BIGINT, parent STRING, v INT, at BIGINT"}
  parents: {format: json, path: parents.json, schema: "p STRING, v INT, ds STRING"}
  pairs: {format: json, path: pairs.json, schema: "u STRING, a STRING, v INT, at BIGINT"}
  brands: {format: json, path: brands.json, schema: "q STRING, b STRING, v INT"}
  clicks: {format: json, path: clicks.json, schema: "at BIGINT, i BIGINT, bot BOOLEAN"}
impressions:
  source: log
  time: timestamp_seconds(at)
  keys: {user: u, item: i, ad: a, query: lower(q), quarter: "hour(timestamp_seconds(at)) DIV 6"}
  identity: row
labels:
  clicked: {expr: clicked}
views:
  brand: {source: brands, on: [query, item.brand], key: [q, b], static: true}
  parent: {source: parents, on: category.parent, key: p, snapshot: ds, publish_delay: 2h, ttl: 3d}
  category: {source: categories, on: item.category, key: c, event_time: timestamp_seconds(at), ttl: 12h, method: METHOD}
  item:
    source: items
    on: item
    key: i
    event_time: timestamp_seconds(at)
    available_time: timestamp_seconds(known)
    valid_to: timestamp_seconds(until)
    ttl: unbounded
    method: METHOD
  pair:
    source: pairs
    on: [user, ad]
    key: [u, a]
    event_time: timestamp_seconds(at)
    ttl: 6h
    inclusive: true
    method: METHOD
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
histories:
  recent: {source: log, on: ad, where: clicked, last: 3, within: 12h}
features:
  recent: {from: recent.items, dtype: int64, ragged: true}
  brand: {from: brand.v, dtype: float32}
  parent: {from: parent.v, dtype: float32}
  category: {from: category.v, dtype: float32}
  item: {from: item.v, dtype: float32}
  pair: {from: pair.v, dtype: float32}
  rate: {expr: "(clicked_on.all_6h + 1) / (shown.all_6h + 50)", dtype: float32}
  quarter: {from: by_quarter.all_6h, dtype: int64}
  branded: {from: shown.branded_6h, dtype: int64}
  brands: {from: shown.brands_6h, dtype: int64}
split: {by: query}
output: {path: out}
"""


Tables = Mapping[str, Sequence[Mapping[str, Any]]]


def written(directory: Path, tables: Tables, method: str = "union", text: str = CONFIG) -> Path:
    for name, rows in tables.items():
        write_rows(directory / f"{name}.json", rows)
        text = text.replace(f"path: {name}.json", f"path: {directory}/{name}.json")
    (directory / "c.yaml").write_text(text.replace("METHOD", method).replace("path: out", f"path: {directory}/out"))
    return directory / "c.yaml"


def random_tables(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Few keys and few instants, so that ties, gaps and missing keys are frequent."""

    def instant(first: float = -24, last: float = 24) -> int:
        return int(START.timestamp()) + 600 * rng.randint(int(first * 6), int(last * 6) - 1)

    def one_of(*values: Any) -> Any:
        return rng.choice((*values, None))

    log = [
        {"at": instant(0), "u": one_of("u", "v"), "i": one_of(1, 2, 3), "a": one_of("a", "b"), "q": one_of("Q", "r")}
        | {"clicked": one_of(True, False), "n": n}
        for n in range(120)
    ]
    items = []
    for n in range(60):
        at = instant()
        items.append({"i": rng.randint(1, 3), "category": one_of(7, 8), "brand": one_of("x", "y"), "v": n, "at": at})
        items[-1]["known"] = at + 600 * rng.randint(-3, 30)
        items[-1]["until"] = rng.choice((None, at + 600 * rng.randint(-2, 90)))
    categories = [{"c": rng.randint(7, 8), "parent": one_of("p", "o"), "v": n, "at": instant()} for n in range(30)]
    pairs = [{"u": rng.choice("uv"), "a": rng.choice("ab"), "v": n, "at": instant()} for n in range(40)]
    brands = [{"q": q, "b": b, "v": n} for n, (q, b) in enumerate([("q", "x"), ("r", "x"), ("r", "y")])]
    parents = [
        {"p": p, "v": n, "ds": (DAY + timedelta(days=back)).isoformat()}
        for n, (p, back) in enumerate([("p", -3), ("p", -2), ("o", -2), ("p", -1)])
    ]
    clicks = [{"at": instant(0), "i": one_of(1, 2, 3), "bot": rng.random() < 0.3} for _ in range(60)]
    # Rows of one key and instant would be ordered by a hash of their content, which is not for plain Python to repeat.
    return {"log": log, "parents": parents, "brands": brands, "clicks": clicks} | {
        "items": _once(items, "i", "at", "known"),
        "categories": _once(categories, "c", "at"),
        "pairs": _once(pairs, "u", "a", "at"),
    }


def _once(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return list({tuple(row[name] for name in names): row for row in rows}.values())


def last_row(
    rows: Sequence[Mapping[str, Any]],
    at: int,
    key: Mapping[str, Any],
    ttl: float | None = None,
    inclusive: bool = False,
) -> Mapping[str, Any]:
    """The row with the greatest event time, then available time, that was true before ``at``, known by then and not ended."""
    if None in key.values():
        return {}
    seen = [
        row
        for row in rows
        if all(row[name] == value for name, value in key.items())
        and (row["at"] <= at if inclusive else row["at"] < at)
        and row.get("known", row["at"]) <= at
        and (row.get("until") is None or row["at"] < row["until"] >= at)
    ]
    best = max(seen, key=lambda row: (row["at"], row.get("known", 0)), default={})
    return {} if best and ttl is not None and best["at"] < at - ttl * 3600 else best


def last_items(log: Sequence[Mapping[str, Any]], at: int, ad: str | None) -> list[int]:
    """The three newest different items that were clicked with an ad in the twelve hours before ``at``, newest first."""
    mine = [row for row in log if row["clicked"] and row["i"] is not None and row["a"] == ad is not None]
    before = sorted(((row["at"], row["i"]) for row in mine if at - 12 * 3600 <= row["at"] < at), reverse=True)
    return list(dict.fromkeys(item for _, item in before))[:3]


def counted(tables: Tables, of: str, at: int, category: int | None) -> list[Mapping[str, Any]]:
    """The actions of the six hours of whole steps before ``at``, each with its item, in this category as of the action."""
    within = [row for row in tables[of] if at - 6 * 3600 <= row["at"] <= at - 600]
    found = [last_row(tables["items"], row["at"], {"i": row["i"]}) | {"action": row} for row in within]
    return [item for item in found if item.get("category") == category is not None]


def counts_of(tables: Tables, at: int, category: int | None) -> dict[str, int]:
    """What impressions of a category see of the actions on it."""
    clicks = counted(tables, "clicks", at, category)
    brands = [item["brand"] for item in counted(tables, "log", at, category)]
    quarter = [one for one in clicks if one["action"]["at"] % 86400 // 21600 == at % 86400 // 21600]
    return {
        "clicked_on.all_6h": sum(not one["action"]["bot"] for one in clicks),
        "shown.all_6h": len(brands),
        "shown.branded_6h": brands.count("x"),
        "shown.brands_6h": len({*brands} - {None}),
        "by_quarter.all_6h": sum(one["brand"] == "x" for one in quarter),
    }


def expected(tables: Tables, shown: Mapping[str, Any]) -> dict[str, Any]:
    at, query = shown["at"], shown["q"] and shown["q"].lower()
    item = last_row(tables["items"], at, {"i": shown["i"]})
    category = last_row(tables["categories"], at, {"c": item.get("category")}, ttl=12)
    pair = last_row(tables["pairs"], at, {"u": shown["u"], "a": shown["a"]}, ttl=6, inclusive=True)
    brands = [row for row in tables["brands"] if (row["q"], row["b"]) == (query, item.get("brand"))]
    days = sorted({row["ds"] for row in tables["parents"]})
    midnight = {day: int(datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()) + 86400 for day in days}
    there = [day for day in days if midnight[day] + 7200 <= at]
    parents = [
        row for row in tables["parents"] if there and (row["p"], row["ds"]) == (category.get("parent"), there[-1])
    ]
    return {
        "item": item.get("v"),
        "category": category.get("v"),
        "pair": pair.get("v"),
        "brand": brands[0]["v"] if brands else None,
        "parent": parents[0]["v"] if parents else None,
        "recent": last_items(tables["log"], at, shown["a"]),
        "clicked": int(bool(shown["clicked"])),
        **counts_of(tables, at, item.get("category")),
    }


def joined(spark: SparkSession, config: Path) -> tuple[list[Row], dict[str, dict[str, float]]]:
    inputs = Inputs.read(spark, load_config(config).config, DAY)
    rows = SampleBuilder(inputs).joined().collect()
    return rows, match_facts(inputs.config.views, inputs.watches.tasks.result())


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "seed"), [("union", 1), pytest.param("intervals", 2, marks=pytest.mark.slow)])
def test_random_chains_of_views_agree_with_the_definition(
    spark: SparkSession, tmp_path: Path, method: str, seed: int
) -> None:
    tables = random_tables(random.Random(seed))
    rows, counts = joined(spark, written(tmp_path, tables, method))
    kept = [shown for shown in tables["log"] if shown["i"] is not None]  # what was shown must be known
    theirs = [(key_of(shown), expected(tables, shown)) for shown in kept]
    assert sorted(map(str, map(made_of, rows))) == sorted(map(str, theirs))
    assert len({r.impression.impression_id for r in rows}) == len(kept), "equal rows are told apart"
    assert len({row.clicked_on.all_6h for row in rows}) > 3, "the counts differ between impressions"
    check_missing_keys(rows, counts)


def key_of(shown: Mapping[str, Any]) -> tuple[Any, ...]:
    return shown["at"], shown["u"], shown["i"], shown["a"], shown["q"] and shown["q"].lower()


def made_of(row: Row) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The key of an impression, and what a run joins to it."""
    one = row.impression
    key = int(one.impression_time.timestamp()), one.user, one.item, one.ad, one["query"]
    values = {view: row[view].v for view in ("item", "category", "pair", "brand", "parent")}
    names = ["clicked_on.all_6h", "shown.all_6h", "shown.branded_6h", "shown.brands_6h", "by_quarter.all_6h"]
    counts = {name: row[name.partition(".")[0]][name.partition(".")[2]] for name in names}
    return key, {**values, "recent": row.recent["items"], "clicked": row.clicked, **counts}


def check_missing_keys(rows: list[Row], counts: dict[str, dict[str, float]]) -> None:
    """Impressions that lack a key of a view are counted."""
    counted = {name: of_view["without_key"] for name, of_view in counts.items()}
    assert counted == {
        "item": 0,
        "pair": sum(None in (row.impression.user, row.impression.ad) for row in rows),
        "brand": sum(None in (row.impression["query"], row.item.brand) for row in rows),
        "category": sum(row.item.category is None for row in rows),
        "parent": sum(row.category.parent is None for row in rows),
        **dict.fromkeys(["shown", "clicked_on", "by_quarter"], sum(row.item.category is None for row in rows)),
    }
    assert 0 < counted["pair"] < len(rows)


def test_what_gives_a_key_is_joined_first(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, {})).config
    steps = [(step.views, step.on) for step in plan_joins(declared_facts(config))]
    assert steps == [
        (("item",), ("item",)),
        (("pair",), ("user", "ad")),
        (("category", "shown", "clicked_on"), ("item.category",)),
        (("by_quarter",), ("item.category", "quarter")),
        (("brand",), ("query", "item.brand")),
        (("parent",), ("category.parent",)),
    ]


@pytest.mark.thorough
def test_a_key_from_another_view_must_be_one_value(spark: SparkSession, tmp_path: Path) -> None:
    text = CONFIG.replace("parent STRING", "parent ARRAY<STRING>")
    with pytest.raises(InputError, match=r"views\.parent\.on: .*parent.* is array<string>, expected a key"):
        joined(spark, written(tmp_path, random_tables(random.Random(1)), text=text))


@pytest.mark.thorough
def test_a_view_that_is_looked_up_and_is_named_as_a_column_of_the_log_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = CONFIG.replace("i BIGINT, bot BOOLEAN", "i BIGINT, bot BOOLEAN, item STRING")
    with pytest.raises(InputError, match=r"views\.\w+\.look_up: the source 'clicks' has a column 'item' already"):
        joined(spark, written(tmp_path, random_tables(random.Random(1)), text=text))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("look_up: {itme: i}", "there is no view 'itme'; did you mean 'item'"),
        ("look_up: {clicked_on: i}", "'clicked_on' has counts; expected a view whose rows"),
        ("look_up: {item: [i, at]}", "found 2 key.* for 'item'; expected one expression for each of its 1"),
    ],
)
def test_what_is_looked_up_is_checked(tmp_path: Path, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path, {}, text=CONFIG.replace("look_up: {item: i}", new, 1)))


def test_the_rows_that_are_looked_up_must_be_read(tmp_path: Path) -> None:
    dated = "path: 'items/{date}'\n    days_before: 1"
    text = CONFIG.replace("ttl: unbounded", "ttl: 20h").replace("path: items.json", dated)
    text = text.replace("path: clicks.json", "path: 'clicks/{date}', days_before: 1")
    with pytest.raises(ConfigError, match=r"needs 2 day.* but 1 are read; set `sources.items.days_before: 2`"):
        load_config(written(tmp_path, {}, text=text))


@pytest.mark.thorough
def test_a_run_publishes_counts_by_another_view_and_its_canary_agrees(spark: SparkSession, tmp_path: Path) -> None:
    tables = random_tables(random.Random(4))
    tables |= {name: [row for row in tables[name] if row["i"] is not None] for name in ("log", "clicks")}
    day = made(spark, written(tmp_path, tables), DAY)
    assert (day.published, day.manifest.records) == (True, len(tables["log"]))


@pytest.mark.thorough
def test_the_click_rate_of_the_how_to_fits_such_logs(spark: SparkSession, tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (PROJECT / "docs/how-to.md").read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "clicked_in_category" in block]
    text = CONFIG.replace("    available_time: timestamp_seconds(known)\n", "")
    written(tmp_path, random_tables(random.Random(1)), text=text)
    (tmp_path / "example.yaml").write_text(f"base: c.yaml\noutput: {{path: other}}\n{example}")
    loaded = load_config(tmp_path / "example.yaml")
    assert {"shown_in_category", "clicked_in_category"} < {*loaded.config.views}
    assert problems(spark, loaded, DAY) == []


def test_late_rows_of_what_is_looked_up_are_never_taken_for_unseen(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, {})).config.joins_anew == (
        "`views.shown.look_up` may see rows that no impression sees"
    )
    views, _, counted = CONFIG.partition("  shown:")
    plain = {"    look_up: {item: i}\n": "", "on: item.category": "on: item", "on: [item.category": "on: [item"}
    for old, new in (plain | {"item.category": "i", "item.brand": "i"}).items():
        counted = counted.replace(old, new)
    assert load_config(written(tmp_path, {}, text=f"{views}  shown:{counted}")).config.joins_anew is None


@pytest.mark.slow
def test_an_explanation_follows_the_chain_to_the_rows_that_a_run_joins(spark: SparkSession, tmp_path: Path) -> None:
    config = load_config(written(tmp_path, random_tables(random.Random(3)))).config
    inputs = Inputs.read(spark, config, DAY, watched=False)
    rows = SampleBuilder(inputs).joined().collect()
    deep = next(row for row in rows if row.parent.matched and row.brand.matched)
    shallow = next(row for row in rows if row.item.matched and not row.category.matched)
    for row in (deep, shallow):
        evidence = Gatherer(inputs).gather(Sought(row.impression.impression_id))
        for name, column in {**dict.fromkeys(("item", "category", "parent", "pair"), "v"), "shown": "all_6h"}.items():
            view = evidence.views[name]
            assert view.rules is not None
            judged = judge_rows(evidence.impression.time, view.rows, view.rules)
            taken = [one.what.values[column] for one in judged if one.taken]
            assert taken == ([row[name][column]] if row[name].matched else []), name
        assert evidence.views["category"].key == evidence.views["shown"].key == row.item.category
        label = evidence.labels["clicked"]
        assert isinstance(label, RowEvidence)
        assert (label.expr, label.value or 0) == ("clicked", row.clicked)


@pytest.mark.parametrize(
    ("feature", "views"),
    [
        ("  parent: {from: parent.v, dtype: float32", {"parent", "category", "item"}),
        ("  brands: {from: shown.brands_6h, dtype: float32", {"shown", "item"}),
    ],
)
def test_fitting_reads_the_views_that_give_keys_or_are_looked_up_by_those_it_needs(
    tmp_path: Path, feature: str, views: set[str]
) -> None:
    text = CONFIG.replace("brands_6h, dtype: int64", "brands_6h, dtype: float32")
    text = text.replace(feature, f"{feature}, scale: standardise") + "fitted: {path: fitted}\n"
    assert set(only_fitted(load_config(written(tmp_path, {}, text=text)).config).views) == views
