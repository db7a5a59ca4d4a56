"""Cutting impressions out of a log: lists, repeats, the day in its zone, and reasons for what is dropped."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ctr_samples.config import Impressions
from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.blocks import PLACE
from ctr_samples.samples.impressions import CONTENT, DROPPED, Repeats, cut_impressions, marked
from ctr_samples.samples.period import NO_REACH, Reach, Span
from tests.support.literal_frames import Frame
from tests.support.stages import hashed, ran, stage_of, table

DAY = Span.of(date(2019, 6, 5), "UTC")
LOG = "at timestamp, user_id string, article_id string, action string"
SHOWN = Impressions(source="log", time="at", user="user_id", article="article_id", where="action = 'exposure'")


PLACED = SHOWN.model_copy(update={"where": None, "position": "place"})
CUTS: dict[str, tuple[str, list[tuple[Any, ...]], Impressions, Reach, list[tuple[Any, ...]]]] = {
    "only rows of the action and the day, and those without a readable time are dropped": (
        LOG.replace("timestamp", "string"),
        [
            ("2019-06-04 23:59:59.999999", "u1", "a", "exposure"),
            ("2019-06-05 00:00:00", "u1", "b", "exposure"),
            ("2019-06-05 12:00:00", "u1", "b", "click"),
            ("2019-06-05 23:59:59", "u1", "c", "exposure"),
            ("2019-06-06 00:00:00", "u1", "d", "exposure"),
            ("not yet", "u1", "a", "exposure"),
        ],
        SHOWN,
        NO_REACH,
        [(None, "u1", "a", 0, "no_time"), ("00:00:00", "u1", "b", 0, None), ("23:59:59", "u1", "c", 0, None)],
    ),
    "a list becomes one for each article with its position, and an article twice in it is a repeat": (
        LOG,
        [
            ("2019-06-05 10:00:00", "u1", "[18577, 14299]", "exposure"),
            ("2019-06-05 11:00:00", "u1", "7", "exposure"),
            ("2019-06-05 12:00:00", "u1", "[]", "exposure"),
            ("2019-06-05 13:00:00", "u1", "[1, 2", "exposure"),
            ("2019-06-05 14:00:00", "u1", "[7, 8, 7]", "exposure"),
        ],
        SHOWN.model_copy(update={"explode": "article"}),
        NO_REACH,
        [
            ("10:00:00", "u1", "18577", 0, None),
            ("10:00:00", "u1", "14299", 1, None),
            ("11:00:00", "u1", "7", 0, None),
            ("13:00:00", "u1", None, 0, "no_article"),
            ("14:00:00", "u1", "7", 0, None),
            ("14:00:00", "u1", "8", 1, None),
            ("14:00:00", "u1", "7", 2, "repeated"),
        ],
    ),
    "a number that is no place in a list is none": (
        "at timestamp, user_id string, article_id string, place bigint",
        [
            ("2019-06-05 10:00:00", f"u{n}", "a", place)
            for n, place in enumerate([3, 2**31 - 1, 2**31, 2**32 - 1, -(2**40)])
        ],
        PLACED,
        NO_REACH,
        [("10:00:00", f"u{n}", "a", place, None) for n, place in enumerate([3, 2**31 - 1, None, None, None])],
    ),
    "a repeat across midnight is seen": (
        LOG,
        [("2019-06-04 23:59:50", "u1", "a", "exposure"), ("2019-06-05 00:00:10", "u1", "a", "exposure")],
        SHOWN.model_copy(update={"dedup": timedelta(seconds=30)}),
        Reach(timedelta(seconds=30)),
        [("23:59:50", "u1", "a", 0, None), ("00:00:10", "u1", "a", 0, "repeated")],
    ),
}
"""Columns and rows of a log, how impressions are cut, how far back the run reads, and what is cut."""


def test_impressions_are_cut_out_of_a_log(frame: Frame) -> None:
    cuts = []
    for what, (schema, rows, shown, reach, _) in CUTS.items():
        found = cut_impressions(frame(schema, rows), shown, DAY, 2, reach)
        time = F.date_format("impression_time", "HH:mm:ss")
        cuts.append(found.select(F.lit(what), "impression_time", time, "user", "article", "position", DROPPED))
    found = sorted(
        (tuple(row) for row in reduce(DataFrame.union, cuts).collect()),
        key=lambda row: (str(row[1] or ""), row[3], -1 if row[5] is None else row[5]),
    )
    now = {what: [row[2:] for row in found if row[0] == what] for what in CUTS}
    assert now == {what: expected for what, (*_, expected) in CUTS.items()}


def test_what_is_no_number_is_no_place_in_a_list(frame: Frame) -> None:
    for kind in ("array<int>", "struct<n: int>", "map<string, int>", "date", "binary"):
        log = frame(f"at timestamp, user_id string, article_id string, place {kind}", [])
        with pytest.raises(InputError, match=r"impressions\.position: place is .*, expected a whole number"):
            cut_impressions(log, PLACED, DAY, 2)


BY_USER = Impressions(source="log", time="at", user="user_id", article="article_id")
BY_REQUEST = BY_USER.model_copy(update={"request": "request_id"})
FLAT = "impression_time timestamp, request string, user string, article string, position int, device string"


def marked_here(rows: Sequence[tuple[Any, ...]], shown: Impressions, zone: str = "UTC") -> list[Row]:
    """Impressions with the reason for dropping them, in this process."""
    flat = table(FLAT, rows)
    places = pa.array(hashed(flat["request"], flat["user"], flat["article"]))
    placed = flat.append_column(CONTENT, pa.array(hashed(*flat.columns))).append_column(PLACE, places)
    return ran(marked(stage_of(placed), Repeats.of(shown, zone), 2))[0]


def in_text(time: datetime | None) -> str | None:
    return time and time.strftime("%F %T.%f").removesuffix(".000000")


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Stockholm", "Australia/Lord_Howe"])
def test_where_the_clocks_change_only_what_was_logged_twice_is_a_repeat_without_an_interval(zone: str) -> None:
    first = datetime(2024, 1, 1, tzinfo=UTC)
    days = [first + timedelta(days=n) for n in range(366)]
    midnights = [day.astimezone(ZoneInfo(zone)).utcoffset() for day in days]
    changes = [day for day, before, after in zip(days, midnights, midnights[1:], strict=False) if before != after]
    assert len(changes) == 2
    for change in changes:
        half_hours = [change + timedelta(minutes=15 * n) for n in range(24 * 4)]
        rows = [(at, None, "u", "a", 0, None) for at in [*half_hours, half_hours[50]]]
        found = Counter((row.impression_time, row[DROPPED]) for row in marked_here(rows, BY_USER, zone))
        assert found == Counter([*[(at, None) for at in half_hours], (half_hours[50], "repeated")])


def test_of_two_rows_of_one_moment_the_same_one_is_kept_whatever_their_order() -> None:
    times = ("2019-06-05 10:00:00", None, "u1", "a", 0)
    rows = [(*times, "phone"), (*times, "tablet")]
    one, other = (
        {row.device for row in marked_here(order, BY_USER) if row[DROPPED] is None} for order in (rows, rows[::-1])
    )
    assert one == other
    assert len(one) == 1


def random_rows(seed: int) -> list[tuple[Any, ...]]:
    """Rows of (time, request, user, article, position)."""
    rng = random.Random(seed)
    times = [f"2019-06-0{day} {time}" for day, time in ((4, "23:59:5"), (5, "00:00:0"), (5, "23:59:5"), (6, "00:00:0"))]
    return [
        (
            rng.choice([None, *[f"{time}{second}" for time in times for second in range(0, 10, 3)]]),
            *[rng.choice([None, f"{key}1", f"{key}2"]) for key in "rua"],
            rng.choice([None, 1, 2]),
        )
        for _ in range(300)
    ]


@pytest.mark.parametrize("dedup", [None, timedelta(seconds=4)])
@pytest.mark.parametrize("of", [BY_REQUEST, BY_USER], ids=["by request", "by user"])
def test_impressions_are_dropped_for_the_reasons_of_the_rule_in_python(
    of: Impressions, dedup: timedelta | None
) -> None:
    for seed in range(3):
        rows = [(time, request if of.request else None, *rest) for time, request, *rest in random_rows(seed)]
        found = marked_here([(*row, None) for row in rows], of.model_copy(update={"dedup": dedup}))
        now = [(in_text(r.impression_time), r.request, r.user, r.article, r.position, r[DROPPED]) for r in found]
        assert Counter(now) == Counter(dropped_by_rule(rows, dedup))


@pytest.mark.some(1)
@pytest.mark.parametrize("dedup", [None, timedelta(seconds=4)])
def test_spark_drops_the_same_impressions(frame: Frame, dedup: timedelta | None) -> None:
    rows, shown = random_rows(7), BY_REQUEST.model_copy(update={"dedup": dedup, "position": "position"})
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
    ("timezone", "day", "first", "hours"),
    [
        ("UTC", date(2019, 6, 5), "2019-06-05 00:00:00", 24),
        ("Asia/Shanghai", date(2019, 6, 5), "2019-06-04 16:00:00", 24),
        ("Europe/Paris", date(2019, 3, 31), "2019-03-30 23:00:00", 23),
        ("Europe/Paris", date(2019, 10, 27), "2019-10-26 22:00:00", 25),
    ],
)
def test_a_day_begins_at_midnight_of_its_zone_and_has_23_to_25_hours(
    timezone: str, day: date, first: str, hours: int
) -> None:
    span = Span.of(day, timezone)
    assert (span.start.strftime("%F %T"), span.end - span.start) == (first, timedelta(hours=hours))


@pytest.mark.thorough
def test_ids_are_those_of_a_request_and_its_article_or_with_an_interval_of_each_time(frame: Frame) -> None:
    near = Reach(timedelta(minutes=10))
    times = ["2019-06-04 23:59:59", *[f"2019-06-05 00:{minute}:01" for minute in ("00", "10", "20")]]
    schema = "at timestamp, request_id string, user_id string, article_id string"
    log = frame(schema, [(time, "r1", "u1", "a") for time in times])
    by_time = BY_REQUEST.model_copy(update={"dedup": near.before})
    every = [
        cut_impressions(log, how, DAY, 2, near).select("impression_id").distinct() for how in (BY_REQUEST, by_time)
    ]
    assert [ids.count() for ids in every] == [1, 4]
