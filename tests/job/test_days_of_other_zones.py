"""Logs whose directories begin and end with the days of another zone than the configured one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from tests.support.marks import slow_except
from tests.support.whole_runs import Made, made, write_config, write_rows

DAY = date(2019, 6, 5)

CONFIG = """
name: zones
timezone: ZONE
sources:
  shown: {format: FORMAT, path: "ROOT/shown/year={date:%Y}/month={date:%-m}/day={date:%-d}", SCHEMA BEFORE, days_after: 1}
  clicks: {format: FORMAT, path: "ROOT/clicks/{date}", SCHEMA days_before: 1, days_after: 1}
impressions: {source: shown, time: at, user: user, article: item}
labels:
  clicked: {source: clicks, time: at, user: user, article: item, window: 1h}
features:
  item: {from: impression.article, dtype: int64}
output: {path: ROOT/OUT, partitions: 1}
"""


def moments(minutes: int = 20) -> Iterator[datetime]:
    """One impression every few minutes for five days, in UTC."""
    at = datetime(2019, 6, 3, tzinfo=UTC)
    while at < datetime(2019, 6, 8, tzinfo=UTC):
        yield at
        at += timedelta(minutes=minutes)


def write(root: Path, directories: str, *, form: str = "parquet", delay: int = 2) -> None:
    """Write impressions, each clicked some minutes later, to directories of the days of a zone."""
    for name, later in (("shown", 0), ("clicks", delay)):
        days: dict[date, list[dict[str, object]]] = defaultdict(list)
        for n, shown in enumerate(moments()):
            at = shown + timedelta(minutes=later)
            row = {"at": at if form == "parquet" else f"{at:%FT%TZ}", "user": f"u{n % 9}", "item": n}
            days[at.astimezone(ZoneInfo(directories)).date()].append(row)
        for day, rows in days.items():
            path = f"year={day.year}/month={day.month}/day={day.day}" if name == "shown" else str(day)
            write_rows(root / name / path / f"part.{form}", rows)


def day_of(
    spark: SparkSession,
    root: Path,
    zone: str,
    before: int = 0,
    *,
    form: str = "parquet",
    when: str = str(DAY),
    changes: Mapping[str, str] | None = None,
) -> Made:
    schema = 'schema: "at timestamp, user string, item bigint",' if form == "json" else ""
    values = {"FORMAT": form, "SCHEMA": schema, "ZONE": zone, "BEFORE": f"days_before: {before}", **(changes or {})}
    return made(spark, write_config(root, "out", CONFIG, values), when, force=True, accept=["one_class"])


@pytest.mark.thorough
@pytest.mark.parametrize("form", slow_except(["json"], ["parquet", "json"]))
def test_directories_of_utc_lose_hours_of_a_zone_ahead_unless_the_day_before_is_read(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    write(tmp_path, "UTC", form=form)
    few = day_of(spark, tmp_path, "Asia/Shanghai", form=form)
    assert few.manifest.accounting["impressions"] == 48
    counts = {"rows": 72, "of_other_days": 24, "from_other_days": 0}
    shown = few.manifest.inputs["shown"]
    assert shown["other_days"] == {"impressions.time": counts}
    assert shown["reads_too_few"] == {"days_before": 1}
    assert "reads_too_few" not in few.manifest.inputs["clicks"]
    assert few.found("days_not_read") == [
        "33.3% of the 72 rows that sources.shown has for 2019-06-05 in its path are of other days in Asia/Shanghai: is "
        "`timezone` right? If it is, set `sources.shown.days_before: 1`; rows of the day, or of its windows, lie in "
        "directories that are not read, so each day lacks them."
    ]
    all_of_them = day_of(spark, tmp_path, "Asia/Shanghai", 1, form=form)
    manifest = all_of_them.manifest
    assert (manifest.accounting["impressions"], manifest.labels["clicked"]["orphans"]) == (72, 0)
    assert manifest.label_sum("clicked") == 72
    assert manifest.inputs["shown"]["other_days"] == {"impressions.time": {**counts, "from_other_days": 24}}
    assert all_of_them.found("days_not_read") == []
    said, page = all_of_them.summary, all_of_them.page
    assert re.search(r"of other days +24 +rows in the directory of the day, not counted here", said)
    assert re.search(r"from other days +24 +of the impressions lie in directories of other days", said)
    assert "impressions.time: 24 of the 72 rows in the directory of the day are of other days" in page
    assert "24 rows of the day lie in directories of other days" in page


BEFORE, AFTER = {"days_before": 1}, {"days_after": 2}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("zone", "directories", "window", "lost", "of_shown", "of_clicks"),
    [
        ("Asia/Tokyo", "America/Sao_Paulo", "1h", 36, BEFORE, None),
        ("Europe/Paris", "Europe/London", "1h", 3, BEFORE, None),
        ("America/Sao_Paulo", "UTC", "22h", 0, AFTER, AFTER),
        ("Asia/Shanghai", "Asia/Shanghai", "1h", 0, None, None),
    ],
    ids=["far ahead", "an hour ahead", "behind", "the same"],
)
def test_a_zone_that_is_not_that_of_the_directories_warns(
    spark: SparkSession,
    tmp_path: Path,
    zone: str,
    directories: str,
    window: str,
    lost: int,
    of_shown: dict[str, int] | None,
    of_clicks: dict[str, int] | None,
) -> None:
    write(tmp_path, directories)
    day = day_of(spark, tmp_path, zone, changes={"window: 1h": f"window: {window}"})
    shown, clicks = (day.manifest.inputs[name] for name in ("shown", "clicks"))
    assert day.manifest.accounting["impressions"] == 72 - lost
    assert (shown.get("reads_too_few"), clicks.get("reads_too_few")) == (of_shown, of_clicks)
    assert ("other_days" in shown) == (zone != directories)
    needed = [f"{key}: {days}" for of in (of_shown, of_clicks) for key, days in (of or {}).items()]
    warned = day.found("days_not_read")
    assert len(warned) == len(needed)
    assert all(days in sentence for days, sentence in zip(needed, warned, strict=True))


@pytest.mark.thorough
def test_an_hour_finds_its_clicks_in_later_directories_once_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "UTC", delay=25)
    hourly = {"name: zones": "name: zones\ngrain: hour", "window: 1h": "window: 2h"}
    later = {**hourly, "days_after: 1": "days_after: 2"}
    few, more = (
        day_of(spark, tmp_path, "America/Sao_Paulo", when="2019-06-05T20", changes=changes)
        for changes in (hourly, later)
    )
    assert (few.manifest.accounting["impressions"], few.manifest.label_sum("clicked")) == (3, 2)
    assert few.manifest.inputs["clicks"]["reads_too_few"] == {"days_after": 2}
    assert (more.manifest.accounting["impressions"], more.manifest.label_sum("clicked")) == (3, 3)
    assert more.found("days_not_read") == []
