"""Keys with several rows in a table without times or in one snapshot: the same one is taken in any order, and it is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from ctr_samples.config import EventView, SnapshotView, StaticView
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.views.as_of.matching import SEVERAL_ROWS, AsOf, ViewRows
from ctr_samples.samples.views.counts import irregular_rows
from ctr_samples.samples.views.rows import as_of
from tests.samples.views.as_of.joins import METHODS, found, impressions, joined, ready, with_payload
from tests.support.stages import table

STATIC = AsOf("profile", ("user",), None, static=True, one_row=True)
DAILY = replace(STATIC, static=False, snapshot=True, ttl=timedelta(days=9))
FIXED = [("a", "x"), ("a", "y"), ("b", "z"), ("b", "z"), ("c", "x"), ("c", "y")]
ROWS = [
    ("2019-06-03", False, "a", "x"),
    ("2019-06-03", False, "a", "y"),
    ("2019-06-04", False, "a", "x"),
    ("2019-06-04", False, "a", "y"),
    ("2019-06-04", False, "b", "z"),
    ("2019-06-04", False, "b", "z"),
    ("2019-06-04", False, "c", "x"),
    ("2019-06-04", True, "c", "y"),
]
"""Day of a snapshot, whether the row is a tombstone, key and brand."""


def fixed(rows: list[tuple[str, str]]) -> pa.Table:
    return with_payload(table("key string, brand string", rows), "brand")


def daily(rows: list[tuple[str, bool, str, str]]) -> pa.Table:
    times = [(key, *[f"{day} 00:00:00"] * 2, gone, brand) for day, gone, key, brand in rows]
    schema = "key string, event_time timestamp, available_time timestamp, gone boolean, value string"
    return with_payload(table(schema, times), "value")


@pytest.mark.parametrize(
    ("how", "rows", "several"),
    [
        (STATIC, fixed(FIXED), 2),
        (STATIC, fixed(FIXED[1:5]), 0),
        (DAILY, daily(ROWS), 2),
        (DAILY, daily(ROWS[3:]), 0),
    ],
    ids=["static", "static, one row each", "in two snapshots", "one row each in a snapshot"],
)
def test_keys_with_rows_that_differ_are_counted_and_equal_rows_and_tombstones_are_not(
    how: AsOf, rows: pa.Table, several: int
) -> None:
    for order in (rows, rows.take(list(reversed(range(rows.num_rows))))):
        counts = Counts()
        ViewRows.of(how, ready(order), counts=counts)
        assert counts.sums[f"profile.{SEVERAL_ROWS}"] == several


def test_a_sequence_says_which_row_of_a_snapshot_is_the_last() -> None:
    base = {"source": "t", "on": "user", "key": "who"}
    snapshot = SnapshotView.model_validate({**base, "snapshot": "ds", "ttl": "9d"})
    views = [
        StaticView.model_validate({**base, "static": True}),
        snapshot,
        snapshot.model_copy(update={"sequence": "n"}),
    ]
    assert [as_of("v", view, ("user",)).one_row for view in views] == [True, True, False]


def test_one_row_of_a_key_and_snapshot_is_taken_by_every_method_and_in_any_order() -> None:
    shown = impressions([(n, f"2019-06-05 1{n}:00:00", key) for n, key in enumerate("abbcd")])
    every = [
        found(joined(method, shown, [(DAILY, daily(order))])) for method in METHODS for order in (ROWS, ROWS[::-1])
    ]
    assert every == every[:1] * len(every)
    assert [every[0][number][0] for number in range(1, 5)] == ["z", "z", "x", None]


def test_irregular_rows_are_told_of_each_kind_of_view() -> None:
    rows = {"source": "log", "entity": "user", "key": "u"}
    views = {
        "plain": EventView.model_validate(rows | {"event_time": "t", "ttl": "1d"}),
        "ended": EventView.model_validate(rows | {"event_time": "t", "ttl": "1d", "valid_to": "until"}),
        "fixed": StaticView.model_validate(rows | {"static": True}),
    }
    counts = {"ended.empty": 3, "ended.overlaps": 2, "plain.ties": 1, f"fixed.{SEVERAL_ROWS}": 2}
    assert irregular_rows(views, counts) == {
        "plain": {"ties": 1},
        "ended": {"empty": 3, "overlaps": 2, "contradictions": 0, "ties": 0},
        "fixed": {SEVERAL_ROWS: 2, "ties": 0},
    }
