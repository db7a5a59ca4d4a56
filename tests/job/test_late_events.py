"""Events that come late, and more than once: a backfill from complete logs knows no more than each night did."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.whole_runs import made, write_config, write_rows

CONFIG = """
name: late_events
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/{date}
    days_before: 2
    schema: id string, t string, received string, kind string, user string, item string, spent double
    UNIQUE
impressions: {source: log, where: kind = 'shown', time: t, user: user, article: item, dedup: 1s}
labels:
  spent: {expr: spent, dtype: float32}
views:
  item:
    source: log
    entity: article
    key: item
    where: kind = 'click'
    event_time: t
    KNOWN
    aggregates: {windows: [1h, 1d], step: 5m, counts: {clicks: 'true'}, sums: {spent: spent}, distinct: {users: user}}
histories:
  recent: {source: log, where: kind = 'click', user: user, item: item, last: 3, within: 2d, LISTED columns: {spent: spent}}
features:
  clicks: {expr: 'item.clicks_1h + 1000 * item.clicks_1d', dtype: int64}
  users: {expr: item.users_1d, dtype: int64}
  sums: {expr: 'cast(item.spent_1d as double)', dtype: float32}
  recent: {expr: 'to_json(struct(recent.items, recent.ages_s, recent.spent))', dtype: string, default: none}
output: {path: ROOT/OUT, partitions: 2}
"""
START = datetime(2019, 6, 3)
NIGHTS = [date(2019, 6, 5), date(2019, 6, 6)]


def events() -> list[dict[str, Any]]:
    """Four days of impressions and of clicks, of which half come late, and some again, also in the log of the next day."""
    chance, rows = random.Random(20190605), []
    for number in range(900):
        t = START + timedelta(seconds=chance.randrange(4 * 86400))
        kind = chance.choice(["shown", "click", "click"])
        late = timedelta(minutes=chance.choice([0, 0, 0, 3, 90, 1500])) if kind == "click" else timedelta()
        row = {"id": f"e{number}", "t": t, "kind": kind, "user": f"u{number % 5}", "item": f"i{number % 7}"}
        row |= {"spent": number / 8, "received": t + late, "log": chance.choice([t, t + late])}
        rows.append(row)
        if kind == "click" and number % 4 == 0:
            again = row["received"] + timedelta(minutes=chance.choice([1, 30, 600]))
            rows.append({**row, "received": again, "log": min(again, row["log"] + timedelta(days=1))})
    return rows


def written(root: Path, rows: list[dict[str, Any]], known_by: datetime) -> Path:
    """Write what had been received by a time, into the logs of days. What comes late comes in files of its own."""
    files = defaultdict[Path, list[dict[str, Any]]](list)
    for row in rows:
        if row["received"] < known_by:
            late = "late" if row["received"].date() > row["log"].date() else "first"
            line = {key: value for key, value in row.items() if key != "log"}
            files[root / f"log/{row['log']:%Y-%m-%d}/{late}.json"].append(line)
    for path, lines in files.items():
        write_rows(path, lines)
    return root


CLOCKS = {
    "KNOWN": "available_time: received",
    "LISTED": "available_time: received,",
    "UNIQUE": "unique: id\n    unique_first: received",
}
NO_CLOCKS = dict.fromkeys(CLOCKS, "")


def shards(
    spark: SparkSession, root: Path, day: date, out: str, clocks: Mapping[str, str], more: str = ""
) -> list[Any]:
    return made(spark, write_config(root, out, CONFIG + more, clocks), day, force=True).shards


@pytest.mark.slow
def test_a_backfill_from_complete_logs_makes_the_samples_of_the_nights(spark: SparkSession, tmp_path: Path) -> None:
    rows = events()
    complete = written(tmp_path / "complete", rows, datetime.max)
    partials = f"partials: {{path: {tmp_path}/partials}}\n"
    for night in NIGHTS:
        end = datetime(night.year, night.month, night.day) + timedelta(days=1)
        by_then = written(tmp_path / str(night), rows, end)
        of_the_night = shards(spark, by_then, night, "night", CLOCKS)
        assert shards(spark, complete, night, "backfill", CLOCKS) == of_the_night
        assert shards(spark, complete, night, "kept", CLOCKS, partials) == of_the_night
    without = [shards(spark, root, night, "without", NO_CLOCKS) for root in (by_then, complete)]
    assert without[0] != without[1], "late events and copies make a difference"
