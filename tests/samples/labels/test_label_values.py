"""What becomes of the actions of an impression: any, sum, max, first, their masks, and how the old system got them wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ctr_samples.config import ActionLabel, Impressions
from ctr_samples.samples.impressions import DROPPED, cut_impressions
from ctr_samples.samples.labels.plans import plan_label
from ctr_samples.samples.period import Reach, Span
from tests.samples.labels.labelling import label, label_in_spark
from tests.support.stages import table

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


def test_every_case() -> None:
    shown, log = [], []
    for number, (name, (actions, _)) in enumerate(CASES.items()):
        shown.append((number, "2019-06-05 10:00:00", f"{name} r", name, "a"))
        for time, request, what, value in actions:
            log.append((f"2019-06-05 {time}", request and f"{name} {request}", name, "a", what, value))
    found = {row.user: tuple(row[column] for column in COLUMNS) for row in labelled(shown, log)}
    assert found == {name: expected for name, (_, expected) in CASES.items()}


def labelled(shown: list[Any], log: list[Any], labels: Sequence[str] = tuple(LABELS)) -> list[Row]:
    """Label impressions by a log of (time, request, user, article, action, milliseconds)."""
    schema = "at timestamp, request string, user string, article string, label string, value double"
    actions = [
        (*keys, name, 1.0 if name == "clicked" else float(ms) if ms else None)
        for *keys, what, ms in log
        for name in labels
        if (name == "clicked") == (what == "click")
    ]
    impressions = table(
        "impression_id bigint, impression_time timestamp, request string, user string, article string", shown
    )
    plans = [plan_label(name, LABELS[name], SHOWN) for name in labels]
    return label(impressions, table(schema, actions), plans, DAY)[0]


def test_a_day_without_actions_labels_everything_zero() -> None:
    (row,) = labelled([(1, "2019-06-05 10:00:00", "r", "u", "a")], [])
    assert tuple(row[column] for column in COLUMNS) == NOTHING


def test_a_sum_of_fractions_does_not_depend_on_the_order_of_the_log() -> None:
    values = ["1e16", "1", "-1e16", "1", "0.5"]
    log = [("2019-06-05 10:01:00", None, "u", "a", "read", value) for value in values]
    sums = set()
    for order in (log, log[::-1], log[3:] + log[:3]):
        (row,) = labelled([(1, "2019-06-05 10:00:00", None, "u", "a")], order, ["sum"])
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
    plans = [plan_label(name, LABELS[name], CUT) for name in ("clicked", how)]
    shown = (
        cut_impressions(log, CUT, DAY, 2, Reach(after=timedelta(hours=2))).where(F.col(DROPPED).isNull()).drop(DROPPED)
    )
    rows, _ = label_in_spark(shown, plans, DAY, lambda _: log)
    return [(r.user, r.clicked, r[how], r[f"{how}__mask"]) for r in sorted(rows, key=lambda r: r.user)]


def test_reading_times_are_numbers_that_add_up_and_an_action_is_no_impression_and_reading_is_no_click(
    frame: Frame,
) -> None:
    times = ("10:00:00", "10:01:00", "10:02:00")
    log = frame(
        LOG,
        [
            *[
                (f"2019-06-05 {time}", "reader", "a", what, ms)
                for time, what, ms in zip(times, ("exposure", "read", "read"), ("", "900", "1000"), strict=True)
            ],
            ("2019-06-05 10:00:00", "clicker", "a", "exposure", ""),
            ("2019-06-05 10:01:00", "clicker", "a", "click", ""),
            ("2019-06-05 10:01:00", "from a link", "a", "share", ""),
        ],
    )
    old = {r.user_id: (r.exposure, r.clicked, r.read_time) for r in old_table(log).collect()}
    # '9' comes after '1', and the second reading is lost; what nobody was shown is an impression.
    assert old == {"reader": (True, True, "900"), "clicker": (True, True, ""), "from a link": (True, False, "")}
    assert new_labels(log, "max") == [("clicker", 1, 0.0, 0), ("reader", 0, 1000.0, 1)]
    assert new_labels(log, "sum") == [("clicker", 1, 0.0, 0), ("reader", 0, 1900.0, 1)]
