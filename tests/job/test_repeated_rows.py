"""Logs that are delivered at least once: with `unique`, samples are those of a log that has each event once."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.job.partial_days import write_log
from tests.support.whole_runs import made, write_config, write_rows

DAY = date(2019, 6, 5)
CONFIG = """
name: at_least_once
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/{date}
    days_before: 3
    days_after: 1
    bad_records: {max_rate: 1}
    schema: id string, received int, t string, kind string, user string, item string, request string, paid double
UNIQUE
impressions: {source: log, where: kind = 'shown', time: t, user: user, article: item, dedup: 10s}
labels:
  paid: {source: log, where: kind = 'click', window: 1h, value: paid, reduce: sum}
views:
  item:
    source: log
    entity: article
    key: item
    event_time: t
    aggregates: {windows: [1h, 2d], counts: {clicks: kind = 'click'}, sums: {paid: paid}, distinct: {users: user}}
  daily:
    source: log
    entity: user
    key: user
    event_time: t
    ttl: 35d
    daily_counts: {days: 3, counts: {clicks: kind = 'click'}}
histories:
  late: {source: log, user: user, item: item, last: 3, within: 2d, available_after: 10m, columns: {got: received}}
features:
  clicks: {expr: 'item.clicks_1h + 1000 * item.clicks_2d', dtype: int64}
  users: {expr: item.users_2d, dtype: int64}
  spent: {expr: 'cast(item.paid_2d as double)', dtype: float32}
  daily: {expr: daily.clicks, dtype: int64}
  late: {expr: 'to_json(struct(late.items, late.got))', dtype: string, default: none}
output: {path: ROOT/OUT, partitions: 2}
"""
Rows = Sequence[Mapping[str, Any]]


def written(root: Path, day: date, *files: Rows) -> None:
    for number, rows in enumerate(files):
        write_rows(root / f"log/{day}/{number}.json", rows)


def delivered(root: Path, days: Sequence[date]) -> None:
    """Write the logs of days once each event, into `once`, and with copies of a third of them, into `again`: in the same
    file, in another one, and in the log of the next day. A copy was received later.
    """
    chance, late = random.Random(7), list[Mapping[str, Any]]()
    for day in days:
        write_log(root, day, "UTC", rows=150)
        lines = (root / f"log/{day}.json").read_text().splitlines()
        rows = [{"id": f"{day} {n}", "received": 0, **json.loads(line)} for n, line in enumerate(lines)]
        rows[:5] = [{**row, "id": None} for row in rows[:5]]
        told = rows[5:]
        again = [{**row, "received": n} for n in (1, 2) for row in chance.sample(told, 25)]
        written(root / "once", day, rows)
        mixed = [*rows, *again[::2], *chance.sample(told, 10), *late]
        chance.shuffle(mixed)
        written(root / "again", day, mixed, again[1::2])
        late = [{**row, "received": 3} for row in chance.sample(told, 25)]


UNIQUE = "    unique: id\n    unique_first: received"


@pytest.mark.slow
def test_samples_of_a_log_with_copies_are_those_of_a_log_that_has_each_event_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    delivered(tmp_path, [DAY + timedelta(days=n) for n in range(-4, 3)])
    partials = f"partials: {{path: {tmp_path}/partials}}\n"
    once, doubled = (write_config(tmp_path / log, "out", CONFIG, {"UNIQUE": ""}) for log in ("once", "again"))
    plain, kept = (
        write_config(tmp_path / "again", out, CONFIG + more, {"UNIQUE": UNIQUE})
        for out, more in (("plain", ""), ("kept", partials))
    )
    for night in (DAY, DAY + timedelta(days=1)):
        expected, *of_copies = (made(spark, path, night, force=True) for path in (once, plain, kept))
        for of in of_copies:
            assert of.shards == expected.shards
            assert of.manifest.inputs["log"]["repeated"] == 5 * (60 + 25)
            assert of.manifest.inputs["log"]["lines"] == 5 * (150 + 60 + 25)
    assert made(spark, doubled, night, force=True).shards != expected.shards


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
        manifest = made(spark, write_config(tmp_path, name, OF_NUMBERS, {"SOURCE": source}), DAY).manifest
        log = manifest.inputs["log"]
        assert manifest.accounting["impressions"] == shown + 1, name
        assert (log["lines"], log["repeated"]) == (lines, repeated)
