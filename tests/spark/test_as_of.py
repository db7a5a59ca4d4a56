"""The as-of join, sentence by sentence: who is visible, who wins, and that no impression is lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.spark.as_of import AsOf, as_of_join, join_static

Frame = Callable[..., DataFrame]

IMPRESSION = "struct<impression_id: bigint, impression_time: timestamp, user: string>"
FEATURES = "key string, event_time timestamp, available_time timestamp, value string"
DAY = timedelta(days=1)


def impressions(frame: Frame, *rows: tuple[int, str, str | None]) -> DataFrame:
    """Rows of (id, time, user)."""
    flat = frame("id bigint, time timestamp, user string", list(rows))
    return flat.select(
        F.struct(F.col("id").alias("impression_id"), F.col("time").alias("impression_time"), "user").alias("impression")
    )


def features(frame: Frame, *rows: tuple[str, str, str, Any]) -> DataFrame:
    """Rows of (key, event time, available time, value)."""
    flat = frame(FEATURES, list(rows))
    return flat.select("key", "event_time", "available_time", F.struct("value").alias("payload"))


def joined(left: DataFrame, right: DataFrame, ttl: timedelta | None = DAY, inclusive: bool = False) -> dict[int, Any]:
    """Impression id -> (value, age in seconds, matched)."""
    how = AsOf("profile", "impression.user", ttl, inclusive)
    rows = as_of_join(left, right, how).collect()
    assert len({row.impression.impression_id for row in rows}) == len(rows), "an impression came out twice"
    return {r.impression.impression_id: (r.profile.value, r.profile.age_s, r.profile.matched) for r in rows}


NOTHING = (None, None, False)


@pytest.mark.parametrize(
    ("event_time", "inclusive", "expected"),
    [
        ("2019-06-05 09:59:59.999", False, ("v", 0.001, True)),
        ("2019-06-05 10:00:00.000", False, NOTHING),
        ("2019-06-05 10:00:00.000", True, ("v", 0.0, True)),
        ("2019-06-05 10:00:00.001", False, NOTHING),
        ("2019-06-05 10:00:00.001", True, NOTHING),
        ("2019-06-05 09:59:59.999999", False, ("v", 0.000001, True)),
    ],
)
def test_a_row_is_visible_only_if_it_became_true_before(
    frame: Frame, event_time: str, inclusive: bool, expected: object
) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    right = features(frame, ("u1", event_time, event_time, "v"))
    assert joined(left, right, inclusive=inclusive) == {1: expected}


@pytest.mark.parametrize(
    ("available_time", "expected"),
    [
        ("2019-06-05 10:00:00", ("v", 3600.0, True)),
        ("2019-06-05 10:00:00.000001", NOTHING),
    ],
)
def test_a_row_that_was_true_but_not_yet_known_is_invisible(
    frame: Frame, available_time: str, expected: object
) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    right = features(frame, ("u1", "2019-06-05 09:00:00", available_time, "v"))
    assert joined(left, right) == {1: expected}


@pytest.mark.parametrize(
    ("event_time", "expected"),
    [
        ("2019-06-04 10:00:00", ("v", 86400.0, True)),
        ("2019-06-04 09:59:59.999999", NOTHING),
    ],
)
def test_the_ttl_counts_from_each_impression_and_includes_its_end(
    frame: Frame, event_time: str, expected: object
) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    assert joined(left, features(frame, ("u1", event_time, event_time, "v"))) == {1: expected}


def test_without_a_ttl_a_row_never_grows_too_old(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    right = features(frame, ("u1", "2009-06-05 10:00:00", "2009-06-05 10:00:00", "v"))
    assert joined(left, right, ttl=None)[1][0] == "v"


def test_the_latest_event_wins_and_each_impression_sees_its_own_past(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"), (2, "2019-06-05 12:00:00", "u1"))
    right = features(
        frame,
        ("u1", "2019-06-05 08:00:00", "2019-06-05 08:00:00", "first"),
        ("u1", "2019-06-05 09:00:00", "2019-06-05 09:00:00", "second"),
        ("u1", "2019-06-05 11:00:00", "2019-06-05 11:00:00", "third"),
    )
    assert joined(left, right) == {1: ("second", 3600.0, True), 2: ("third", 3600.0, True)}


def test_a_late_correction_of_an_old_fact_does_not_hide_a_newer_one(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    right = features(
        frame,
        ("u1", "2019-06-05 08:00:00", "2019-06-05 09:50:00", "old, corrected late"),
        ("u1", "2019-06-05 09:00:00", "2019-06-05 09:10:00", "newer"),
    )
    assert joined(left, right)[1][0] == "newer"


def test_a_correction_of_the_same_fact_wins_once_it_is_known(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 09:30:00", "u1"), (2, "2019-06-05 10:00:00", "u1"))
    right = features(
        frame,
        ("u1", "2019-06-05 09:00:00", "2019-06-05 09:10:00", "first version"),
        ("u1", "2019-06-05 09:00:00", "2019-06-05 09:50:00", "corrected"),
    )
    assert [joined(left, right)[i][0] for i in (1, 2)] == ["first version", "corrected"]


def test_a_full_tie_gives_one_row_and_the_same_one_in_any_input_order(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    tied = [("u1", "2019-06-05 09:00:00", "2019-06-05 09:00:00", value) for value in ("a", "b", "c")]
    winners = {joined(left, features(frame, *order))[1][0] for order in (tied, tied[::-1], [tied[1], tied[0], tied[2]])}
    assert len(winners) == 1


def test_exact_duplicates_of_a_feature_row_do_not_double_the_impression(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    row = ("u1", "2019-06-05 09:00:00", "2019-06-05 09:00:00", "v")
    assert joined(left, features(frame, row, row, row)) == {1: ("v", 3600.0, True)}


def test_a_match_is_a_whole_row_even_if_its_value_is_null(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    right = features(
        frame,
        ("u1", "2019-06-05 08:00:00", "2019-06-05 08:00:00", "older"),
        ("u1", "2019-06-05 09:00:00", "2019-06-05 09:00:00", None),
    )
    assert joined(left, right) == {1: (None, 3600.0, True)}


def test_impressions_without_a_key_or_a_match_are_kept(frame: Frame) -> None:
    left = impressions(
        frame, (1, "2019-06-05 10:00:00", None), (2, "2019-06-05 10:00:00", None), (3, "2019-06-05 10:00:00", "u3")
    )
    right = features(frame, ("u1", "2019-06-05 09:00:00", "2019-06-05 09:00:00", "v"))
    assert joined(left, right) == {1: NOTHING, 2: NOTHING, 3: NOTHING}


def test_an_empty_view_keeps_all_impressions(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    assert joined(left, features(frame)) == {1: NOTHING}


def test_two_impressions_of_one_user_at_one_moment_both_match(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"), (2, "2019-06-05 10:00:00", "u1"))
    right = features(frame, ("u1", "2019-06-05 09:00:00", "2019-06-05 09:00:00", "v"))
    assert joined(left, right) == {1: ("v", 3600.0, True), 2: ("v", 3600.0, True)}


def test_a_number_and_its_text_are_one_key_also_above_2_to_the_53(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "9007199254740993"))
    flat = frame(
        "key bigint, time timestamp, value string",
        [
            (9007199254740993, "2019-06-05 09:00:00", "mine"),
            (9007199254740992, "2019-06-05 09:30:00", "the neighbour's"),
        ],
    )
    right = flat.select(
        "key",
        F.col("time").alias("event_time"),
        F.col("time").alias("available_time"),
        F.struct("value").alias("payload"),
    )
    assert joined(left, right)[1][0] == "mine"


def test_a_payload_may_hold_maps_lists_and_structs(frame: Frame) -> None:
    left = impressions(frame, (1, "2019-06-05 10:00:00", "u1"))
    flat = frame(
        "time timestamp, tags map<string, double>, ids array<bigint>, place struct<city: string>",
        [("2019-06-05 09:00:00", {"a": 0.5}, [1, 2], ("Lund",)), ("2019-06-05 09:00:00", {"b": 0.5}, [3], ("Oslo",))],
    )
    right = flat.select(
        F.lit("u1").alias("key"),
        F.col("time").alias("event_time"),
        F.col("time").alias("available_time"),
        F.struct("tags", "ids", "place").alias("payload"),
    )
    row = as_of_join(left, right, AsOf("profile", "impression.user", DAY)).first()
    assert row is not None
    whole = (row.profile.tags, row.profile.ids, row.profile.place.city)
    assert whole in [({"a": 0.5}, [1, 2], "Lund"), ({"b": 0.5}, [3], "Oslo")]


def oracle(shown: list[Any], known: list[Any], ttl: timedelta, inclusive: bool) -> dict[int, str | None]:
    """The definition, read aloud in plain Python."""
    result = {}
    for number, time, user in shown:
        visible = [
            row
            for row in known
            if row[0] == user and (row[1] <= time if inclusive else row[1] < time) and row[2] <= time
        ]
        best = max(visible, key=lambda row: (row[1], row[2]), default=None)
        result[number] = best[3] if best is not None and best[1] >= time - ttl else None
    return result


@pytest.mark.parametrize("inclusive", [False, True])
def test_random_tables_agree_with_the_definition(frame: Frame, inclusive: bool) -> None:
    rng = random.Random(20190605)
    start = datetime(2019, 6, 5, tzinfo=UTC)
    # A coarse clock, so that equal times, boundaries and ties of one of the two clocks are common.
    shown = [(n, start + timedelta(minutes=rng.randrange(60)), rng.choice(["a", "b", "c", None])) for n in range(300)]
    pairs = {(rng.choice("abc"), rng.randrange(-40, 60), rng.randrange(0, 30)) for _ in range(150)}
    known = [
        (user, start + timedelta(minutes=event), start + timedelta(minutes=event + delay), f"{user}{event}+{delay}")
        for user, event, delay in pairs
    ]
    left = impressions(frame, *[(n, t.strftime("%F %T"), u) for n, t, u in shown])
    right = features(frame, *[(u, e.strftime("%F %T"), a.strftime("%F %T"), v) for u, e, a, v in known])
    ttl = timedelta(minutes=20)
    assert {n: found[0] for n, found in joined(left, right, ttl, inclusive).items()} == oracle(
        shown, known, ttl, inclusive
    )


def test_a_table_without_times_gives_one_row_for_each_key(frame: Frame) -> None:
    left = impressions(
        frame, (1, "2019-06-05 10:00:00", "u1"), (2, "2019-06-05 10:00:00", "u2"), (3, "2019-06-05 10:00:00", None)
    )
    rows = [("u1", "a"), ("u1", "b"), ("u9", "c")]
    seen = set()
    for order in (rows, rows[::-1]):
        right = frame("key string, value string", order).select("key", F.struct("value").alias("payload"))
        found = {
            r.impression.impression_id: r.profile
            for r in join_static(left, right, "profile", "impression.user").collect()
        }
        assert sorted(found) == [1, 2, 3]
        assert [found[i].matched for i in (1, 2, 3)] == [True, False, False]
        seen.add(found[1].value)
    assert len(seen) == 1
