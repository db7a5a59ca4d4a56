"""Paths that name a day: forms, what is filled in, and the day that is read back from what they match."""

from __future__ import annotations

import re
from datetime import date
from fnmatch import fnmatchcase

import pytest

from ctr_samples.day_paths import DayPath, pattern_of

DAY = date(2024, 3, 4)


@pytest.mark.parametrize(
    ("path", "filled"),
    [
        ("log", "log"),
        ("log/{date}", "log/2024-03-04"),
        ("log/{date}/{hour}", "log/2024-03-04/07"),
        ("day={date:%Y%m%d}", "day=20240304"),
        ("log-{date:%Y.%m.%d}.gz", "log-2024.03.04.gz"),
        ("{date:%Y/%m/%d}/{hour:%-H}", "2024/03/04/7"),
        ("year={date:%Y}/month={date:%-m}/day={date:%-d}", "year=2024/month=3/day=4"),
        ("{date:%Y}/{date}.csv", "2024/2024-03-04.csv"),
        ("{date:%d-%m-%Y}", "04-03-2024"),
    ],
)
def test_a_path_is_filled_with_a_day_and_an_hour(path: str, filled: str) -> None:
    assert DayPath(path).problem() is None
    assert DayPath(path).filled(DAY, 7) == filled
    if DayPath(path).is_dated:
        assert DayPath(path).day_of(f"hdfs://n/some/where/{filled}") == DAY


@pytest.mark.parametrize(
    ("path", "found", "day"),
    [
        ("{date:%Y%m%d}-*.json", "20240304-20991231.json", DAY),
        ("*{date:%Y%m%d}", "x-120240304", DAY),
        ("{date:%Y/%m/%d}/*/part-?", "2024/03/04/host/part-1", DAY),
        ("m={date:%-m}/d={date:%-d}/y={date:%Y}", "m=11/d=30/y=2024", date(2024, 11, 30)),
        ("my logs/{date}", "my logs/2024-03-04", DAY),
        ("[ab]c/{date:%Y}/{date:%m%d}", "ac/2024/0304", DAY),
        ("{date}/", "2024-03-04/", DAY),
        ("{date}", "2024-02-30", None),
        ("{date:%Y%m%d}", "20241399", None),
        ("{date:%Y%m%d}", "today", None),
    ],
)
def test_the_day_is_found_in_what_the_path_matches(path: str, found: str, day: date | None) -> None:
    assert DayPath(path).day_of(f"s3://bucket/{found}") == day


@pytest.mark.parametrize("day", [date(2024, 1, 31), date(2024, 10, 9), date(2024, 12, 12), date(1999, 11, 10)])
@pytest.mark.parametrize("path", ["{date}", "{date:%Y%m%d}", "{date:%Y}/{date:%-m}/{date:%-d}"])
def test_a_glob_for_any_day_matches_each_day(path: str, day: date) -> None:
    def choices(glob: str) -> list[str]:
        braces = re.search(r"\{([^}]*)\}", glob)
        return (
            [glob]
            if braces is None
            else [x for c in braces[1].split(",") for x in choices(glob.replace(braces[0], c, 1))]
        )

    filled = DayPath(path).filled(day, None)
    assert any(fnmatchcase(filled, glob) for glob in choices(DayPath(path).glob("date")))
    assert DayPath("x/{date}/{hour}").glob("hour") == "x/{date}/[0-2][0-9]"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("users/dt={date}", "dt"),
        ("users/dt={date}/x", "dt"),
        ("day={date:%Y%m%d}/*.json", "day"),
        ("year={date:%Y}/month={date:%m}/day={date:%d}", None),
        ("users/dt={date}.csv", None),
        ("users/dt={hour}/{date}", None),
        ("users/{date}", None),
        ("users/1t={date}", None),
    ],
)
def test_a_directory_that_names_the_whole_day_has_a_key(path: str, key: str | None) -> None:
    assert DayPath(path).key == key


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("{day}", "the only templates in a path are {date} and {hour}, as they are or as {date:%Y%m%d}, not {day}"),
        ("{date:%Y%m}", "{date:%Y%m} names no day; name the whole day, as {date:%Y/%m/%d} does"),
        (
            "y={date:%Y}/{hour}",
            "y={date:%Y}/{hour} names no month and no day; name the whole day, as {date:%Y/%m/%d} does",
        ),
        ("{hour}", "`{hour}` needs `{date}` in the path too"),
        ("{date:%j}", "found {date:%j}, expected a form of %Y, %m, %d, %-m, %-d with plain characters between them"),
        ("{date:}", "found {date:}, expected a form of %Y, %m, %d, %-m, %-d with plain characters between them"),
        (
            "{date:%Y*%m%d}",
            "found {date:%Y*%m%d}, expected a form of %Y, %m, %d, %-m, %-d with plain characters between them",
        ),
        ("{date}/{hour:%d}", "found {hour:%d}, expected a form of %H, %-H with plain characters between them"),
    ],
)
def test_a_template_that_names_no_day_is_told(path: str, problem: str) -> None:
    assert DayPath(path).problem() == problem


def test_a_template_is_a_pattern_of_what_stands_for_it() -> None:
    assert re.fullmatch(pattern_of("{date:%Y.%-m}") or "", "2024.3")
    assert pattern_of("{a,b}") is None


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/logs/dt={date}", (1, 3)),
        ("/logs/dt={date:%Y-%m-%d}/hour={hour}/*.json", (1, 3)),
        ("/logs/a-{date}.json", (1, 2)),
        ("/logs/{date:%Y}/{date}", None),
        ("/logs/{date:%Y/%m/%d}", None),
        ("/logs/{date:%Y%m%d}", None),
        ("/logs/*-{date}", None),
        ("/logs/a b {date}", None),
        ("/logs/{hour}-{date}", None),
    ],
)
def test_the_place_of_a_day_is_known_where_all_paths_have_it_there(path: str, place: tuple[int, int] | None) -> None:
    assert DayPath(path).iso_place() == place
