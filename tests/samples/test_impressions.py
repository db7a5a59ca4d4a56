"""Cutting impressions out of a log: lists, repeats, the day in its zone, and reasons for what is dropped."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from operator import itemgetter
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import Impressions
from ctr_samples.errors import InputError
from ctr_samples.samples.impressions import DROPPED, cut_impressions
from ctr_samples.samples.period import NO_REACH, Reach, Span

Frame = Callable[..., DataFrame]
DAY = Span.of(date(2019, 6, 5), "UTC")
LOG = "at timestamp, user_id string, article_id string, action string"
SHOWN = Impressions(source="log", time="at", user="user_id", article="article_id", where="action = 'exposure'")


def cut(log: DataFrame, shown: Impressions, span: Span = DAY, reach: Reach = NO_REACH) -> list[tuple[Any, ...]]:
    """(time, user, article, position, why it is dropped), in the order of the log."""
    rows = cut_impressions(log, shown, span, 2, reach)
    rows = rows.orderBy("impression_time", "user", "position").withColumn(
        "time", F.date_format("impression_time", "HH:mm:ss")
    )
    return [(r.time, r.user, r.article, r.position, r[DROPPED]) for r in rows.collect()]


def test_only_rows_of_the_action_and_the_day_are_impressions(frame: Frame) -> None:
    log = frame(
        LOG,
        [
            ("2019-06-04 23:59:59.999999", "u1", "a", "exposure"),
            ("2019-06-05 00:00:00", "u1", "b", "exposure"),
            ("2019-06-05 12:00:00", "u1", "b", "click"),
            ("2019-06-05 23:59:59", "u1", "c", "exposure"),
            ("2019-06-06 00:00:00", "u1", "d", "exposure"),
        ],
    )
    assert cut(log, SHOWN) == [("00:00:00", "u1", "b", 0, None), ("23:59:59", "u1", "c", 0, None)]


def test_a_list_becomes_one_impression_for_each_article_with_its_position(frame: Frame) -> None:
    log = frame(
        LOG,
        [
            ("2019-06-05 10:00:00", "u1", "[18577, 14299]", "exposure"),
            ("2019-06-05 11:00:00", "u1", "7", "exposure"),
            ("2019-06-05 12:00:00", "u1", "[]", "exposure"),
            ("2019-06-05 13:00:00", "u1", "[1, 2", "exposure"),
        ],
    )
    assert cut(log, SHOWN.model_copy(update={"explode": "article"})) == [
        ("10:00:00", "u1", "18577", 0, None),
        ("10:00:00", "u1", "14299", 1, None),
        ("11:00:00", "u1", "7", 0, None),
        ("13:00:00", "u1", None, 0, "no_article"),
    ]


def test_a_number_that_is_no_place_in_a_list_is_none(frame: Frame) -> None:
    rows = [
        ("2019-06-05 10:00:00", f"u{n}", "a", place)
        for n, place in enumerate([3, 2**31 - 1, 2**31, 2**32 - 1, -(2**40)])
    ]
    log = frame("at timestamp, user_id string, article_id string, place bigint", rows)
    shown = SHOWN.model_copy(update={"where": None, "position": "place"})
    assert [row[3] for row in cut(log, shown)] == [3, 2**31 - 1, None, None, None]


@pytest.mark.parametrize("kind", ["array<int>", "struct<n: int>", "map<string, int>", "date", "binary"])
def test_what_is_no_number_is_no_place_in_a_list(frame: Frame, kind: str) -> None:
    log = frame(f"at timestamp, user_id string, article_id string, place {kind}", [])
    shown = SHOWN.model_copy(update={"where": None, "position": "place"})
    with pytest.raises(InputError, match=r"impressions\.position: place is .*, expected a whole number"):
        cut(log, shown)


def test_an_article_twice_in_one_list_is_a_repeat(frame: Frame) -> None:
    log = frame(LOG, [("2019-06-05 10:00:00", "u1", "[7, 8, 7]", "exposure")])
    assert [row[2:] for row in cut(log, SHOWN.model_copy(update={"explode": "article"}))] == [
        ("7", 0, None),
        ("8", 1, None),
        ("7", 2, "repeated"),
    ]


def test_a_repeat_is_the_same_user_and_article_within_the_interval_after_the_one_before(frame: Frame) -> None:
    log = frame(
        LOG,
        [
            ("2019-06-05 10:00:00", "u1", "a", "exposure"),
            ("2019-06-05 10:00:10", "u2", "a", "exposure"),
            ("2019-06-05 10:00:20", "u1", "b", "exposure"),
            ("2019-06-05 10:00:30", "u1", "a", "exposure"),
            ("2019-06-05 10:01:00", "u1", "a", "exposure"),
            ("2019-06-05 10:01:30.001", "u1", "a", "exposure"),
        ],
    )
    shown = SHOWN.model_copy(update={"dedup": timedelta(seconds=30)})
    assert [row[4] for row in cut(log, shown)] == [None, None, None, "repeated", "repeated", None]


def test_a_repeat_across_midnight_is_seen(frame: Frame) -> None:
    log = frame(LOG, [("2019-06-04 23:59:50", "u1", "a", "exposure"), ("2019-06-05 00:00:10", "u1", "a", "exposure")])
    shown = SHOWN.model_copy(update={"dedup": timedelta(seconds=30)})
    assert cut(log, shown, reach=Reach(timedelta(seconds=30)))[1] == ("00:00:10", "u1", "a", 0, "repeated")


def test_without_an_interval_only_the_same_moment_is_a_repeat(frame: Frame) -> None:
    row = ("2019-06-05 10:00:00", "u1", "a", "exposure")
    log = frame(LOG, [row, row, ("2019-06-05 10:00:00.001", "u1", "a", "exposure")])
    assert sorted(str(row[4]) for row in cut(log, SHOWN)) == ["None", "None", "repeated"]


def test_within_a_request_the_same_article_is_a_repeat_whatever_the_time(frame: Frame) -> None:
    log = frame(
        "at timestamp, request_id string, user_id string, article_id string",
        [
            ("2019-06-05 10:00:00", "r1", "u1", "a"),
            ("2019-06-05 11:00:00", "r1", "u1", "a"),
            ("2019-06-05 11:00:01", "r2", "u1", "a"),
        ],
    )
    shown = Impressions(source="log", time="at", user="user_id", article="article_id", request="request_id")
    assert [row[4] for row in cut(log, shown)] == [None, "repeated", None]


@pytest.mark.thorough
def test_a_request_shows_an_item_again_on_another_day_or_later_than_its_interval(frame: Frame) -> None:
    log = frame(
        "at timestamp, request_id string, user_id string, article_id string",
        [
            ("2019-06-04 23:59:59", "r1", "u1", "a"),
            ("2019-06-05 00:00:01", "r1", "u1", "a"),
            ("2019-06-05 00:10:01", "r1", "u1", "a"),
            ("2019-06-05 00:20:02", "r1", "u1", "a"),
        ],
    )
    by_day = Impressions(source="log", time="at", user="user_id", article="article_id", request="request_id")
    near = Reach(timedelta(minutes=10))
    assert [row[4] for row in cut(log, by_day, reach=near)] == [None, None, "repeated", "repeated"]
    by_time = by_day.model_copy(update={"dedup": timedelta(minutes=10)})
    assert [row[4] for row in cut(log, by_time, reach=near)] == [None, "repeated", "repeated", None]
    ids = [
        [row.impression_id for row in cut_impressions(log, one, DAY, 2, near).collect()] for one in (by_day, by_time)
    ]
    assert [len({*some}) for some in ids] == [1, 4]


def test_a_row_without_a_time_makes_no_other_row_of_its_request_a_repeat(frame: Frame) -> None:
    log = frame(
        "at timestamp, request_id string, user_id string, article_id string",
        [(None, "r1", "u1", "a"), ("2019-06-05 10:00:00", "r1", "u1", "a"), ("2019-06-05 11:00:00", "r1", "u1", "a")],
    )
    shown = Impressions(source="log", time="at", user="user_id", article="article_id", request="request_id")
    assert sorted(str(row[4]) for row in cut(log, shown)) == ["None", "no_time", "repeated"]


def test_of_two_rows_of_one_moment_the_same_one_is_kept_whatever_their_order(frame: Frame) -> None:
    rows = [("2019-06-05 10:00:00", "u1", "a", "phone"), ("2019-06-05 10:00:00", "u1", "a", "tablet")]
    shown = SHOWN.model_copy(update={"where": None, "columns": {"device": "action"}})
    kept = {
        row["device"]
        for order in (rows, rows[::-1])
        for row in cut_impressions(frame(LOG, order), shown, DAY, 2).where(F.col(DROPPED).isNull()).collect()
    }
    assert len(kept) == 1


@pytest.mark.thorough
def test_within_a_request_an_unknown_user_is_one_person(frame: Frame) -> None:
    log = frame(
        "at timestamp, request_id string, user_id string, article_id string",
        [("2019-06-05 10:00:00", "r1", None, "a"), ("2019-06-05 10:05:00", "r1", None, "a")],
    )
    shown = Impressions(source="log", time="at", user="user_id", article="article_id", request="request_id")
    assert [row[4] for row in cut(log, shown)] == [None, "repeated"]


def test_two_unknown_users_are_two_people(frame: Frame) -> None:
    log = frame(LOG, [("2019-06-05 10:00:00", None, "a", "exposure"), ("2019-06-05 10:00:10", None, "a", "exposure")])
    shown = SHOWN.model_copy(update={"dedup": timedelta(seconds=30)})
    assert [row[4] for row in cut(log, shown)] == [None, None]


def test_a_row_without_a_readable_time_is_dropped(frame: Frame) -> None:
    log = frame(
        "at string, user_id string, article_id string, action string",
        [("not yet", "u1", "a", "exposure"), ("2019-06-05 10:00:00", "u1", "b", "exposure")],
    )
    assert [row[4] for row in cut(log, SHOWN)] == ["no_time", None]


@pytest.mark.parametrize("dedup", [None, timedelta(seconds=4)])
@pytest.mark.parametrize("seed", range(3))
def test_impressions_are_dropped_for_the_reasons_of_the_rule_in_python(
    frame: Frame, seed: int, dedup: timedelta | None
) -> None:
    rng = random.Random(seed)
    times = [f"2019-06-0{day} {time}" for day, time in ((4, "23:59:5"), (5, "00:00:0"), (5, "23:59:5"), (6, "00:00:0"))]
    rows = [
        (
            rng.choice([None, *[f"{time}{second}" for time in times for second in range(0, 10, 3)]]),
            *[rng.choice([None, f"{key}1", f"{key}2"]) for key in "rua"],
            rng.choice([None, 1, 2]),
        )
        for _ in range(300)
    ]
    shown = Impressions(
        source="log", time="at", user="user_id", article="article_id", request="request_id", position="position", dedup=dedup,
    )  # fmt: skip
    log = frame("at timestamp, request_id string, user_id string, article_id string, position int", rows)
    found = cut_impressions(log, shown, DAY, 2, Reach(timedelta(hours=1), timedelta(hours=1)))
    time = F.date_format("impression_time", "yyyy-MM-dd HH:mm:ss").alias("time")
    now = found.select(time, "request", "user", "article", "position", DROPPED).collect()
    assert Counter(map(tuple, now)) == Counter(dropped_by_rule(rows, dedup))


def dropped_by_rule(rows: list[tuple[Any, ...]], dedup: timedelta | None) -> Iterator[tuple[Any, ...]]:
    """Rows with why they are dropped: no time, no article, or shown before in the request, on its day or within ``dedup``."""
    alike = defaultdict(list)
    for time, request, user, article, position in rows:
        day = time and time[:10] if dedup is None else None
        moment = time if request is None and user is None else None
        alike[request, user, article, day, moment].append((time is None, time or "", position or 0, time, position))
    for (request, user, article, *_), some in alike.items():
        before = None
        for _, _, _, time, position in sorted(some, key=itemgetter(0, 1, 2)):
            at = None if time is None else datetime.fromisoformat(time)
            near = at is not None and before is not None and at - before <= (dedup or timedelta())
            again = near or (before is not None and dedup is None and request is not None)
            reason = "no_time" if at is None else "no_article" if article is None else "repeated" if again else None
            yield time, request, user, article, position, reason
            before = at or before


@pytest.mark.parametrize(
    ("timezone", "hours", "first"),
    [
        ("UTC", 24, "2019-06-05 00:00:00"),
        ("Asia/Shanghai", 24, "2019-06-04 16:00:00"),
        ("America/New_York", 24, "2019-06-05 04:00:00"),
    ],
)
def test_a_day_begins_at_midnight_of_its_zone(timezone: str, hours: int, first: str) -> None:
    day = Span.of(date(2019, 6, 5), timezone)
    assert day.start.strftime("%F %T") == first
    assert day.end - day.start == timedelta(hours=hours)


def test_a_day_on_which_the_clocks_change_has_23_or_25_hours() -> None:
    spring, autumn = (Span.of(day, "Europe/Paris") for day in (date(2019, 3, 31), date(2019, 10, 27)))
    assert spring.end - spring.start == timedelta(hours=23)
    assert autumn.end - autumn.start == timedelta(hours=25)


def test_ids_are_stable_and_differ_for_keys_that_read_alike(frame: Frame) -> None:
    log = frame(
        LOG,
        [
            ("2019-06-05 10:00:00", "1", "23", "exposure"),
            ("2019-06-05 10:00:00", "12", "3", "exposure"),
            ("2019-06-05 10:00:01", "1", "23", "exposure"),
        ],
    )
    ids = [[r.impression_id for r in cut_impressions(log, SHOWN, DAY, 2).collect()] for _ in range(2)]
    assert len(set(ids[0])) == 3
    assert sorted(ids[0]) == sorted(ids[1])
