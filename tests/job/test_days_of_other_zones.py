"""Logs whose directories begin and end with the days of another zone than the configured one."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from ctr_samples.job import run as job
from ctr_samples.job.gate import REPORT
from ctr_samples.job.summary import run_summary
from ctr_samples.shards import Manifest, open_storage
from ctr_samples.shards.naming import run_directory

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
output: {path: ROOT/out, partitions: 1}
"""


def moments(minutes: int = 20) -> Iterator[datetime]:
    """One impression every few minutes for five days, in UTC."""
    at = datetime(2019, 6, 3, tzinfo=UTC)
    while at < datetime(2019, 6, 8, tzinfo=UTC):
        yield at
        at += timedelta(minutes=minutes)


def write(root: Path, directories: str, *, form: str = "parquet", delay: int = 2) -> None:
    """Write impressions, each clicked some minutes later, to directories of the days of a zone."""
    zone = ZoneInfo(directories)
    for name, later in (("shown", 0), ("clicks", delay)):
        days: dict[date, list[dict[str, object]]] = {}
        for n, shown in enumerate(moments()):
            at = shown + timedelta(minutes=later)
            row = {"at": at, "user": f"u{n % 9}", "item": n}
            days.setdefault(at.astimezone(zone).date(), []).append(row)
        for day, rows in days.items():
            path = f"year={day.year}/month={day.month}/day={day.day}" if name == "shown" else str(day)
            directory = root / name / path
            directory.mkdir(parents=True)
            if form == "parquet":
                pq.write_table(pa.Table.from_pylist(rows), directory / "part.parquet")
            else:
                lines = [json.dumps({**row, "at": f"{row['at']:%FT%TZ}"}) for row in rows]
                (directory / "part.json").write_text("\n".join(lines) + "\n")


def samples_of(
    spark: SparkSession,
    root: Path,
    zone: str,
    before: int = 0,
    *,
    form: str = "parquet",
    when: str = str(DAY),
    **changes: str,
) -> Manifest:
    schema = 'schema: "at timestamp, user string, item bigint",' if form == "json" else ""
    text = CONFIG.replace("FORMAT", form).replace("SCHEMA", schema).replace("ROOT", str(root)).replace("ZONE", zone)
    text = text.replace("BEFORE", f"days_before: {before}")
    for key, value in changes.items():
        text = text.replace(key, value)
    (root / "zones.yaml").write_text(text)
    return job.run(spark, root / "zones.yaml", when, force=True, accept=["one_class"]).manifest


def summary_of(manifest: Manifest, root: Path) -> str:
    console = Console(width=160, file=io.StringIO())
    console.print(run_summary(manifest, open_storage(root / "out"), published=True))
    return console.file.getvalue()


def page_of(manifest: Manifest, root: Path) -> str:
    return (root / "out" / run_directory(manifest.day, manifest.run_id) / REPORT).read_text()


def warned(manifest: Manifest) -> list[str]:
    return [found["sentence"] for found in manifest.quality["found"] if found["check"] == "days_not_read"]


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["parquet", "json"])
def test_directories_of_utc_lose_hours_of_a_zone_ahead_unless_the_day_before_is_read(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    write(tmp_path, "UTC", form=form)
    few = samples_of(spark, tmp_path, "Asia/Shanghai", form=form)
    assert few.accounting["impressions"] == 48
    counts = {"rows": 72, "of_other_days": 24, "from_other_days": 0}
    assert few.inputs["shown"]["other_days"] == {"impressions.time": counts}
    assert few.inputs["shown"]["reads_too_few"] == {"days_before": 1}
    assert "reads_too_few" not in few.inputs["clicks"]
    assert warned(few) == [
        "33.3% of the 72 rows that sources.shown has for 2019-06-05 in its path are of other days in Asia/Shanghai: is "
        "`timezone` right? If it is, set `sources.shown.days_before: 1`; rows of the day, or of its windows, lie in "
        "directories that are not read, so each day lacks them."
    ]
    all_of_them = samples_of(spark, tmp_path, "Asia/Shanghai", 1, form=form)
    assert (all_of_them.accounting["impressions"], all_of_them.labels["clicked"]["orphans"]) == (72, 0)
    assert all_of_them.label_sum("clicked") == 72
    counted = {**counts, "from_other_days": 24}
    assert all_of_them.inputs["shown"]["other_days"] == {"impressions.time": counted}
    assert warned(all_of_them) == []
    said = summary_of(all_of_them, tmp_path)
    assert re.search(r"of other days +24 +rows in the directory of the day, not counted here", said)
    assert re.search(r"from other days +24 +of the impressions lie in directories of other days", said)
    page = page_of(all_of_them, tmp_path)
    assert "impressions.time: 24 of the 72 rows in the directory of the day are of other days" in page
    assert "24 rows of the day lie in directories of other days" in page


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("zone", "directories", "lost"),
    [("Asia/Tokyo", "America/Sao_Paulo", 36), ("Asia/Kolkata", "UTC", 16), ("Europe/Paris", "Europe/London", 3)],
)
def test_a_zone_that_is_ahead_of_the_directories_warns(
    spark: SparkSession, tmp_path: Path, zone: str, directories: str, lost: int
) -> None:
    write(tmp_path, directories)
    manifest = samples_of(spark, tmp_path, zone)
    assert manifest.accounting["impressions"] == 72 - lost
    assert manifest.inputs["shown"]["reads_too_few"] == {"days_before": 1}
    assert len(warned(manifest)) == 1


@pytest.mark.thorough
def test_a_zone_that_is_behind_the_directories_needs_later_days(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "UTC")
    window = {"window: 1h": "window: 22h"}
    manifest = samples_of(spark, tmp_path, "America/Sao_Paulo", **window)
    assert manifest.accounting["impressions"] == 72
    assert manifest.inputs["shown"]["reads_too_few"] == {"days_after": 2}
    assert manifest.inputs["clicks"]["reads_too_few"] == {"days_after": 2}
    assert [sentence.count("days_after: 2") for sentence in warned(manifest)] == [1, 1]


@pytest.mark.thorough
def test_directories_of_the_configured_zone_say_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "Asia/Shanghai")
    manifest = samples_of(spark, tmp_path, "Asia/Shanghai")
    assert manifest.accounting["impressions"] == 72
    assert "other_days" not in manifest.inputs["shown"]
    assert warned(manifest) == []


@pytest.mark.thorough
def test_an_hour_finds_its_clicks_in_later_directories_once_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "UTC", delay=25)
    hourly = {"name: zones": "name: zones\ngrain: hour", "window: 1h": "window: 2h"}
    few = samples_of(spark, tmp_path, "America/Sao_Paulo", when="2019-06-05T20", **hourly)
    assert (few.accounting["impressions"], few.label_sum("clicked")) == (3, 2)
    assert few.inputs["clicks"]["reads_too_few"] == {"days_after": 2}
    more = samples_of(
        spark, tmp_path, "America/Sao_Paulo", when="2019-06-05T20", **hourly, **{"days_after: 1": "days_after: 2"}
    )
    assert (more.accounting["impressions"], more.label_sum("clicked")) == (3, 3)
    assert warned(more) == []
