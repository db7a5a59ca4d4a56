"""Views on any keys, on several together and on columns of other views, against the definition in plain Python."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import InputError
from ctr_samples.explain.gather import Gatherer, Sought
from ctr_samples.explain.rules import RowEvidence, judge_rows
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.training_rows import only_fitted
from ctr_samples.samples.views.as_of.planning import plan_joins
from ctr_samples.samples.views.counts import match_facts
from ctr_samples.samples.views.joiner import declared_facts
from tests.support.whole_runs import write_rows

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
impressions:
  source: log
  time: timestamp_seconds(at)
  keys: {user: u, item: i, ad: a, query: lower(q)}
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
histories:
  recent: {source: log, on: ad, where: clicked, last: 3, within: 12h}
features:
  recent: {from: recent.items, dtype: int64, ragged: true}
  brand: {from: brand.v, dtype: float32}
  parent: {from: parent.v, dtype: float32}
  category: {from: category.v, dtype: float32}
  item: {from: item.v, dtype: float32}
  pair: {from: pair.v, dtype: float32}
split: {by: query}
output: {path: out}
"""


def written(directory: Path, method: str, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    for name, rows in tables.items():
        write_rows(directory / f"{name}.json", rows)
    text = CONFIG.replace("METHOD", method)
    for name in tables:
        text = text.replace(f"path: {name}.json", f"path: {directory}/{name}.json")
    (directory / "c.yaml").write_text(text)
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
    # Rows of one key and instant would be ordered by a hash of their content, which is not for plain Python to repeat.
    return {"log": log, "parents": parents, "brands": brands} | {
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


def expected(tables: Mapping[str, Sequence[Mapping[str, Any]]], shown: Mapping[str, Any]) -> dict[str, Any]:
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
    }


def joined(spark: SparkSession, config: Path) -> tuple[list[Row], dict[str, dict[str, float]]]:
    inputs = Inputs.read(spark, load_config(config).config, DAY)
    rows = SampleBuilder(inputs).joined().collect()
    return rows, match_facts(inputs.config.views, inputs.watches.tasks.result())


@pytest.mark.parametrize(("method", "seed"), [("union", 1), ("intervals", 2)])
@pytest.mark.slow
def test_random_chains_of_views_agree_with_the_definition(
    spark: SparkSession, tmp_path: Path, method: str, seed: int
) -> None:
    tables = random_tables(random.Random(seed))
    config = written(tmp_path, method, tables)
    rows, counts = joined(spark, config)
    views = ("item", "category", "pair", "brand", "parent")

    def key(at: int, one: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(value) for value in (at, *[one[name] for name in ("user", "item", "ad", "query")]))

    ours = sorted(
        (
            key(int(r.impression.impression_time.timestamp()), r.impression),
            *[str(r[v].v) for v in views],
            str(r.clicked),
            str(r.recent["items"]),
        )
        for r in rows
    )
    theirs = []
    kept = [shown for shown in tables["log"] if shown["i"] is not None]  # what was shown must be known
    for shown in kept:
        names = {"user": shown["u"], "item": shown["i"], "ad": shown["a"], "query": shown["q"] and shown["q"].lower()}
        values = expected(tables, shown)
        theirs.append(
            (key(shown["at"], names), *[str(values[v]) for v in views], str(values["clicked"]), str(values["recent"]))
        )
    assert ours == sorted(theirs)
    assert len({r.impression.impression_id for r in rows}) == len(kept), "equal rows are told apart"
    check_missing_keys(rows, counts)


def check_missing_keys(rows: list[Row], counts: dict[str, dict[str, float]]) -> None:
    """Impressions that lack a key of a view are counted."""
    counted = {name: of_view["without_key"] for name, of_view in counts.items()}
    assert counted == {
        "item": 0,
        "pair": sum(None in (row.impression.user, row.impression.ad) for row in rows),
        "brand": sum(None in (row.impression["query"], row.item.brand) for row in rows),
        "category": sum(row.item.category is None for row in rows),
        "parent": sum(row.category.parent is None for row in rows),
    }
    assert 0 < counted["pair"] < len(rows)


def test_what_gives_a_key_is_joined_first(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "union", {})).config
    steps = [(step.views, step.on) for step in plan_joins(declared_facts(config))]
    assert steps == [
        (("item",), ("item",)),
        (("pair",), ("user", "ad")),
        (("category",), ("item.category",)),
        (("brand",), ("query", "item.brand")),
        (("parent",), ("category.parent",)),
    ]


@pytest.mark.thorough
def test_a_key_from_another_view_must_be_one_value(spark: SparkSession, tmp_path: Path) -> None:
    tables = random_tables(random.Random(1))
    config = written(tmp_path, "union", tables)
    config.write_text(config.read_text().replace("category BIGINT", "category ARRAY<BIGINT>"))
    with pytest.raises(InputError, match=r"views\.category\.on: .*category.* is array<bigint>, expected a key"):
        joined(spark, config)


@pytest.mark.slow
def test_an_explanation_follows_the_chain_to_the_rows_that_a_run_joins(spark: SparkSession, tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "union", random_tables(random.Random(3)))).config
    inputs = Inputs.read(spark, config, DAY, watched=False)
    rows = SampleBuilder(inputs).joined().collect()
    deep = next(row for row in rows if row.parent.matched and row.brand.matched)
    shallow = next(row for row in rows if row.item.matched and not row.category.matched)
    for row in (deep, shallow):
        evidence = Gatherer(inputs).gather(Sought(row.impression.impression_id))
        for name in ("item", "category", "parent", "pair"):
            view = evidence.views[name]
            assert view.rules is not None
            taken = [v.what.values["v"] for v in judge_rows(evidence.impression.time, view.rows, view.rules) if v.taken]
            assert taken == ([row[name].v] if row[name].matched else []), name
        assert evidence.views["category"].key == row.item.category
        label = evidence.labels["clicked"]
        assert isinstance(label, RowEvidence)
        assert (label.expr, label.value or 0) == ("clicked", row.clicked)


def test_fitting_reads_the_views_that_give_keys_to_those_it_needs(tmp_path: Path) -> None:
    path = written(tmp_path, "union", {})
    scaled = "  parent: {from: parent.v, dtype: float32, scale: standardise}"
    text = path.read_text().replace("  parent: {from: parent.v, dtype: float32}", scaled)
    path.write_text(text + "fitted: {path: fitted}\n")
    assert set(only_fitted(load_config(path).config).views) == {"parent", "category", "item"}
