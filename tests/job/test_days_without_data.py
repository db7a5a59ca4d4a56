"""Days of a window that have no data: missing directories, directories without files, and files without rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.periods import in_ranges
from tests.support.whole_runs import Made, made, write_config, write_rows

DAY = date(2026, 3, 4)

CONFIG = """
name: gaps
timezone: UTC
sources:
  log: {format: FORMAT, path: "ROOT/log/{date}", SCHEMA days_before: 7, days_after: 1}
impressions: {source: log, where: kind = 'shown', time: at, user: user, article: item}
labels:
  clicked: {source: log, where: kind = 'click', window: 30m}
views:
  item:
    source: log
    on: article
    key: item
    event_time: at
    aggregates: {windows: [6d], step: 1d, counts: {shown: kind = 'shown'}}
features:
  shown: {from: item.shown_6d, dtype: int64}
output: {path: ROOT/OUT, partitions: 1}
"""


def write_day(root: Path, day: date, form: str, *, rows: bool = True) -> None:
    at = [datetime(day.year, day.month, day.day, hour) for hour in range(0, 24, 2)]
    shown = [{"at": str(one), "kind": "shown", "user": f"u{n % 3}", "item": f"i{n % 4}"} for n, one in enumerate(at)]
    clicks = [{**row, "at": f"{row['at'][:-4]}1:00", "kind": "click"} for row in shown[::3]]
    path = root / f"log/{day}/part.{form}"
    write_rows(path, [*shown, *clicks])
    if not rows and form == "parquet":
        pq.write_table(pq.read_table(path).slice(0, 0), path)
    elif not rows:
        path.write_text("\n \n")


def day_of(spark: SparkSession, root: Path, form: str) -> Made:
    schema = "schema: 'at string, kind string, user string, item string'," if form == "json" else ""
    return made(spark, write_config(root, "out", CONFIG, {"FORMAT": form, "SCHEMA": schema}), DAY, accept=())


def february(day: int) -> date:
    return date(2026, 2, day)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_days_without_data_are_told_apart_and_a_gap_among_them_warns(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    for day in (february(26), DAY - timedelta(days=2), DAY, DAY + timedelta(days=1)):
        write_day(tmp_path, day, form)
    write_day(tmp_path, february(28), form, rows=False)
    (tmp_path / "log/2026-02-27/_temporary/0").mkdir(parents=True)
    (tmp_path / "log/2026-02-27/_SUCCESS").write_text("")
    (tmp_path / "log/2026-03-01").mkdir()
    (tmp_path / "log/2026-03-01/part").write_text("")
    gappy = day_of(spark, tmp_path, form)
    log = gappy.manifest.inputs["log"]
    assert log["missing_days"] == ["2026-02-25", "2026-02-27", "2026-03-01", "2026-03-03"]
    assert log["without_files"] == ["2026-02-27"]
    assert log["without_rows"] == ["2026-02-28", "2026-03-01"]
    assert log["gaps"] == ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-03"]
    assert gappy.found("gaps") == [
        "sources.log has no data for 2026-02-27 to 2026-03-01, 2026-03-03 (4 days), but for days before and after: what "
        "windows, histories and labels count of this time is missing. Was it delivered?"
    ]
    said, page = gappy.summary, gappy.page
    for sentence in (
        "has nothing for 2026-02-25, 2026-03-03",
        "has directories without data files for 2026-02-27",
        "has files without rows for 2026-02-28, 2026-03-01",
    ):
        assert f"log {sentence}." in said
        assert sentence in page


@pytest.mark.thorough
def test_a_log_that_begins_within_the_window_does_not_warn(spark: SparkSession, tmp_path: Path) -> None:
    for back in range(-1, 4):
        write_day(tmp_path, DAY - timedelta(days=back), "json")
    day = day_of(spark, tmp_path, "json")
    log = day.manifest.inputs["log"]
    assert log["missing_days"] == ["2026-02-25", "2026-02-26", "2026-02-27", "2026-02-28"]
    assert not {"gaps", "without_files", "without_rows"} & {*log}
    assert day.found("gaps") == []


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["2026-03-01", "2026-03-02"], "2026-03-01, 2026-03-02"),
        (
            ["2026-10-25T01", "2026-10-25T02", "2026-10-25T02b", "2026-10-25T03"],
            "2026-10-25T01 to 2026-10-25T03 (4 hours)",
        ),
        ([f"2026-01-{n:02}" for n in range(1, 31, 2)], None),
    ],
)
def test_days_are_described_by_the_ranges_that_they_form(names: list[str], said: str | None) -> None:
    every = ", ".join(names[:8]) + ", 7 more (15 days)"
    assert in_ranges(names) == (every if said is None else said)
