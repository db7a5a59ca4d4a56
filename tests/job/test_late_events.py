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

from tests.support.whole_runs import Made, made, write_config, write_rows

CONFIG = """
name: late_events
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/{date}
    days_before: 2
    days_after: 1
    schema: id string, t string, received string, kind string, user string, item string, spent double
    UNIQUE
impressions: {source: log, where: kind = 'shown', time: t, user: user, article: item, dedup: 1s}
labels:
  spent: LABEL
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
        name = f"e{number}" if number % 30 else None
        row = {"id": name, "t": t, "kind": kind, "user": f"u{number % 5}", "item": f"i{number % 7}"}
        row |= {"spent": number / 8, "received": t + late, "log": chance.choice([t, t + late])}
        rows.append(row)
        if kind == "click" and number % 4 == 0 and row["id"]:
            again = row["received"] + timedelta(minutes=chance.choice([1, 30, 600]))
            rows.append({**row, "received": again, "log": min(again, row["log"] + timedelta(days=1)), "copy": True})
    return rows


def written(root: Path, rows: list[dict[str, Any]], known_by: datetime) -> Path:
    """Write what had been received by a time, into the logs of days. What comes late comes in files of its own."""
    files = defaultdict[Path, list[dict[str, Any]]](list)
    for row in rows:
        if row["received"] < known_by:
            late = "late" if row["received"].date() > row["log"].date() else "first"
            line = {key: value for key, value in row.items() if key not in ("log", "copy")}
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
OF_ROWS = {"LABEL": "{expr: spent, dtype: float32}"}
OF_CLICKS = {"LABEL": "{source: log, where: kind = 'click', window: 1h, value: spent, reduce: sum}"}


def night_of(spark: SparkSession, root: Path, day: date, out: str, changes: Mapping[str, str], more: str = "") -> Made:
    return made(spark, write_config(root, out, CONFIG + more, OF_ROWS | changes), day, force=True)


@pytest.mark.slow
def test_a_backfill_from_complete_logs_makes_the_samples_of_the_nights(spark: SparkSession, tmp_path: Path) -> None:
    rows = events()
    complete = written(tmp_path / "complete", rows, datetime.max)
    partials = f"partials: {{path: {tmp_path}/partials}}\n"
    for night in NIGHTS:
        end = datetime(night.year, night.month, night.day) + timedelta(days=1)
        by_then = written(tmp_path / str(night), rows, end)
        of_the_night = night_of(spark, by_then, night, "night", CLOCKS).shards
        assert night_of(spark, complete, night, "backfill", CLOCKS).shards == of_the_night
        assert night_of(spark, complete, night, "kept", CLOCKS, partials).shards == of_the_night
    without = [night_of(spark, root, night, "without", NO_CLOCKS).shards for root in (by_then, complete)]
    assert without[0] != without[1], "late events and copies make a difference"


@pytest.mark.slow
def test_samples_of_a_log_with_copies_are_those_of_a_log_that_has_each_event_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = events()
    copies = written(tmp_path / "copies", rows, datetime.max)
    once = written(tmp_path / "once", [row for row in rows if "copy" not in row], datetime.max)
    repeated = sum("copy" in row and row["log"].date() <= NIGHTS[1] for row in rows)  # in the logs that are read
    partials = f"partials: {{path: {tmp_path}/partials}}\n"
    expected = night_of(spark, once, NIGHTS[0], "once", CLOCKS | {"UNIQUE": ""} | OF_CLICKS)
    for out, more in (("plain", ""), ("kept", partials)):
        of_copies = night_of(spark, copies, NIGHTS[0], out, CLOCKS | OF_CLICKS, more)
        assert of_copies.shards == expected.shards
        assert of_copies.manifest.inputs["log"]["repeated"] == repeated > 100
    doubled = night_of(spark, copies, NIGHTS[0], "doubled", CLOCKS | {"UNIQUE": ""} | OF_CLICKS)
    assert doubled.shards != expected.shards


OF_NUMBERS = """
name: numbers
timezone: UTC
sources: {log: SOURCE}
impressions: {source: log, time: at, keys: {user: user}, identity: row}
labels: {clicked: {expr: user = 8}}
features: {user: {from: impression.user, dtype: int64}}
output: {path: ROOT/OUT, partitions: 1}
"""


@pytest.mark.thorough
def test_a_log_without_days_and_a_table_with_days_have_their_repeats_left_out_and_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [("1", "2019-06-04 23:59:00", 7), ("1", "2019-06-05 00:00:00", 7), ("2", "2019-06-05 10:00:00", 7)]
    log = spark.createDataFrame([*rows, *rows[1:], (None, "2019-06-05 11:00:00", 8)], "id string, at string, user int")
    log.selectExpr("id", "timestamp(at) as at", "user", "date(at) as dt").write.parquet(f"{tmp_path}/log")
    view = f"tmp_{tmp_path.name}"
    spark.read.parquet(f"{tmp_path}/log").createOrReplaceGlobalTempView(view)
    sources = {
        "files": (f"{{format: parquet, path: {tmp_path}/log, unique: id, unique_first: at}}", 6, 3, 1),
        "table": (f"{{format: table, table: global_temp.{view}, date_column: dt, unique: id}}", 5, 3, 1),
    }
    for name, (source, lines, repeated, shown) in sources.items():
        manifest = made(spark, write_config(tmp_path, name, OF_NUMBERS, {"SOURCE": source}), NIGHTS[0]).manifest
        log = manifest.inputs["log"]
        assert manifest.accounting["impressions"] == shown + 1, name
        assert (log["lines"], log["repeated"]) == (lines, repeated)
