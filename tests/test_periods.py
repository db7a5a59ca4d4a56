"""Periods: their names and order, and the hours that the clocks show."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from ctr_samples.errors import UsageError
from ctr_samples.periods import (
    WHOLE,
    Grain,
    Hour,
    Period,
    check_period,
    days_before,
    days_of,
    hours_of,
    in_zone,
    moment_of,
    next_of,
    overlap,
    parse_day,
    parse_period,
    periods_between,
    span_of,
    zone_of,
)

WEDNESDAY = date(2019, 6, 5)
FORWARD, BACK = date(2019, 3, 31), date(2019, 10, 27)
"""Days on which the clocks of Berlin change, at 2 and at 3."""


def test_a_day_reads_from_its_own_text() -> None:
    assert parse_day("2019-06-05") == WEDNESDAY
    assert parse_day("2020-02-29") == date(2020, 2, 29)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2019-02-30", ", which is not in the calendar."),
        ("2019-13-01", ", which is not in the calendar."),
        ("9999-12-31", "; expected a day from 1971 to 2199."),
        ("0001-01-01", "; expected a day from 1971 to 2199."),
    ],
)
def test_a_day_that_cannot_be_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_day(text)
    assert str(caught.value) == f"The date is {text!r}{why}"


@pytest.mark.parametrize(
    "text",
    [
        "../x",
        "2019-06-05/../x",
        "20190605",
        "2019-6-5",
        "2019-W23-3",
        "2019-06-05\n",
        "",
        "today",
    ],
)
def test_what_is_no_day_is_refused_and_shown(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_day(text)
    assert str(caught.value) == f"The date is {text!r}; expected a day such as 2019-11-26."


@pytest.mark.parametrize(
    ("name", "period"),
    [
        ("2019-06-05", WEDNESDAY),
        ("2019-06-05T07", Hour(WEDNESDAY, 7)),
        ("2019-10-27T02b", Hour(BACK, 2, again=True)),
        ("all", WHOLE),
    ],
)
def test_each_period_reads_from_its_own_name(name: str, period: object) -> None:
    assert parse_period(name) == period
    assert str(parse_period(name)) == name


@pytest.mark.parametrize("text", ["2019-06-05T7", "2019-06-05T24", "2019-06-05T07c", "2019-06-31T07", "ALL", ""])
def test_what_is_no_period_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="The date is '"):
        parse_period(text)


@pytest.mark.parametrize(
    ("period", "grain", "expected"),
    [
        (WEDNESDAY, "hour", "The date is '2019-06-05', but the configuration has `grain: hour`; give an hour such as"),
        (
            Hour(WEDNESDAY, 7),
            "day",
            "The date is '2019-06-05T07', but the configuration has `grain: day`; give a day such",
        ),
        (WHOLE, "day", "The date is 'all', but the configuration has `grain: day`; give a day such as 2019-11-26."),
        (WEDNESDAY, "all", "The date is '2019-06-05', but the configuration has `grain: all`; give `all`."),
        (
            Hour(FORWARD, 2),
            "hour",
            "The date is '2019-03-31T02', but the clocks of Europe/Berlin do not show that hour;",
        ),
        (
            Hour(WEDNESDAY, 2, again=True),
            "hour",
            "The date is '2019-06-05T02b', but the clocks of Europe/Berlin do not",
        ),
    ],
)
def test_a_period_that_does_not_fit_the_configuration_is_refused(
    period: date | Hour, grain: Grain, expected: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_period(period, grain, "Europe/Berlin")
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("day", "zone", "names"),
    [
        (FORWARD, "Europe/Berlin", ["00", "01", "03"]),
        (BACK, "Europe/Berlin", ["00", "01", "02", "02b", "03"]),
        (date(2019, 4, 7), "Australia/Lord_Howe", ["00", "01", "01b", "02"]),  # back by half an hour
    ],
)
def test_the_hours_of_a_day_are_those_that_the_clocks_show_and_each_instant_lies_in_one(
    day: date, zone: str, names: list[str]
) -> None:
    spans = hours_of(day, zone)
    assert [str(hour).partition("T")[2] for hour in spans][: len(names)] == names
    starts, ends = zip(*spans.values(), strict=True)
    assert (starts[0], ends[-1]) == span_of(day, zone)
    assert starts[1:] == ends[:-1]


def test_an_hour_that_comes_twice_has_two_spans_of_an_hour() -> None:
    first, second = (span_of(Hour(BACK, 2, again), "Europe/Berlin") for again in (False, True))
    assert first == (datetime(2019, 10, 27, 0, tzinfo=UTC), datetime(2019, 10, 27, 1, tzinfo=UTC))
    assert second == (datetime(2019, 10, 27, 1, tzinfo=UTC), datetime(2019, 10, 27, 2, tzinfo=UTC))
    assert span_of(WHOLE, "UTC") is None


def test_ranges_have_all_days_or_all_hours_that_the_clocks_show() -> None:
    assert periods_between(WHOLE, WHOLE, "UTC") == [WHOLE]
    assert periods_between(date(2019, 2, 28), date(2019, 3, 1), "UTC") == [date(2019, 2, 28), date(2019, 3, 1)]
    night = periods_between(Hour(BACK - timedelta(1), 23), Hour(BACK, 3), "Europe/Berlin")
    assert list(map(str, night)) == [
        "2019-10-26T23",
        "2019-10-27T00",
        "2019-10-27T01",
        "2019-10-27T02",
        "2019-10-27T02b",
        "2019-10-27T03",
    ]
    with pytest.raises(UsageError, match="The last hour is 2019-06-05T01, before the first, 2019-06-05T02"):
        periods_between(Hour(WEDNESDAY, 2), Hour(WEDNESDAY, 1), "UTC")
    with pytest.raises(UsageError, match="Found 2019-06-05 and 2019-06-05T01; expected two days, or two hours"):
        periods_between(WEDNESDAY, Hour(WEDNESDAY, 1), "UTC")


def test_an_hour_is_compared_with_the_same_hour_of_earlier_days() -> None:
    assert days_before(Hour(WEDNESDAY, 7), 1) == Hour(date(2019, 6, 4), 7)
    assert days_before(Hour(BACK, 2, again=True), 7) == Hour(date(2019, 10, 20), 2)
    assert days_before(WEDNESDAY, 7) == date(2019, 5, 29)
    assert days_before(WHOLE, 1) is None


def test_an_hour_lies_in_its_day_and_everything_in_the_whole_log() -> None:
    seven, eight = Hour(WEDNESDAY, 7), Hour(WEDNESDAY, 8)
    assert overlap(seven, seven)
    assert overlap(seven, WEDNESDAY)
    assert overlap(WEDNESDAY, seven)
    assert overlap(WHOLE, seven)
    assert overlap(WEDNESDAY, WHOLE)
    assert not overlap(seven, eight)
    assert not overlap(seven, date(2019, 6, 6))


@pytest.mark.parametrize(
    ("given", "twice"),
    [
        (["2019-06-05", "2019-06-05T07"], "2019-06-05T07 lies in 2019-06-05"),
        (["2019-10-27T02b", "2019-10-26", date(2019, 10, 27)], "2019-10-27T02b lies in 2019-10-27"),
        (["2019-06-05", "all"], "2019-06-05 lies in all"),
        ([Hour(WEDNESDAY, 7), WHOLE, "2019-06-06"], "2019-06-05T07 lies in all"),
        (["2019-06-05", "2019-06-06", date(2019, 6, 5)], "2019-06-05 is there twice"),
    ],
)
def test_a_list_of_days_has_no_period_that_lies_in_another(given: list[Period | str], twice: str) -> None:
    with pytest.raises(UsageError, match=f"`dates` is .*; expected one or more different days, but {twice}, so its"):
        days_of(given, "dates")


def test_a_list_of_days_may_have_hours_of_a_day_and_other_days() -> None:
    given = ["2019-06-05T07", "2019-10-27T02", "2019-10-27T02b", "2019-06-06"]
    assert [str(period) for period in days_of(given, "dates")] == given
    assert days_of(["all"], "dates") == [WHOLE]


def test_after_the_last_hour_of_a_day_comes_the_first_of_the_next() -> None:
    assert next_of(Hour(WEDNESDAY, 22), "UTC") == Hour(WEDNESDAY, 23)
    assert next_of(Hour(WEDNESDAY, 23), "UTC") == Hour(date(2019, 6, 6), 0)
    assert next_of(WEDNESDAY, "UTC") == date(2019, 6, 6)
    assert next_of(WHOLE, "UTC") is None


def test_the_next_hour_is_the_one_that_the_clocks_show() -> None:
    forth, back = date(2019, 3, 31), date(2019, 10, 27)
    assert next_of(Hour(forth, 1), "Europe/Berlin") == Hour(forth, 3)
    assert next_of(Hour(back, 2), "Europe/Berlin") == Hour(back, 2, again=True)
    assert next_of(Hour(back, 2, again=True), "Europe/Berlin") == Hour(back, 3)
    assert next_of(Hour(back, 2, again=True), "UTC") == Hour(back, 3)


def test_a_name_tells_when_its_period_begins() -> None:
    assert moment_of("2019-06-05") == datetime(2019, 6, 5, tzinfo=UTC)
    assert moment_of("2019-10-27T02b") == datetime(2019, 10, 27, 2, tzinfo=UTC)
    assert moment_of("all") is None


@pytest.mark.parametrize(
    ("moment", "zone", "told"),
    [
        ("2019-06-05T18:31:07+00:00", "Asia/Kolkata", "2019-06-06 00:01:07+05:30"),
        ("2019-06-05T18:31:07", "Asia/Kolkata", "2019-06-06 00:01:07+05:30"),
        (datetime(2019, 12, 5, 3, tzinfo=UTC), "America/New_York", "2019-12-04 22:00:00-05:00"),
        (datetime(2019, 6, 5, 3, 0, 0, 250_000, tzinfo=UTC), "UTC", "2019-06-05 03:00:00.250000+00:00"),
    ],
)
def test_a_person_reads_an_instant_by_the_clocks_of_a_zone(moment: datetime | str, zone: str, told: str) -> None:
    assert in_zone(moment, zone) == told


@pytest.mark.parametrize(
    ("config", "zone"),
    [
        ({"timezone": "Asia/Kolkata"}, "Asia/Kolkata"),
        ({"timezone": "${ZONE_OF_TESTS}"}, "Asia/Shanghai"),
        ({"timezone": "${NO_ZONE_OF_TESTS}"}, "UTC"),
        ({"timezone": None}, "UTC"),
        ({}, "UTC"),
    ],
)
def test_the_zone_of_a_manifest_may_stand_in_the_environment(
    config: dict[str, str | None], zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZONE_OF_TESTS", "Asia/Shanghai")
    assert zone_of(config) == zone
