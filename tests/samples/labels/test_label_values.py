"""What becomes of the actions of an impression: any, sum, max, first, their masks; and what is counted of those of a day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Row

from ctr_samples.config import ActionLabel, Impressions
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.labels.attribution import LabelState
from ctr_samples.samples.labels.counts import best_shift, delay_ends, label_counts
from ctr_samples.samples.labels.plans import plan_label, plan_labels
from ctr_samples.samples.period import Span
from tests.samples.labels.labelling import label
from tests.support.literal_frames import Frame
from tests.support.minimal_config import minimal
from tests.support.stages import table

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
IMPRESSIONS = "impression_id bigint, impression_time timestamp, request string, user string, article string"
COLUMNS = ["clicked", "sum", "sum__mask", "max", "max__mask", "first", "first__mask"]
NOTHING = (0, 0.0, 0, 0.0, 0, 0.0, 0)

NAN = pytest.approx(float("nan"), nan_ok=True)

Action = tuple[str, str | None, str, str | None]
"""Time, request, what, milliseconds."""

CASES: dict[str, tuple[list[Action], tuple[Any, ...]]] = {
    "no action": ([], NOTHING),
    "reading is not a click": ([("10:01:00", None, "read", "1500")], (0, 1500.0, 1, 1500.0, 1, 1500.0, 1)),
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
    "each label has its own window": (
        [("11:00:00", None, "click", None), ("11:00:00", None, "read", "5")],
        (0, 5.0, 1, 5.0, 1, 5.0, 1),
    ),
    "what is found by request and what is found by user is put together": (
        [("10:03:00", "r", "read", "20"), ("10:02:00", None, "read", "30"), ("10:01:00", None, "read", "4")],
        (0, 54.0, 1, 30.0, 1, 4.0, 1),
    ),
}


def of_cases() -> tuple[list[Any], list[Any]]:
    """Impressions and log of all cases, each with a user of its own."""
    shown, log = [], []
    for number, (name, (actions, _)) in enumerate(CASES.items()):
        shown.append((number, "2019-06-05 10:00:00", f"{name} r", name, "a"))
        for time, request, what, value in actions:
            log.append((f"2019-06-05 {time}", request and f"{name} {request}", name, "a", what, value))
    return shown, log


def test_every_case() -> None:
    found = {row.user: tuple(row[column] for column in COLUMNS) for row in labelled(*of_cases())}
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
    plans = [plan_label(name, LABELS[name], SHOWN) for name in labels]
    return label(table(IMPRESSIONS, shown), table(schema, actions), plans, DAY)[0]


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


def test_of_actions_that_two_keys_find_the_first_counts_and_at_one_time_the_smaller() -> None:
    state, each = LabelState.of(plan_label("first", LABELS["first"], SHOWN), 4), np.arange(4)
    state.add(each, np.array([5.0, 5.0, 5.0, 5.0]), np.array([10, 10, 10, 10]))
    state.add(each, np.array([9.0, 1.0, 9.0, 1.0]), np.array([9, 11, 10, 10]))
    assert state.columns()["first"].to_pylist() == [9.0, 5.0, 5.0, 1.0]


BY_USER = Impressions(source="log", time="at", user="user_id", article="article_id")
CLICKED = ActionLabel(source="log", where="action = 'click'", window="30m")
DWELT = ActionLabel(
    source="log", where="action = 'read'", window="2d", value="read_ms", reduce="sum", skew="2s", orphans="drop"
)


def test_delays_are_told_apart_up_to_the_window() -> None:
    ends = {
        w: list(delay_ends(plan_label("l", ActionLabel(source="log", window=w), BY_USER)))
        for w in ("0s", "1m", "30m", "7d")
    }
    assert ends == {
        "0s": ["0s"],
        "1m": ["1s", "10s", "1m"],
        "30m": ["1s", "10s", "1m", "10m", "30m"],
        "7d": ["1s", "10s", "1m", "10m", "1h", "6h", "1d", "7d"],
    }


SCHEMA = "impression_id bigint, impression_time timestamp, user string, article string"
ACTIONS = "at timestamp, user string, article string, label string, value double"


def test_each_action_of_the_day_is_counted_once_by_its_delay_or_as_an_orphan() -> None:
    shown = [
        (1, "2019-06-05 10:00:00", "u", "a"),
        (2, "2019-06-04 23:59:59", "v", "a"),
        (3, "2019-06-05 23:59:59", "w", "a"),
    ]
    clicks = [
        "10:00:00",
        "10:00:01",
        "10:00:01.000001",
        "10:00:10",
        "10:01:00",
        "10:01:00.001",
        "10:30:00",
        "10:30:00.001",
    ]
    log = [(f"2019-06-05 {time}", "u", "a", "clicked", 1.0) for time in clicks]
    log += [
        ("2019-06-05 00:00:30", "v", "a", "clicked", 1.0),  # of an impression of the day before
        ("2019-06-06 00:00:30", "w", "a", "clicked", 1.0),  # of the day's impression, yet on the next day
        (None, "w", "a", "clicked", 1.0),
        ("2019-06-05 09:59:59", "u", "a", "read", 1.0),
        ("2019-06-05 11:00:00", "u", "a", "read", None),
        ("2019-06-05 11:00:00.001", "u", "a", "read", 1.0),
        ("2019-06-05 23:00:00", "x", "a", "read", None),
    ]
    plans = [plan_label(name, label, BY_USER) for name, label in (("clicked", CLICKED), ("read", DWELT))]
    _, counts = label(table(SCHEMA, shown), table(ACTIONS, log), plans, DAY)
    zeros = dict.fromkeys(["before", "1s", "10s", "1m", "10m", "1h", "6h", "1d", "2d"], 0)
    late = {"user": "u", "article": "a"}
    assert counts == {
        "clicked": {
            "actions": 10,
            "orphans": 2,
            "without_value": 0,
            "delays": {"1s": 2, "10s": 2, "1m": 2, "10m": 1, "30m": 1},
            "orphan_sample": [
                {"time": None, "user": "w", "article": "a"},
                {"time": "2019-06-05T10:30:00.001000+00:00", **late},
            ],
        },
        "read": {"actions": 4, "orphans": 1, "without_value": 2, "delays": {**zeros, "before": 1, "1h": 1, "6h": 1}},
    }


def test_a_part_of_the_plan_that_never_ran_counts_zero() -> None:
    plans = [plan_label("clicked", CLICKED.model_copy(update={"window": timedelta(seconds=1)}), BY_USER)]
    assert label_counts(plans, (), Counts()) == {
        "clicked": {"actions": 0, "orphans": 0, "without_value": 0, "delays": {"1s": 0}, "orphan_sample": []}
    }


def test_of_many_orphans_of_one_moment_the_same_hundred_are_kept_whatever_the_order_of_the_log() -> None:
    log = [("2019-06-05 10:00:00", "u", f"a{n}", "clicked", 1.0) for n in range(150)]
    plans = [plan_label("clicked", CLICKED, BY_USER)]
    once, again = (label(table(SCHEMA, []), table(ACTIONS, order), plans, DAY)[1] for order in (log, log[::-1]))
    assert once == again
    assert once["clicked"]["orphans"] == 150
    assert len({orphan["article"] for orphan in once["clicked"]["orphan_sample"]}) == 100


KEYS = {"time": "at", "user": "user", "article": "item"}
CONFIG = minimal(
    sources={
        name: {"format": "json", "path": f"/nowhere/{name}/{{date}}", "schema": "a INT"} for name in ("shown", "clicks")
    },
    impressions={"source": "shown", **KEYS},
    labels={"clicked": {"source": "clicks", **KEYS, "window": "1h"}},
)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("off_by", "found"),
    [
        (timedelta(hours=-2), (7200, 1.0)),
        (timedelta(hours=5, minutes=30), (-19800, 1.0)),
        (timedelta(minutes=-15), (900, 1.0)),
        (timedelta(days=-9), None),
    ],
)
def test_the_shift_with_which_most_actions_match_is_found(
    frame: Frame, off_by: timedelta, found: tuple[int, float] | None
) -> None:
    schema = "at timestamp, user string, item string"
    noon = datetime(2019, 6, 5, 12)
    shown = [(noon + timedelta(minutes=7 * n), f"u{n % 40}", f"i{n % 7}") for n in range(50)]
    clicks = [(at + timedelta(seconds=20 + n) + off_by, user, item) for n, (at, user, item) in enumerate(shown)]
    logs = {"shown": frame(schema, shown), "clicks": frame(schema, [*clicks, (None, "u1", "i1"), (noon, None, "i1")])}
    (plan,) = plan_labels(CONFIG)
    shift = best_shift(logs.__getitem__, CONFIG, plan, DAY)
    assert (shift and (shift.seconds, round(shift.share, 1))) == found
