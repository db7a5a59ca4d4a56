"""Histories that are listed from partial results: the same bytes as from the logs."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job.planning import read_inputs
from ctr_samples.job.run import run
from ctr_samples.periods import Hour, Period
from ctr_samples.quality.checks import CHECKS
from ctr_samples.samples.partials import Partials
from ctr_samples.sparksql.observations import Silent
from tests.job.partial_days import shards_of, write_config_of_histories, write_log

DAYS = (-41, -40, -39, -6, -5, -4, -3, -2, -1, 0, 1, 2)
"""Around a run: those that histories reach and those just before, and gaps between them."""


def samples(
    spark: SparkSession, path: Path, period: Period, known_by: datetime | None = None
) -> tuple[list[bytes], tuple[str, ...]]:
    """The shards of a day or an hour, made now, and how they were made."""
    config = load_config(path)
    made = run(spark, config, period, force=True, accept=CHECKS, known_by=known_by)
    return shards_of(made.manifest, Path(config.config.output.path)), made.manifest.plan


@pytest.mark.parametrize(
    ("zone", "day", "by_request", "views"),
    [
        ("Europe/Stockholm", date(2019, 3, 31), True, ["daily"]),
        ("America/New_York", date(2019, 11, 3), True, []),
        ("UTC", date(2019, 6, 5), False, []),
        ("Asia/Kolkata", date(2019, 6, 5), True, []),
    ],
)
@pytest.mark.slow
def test_histories_from_partial_results_are_those_from_the_logs(
    spark: SparkSession, tmp_path: Path, zone: str, day: date, by_request: bool, views: list[str]
) -> None:
    for n in DAYS:
        write_log(tmp_path, day + timedelta(days=n), zone)
    form = {"zone": zone, "by_request": by_request, "views": views}
    plain, kept = (write_config_of_histories(tmp_path, out, **form) for out in ("plain", "kept"))
    for night in (day, day + timedelta(days=1))[: 2 if views else 1]:
        assert samples(spark, kept, night)[0] == samples(spark, plain, night)[0]


@pytest.mark.slow
def test_histories_of_an_hour_from_partial_results_are_those_from_the_logs(spark: SparkSession, tmp_path: Path) -> None:
    day, zone = date(2019, 10, 27), "Europe/Stockholm"
    for n in DAYS:
        write_log(tmp_path, day + timedelta(days=n), zone, rows=300)
    form = {"zone": zone, "grain": "hour", "names": ["late", "long"]}
    plain, kept = (write_config_of_histories(tmp_path, out, **form) for out in ("plain", "kept"))
    for hour in (Hour(day, 0), Hour(day, 2, again=True)):
        assert samples(spark, kept, hour)[0] == samples(spark, plain, hour)[0]


@pytest.mark.slow
def test_histories_of_what_was_known_at_a_time_are_the_same_from_partial_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    day = date(2019, 6, 5)
    for n in DAYS:
        write_log(tmp_path, day + timedelta(days=n), "UTC")
    plain, kept = (write_config_of_histories(tmp_path, out, names=["late", "long"]) for out in ("plain", "kept"))
    for known_by in (datetime(2019, 6, 5, 0, 0, 1, tzinfo=UTC), datetime(2019, 6, 6, tzinfo=UTC)):
        assert samples(spark, kept, day, known_by)[0] == samples(spark, plain, day, known_by)[0]


@pytest.mark.slow
def test_a_run_needs_no_log_of_the_days_whose_actions_were_kept(spark: SparkSession, tmp_path: Path) -> None:
    day = date(2019, 6, 5)
    for n in range(-4, 2):
        write_log(tmp_path, day + timedelta(days=n), "UTC")
    plain, kept = (write_config_of_histories(tmp_path, out, names=["late"]) for out in ("plain", "kept"))
    Partials.prepare(read_inputs(spark, load_config(kept).config, day, Silent()), day, Silent())
    expected, _ = samples(spark, plain, day)
    for n in (-4, -3):
        make_unreadable(tmp_path / f"log/{day + timedelta(days=n)}.json")
    shards, told = samples(spark, kept, day)
    assert shards == expected
    assert told[-1] == "late is listed from partial results of 4 day(s)"


def make_unreadable(log: Path) -> None:
    """Nobody can look into a log any more, though it looks the same."""
    size, times = log.stat().st_size, (log.stat().st_atime_ns, log.stat().st_mtime_ns)
    log.write_bytes(b"\x00" * size)
    os.utime(log, ns=times)
