"""What becomes of the actions of an impression: any, sum, max, first, their masks, and how the old system got them wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import ActionLabel, Impressions
from ctr_samples.samples.labels.plans import plan_label
from ctr_samples.samples.period import Reach, Span
from tests.samples.labels.labelling import label

Frame = Callable[..., DataFrame]
DAY = Span.of(date(2019, 6, 5), "UTC")
SHOWN = Impressions(source="log", time="at", request="request_id", user="user_id", article="article_id")
READ = "action = 'read'"
LABELS = {
    "clicked": ActionLabel(source="log", where="action = 'click'", window="30m"),
    **{
        how: ActionLabel(source="log", where=READ, window="2h", value="read_ms", reduce=how)
        for how in ("sum", "max", "first")
    },
}
COLUMNS = ["clicked", "sum", "sum__mask", "max", "max__mask", "first", "first__mask"]
NOTHING = (0, 0.0, 0, 0.0, 0, 0.0, 0)

NAN = pytest.approx(float("nan"), nan_ok=True)

Action = tuple[str, str | None, str, str | None]
"""Time, request, what, milliseconds."""

CASES: dict[str, tuple[list[Action], tuple[Any, ...]]] = {
    "no action": ([], NOTHING),
    "a click is not reading": ([("10:01:00", None, "click", None)], (1, 0.0, 0, 0.0, 0, 0.0, 0)),
    "reading is not a click": ([("10:01:00", None, "read", "1500")], (0, 1500.0, 1, 1500.0, 1, 1500.0, 1)),
    "numbers are compared as numbers": (
        [("10:02:00", None, "read", "1000"), ("10:03:00", None, "read", "900")],
        (0, 1900.0, 1, 1000.0, 1, 1000.0, 1),
    ),
    "the first is the earliest whatever the order of the log": (
        [("10:05:00", None, "read", "5"), ("10:04:00", None, "read", "70"), ("10:06:00", None, "read", "6")],
        (0, 81.0, 1, 70.0, 1, 70.0, 1),
    ),
    "of two at one moment the first is the smaller": (
        [("10:05:00", None, "read", "8"), ("10:05:00", None, "read", "7")],
        (0, 15.0, 1, 8.0, 1, 7.0, 1),
    ),
    "however great the other is": (
        [("10:05:00", None, "read", "9223372036854775808"), ("10:05:00", None, "read", "7")],
        (0, 2.0**63, 1, 2.0**63, 1, 7.0, 1),
    ),
    "a negative number is smaller": (
        [("10:05:00", None, "read", "0.5"), ("10:05:00", None, "read", "-7"), ("10:05:00", None, "read", "-0.5")],
        (0, -7.0, 1, 0.5, 1, -7.0, 1),
    ),
    "an infinite number is the greatest": (
        [("10:05:00", None, "read", "Infinity"), ("10:05:00", None, "read", "NaN"), ("10:05:00", None, "read", "7")],
        (0, NAN, 1, NAN, 1, 7.0, 1),
    ),
    "an action without a number says nothing": ([("10:01:00", None, "read", "")], NOTHING),
    "the first is the earliest that has a number": (
        [("10:01:00", None, "read", ""), ("10:02:00", None, "read", "3")],
        (0, 3.0, 1, 3.0, 1, 3.0, 1),
    ),
    "reading for no time is not the same as not reading": (
        [("10:01:00", None, "read", "0")],
        (0, 0.0, 1, 0.0, 1, 0.0, 1),
    ),
    "a negative number is a number": ([("10:01:00", None, "read", "-4")], (0, -4.0, 1, -4.0, 1, -4.0, 1)),
    "each label has its own window": (
        [("11:00:00", None, "click", None), ("11:00:00", None, "read", "5")],
        (0, 5.0, 1, 5.0, 1, 5.0, 1),
    ),
    "what is found by request and what is found by user is put together": (
        [("10:03:00", "r", "read", "20"), ("10:02:00", None, "read", "30"), ("10:01:00", None, "read", "4")],
        (0, 54.0, 1, 30.0, 1, 4.0, 1),
    ),
}


def test_every_case(frame: Frame) -> None:
    impressions, log = [], []
    for number, (name, (actions, _)) in enumerate(CASES.items()):
        impressions.append((number, "2019-06-05 10:00:00", f"{name} r", name, "a"))
        for time, request, what, value in actions:
            log.append((f"2019-06-05 {time}", request and f"{name} {request}", name, "a", what, value))
    shown = frame(
        "impression_id bigint, impression_time timestamp, request string, user string, article string", impressions
    )
    actions = frame(
        "at string, request_id string, user_id string, article_id string, action string, read_ms string", log
    )
    plans = [plan_label(name, label, SHOWN) for name, label in LABELS.items()]
    rows, _ = label(shown, plans, DAY, lambda _: actions)
    found = {r.user: tuple(r[c] for c in COLUMNS) for r in rows}
    assert found == {name: expected for name, (_, expected) in CASES.items()}


def test_a_day_without_actions_labels_everything_zero(frame: Frame) -> None:
    shown = frame(
        "impression_id bigint, impression_time timestamp, request string, user string, article string",
        [(1, "2019-06-05 10:00:00", "r", "u", "a")],
    )
    log = frame("at string, request_id string, user_id string, article_id string, action string, read_ms string", [])
    plans = [plan_label(name, label, SHOWN) for name, label in LABELS.items()]
    ((row,), _) = label(shown, plans, DAY, lambda _: log)
    assert tuple(row[column] for column in COLUMNS) == NOTHING


@pytest.mark.thorough
def test_a_sum_of_fractions_does_not_depend_on_the_order_of_the_log(frame: Frame) -> None:
    values = ["1e16", "1", "-1e16", "1", "0.5"]
    shown = frame(
        "impression_id bigint, impression_time timestamp, user string, article string",
        [(1, "2019-06-05 10:00:00", "u", "a")],
    )
    log = [("2019-06-05 10:01:00", "u", "a", "read", value) for value in values]
    plans = [
        plan_label("sum", LABELS["sum"], Impressions(source="log", time="at", user="user_id", article="article_id"))
    ]
    sums = set()
    for order in (log, log[::-1], log[3:] + log[:3]):
        actions = frame("at string, user_id string, article_id string, action string, read_ms string", order)
        ((row,), _) = label(shown, plans, DAY, lambda _, a=actions: a)
        sums.add(row["sum"])
    assert len(sums) == 1


# Two defects of the system that this one replaces: what it did, in its own SQL, beside what is right.


def old_table(log: DataFrame) -> DataFrame:
    """One row for each user and article, with the maxima of flags and of a text."""
    flags = {"clicked": "click or read", "collected": "collect", "shared": "share"}
    return log.groupBy("user_id", "article_id").agg(
        F.lit(True).alias("exposure"),  # set by every action, whatever it was
        *[F.max(F.col("action").isin(*what.split(" or "))).alias(name) for name, what in flags.items()],
        F.max("read_ms").alias("read_time"),
    )


LOG = "at string, user_id string, article_id string, action string, read_ms string"
CUT = Impressions(source="log", where="action = 'exposure'", time="at", user="user_id", article="article_id")


def new_labels(log: DataFrame, how: str) -> list[tuple[Any, ...]]:
    from datetime import timedelta

    from ctr_samples.samples.impressions import DROPPED, cut_impressions

    plans = [plan_label(name, LABELS[name], CUT) for name in ("clicked", how)]
    shown = (
        cut_impressions(log, CUT, DAY, 2, Reach(after=timedelta(hours=2))).where(F.col(DROPPED).isNull()).drop(DROPPED)
    )
    rows, _ = label(shown, plans, DAY, lambda _: log)
    return [(r.user, r.clicked, r[how], r[f"{how}__mask"]) for r in sorted(rows, key=lambda r: r.user)]


@pytest.mark.thorough
def test_reading_times_are_numbers_that_add_up_and_not_texts_of_which_the_greatest_stays(frame: Frame) -> None:
    log = frame(
        LOG,
        [
            ("2019-06-05 10:00:00", "u", "a", "exposure", ""),
            ("2019-06-05 10:01:00", "u", "a", "read", "900"),
            ("2019-06-05 10:02:00", "u", "a", "read", "1000"),
        ],
    )
    assert old_table(log).first()["read_time"] == "900"  # '9' comes after '1', and the second reading is lost
    assert new_labels(log, "max") == [("u", 0, 1000.0, 1)]
    assert new_labels(log, "sum") == [("u", 0, 1900.0, 1)]


def test_an_action_is_no_impression_and_reading_is_no_click(frame: Frame) -> None:
    log = frame(
        LOG,
        [
            ("2019-06-05 10:00:00", "reader", "a", "exposure", ""),
            ("2019-06-05 10:01:00", "reader", "a", "read", "1500"),
            ("2019-06-05 10:00:00", "clicker", "a", "exposure", ""),
            ("2019-06-05 10:01:00", "clicker", "a", "click", ""),
            ("2019-06-05 10:01:00", "from a link", "a", "share", ""),
        ],
    )
    old = {r.user_id: (r.exposure, r.clicked) for r in old_table(log).collect()}
    assert old == {"reader": (True, True), "clicker": (True, True), "from a link": (True, False)}
    assert new_labels(log, "sum") == [("clicker", 1, 0.0, 0), ("reader", 0, 1500.0, 1)]
