"""What is counted of the actions of a day: orphans, how long after the impression they came, and by how much times are off."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest

from ctr_samples.config import ActionLabel, Impressions
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.labels.counts import best_shift, delay_ends, label_counts
from ctr_samples.samples.labels.plans import plan_label, plan_labels
from ctr_samples.samples.period import Span
from tests.samples.labels.labelling import label
from tests.support.literal_frames import Frame
from tests.support.minimal_config import minimal
from tests.support.stages import table

DAY = Span.of(date(2019, 6, 5), "UTC")
SHOWN = Impressions(source="log", time="at", user="user_id", article="article_id")
CLICKED = ActionLabel(source="log", where="action = 'click'", window="30m")
READ = ActionLabel(
    source="log", where="action = 'read'", window="2d", value="read_ms", reduce="sum", skew="2s", orphans="drop"
)


def test_delays_are_told_apart_up_to_the_window() -> None:
    ends = {
        w: list(delay_ends(plan_label("l", ActionLabel(source="log", window=w), SHOWN)))
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
    plans = [plan_label(name, label, SHOWN) for name, label in (("clicked", CLICKED), ("read", READ))]
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
    plans = [plan_label("clicked", CLICKED.model_copy(update={"window": timedelta(seconds=1)}), SHOWN)]
    assert label_counts(plans, (), Counts()) == {
        "clicked": {"actions": 0, "orphans": 0, "without_value": 0, "delays": {"1s": 0}, "orphan_sample": []}
    }


def test_of_many_orphans_of_one_moment_the_same_hundred_are_kept_whatever_the_order_of_the_log() -> None:
    log = [("2019-06-05 10:00:00", "u", f"a{n}", "clicked", 1.0) for n in range(150)]
    plans = [plan_label("clicked", CLICKED, SHOWN)]
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
