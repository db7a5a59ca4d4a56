"""What a run of an hour, or of the whole log, reads of dated sources."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.errors import InputError
from ctr_samples.periods import WHOLE, Hour
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.samples.period import Reach, days_needed, periods_needed
from ctr_samples.sparksql.session import run_session
from tests.samples.inputs.reading import rows_of, source_of, write

WEDNESDAY = date(2019, 6, 5)
HOUR = timedelta(hours=1)


def source(path: Path | str, **keys: object) -> Any:
    return source_of(path, schema="a INT", **keys)


@pytest.mark.parametrize(
    ("hour", "keys", "forward", "days"),
    [
        (7, {"days_before": 1, "days_after": 1}, HOUR, ["2019-06-04", "2019-06-05"]),
        (22, {"days_after": 1}, HOUR, ["2019-06-05", "2019-06-05"]),
        (23, {"days_after": 1}, HOUR, ["2019-06-05", "2019-06-06"]),
        (23, {}, timedelta(), ["2019-06-05", "2019-06-05"]),
        (7, {"days_after": 2}, HOUR, ["2019-06-05", "2019-06-06"]),
        (23, {"days_before": 3}, timedelta(), ["2019-06-02", "2019-06-05"]),
    ],
)
def test_an_hour_reads_the_days_before_it_as_its_day_does_and_no_later_day_than_windows_and_source_need(
    hour: int, keys: dict[str, int], forward: timedelta, days: list[str]
) -> None:
    read = days_needed(source("log/{date}", **keys), Hour(WEDNESDAY, hour), "UTC", Reach(after=forward))
    assert [str(read[0]), str(read[-1])] == days


def test_a_path_with_the_hour_is_read_for_each_hour_in_reach() -> None:
    log = source("log/{date}/{hour}", days_before=1, days_after=1)
    hours = periods_needed(log, Hour(WEDNESDAY, 7), "UTC", Reach(after=timedelta(minutes=90)))
    assert (str(hours[0]), str(hours[-1]), len(hours)) == ("2019-06-04T07", "2019-06-05T09", 27)
    assert log.path_of(hours[0]) == "log/2019-06-04/07"


@pytest.mark.parametrize(
    ("hour", "before", "days_before", "first"),
    [
        (7, timedelta(minutes=30), 0, "2019-06-05T06"),
        (7, timedelta(hours=7), 0, "2019-06-05T00"),
        (0, timedelta(minutes=30), 0, "2019-06-05T00"),
        (0, timedelta(minutes=30), 1, "2019-06-04T00"),
    ],
)
def test_an_hour_looks_back_as_far_as_repeats_reach_but_no_further_than_its_day_does(
    hour: int, before: timedelta, days_before: int, first: str
) -> None:
    log = source("log/{date}/{hour}", days_before=days_before)
    assert str(periods_needed(log, Hour(WEDNESDAY, hour), "UTC", Reach(before))[0]) == first


def test_directories_of_hours_are_read_by_the_hour_and_by_the_day_and_those_of_days_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    session, frames = run_session(spark, "UTC"), {}
    for hour in (5, 6, 7):
        write(tmp_path / f"dt=2019-06-05/hour={hour:02}/x.json", hour)
    log = source(f"{tmp_path}/dt={{date}}/hour={{hour}}", days_after=1)
    found = read_source(session, "log", log, Hour(WEDNESDAY, 7), Reach(after=HOUR))
    assert found.snapshot["missing_days"] == ["2019-06-05T08"]
    with pytest.raises(InputError, match=r"there is no .*/dt=2019-06-05/hour=09; check the path"):
        read_source(session, "log", log, Hour(WEDNESDAY, 9), Reach(after=HOUR))
    of_day = source(f"{tmp_path}/dt={{date}}/hour={{hour}}")
    with pytest.raises(InputError, match=r"there is no .*/dt=2019-06-06/hour=00; check the path"):
        read_source(session, "log", of_day, date(2019, 6, 6))
    frames["an hour"] = found.frame, ["a"]
    frames["a day"] = read_source(session, "log", of_day, WEDNESDAY).frame, ["a"]
    for pattern in ("logs/{date}", "log/dt={date}/part-*"):
        for number in (3, 5, 14):
            path = pattern.replace("{date}", f"2019-06-{number:02}").replace("*", "0.json")
            write(tmp_path / path if path.endswith("json") else tmp_path / path / "x.json", number)
        whole = read_source(session, "log", source(tmp_path / pattern), WHOLE)
        assert (whole.missing_days, len(whole.files or ())) == ((), 3)
        frames[pattern] = whole.frame, ["a"]
    assert [sorted(a for (a,) in rows) for rows in rows_of(frames).values()] == [[7], [5, 6, 7], *[[3, 5, 14]] * 2]


def test_an_hour_that_comes_twice_has_one_directory_and_a_whole_log_without_a_day_is_refused_unless_it_is_optional(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "2019-10-27/02/x.json", 2)
    log = source(f"{tmp_path}/{{date}}/{{hour}}")
    found = read_source(run_session(spark, "Europe/Berlin"), "log", log, Hour(date(2019, 10, 27), 2, again=True))
    assert [file.path for file in found.files or ()] == [f"file:{tmp_path}/2019-10-27/02/x.json"]
    with pytest.raises(InputError, match=r"there is no .*/\{date\}; check the path"):
        read_source(run_session(spark, "UTC"), "log", source(tmp_path / "none/{date}"), WHOLE)
    absent = source(tmp_path / "none/{date}", optional=True)
    empty = read_source(run_session(spark, "UTC"), "log", absent, WHOLE)
    assert (empty.files, empty.absent, empty.missing_days) == ((), f"{tmp_path}/none/{{date}}", ())
