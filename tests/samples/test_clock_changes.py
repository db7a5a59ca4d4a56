"""Durations are elapsed time, also on the days on which the clocks change; days are those of the configuration's zone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.config import ColumnarSource, JobConfig, SnapshotView, load_config
from ctr_samples.explain.gather import Gatherer, Sought
from ctr_samples.explain.rules import judge_actions, judge_history, judge_rows
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.period import Span, days_needed
from ctr_samples.samples.views.rows import view_rows
from ctr_samples.sparksql.session import run_session
from tests.support.frames_as_inputs import inputs_of

CHANGES = {
    "America/New_York": ("2024-11-03 06:00", "2024-03-10 07:00"),
    "Europe/Stockholm": ("2024-10-27 01:00", "2024-03-31 01:00"),
    "Australia/Lord_Howe": ("2024-04-06 15:00", "2024-10-05 15:30"),  # by half an hour
}
"""The instants (UTC) at which the clocks go back and forward."""

EACH = [(zone, change) for zone, both in CHANGES.items() for change in both]

CONFIG = """
name: clocks
timezone: ZONE
sources:
  log: {format: parquet, path: log}
  scores: {format: parquet, path: scores}
impressions: {source: log, where: "action = 'shown'", time: at, user: user, article: article, dedup: 30s}
labels:
  clicked: {source: log, where: "action = 'click'", window: 30m}
views:
  young: {source: scores, entity: user, key: user, event_time: at, ttl: 1d, method: union}
  young_small: {source: scores, entity: user, key: user, event_time: at, ttl: 1d, method: intervals}
  late: {source: scores, entity: user, key: user, event_time: at, available_after: 1d, ttl: 3d, method: union}
  late_small: {source: scores, entity: user, key: user, event_time: at, available_after: 1d, ttl: 3d, method: intervals}
  counted:
    source: log
    entity: user
    key: user
    event_time: at
    aggregates: {windows: [1d], step: 30m, counts: {clicks: "action = 'click'"}}
    available_after: 1h
histories:
  recent: {source: log, where: "action = 'click'", last: 9, within: 1d}
  known: {source: log, where: "action = 'click'", last: 9, within: 3d, available_after: 1d}
features:
  young: {from: young.score, dtype: int64}
  young_small: {from: young_small.score, dtype: int64}
  late: {from: late.score, dtype: int64}
  late_small: {from: late_small.score, dtype: int64}
  clicks: {from: counted.clicks_1d, dtype: int64}
  recent: {expr: "array_join(recent.items, ' ')", dtype: string}
  known: {expr: "array_join(known.items, ' ')", dtype: string}
output: {path: out}
"""

# All times are minutes after the change.
LOG = [
    ("u", "a", "shown", -30.0),
    ("u", "a", "shown", 30.0),  # the same local time once more where the clocks go back by an hour
    ("u", "b", "shown", -14.5),
    ("u", "b", "shown", 4.5),  # earlier than the one before by the clock on the wall
    ("u", "c", "shown", -0.1),
    ("u", "c", "shown", 0.1),  # twelve seconds later
    ("u", "d", "shown", 61.0),
    ("v", "d", "shown", 61.0),
    ("u", "b", "click", 15.5),  # half an hour after the first, eleven minutes after the second
    ("u", "a", "click", -5.0),
    ("u", "x", "click", -24 * 60 + 30.0),
    ("u", "y", "click", -24 * 60 - 14.5),
    ("u", "z", "click", -24 * 60 - 14.6),
]
SCORES = [("u", -24 * 60 + 4.5, 1), ("u", -24 * 60 + 30.5, 2)]

#  (article, minute): clicked, young, late, clicks of a day before the last known half hour, recent, known
SAMPLES = {
    ("a", -30.0): (1, 2, 0, 3, "x y z", ""),
    ("b", -14.5): (0, 2, 0, 3, "x y", "y z"),
    ("c", -0.1): (0, 2, 0, 3, "a x", "y z"),
    ("b", 4.5): (1, 2, 1, 3, "a x", "y z"),
    ("a", 30.0): (0, 2, 1, 3, "b a x", "x y z"),
    ("d", 61.0): (0, 0, 2, 2, "b a", "x y z"),
}


def instant(change: str, minutes: float) -> datetime:
    return datetime.fromisoformat(change).replace(tzinfo=UTC) + timedelta(minutes=minutes)


def table(session: SparkSession, schema: str, change: str, rows: list[tuple[Any, ...]]) -> DataFrame:
    """Rows whose column ``at`` is given in minutes after the change."""
    place = StructType.fromDDL(schema).names.index("at")
    micros = [(*row[:place], round(instant(change, row[place]).timestamp() * 1e6), *row[place + 1 :]) for row in rows]
    return session.createDataFrame(micros, schema).withColumn("at", F.timestamp_micros("at"))


def day_of(change: str, zone: str) -> Span:
    """The day on which the clocks change; where they change at an hour before, so far from UTC, the date is another."""
    return Span.of((instant(change, 0) + timedelta(hours=10 if "Australia" in zone else 0)).date(), zone)


def config_of(tmp_path: Path, zone: str) -> JobConfig:
    path = tmp_path / "clocks.yaml"
    path.write_text(CONFIG.replace("ZONE", zone))
    return load_config(path).config


def frames_of(session: SparkSession, change: str) -> dict[str, DataFrame]:
    return {
        "log": table(session, "user string, article string, action string, at bigint", change, LOG),
        "scores": table(session, "user string, at bigint, score bigint", change, SCORES),
    }


def gatherer_of(spark: SparkSession, tmp_path: Path, zone: str, change: str) -> Gatherer:
    session = run_session(spark, zone)
    config, day = config_of(tmp_path, zone), day_of(change, zone)
    return Gatherer(inputs_of(config, day, frames_of(session, change)))


def samples_of(gatherer: Gatherer, change: str) -> dict[tuple[str, float], Mapping[str, Any]]:
    """(article, minutes after the change) -> the sample and its impression's id, for user u."""
    builder = SampleBuilder(gatherer.inputs)
    shown = builder.labelled_impressions().select(
        "impression.*", F.unix_micros("impression.impression_time").alias("m")
    )
    ids = {r.impression_id: r for r in shown.where("user = 'u'").collect()}
    zero = instant(change, 0).timestamp() * 1e6
    made = builder.build().samples.rows(gatherer.inputs.watches.tasks).collect()
    return {
        (ids[r.impression_id].article, round((ids[r.impression_id].m - zero) / 60e6, 3)): r.asDict()
        for r in made
        if r.impression_id in ids
    }


@pytest.mark.parametrize(("zone", "change"), EACH)
@pytest.mark.slow
def test_a_sample_and_its_explanation_are_the_same_whether_the_clocks_change_or_not(
    spark: SparkSession, tmp_path: Path, zone: str, change: str
) -> None:
    gatherer = gatherer_of(spark, tmp_path, zone, change)
    samples = samples_of(gatherer, change)
    names = ("clicked", "young", "late", "clicks", "recent", "known")
    assert {key: tuple(row[name] for name in names) for key, row in samples.items()} == SAMPLES
    small = {key: (row["young_small"], row["late_small"]) for key, row in samples.items()}
    assert small == {key: (young, late) for key, (_, young, late, *_) in SAMPLES.items()}
    for key in (("b", 4.5), ("d", 61.0)):
        check_explanation(gatherer, samples[key])


def check_explanation(gatherer: Gatherer, row: Mapping[str, Any]) -> None:
    """An explanation agrees with a sample."""
    evidence = gatherer.gather(Sought(row["impression_id"]))
    at, label = evidence.impression.time, evidence.labels["clicked"]
    found = judge_actions(evidence.impression, label.others, label.actions, label.rules)
    assert row["clicked"] == any(one.taken for one in found)
    for name in ("young", "late"):
        view = evidence.views[name]
        assert view.rules is not None
        scores = [one.what.values["score"] for one in judge_rows(at, view.rows, view.rules) if one.taken]
        assert (scores or [0]) == [row[name]]
    for name in ("recent", "known"):
        history = evidence.histories[name]
        taken = [one.what.item for one in judge_history(at, history.actions, history.rules) if one.taken]
        assert " ".join(taken) == row[name]


@pytest.mark.some(3)
@pytest.mark.parametrize(("zone", "change"), EACH)
def test_a_snapshot_is_true_as_of_the_end_of_its_day_and_known_its_delay_of_elapsed_time_later(
    spark: SparkSession, zone: str, change: str
) -> None:
    day = day_of(change, zone)
    view = SnapshotView(source="scores", entity="user", key="user", snapshot="ds", publish_delay="26h", ttl="3d")
    # The midnight before the change ends the snapshot of the day before.
    before = (instant(change, 0) + timedelta(hours=10 if "Australia" in zone else 0)).date() - timedelta(days=1)
    session = run_session(spark, zone)
    # The day may be a date or text.
    as_text = change == CHANGES[zone][1]
    days = session.createDataFrame([("u", before)], "user string, ds date")
    rows = view_rows(days.withColumn("ds", F.col("ds").cast("string")) if as_text else days, "scores", view, [])
    micros = rows.select(F.unix_micros("event_time"), F.unix_micros("available_time")).collect()
    start = round(day.start.timestamp() * 1e6)
    assert [tuple(row) for row in micros] == [(start, start + 26 * 3_600_000_000)]


DATED = ColumnarSource(format="parquet", path="log/dt={date}", days_before=1, days_after=1)


@pytest.mark.parametrize(
    ("zone", "day", "first", "last"),
    [
        ("UTC", "2024-03-11", "2024-03-10", "2024-03-12"),
        ("America/New_York", "2024-03-11", "2024-03-09", "2024-03-12"),  # the day before had 23 hours
        ("America/New_York", "2024-03-09", "2024-03-08", "2024-03-11"),  # the day after has 23
        ("America/New_York", "2024-11-04", "2024-11-03", "2024-11-05"),  # 25 hours are more than enough
        ("Australia/Lord_Howe", "2024-10-07", "2024-10-05", "2024-10-08"),
    ],
)
def test_a_day_of_logs_is_24_hours_where_a_neighbour_is_shorter(zone: str, day: str, first: str, last: str) -> None:
    days = days_needed(DATED, date.fromisoformat(day), zone)
    assert (str(days[0]), str(days[-1])) == (first, last)
    assert days == [days[0] + timedelta(days=n) for n in range(len(days))]
