"""Rows that end or share a key: how they are read, which one is taken, and what is counted of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import EventView, SnapshotView, StaticView, load_config
from ctr_samples.explain.gather import Gatherer, Sought
from ctr_samples.explain.rules import judge_rows
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.as_of.joining import join_by_broadcast, join_by_shuffle, key_among
from ctr_samples.samples.views.as_of.matching import SEVERAL_ROWS, AsOf, ViewRows
from ctr_samples.samples.views.as_of.planning import Join
from ctr_samples.samples.views.counts import irregular_rows
from ctr_samples.samples.views.rows import as_of, lasting, usable, view_rows
from ctr_samples.samples.watches.all import Watches
from ctr_samples.samples.watches.times import counts_of_view
from ctr_samples.sparksql.columns import joint_key
from tests.samples.views.as_of.joins import (
    EACH,
    METHODS,
    NESTED,
    PAYLOADS,
    Row,
    features,
    found,
    impressions,
    joined,
    ready,
    with_payload,
)
from tests.support.frames_as_inputs import inputs_of
from tests.support.literal_frames import Frame
from tests.support.stages import table

HOW = AsOf("profile", ("user",), timedelta(days=1))


CONTRADICTING = {
    "rows that follow each other": ([Row(0, "1", to=10), Row(10, "2")], 0, 0),
    "rows that are true at one time with other values": ([Row(0, "1", to=11), Row(10, "2")], 1, 1),
    "with equal values": ([Row(0, "1", to=11), Row(10, "1")], 1, 0),
    "rows of equal times that only their content tells apart": ([Row(0, "1"), Row(0, "2"), Row(0, "3")], 2, 2),
    "exact duplicates": ([Row(0, "1"), Row(0, "1")], 1, 0),
    "an end of which nobody knew in time": ([Row(0, "1", to=10, closed=30), Row(10, "2")], 1, 0),
    "an old row that was known while a newer one is seen": (
        [Row(10, "2", known=11), Row(0, "1", to=10, known=15, closed=40)],
        1,
        0,
    ),
    "a correction that was known later": ([Row(0, "1"), Row(0, "2", known=5)], 1, 0),
    "rows of equal times in the order of their sequence": ([Row(0, "1", sequence=1), Row(0, "2", sequence=2)], 1, 0),
    "rows of other times, whatever their sequence": ([Row(0, "1", sequence=1), Row(5, "2", sequence=2)], 1, 1),
    "a tombstone": ([Row(0, "1"), Row(5, "x", gone=True)], 1, 0),
    "a row that contradicts the one that was seen, and not one that was hidden by then": (
        [Row(0, "1", to=20), Row(5, "2", to=20), Row(10, "2", to=30)],
        2,
        1,
    ),
}


@pytest.mark.parametrize("what", CONTRADICTING)
def test_rows_that_contradict_the_row_that_was_seen_are_counted(what: str) -> None:
    rows, overlaps, contradictions = CONTRADICTING[what]
    every = ready(features([("b", Row(0, "9")), *[("a", row) for row in rows]], ending=True))
    for order in (every, every.take(list(reversed(range(every.num_rows))))):
        counts = Counts()
        ViewRows.of(HOW, order, counts=counts)
        ties = counts.sums.pop("profile.ties")
        assert ties == (2 if "only their content" in what else 0)
        assert counts.sums == {"profile.overlaps": overlaps, "profile.contradictions": contradictions}


def test_keys_that_are_no_utf8_are_told_apart_by_their_bytes(spark: SparkSession) -> None:
    def in_bytes(key: Column) -> Column:
        return F.when(key == "a", F.lit(b"\xfe")).otherwise(F.lit(b"\xff")).cast("string")

    rows = spark.createDataFrame(features([(key, Row(0, f"row of {key}", to=20)) for key in "ab"], ending=True))
    known = rows.withColumn("key", in_bytes(F.col("key")))
    left = spark.createDataFrame(impressions([(1, 5, "a"), (2, 5, "b")]))
    user = F.col("impression").withField("user", in_bytes(F.col("impression.user")))
    shown = Stage.of(left.withColumn("impression", user))
    methods = join_by_shuffle(shown, [Join(HOW, known)], 3), join_by_broadcast(shown, [Join(HOW, known)])
    for stage in methods:
        values = {row[0]: row[1] for row in stage.rows().select("impression.impression_id", "profile.value").collect()}
        assert values == {1: "row of a", 2: "row of b"}


def test_joint_keys_that_are_no_utf8_are_equal_on_both_sides_of_a_join(frame: Frame) -> None:
    parts = [
        "a",
        "é€🎬",
        b"caf\xe9",
        b"\xe9",
        b"\xe4\xb8",
        b"\xe4\xb8\x96",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xc0\xaf",
        "",
    ]
    raw = [part.encode() if isinstance(part, str) else part for part in parts]
    rows = [(one, other) for one in raw for other in (b"\xe9", b"\x96x", b"x")]
    texts = frame("one binary, other binary", [*rows, (None, b"x")]).selectExpr(
        "string(one) AS one", "string(other) AS other"
    )
    impression = F.struct("one", "other").alias("impression")
    keys = texts.select(impression, joint_key([F.col("one"), F.col("other")]).alias("key")).toArrow()
    ours = key_among(keys, ["one", "other"]).cast(pa.binary()).to_pylist()
    assert ours == keys["key"].cast(pa.binary()).to_pylist()
    assert len(set(ours)) == len(rows) + 1, "no two pairs have one key"


VIEW = EventView(source="t", entity="user", key="user_id", event_time="since", valid_to="until", ttl="unbounded")
DAY = Span.of(date(2019, 6, 5), "UTC")


UNREADABLE = "no end"
ENDS: dict[str, dict[str | None, str | None]] = {
    "timestamp": {None: None, "9999-01-01 00:00:00": None, "2999-12-31 00:00:00": "2999-12-31 00:00"},
    "string": {"9999-12-31 00:00:00": None, "2019-06-04": "2019-06-04 00:00", "soon": UNREADABLE, "": UNREADABLE},
    "date": {None: None, "9999-12-31": None, "2019-06-04": "2019-06-04 00:00"},
}
"""What is written as an end in columns of each type, and the end; without one, a row is true for ever."""


def test_an_end_is_open_if_it_is_null_or_lies_in_the_year_9999_or_later_and_a_date_is_its_first_moment(
    frame: Frame,
) -> None:
    every = []
    for kind, ends in ENDS.items():
        written = [(f"{kind} {end}", "2019-06-01 00:00:00", end) for end in ends]
        rows = view_rows(frame(f"user_id string, since timestamp, until {kind}", written), "v", VIEW, [])
        every.append(rows.select("key", F.date_format("valid_to", "yyyy-MM-dd HH:mm")))
    assert dict(map(tuple, reduce(DataFrame.union, every).collect())) == {
        f"{kind} {text}": end for kind, ends in ENDS.items() for text, end in ends.items() if end != UNREADABLE
    }


def test_rows_that_had_ended_before_the_day_and_rows_that_were_never_true_are_left_out(frame: Frame) -> None:
    times = {
        "without an end": (None, None),
        "ended before the day": ("2019-06-04 23:59:59.999999", None),
        "ended with the day before": ("2019-06-05 00:00:00", None),
        "its end was known on the day": ("2019-06-04 00:00:00", "2019-06-05 01:00:00"),
        "its end was known before the day": ("2019-06-04 00:00:00", "2019-06-04 01:00:00"),
        "never true": ("2019-06-01 00:00:00", "2019-06-05 01:00:00"),
    }
    rows = frame(
        "user_id string, since timestamp, until timestamp, closed timestamp",
        [(name, "2019-06-01 00:00:00", *ends) for name, ends in times.items()],
    )
    view = VIEW.model_copy(update={"closed_available": "closed"})
    kept = lasting(usable(view_rows(rows, "v", view, [])), DAY).select("key").collect()
    assert {row.key for row in kept} == {"without an end", "ended with the day before", "its end was known on the day"}


@EACH
def test_a_payload_with_maps_lists_and_structs_is_cut_too(method: str) -> None:
    rows = features([("u1", Row(10, "")), ("u1", Row(20, "", to=30))], ending=True)
    rows = rows.drop_columns(["payload"]).append_column("payload", pa.array(PAYLOADS, NESTED))
    (row,) = joined(method, impressions([(1, 35, "u1")]), [(HOW, rows)])
    assert (row.profile.tags, row.profile.ids, row.profile.place.city) == ({"a": 0.5}, [1, 2], "Lund")


CONFIG = """
name: ends
timezone: UTC
sources: {log: {format: parquet, path: log}, prices: {format: parquet, path: prices}}
impressions: {source: log, time: at, user: user, article: article}
labels: {clicked: {source: log, where: "false", window: 1m}}
views:
  price:
    {source: prices, entity: article, key: item, event_time: since, valid_to: until, closed_available: closed, ttl: 30d}
features: {price: {from: price.price, dtype: int64, default: -1}}
output: {path: out}
"""
PRICES = [
    ("a", "2019-06-01", None, None, 10),
    ("a", "2019-06-05 10:00:00", "2019-06-05 12:00:00", None, 8),
    ("b", "2019-06-01", "2019-06-05 10:00:00", "2019-06-05 11:00:00", 20),
    ("b", "2019-06-05 12:00:00", "2019-06-05 12:00:00", None, 21),
    ("b", "2019-06-03", "2019-06-02", None, 22),
    ("c", "2019-06-01", "soon", None, 30),
    ("c", "2019-06-01", "1970-01-02", None, 31),
    *[("d", "2019-06-01", None, None, price) for price in (40, 41, 42, 43)],
]
SHOWN = {
    ("a", "09:00"): 10,
    ("a", "11:00"): 8,
    ("a", "13:00"): 10,
    ("b", "10:30"): 20,
    ("b", "11:00"): -1,
    ("b", "13:00"): -1,
    ("c", "11:00"): -1,
    ("d", "11:00"): 41,  # by a hash of the price
}


@pytest.mark.slow
def test_a_day_counts_rows_that_overlap_or_were_never_true_or_cannot_be_used_and_explanations_agree_with_its_samples(
    frame: Frame, tmp_path: Path
) -> None:
    (tmp_path / "ends.yaml").write_text(CONFIG)
    shown = [("u", article, f"2019-06-05 {at}:00") for article, at in SHOWN]
    frames = {
        "log": frame("user string, article string, at timestamp", shown),
        "prices": frame("item string, since timestamp, until string, closed timestamp, price int", PRICES),
    }
    inputs = inputs_of(load_config(tmp_path / "ends.yaml").config, DAY, frames, watched=True)
    samples = SampleBuilder(inputs).build().samples.rows(inputs.watches.tasks).collect()
    assert sorted(row.price for row in samples) == sorted(SHOWN.values())
    assert inputs.watches.irregular_rows() == {"price": {"empty": 3, "overlaps": 4, "contradictions": 4, "ties": 3}}
    assert counts_of_view(inputs.watches.clocks(), "price") == {"unusable": 1, "implausible": 1}
    gatherer = Gatherer(Inputs(inputs.config, DAY, inputs.sources, Watches.of(inputs.config, DAY, active=False)))
    for (article, at), price in SHOWN.items():
        when = datetime.fromisoformat(f"2019-06-05 {at}:00+00:00")
        evidence = gatherer.gather(Sought(keys={"user": "u", "article": article}, at=when))
        view = evidence.views["price"]
        assert view.rules is not None
        taken = [v.what.values["price"] for v in judge_rows(when, view.rows, view.rules) if v.taken]
        assert (taken or [-1]) == [price]


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
