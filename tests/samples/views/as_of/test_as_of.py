"""The as-of join, case by case and by every method: who is visible, who wins, and that no impression is lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ctr_samples.samples.views.as_of import planning
from ctr_samples.samples.views.as_of.joining import key_among
from ctr_samples.samples.views.as_of.matching import AsOf
from ctr_samples.samples.views.as_of.planning import measure_hot_keys
from tests.samples.views.as_of.joins import (
    EACH,
    NESTED,
    NOTHING,
    PAYLOADS,
    Case,
    Found,
    Row,
    features,
    found,
    impressions,
    joined,
    joined_in_spark,
    of_cases,
    oracle,
    with_payload,
)
from tests.support.literal_frames import Frame
from tests.support.stages import table

DAY = timedelta(days=1)


def case(*rows: Row, **found: Found) -> Case:
    return Case(rows, {time.removeprefix("at_").replace("_", ":", 2).replace("_", "."): f for time, f in found.items()})


NINE = Row("09:00:00", "v")
TEN = "10:00:00"

STRICT = {
    "a row of a microsecond before is visible": case(Row("09:59:59.999999", "v"), at_10_00_00=("v", 0.000001, True)),
    "a row of the same instant is not": case(Row(TEN, "v"), at_10_00_00=NOTHING),
    "a row that becomes known at the instant is visible": case(
        Row("09:00:00", "v", known=TEN), at_10_00_00=("v", 3600.0, True)
    ),
    "a row that was true but not yet known is invisible": case(
        Row("09:00:00", "v", known="10:00:00.000001"), at_10_00_00=NOTHING
    ),
    "the ttl includes its end": case(Row("2019-06-04 10:00:00", "v"), at_10_00_00=("v", 86400.0, True)),
    "a row a microsecond past its ttl is no match": case(Row("2019-06-04 09:59:59.999999", "v"), at_10_00_00=NOTHING),
    "of rows with equal times the sequence decides": case(
        Row("09:00:00", "second", sequence=2),
        Row("09:00:00", "last", sequence=10),
        Row("09:00:00", "without", sequence=None),
        at_10_00_00=("last", 3600.0, True),
    ),
    "exact duplicates do not double the impression": case(NINE, NINE, NINE, at_10_00_00=("v", 3600.0, True)),
    "a match is a whole row even if its value is null": case(
        Row("08:00:00", "older"), Row("09:00:00", None), at_10_00_00=(None, 3600.0, True)
    ),
    "a tombstone ends validity until the next row": case(
        Row("08:00:00", "v"),
        Row("09:00:00", None, gone=True),
        Row("11:00:00", "again"),
        at_08_30_00=("v", 1800.0, True),
        at_10_00_00=NOTHING,
        at_11_30_00=("again", 1800.0, True),
    ),
}

INCLUSIVE = {
    "a row of the same instant is visible if it is asked for": case(Row(TEN, "v"), at_10_00_00=("v", 0.0, True)),
    "a row of a microsecond later is not": case(Row("10:00:00.000001", "v"), at_10_00_00=NOTHING),
    "a row of the same instant that is not yet known is invisible": case(
        Row(TEN, "v", known="10:00:00.000001"), at_10_00_00=NOTHING
    ),
}

SNAPSHOT = {
    "the latest snapshot that is known counts": case(
        Row("2019-06-04 00:00:00", "old", known="2019-06-04 02:00:00"),
        Row("2019-06-05 00:00:00", "new", known="2019-06-05 02:00:00"),
        at_01_59_59=("old", 93599.0, True),
        at_02_00_00=("new", 7200.0, True),
    ),
    "an entity that is not in it has no features, whatever an older one says": case(
        Row("2019-06-04 00:00:00", "old", known="2019-06-04 02:00:00"),
        at_01_59_59=("old", 93599.0, True),
        at_02_00_00=NOTHING,
    ),
}


MICRO = 1 / 60e6  # of a minute


def until(rows: Sequence[Row], found: dict[float, tuple[str, float] | None]) -> Case:
    """One key of rows that end, and what impressions at some minutes find: value and age in minutes, or None."""
    return Case(rows, {at: (one[0], round(one[1] * 60, 6), True) if one else NOTHING for at, one in found.items()})


ENDING = {
    "a row is seen until it ends, and at the very instant, since only what was before an impression counts": until(
        [Row(10, "v", to=20)], {10: None, 15: ("v", 5), 20: ("v", 10), 20 + MICRO: None}
    ),
    "rows that follow each other leave no gap": until(
        [Row(10, "a", to=20), Row(20, "b")], {20: ("a", 10), 20 + MICRO: ("b", MICRO)}
    ),
    "in a gap there are no features": until(
        [Row(10, "a", to=20), Row(30, "b", to=40)], {25: None, 35: ("b", 5), 45: None}
    ),
    "a row that another one hid comes into sight again when that one ends": until(
        [Row(10, "base"), Row(20, "offer", to=30)], {15: ("base", 5), 25: ("offer", 5), 35: ("base", 25)}
    ),
    "an end of which nobody knew is not seen": until([Row(10, "v", to=20, closed=30)], {25: ("v", 15), 30: None}),
    "a row that is known late is seen for the rest of its time": until(
        [Row(10, "v", to=20, known=15)], {12: None, 15: ("v", 5), 25: None}
    ),
    "of rows of equal times the sequence decides, as long as they last": until(
        [Row(10, "a", sequence=1), Row(10, "b", sequence=2, to=20)], {15: ("b", 5), 25: ("a", 15)}
    ),
    "a tombstone lasts as long as it is true": until(
        [Row(10, "v"), Row(20, "x", to=30, gone=True)], {15: ("v", 5), 25: None, 35: ("v", 25)}
    ),
    "exact duplicates are one row": until([Row(10, "v", to=20), Row(10, "v", to=20)], {15: ("v", 5), 25: None}),
    "a row past its ttl is no match, and hides older ones no less": until(
        [Row(-2000, "older"), Row(-1435, "old")], {4: ("old", 1439), 6: None}
    ),
}

ENDING_INCLUSIVE = {
    "a row is seen from its first instant on, and not at its last": until(
        [Row(10, "a", to=20), Row(20, "b", to=30)], {10: ("a", 0), 20: ("b", 0), 30: None}
    ),
}


def with_numbers(rows: pa.Table) -> pa.Table:
    """Keys as numbers."""
    return rows.set_column(0, "key", rows["key"].cast(pa.int64()))


HOW = AsOf("profile", ("user",), DAY)


OLD = Row("2019-06-04 00:00:00", "v")
KINDS: dict[str, tuple[AsOf, dict[str, Case]]] = {
    "rows known before": (HOW, STRICT),
    "rows of the same instant": (replace(HOW, inclusive=True), INCLUSIVE),
    "snapshots": (replace(HOW, ttl=timedelta(days=3), snapshot=True), SNAPSHOT),
    # There is no snapshot of June 4, thus none that is true as of the midnight after it.
    "a day without a snapshot": (
        replace(HOW, ttl=timedelta(hours=34), snapshot=True),
        {"": case(OLD, at_10_00_00=("v", 34 * 3600.0, True))},
    ),
    "no ttl": (
        replace(HOW, ttl=None),
        {"": case(Row("2009-06-05 10:00:00", "v"), at_10_00_00=("v", 3652 * 86400.0, True))},
    ),
    "rows that end": (HOW, ENDING),
    "rows that end, at the instant": (replace(HOW, inclusive=True), ENDING_INCLUSIVE),
}


@EACH
@pytest.mark.parametrize("kind", KINDS)
def test_each_method_finds_the_row_that_an_impression_sees(method: str, kind: str) -> None:
    how, cases = KINDS[kind]
    shown, rows, expected = of_cases(cases, ending=kind.startswith("rows that end"))
    assert found(joined(method, shown, [(how, rows)])) == expected


THOROUGH = [pytest.param(kind, marks=pytest.mark.thorough) for kind in ("snapshots", "rows that end")]


@EACH
@pytest.mark.parametrize("kind", ["rows known before", *THOROUGH])
def test_spark_finds_the_same_row_by_each_method(spark: SparkSession, method: str, kind: str) -> None:
    how, cases = KINDS[kind]
    shown, rows, expected = of_cases(cases, ending=kind.startswith("rows that end"))
    assert found(joined_in_spark(spark, method, shown, [(how, rows)])) == expected


@EACH
@pytest.mark.parametrize("snapshot", [False, True])
def test_impressions_without_a_key_and_with_an_empty_view_are_kept(method: str, snapshot: bool) -> None:
    left = impressions([(1, TEN, None), (2, TEN, None), (3, TEN, "key00")])
    how = replace(HOW, snapshot=snapshot)
    assert found(joined(method, left, [(how, features([]))])) == {1: NOTHING, 2: NOTHING, 3: NOTHING}


@EACH
def test_rows_that_tie_give_the_same_one_in_any_input_order_and_no_tombstone(method: str) -> None:
    left = impressions([(1, TEN, "key00")])
    tied = [("key00", Row("09:00:00", value)) for value in ("a", "b", "c")]
    deleted = [("key00", Row("09:00:00", "same", gone=gone)) for gone in (True, False)]
    winners = [
        {found(joined(method, left, [(HOW, features(order))]))[1] for order in (rows, rows[::-1])}
        for rows in (tied, deleted)
    ]
    assert len(winners[0]) == 1
    assert winners[1] == {("same", 3600.0, True)}


@EACH
@pytest.mark.parametrize("snapshot", [False, True])
def test_a_number_and_its_text_are_one_key_also_above_2_to_the_53(method: str, snapshot: bool) -> None:
    left = impressions([(1, TEN, "9007199254740993")])
    rows = features([("9007199254740993", Row("09:00:00", "mine")), ("9007199254740992", Row("09:00:00", "not"))])
    how = replace(HOW, snapshot=snapshot)
    assert found(joined(method, left, [(how, with_numbers(rows))]))[1] == ("mine", 3600.0, True)


@pytest.mark.some(1)
@EACH
def test_a_payload_may_hold_maps_lists_and_structs(spark: SparkSession, method: str) -> None:
    left = impressions([(1, TEN, "u1")])
    times = ["key string, event_time timestamp, available_time timestamp", [("u1", *["2019-06-05 09:00:00"] * 2)] * 2]
    view = HOW, table(*times).append_column("payload", pa.array(PAYLOADS, NESTED))
    for (row,) in (joined(method, left, [view]), joined_in_spark(spark, method, left, [view])):
        whole = (row.profile.tags, row.profile.ids, row.profile.place.city)
        assert whole in [({"a": 0.5}, [1, 2], "Lund"), ({"b": 0.5}, [3], "Oslo")]


@EACH
def test_views_of_one_entity_are_joined_together_and_none_sees_the_rows_of_another(method: str) -> None:
    left = impressions([(1, TEN, "u1"), (2, TEN, "2"), (3, TEN, None)])
    views = [
        (HOW, features([("u1", NINE), ("2", Row("08:00:00", "two"))])),
        (
            replace(HOW, name="counts", ttl=timedelta(hours=1), inclusive=True),
            with_numbers(features([("2", Row("09:30:00", "number"))])),
        ),
        (
            replace(HOW, name="daily", ttl=timedelta(days=9), snapshot=True),
            features([("u1", Row("2019-06-04 00:00:00", "daily"))]),
        ),
    ]
    every = joined(method, left, views)
    rows = {r.impression.impression_id: (r.profile.value, r["counts"].value, r.daily.value) for r in every}
    assert rows == {1: ("v", None, "daily"), 2: ("two", "number", None), 3: (None, None, None)}


@pytest.mark.thorough
def test_hot_keys_are_those_with_many_rows_of_which_a_sample_stands_for_more(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measure_hot_keys(frame("key string", [("a",)] * 2 + [("b",)]), 0.02, 100) == ("a",)
    keys = frame("key string", [("a",)] * 3 + [("b",)] * 4 + [("c",)] * 2 + [(None,)] * 9)
    assert measure_hot_keys(keys, 1.0, 4) == ("b",)
    assert measure_hot_keys(keys, 1.0, 3) == ("b", "a")
    assert measure_hot_keys(frame("key bigint", [(7,)] * 4), 1.0, 4) == ("7",)
    monkeypatch.setattr(planning, "_MOST_KEYS", 1)
    assert measure_hot_keys(keys, 1.0, 3) == ("b",)


def test_a_key_of_three_columns_has_each_of_them() -> None:
    rows = [("a", "bc", "d"), ("a", "bc", "e"), ("ab", "c", "d"), ("a", "b", "cd"), ("a", None, "d")]
    shown = pa.array([dict(zip(("user", "item", "place"), row, strict=True)) for row in rows])
    keys = key_among(pa.table({"impression": shown}), ["user", "item", "place"])
    assert keys.to_pylist() == ["1:a2:bcd", "1:a2:bce", "2:ab1:cd", "1:a1:bcd", None]


def random_rows(
    rng: random.Random, keys: Sequence[str], late: bool, snapshot: bool, ending: bool
) -> list[tuple[str, Row]]:
    """A coarse clock, so that equal times, gaps, overlaps and boundaries are common; every row differs in its rank."""
    rows: dict[Any, tuple[str, Row]] = {}
    delays = {at: rng.randrange(30) for at in range(-40, 61)}  # all rows of a snapshot become known at once
    for n in range(300):
        key, at = rng.choice(keys), rng.randrange(-40, 60, 7 if snapshot else 1)
        known = at + (4 if not late else delays[at] if snapshot else rng.randrange(30))
        to = rng.choice([None, at + rng.randrange(1, 30), at + rng.randrange(1, 5)]) if ending else None
        closed = rng.choice([None, to + rng.randrange(-5, 15)]) if late and to is not None else None
        row = Row(at, f"v{n}", to, known, closed, rng.choice([None, 1, 2, 3]), rng.random() < 0.1)
        rows[key, at, known, row.sequence] = (key, row)
    return list(rows.values())


@pytest.mark.parametrize(
    ("method", "inclusive", "late", "snapshot", "ending"),
    [
        ("shuffle", False, True, False, False),
        ("shuffle with hot keys", True, True, True, False),
        ("broadcast", False, True, True, False),
        ("broadcast", True, True, False, False),
        ("shuffle", False, False, False, False),
        ("shuffle", False, True, False, True),
        ("shuffle with hot keys", True, False, False, True),
        ("broadcast", True, True, False, True),
        ("broadcast", False, False, False, True),
    ],
)
def test_random_tables_agree_with_the_definition(
    method: str, inclusive: bool, late: bool, snapshot: bool, ending: bool
) -> None:
    rng = random.Random(20190605)
    keys = [f"key{i:02}" for i in range(6)]
    shown = [(n, rng.randrange(60), rng.choice([*keys, "nobody", None])) for n in range(400)]
    rows = random_rows(rng, keys, late, snapshot, ending)
    how = replace(HOW, ttl=timedelta(minutes=25), inclusive=inclusive, snapshot=snapshot)
    assert found(joined(method, impressions(shown), [(how, features(rows, ending))])) == oracle(shown, rows, how)


@EACH
def test_a_table_without_times_gives_one_row_for_each_key(method: str) -> None:
    left = impressions([(1, TEN, "u1"), (2, TEN, "u2"), (3, TEN, None)])
    rows = [("u1", "a"), ("u1", "b"), ("u9", "c")]
    seen = set()
    for order in (rows, rows[::-1]):
        rows = with_payload(table("key string, value string", order), "value")
        result = found(joined(method, left, [(replace(HOW, ttl=None, static=True), rows)]))
        assert [result[i][2] for i in (1, 2, 3)] == [True, False, False]
        seen.add(result[1][0])
    assert len(seen) == 1
