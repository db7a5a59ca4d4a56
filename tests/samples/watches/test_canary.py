"""The leak canary: silent on every planned join that is right, loud on one that sees the future or nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import JobConfig, load_config
from ctr_samples.errors import AccountingError
from ctr_samples.job import run as job
from ctr_samples.samples.columnar.columns import Integers, integers, there
from ctr_samples.samples.columnar.stages import TaskCounts
from ctr_samples.samples.views.as_of.matching import END, EVENT, FOREVER, KNOWN, AsOf
from ctr_samples.samples.views.as_of.planning import JoinStep
from ctr_samples.samples.watches.leak_canary import MOST, Canary, LeakCanary, apart, check_canaries
from ctr_samples.sparksql.columns import micros_of
from tests.support.open_bandit import TUESDAY, open_bandit
from tests.support.stages import ran, stage_of, table

TEN = 1_559_728_800_000_000
"""2019-06-05 10:00 UTC in microseconds."""

CONFIG = """
name: canaries
timezone: UTC
sources: {log: {format: parquet, path: a}, table: {format: parquet, path: b}}
impressions: {source: log, time: t, user: who, article: what}
labels: {clicked: {source: log, window: 1m}}
views:
  one: {source: table, entity: user, key: who, event_time: at, available_after: 2h, ttl: 30d}
  two: {source: table, entity: user, key: who, event_time: at, ttl: unbounded, inclusive: true}
  small: {source: table, entity: article, key: what, event_time: at, ttl: 1d}
  daily: {source: table, entity: user, key: who, snapshot: ds, ttl: 3d}
  pair: {source: table, entity: user_article, key: who, article_key: what, event_time: at, ttl: 1h}
  fixed: {source: table, entity: user, key: who, static: true}
  open: {source: table, entity: user, key: who, event_time: at, valid_to: until, ttl: 30d}
  told: {source: table, entity: user, key: who, event_time: at, valid_to: until, closed_available: closed, ttl: 30d}
  brief: {source: table, entity: article, key: what, event_time: at, valid_to: until, ttl: 1d, inclusive: true}
features:
  x: {expr: one.x + two.x + small.x + daily.x + pair.x + fixed.x + open.x + told.x + brief.x, dtype: float32}
output: {path: out, partitions: 1}
"""
STEPS = [
    JoinStep("broadcast", ("small",), ("article",), ""),
    JoinStep("shuffle", ("fixed",), ("user",), ""),
    JoinStep("shuffle", ("daily",), ("user",), ""),
    JoinStep("shuffle", ("one", "two"), ("user",), ""),
    JoinStep("shuffle", ("pair",), ("user", "article"), ""),
    JoinStep("shuffle", ("open", "told"), ("user",), ""),
    JoinStep("broadcast", ("brief",), ("article",), ""),
]


@pytest.fixture
def config(tmp_path: Path) -> JobConfig:
    (tmp_path / "c.yaml").write_text(CONFIG)
    return load_config(tmp_path / "c.yaml").config


def sampled(impressions: pa.Table) -> LeakCanary:
    """A canary that has seen these impressions."""
    tasks = TaskCounts(active=False)
    canary, shown = LeakCanary(("user", "article"), tasks), stage_of(impressions)
    tasks.include(ran(shown.counted(canary.step(shown.kind), shown.kind))[1])
    return canary


def seen_by(shown: Sequence[tuple[int, int, Any, Any]]) -> LeakCanary:
    """A canary that has seen these impressions: id, microseconds after ten, user, article."""
    at = [datetime.fromtimestamp(TEN / 1e6, UTC) + timedelta(microseconds=micros) for _, micros, *_ in shown]
    rows = [(own, time, *keys) for (own, _, *keys), time in zip(shown, at, strict=True)]
    flat = table("impression_id bigint, impression_time timestamp, user string, article bigint", rows)
    return sampled(pa.table({"impression": flat.to_struct_array()}))


MINUTE = 60_000_000
SHOWN = [(1, 0, "a", 7), (2, MINUTE, "b", 8), (3, 2 * MINUTE, None, 9), (4, 3 * MINUTE, "c", None)]


def test_no_canary_is_seen_by_any_planned_join(config: JobConfig) -> None:
    views = ("small", "daily", "one", "two", "open", "told", "brief")
    expected = {name: {"canaries": 3} for name in views} | {"pair": {"canaries": 2}}
    assert check_canaries(config, STEPS, seen_by(SHOWN)) == expected


def as_if_rows_never_ended(how: AsOf, rows: pa.Table) -> Integers:
    return np.full(rows.num_rows, FOREVER)


def as_soon_as_they_end(how: AsOf, rows: pa.Table) -> Integers:
    return np.where(there(rows[END]), integers(rows[END]), FOREVER)


@pytest.mark.parametrize(
    ("end", "view", "found"),
    [
        (as_if_rows_never_ended, "open", "saw a row from the future"),
        (
            as_soon_as_they_end,
            "told",
            "saw the row that was true before them and known by then, so the join misses rows",
        ),
    ],
)
def test_a_join_that_knows_too_little_or_too_much_of_the_ends_is_found(
    config: JobConfig, monkeypatch: pytest.MonkeyPatch, end: Any, view: str, found: str
) -> None:
    monkeypatch.setattr(AsOf, "seen_until", end)
    with pytest.raises(AccountingError, match=f"views.{view}: . of 3 impressions {found}"):
        check_canaries(config, STEPS, seen_by(SHOWN))


def of_the_same_instant(how: AsOf, rows: pa.Table) -> Integers:
    return np.maximum(integers(rows[EVENT]), integers(rows[KNOWN]))


def true_but_not_yet_known(how: AsOf, rows: pa.Table) -> Integers:
    return integers(rows[EVENT]) + 1


def a_microsecond_too_early(how: AsOf, rows: pa.Table) -> Integers:
    return of_the_same_instant(how, rows) - 1


def a_day_late(how: AsOf, rows: pa.Table) -> Integers:
    return integers(rows[EVENT]) + micros_of(timedelta(days=1))


@pytest.mark.parametrize(
    ("clock", "steps", "view"),
    [
        (of_the_same_instant, STEPS, "small"),
        (of_the_same_instant, STEPS[2:3], "daily"),
        (of_the_same_instant, STEPS[4:], "pair"),
        (true_but_not_yet_known, STEPS[2:3], "daily"),
        (true_but_not_yet_known, STEPS[3:], "one"),
        (a_microsecond_too_early, STEPS[3:], "one"),
    ],
)
def test_a_clock_that_lets_the_future_through_is_found(
    config: JobConfig, monkeypatch: pytest.MonkeyPatch, clock: Any, steps: Any, view: str
) -> None:
    monkeypatch.setattr(AsOf, "seen_from", clock)
    seen = 2 if view == "pair" else 3
    with pytest.raises(AccountingError) as caught:
        check_canaries(config, steps, seen_by(SHOWN))
    assert str(caught.value) == (
        f"views.{view}: {seen} of {seen} impressions saw a row from the future, so features may contain what happened "
        "after the impression. Nothing was published; report it."
    )


def test_a_join_that_finds_nothing_is_found_too(config: JobConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AsOf, "seen_from", a_day_late)
    with pytest.raises(
        AccountingError,
        match="views.one: 0 of 3 impressions saw the row that was true before them and known by then, so the",
    ):
        check_canaries(config, STEPS[3:], seen_by(SHOWN))


def test_a_day_without_impressions_or_without_times_has_no_canaries(config: JobConfig) -> None:
    assert check_canaries(config, STEPS, seen_by([])) == {}
    assert check_canaries(config, STEPS[1:2], seen_by(SHOWN)) == {}


def test_the_sample_of_impressions_is_small_and_the_same_however_rows_arrive() -> None:
    rows = [{"impression_id": n, "impression_time": TEN + n, "user": "a", "article": 7} for n in range(2000)]
    samples = [
        sorted(one.id for one in sampled(pa.table({"impression": rows[start:] + rows[:start]})).sample()[0])
        for start in (0, 700)
    ]
    assert len(samples[0]) == MOST
    assert samples[0] == samples[1]


def test_impressions_that_could_see_each_others_canaries_are_left_out() -> None:
    first, same_user, same_article, soon, nobody, last = (
        Canary(1, 0, {"user": "a", "article": 7}),
        Canary(2, 5_000, {"user": "a", "article": 8}),
        Canary(3, 6_000, {"user": "b", "article": 7}),
        Canary(4, 999, {"user": "c", "article": 9}),
        Canary(5, 7_000, {"user": None, "article": 10}),
        Canary(6, 8_000, {"user": None, "article": None}),
    )
    everyone = [last, nobody, soon, same_article, same_user, first]
    assert apart(everyone, {("user",), ("article",)}) == [first, nobody, last]
    assert apart(everyone, {("user",)}) == [first, same_article, nobody, last]
    assert apart(everyone, {("article",)}) == [first, same_user, nobody, last]


@pytest.mark.slow
def test_a_run_whose_joins_leak_publishes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = open_bandit(tmp_path)
    clicks = job.run(spark, loaded, TUESDAY).manifest.views["item_clicks"]
    assert clicks["canaries"] > 20
    assert clicks["match_rate"] == round(clicks["matched"] / 1300, 6)
    # Counts of a day are known an hour after midnight; before that those of the day before count.
    assert (
        3600 <= clicks["age_s_min"] <= clicks["age_s_median"] <= clicks["age_s_p90"] <= clicks["age_s_max"] < 25 * 3600
    )
    monkeypatch.setattr(AsOf, "seen_from", of_the_same_instant)
    with pytest.raises(AccountingError, match="views.item_clicks: .* saw a row from the future"):
        job.run(spark, loaded, date(2019, 11, 25))
    assert not list(tmp_path.glob("dt=2019-11-25/manifests/*"))
