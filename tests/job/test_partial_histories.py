"""Histories that are listed from partial results: the same bytes as from the logs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job.planning import read_inputs
from ctr_samples.periods import Hour
from ctr_samples.samples.partials import Partials
from ctr_samples.sparksql.observations import Silent
from tests.job.partial_days import DAY, both, check_alike, with_histories, write_logs
from tests.support.whole_runs import made, make_unreadable

DAYS = (-41, -40, -39, -6, -5, -4, -3, -2, -1, 0, 1, 2)
"""Around a run: those that histories reach and those just before, and gaps between them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zone", "day", "by_request", "views"),
    [
        ("Europe/Stockholm", date(2019, 3, 31), True, ["daily"]),
        ("UTC", DAY, False, []),
        ("Asia/Kolkata", DAY, True, []),
    ],
)
def test_histories_from_partial_results_are_those_from_the_logs(
    spark: SparkSession, tmp_path: Path, zone: str, day: date, by_request: bool, views: list[str]
) -> None:
    write_logs(tmp_path, DAYS, day, zone)
    paths = both(tmp_path, with_histories(zone=zone, by_request=by_request, views=views), before=45)
    nights = [day, day + timedelta(days=1)]
    check_alike(spark, *paths, *(nights if views else nights[:1]))


@pytest.mark.slow
def test_histories_of_an_hour_from_partial_results_are_those_from_the_logs(spark: SparkSession, tmp_path: Path) -> None:
    day, zone = date(2019, 10, 27), "Europe/Stockholm"
    write_logs(tmp_path, DAYS, day, zone, rows=300)
    paths = both(tmp_path, with_histories("late", "long", zone=zone, grain="hour"), before=45)
    check_alike(spark, *paths, Hour(day, 0), Hour(day, 2, again=True))


@pytest.mark.slow
def test_histories_of_what_was_known_at_a_time_are_the_same_from_partial_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_logs(tmp_path, DAYS)
    paths = both(tmp_path, with_histories("late", "long"), before=45)
    for known_by in (datetime(2019, 6, 5, 0, 0, 1, tzinfo=UTC), datetime(2019, 6, 6, tzinfo=UTC)):
        check_alike(spark, *paths, DAY, known_by=known_by)


@pytest.mark.slow
def test_a_run_needs_no_log_of_the_days_whose_actions_were_kept(spark: SparkSession, tmp_path: Path) -> None:
    write_logs(tmp_path, range(-4, 2))
    plain, kept = both(tmp_path, with_histories("late"), before=45)
    Partials.prepare(read_inputs(spark, load_config(kept).config, DAY, Silent()), DAY, Silent())
    expected = made(spark, plain, DAY).shards
    make_unreadable(*(tmp_path / f"log/{DAY + timedelta(days=n)}.json" for n in (-4, -3)))
    from_partials = made(spark, kept, DAY)
    assert from_partials.shards == expected
    assert from_partials.manifest.plan[-1] == "late is listed from partial results of 4 day(s)"
