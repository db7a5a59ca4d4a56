"""Blocks and stages: rows meet by key, counts arrive once, and what is damaged is an error."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType, YearMonthIntervalType

from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.blocks import (
    Counts,
    DamagedBlock,
    Gather,
    Scatter,
    keys_of,
    murmur3,
    murmur3_of_longs,
)
from ctr_samples.samples.columnar.columns import Picked, codes_of, place_of_texts, shuffle_hashes
from ctr_samples.samples.columnar.stages import Shuffle, Stage, TaskCounts, place_of
from ctr_samples.samples.views.as_of.matching import AsOf, ViewRows
from ctr_samples.sparksql.columns import stable_hash
from tests.support.literal_frames import Frame
from tests.support.stages import ran, stage_of, table

PARTITIONS = 5


def rows_of(count: int) -> pa.Table:
    texts = [(n, None if n % 7 == 0 else f"key {n % 11}") for n in range(count)]
    rows = table("n bigint, key string", texts)
    return rows.append_column("_place", pa.array(place_of_texts([rows["key"]])))


def sum_of_keys(tables: Sequence[pa.Table], counts: Counts) -> Iterator[pa.RecordBatch]:
    """Each key of the partition with the number of its rows in both frames."""
    one, other = (table["key"].to_pylist() for table in tables)
    counts.add("rows", len(one) + len(other))
    counts.add("tasks", 1)
    counts.sample("keys", [(len(key), [key]) for key in one if key], most=3)
    keys = sorted({*one, *other}, key=str)
    yield pa.RecordBatch.from_pydict(
        {"key": pa.array(keys, pa.string()), "count": [one.count(key) + other.count(key) for key in keys]}
    )


KIND = StructType().add("key", StringType()).add("count", LongType())


def meeting(read: Callable[[pa.Table], Stage] = stage_of) -> Stage:
    """Rows of two frames that meet."""
    return Stage(Shuffle((read(rows_of(300)), read(rows_of(40))), ("_place", "_place"), PARTITIONS, sum_of_keys), KIND)


@pytest.fixture
def by_spark(spark: SparkSession) -> Callable[[pa.Table], Stage]:
    return lambda rows: Stage.of(spark.createDataFrame(rows))


def test_rows_with_equal_keys_of_all_frames_meet_in_one_task_and_tasks_count_once(
    by_spark: Callable[[pa.Table], Stage],
) -> None:
    tasks = TaskCounts()
    in_spark = meeting(by_spark).rows(tasks).collect()
    expected = [None if n % 7 == 0 else f"key {n % 11}" for some in (300, 40) for n in range(some)]
    for rows, counts in (ran(meeting()), (in_spark, tasks.result())):
        assert {row["key"]: row["count"] for row in rows} == {key: expected.count(key) for key in set(expected)}
        assert counts.sums == {"rows": 340, "tasks": PARTITIONS}
        assert [row for _, row in counts.samples["keys"]] == [["key 10"]] * 3


@pytest.mark.thorough
def test_the_rows_of_a_stage_may_be_merged_with_others_into_fewer_tasks(
    frame: Frame, by_spark: Callable[[pa.Table], Stage]
) -> None:
    both = frame("key string, count bigint", [("a", 1)]).unionByName(meeting(by_spark).rows())
    assert both.coalesce(2).agg(F.sum("count")).collect()[0][0] == 341


def test_a_column_that_python_cannot_have_is_named() -> None:
    shown = StructType().add("n", LongType()).add("spare", YearMonthIntervalType(1, 1))
    rows = replace(stage_of(rows_of(1)), kind=StructType().add("shown", shown))
    with pytest.raises(InputError, match=r"The column spare is interval month, which Spark cannot hand over to Python"):
        Shuffle((rows,), ("_place",), 1, sum_of_keys)


def test_integers_that_go_to_python_together_keep_their_types_their_places_and_their_nulls(frame: Frame) -> None:
    rows = [(1, 2**63 - 1, "a", -128, 7, 0.5), (None, None, None, None, None, None), (-(2**31), 0, "", 127, -1, 0.0)]
    given = frame("i int, `l o` bigint, s string, b tinyint, h smallint, d double", rows)
    stage = Stage.of(given).each(lambda batch: batch, given.schema)
    assert stage.rows().schema == given.schema
    assert [tuple(row) for row in stage.rows().collect()] == rows
    assert Stage.of(given.limit(0)).each(lambda batch: batch, given.schema).rows().collect() == []


def cut(rows: pa.RecordBatch) -> pa.RecordBatch:
    (blocks,) = Scatter(0, PARTITIONS)([rows])
    return blocks


def gathered(blocks: pa.RecordBatch) -> list[pa.RecordBatch]:
    gather = Gather(lambda tables, counts: iter(tables[0].to_batches()), [pa.schema([("_place", pa.int64())])])
    return [item for item in gather([blocks]) if isinstance(item, pa.RecordBatch)]


def test_a_task_that_is_repeated_returns_the_same_in_whichever_order_its_blocks_arrive() -> None:
    rows = pa.RecordBatch.from_pydict({"_place": [5 * n for n in range(300)]})
    counts = [Counts(samples={"key": [(1, [name])]}, most={"key": 1}) for name in "ab"]
    cut = [
        batch for part in range(0, 300, 75) for batch in Scatter(0, 5)([rows.slice(part, 75), counts[part // 75 % 2]])
    ]
    kept = lambda tables, counts: iter(tables[0].to_batches())  # noqa: E731
    once, again = (list(Scatter(0, 7)(Gather(kept, [rows.schema])(blocks))) for blocks in (cut, cut[::-1]))
    assert once == again


ROWS = pa.RecordBatch.from_pydict({"_place": pa.array([10, 10, 10], pa.int64())})


def changed(blocks: pa.RecordBatch, name: str, value: object) -> pa.RecordBatch:
    place = blocks.schema.get_field_index(name)
    return blocks.set_column(place, blocks.schema.field(place), pa.array([value], blocks.schema.field(place).type))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("block", lambda block: block[:-1], "arrived damaged"),
        ("block", lambda block: block[:40] + b"?" + block[41:], "arrived damaged"),
        ("checksum", lambda checksum: checksum + 1, "arrived damaged"),
        ("rows", lambda rows: rows + 1, "arrived with 3 rows, expected 4"),
    ],
)
def test_a_block_that_arrives_short_or_changed_is_an_error(
    name: str, change: Callable[[object], object], message: str
) -> None:
    blocks = cut(ROWS)
    assert sum(batch.num_rows for batch in gathered(blocks)) == 3
    with pytest.raises(DamagedBlock, match=message):
        gathered(changed(blocks, name, change(blocks.column(name)[0].as_py())))


def test_blocks_of_two_partitions_in_one_task_are_an_error() -> None:
    with pytest.raises(DamagedBlock, match="Blocks of several partitions arrived in one"):
        gathered(cut(pa.RecordBatch.from_pydict({"_place": pa.array([10, 11], pa.int64())})))


def test_a_partition_whose_column_arrow_cannot_hold_together_is_refused_before_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.struct([("picture", pa.binary())])))])
    row = {"id": 1, "tags": [{"picture": b"x" * 900}, {"picture": b"y" * 600}]}
    rows = pa.RecordBatch.from_pydict({"_place": pa.array([5, 5], pa.int64()), "item": pa.array([row] * 2, kind)})
    blocks = [blocks for part in (rows.slice(0, 1), rows.slice(1)) for blocks in Scatter(0, PARTITIONS)([part])]
    never = lambda tables, counts: pytest.fail("the task ran")  # noqa: E731

    def read(name: str, beside: Sequence[int] = ()) -> list[object]:
        return list(Gather(never, [rows.schema], name, beside)(blocks))

    monkeypatch.setattr("ctr_samples.samples.columnar.blocks.MOST_BYTES", 2_867)
    for stage, setting in (("order", "output.partitions"), ("views", "spark.sql.shuffle.partitions")):
        with pytest.raises(
            InputError,
            match="column item.tags.picture take 2.9 KiB in one partition of 2 rows, expected at most 2.8 KiB. "
            f"Raise `{setting}`",
        ):
            read(stage)
    monkeypatch.setattr("ctr_samples.samples.columnar.blocks.MOST_BYTES", 3_100)
    with pytest.raises(pytest.fail.Exception, match="the task ran"):
        read("order")


def test_spark_sends_the_key_of_each_partition_there(frame: Frame) -> None:
    every = [(count, place, key) for count in (1, 2, 7, 200) for place, key in enumerate(keys_of(count))]
    places = frame("count int, place int, key int", every).where("pmod(hash(key), count) = place")
    assert places.count() == len(every)


def test_hashes_of_numbers_and_texts_are_those_of_spark(frame: Frame) -> None:
    rng = random.Random(4)
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), *[rng.randrange(-(2**63), 2**63) for _ in range(100)]]
    texts = ["", "a", "ü" * 40, *["".join(rng.choice("abcdé ") for _ in range(n)) for n in range(100)], None]
    rows = frame("n bigint", [(n,) for n in numbers]).select(F.hash("n"), F.hash(F.expr("cast(n & 2147483647 as int)")))
    hashes = np.array([tuple(row) for row in rows.collect()])
    longs = np.array(numbers, np.int64)
    assert (murmur3_of_longs(longs) == hashes[:, 0]).all()
    assert (murmur3((longs & 2147483647).astype(np.uint32)) == hashes[:, 1]).all()
    pairs = [(text, rng.choice(texts)) for text in texts]
    placed = frame("a string, b string", pairs).select(place_of([F.col("a"), F.col("b")]))
    columns = [pa.array(column, pa.string()) for column in zip(*pairs, strict=True)]
    assert place_of_texts(columns).tolist() == [row[0] for row in placed.collect()]
    assert place_of_texts([column.slice(3) for column in columns]).tolist() == place_of_texts(columns).tolist()[3:]
    in_spark = frame("id bigint", [(one,) for one in numbers]).select(stable_hash("shuffle", [F.col("id")]))
    assert shuffle_hashes(longs).tolist() == [row[0] for row in in_spark.collect()], "the order of impressions"


def test_keys_with_equal_hashes_are_told_apart() -> None:
    """All keys collide: they lie in one partition, and each impression still sees the row of its own key."""
    keys = [f"key {n}" for n in range(20)]
    (codes,) = codes_of(pa.array([*keys, None, *keys]))
    assert codes.tolist() == [*range(20), -1, *range(20)]
    table = pa.table({"key": keys, "_content": [1] * 20, "payload": [{"value": key} for key in keys]})
    view = ViewRows.of(AsOf("v", ("user",), None, static=True), table)
    asked = pa.array([*keys[::-1], "another", None])
    found = view.structs(view.match(asked, np.zeros(22, np.int64)), np.zeros(22, np.int64))
    assert [one["value"] for one in found.to_pylist()] == [*keys[::-1], None, None]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        pa.array([[1.0, 2.0], [3.0], [5.0, 6.0]]),
        pa.array([[1.0, 2.0], None, [5.0, 6.0]]),
        pa.array([[1.0, None], [3.0, 4.0], [5.0, 6.0]]),
        pa.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).slice(1),
        pa.array([[], [], []], pa.list_(pa.int64())),
        pa.array([[7], [8], [-(2**63)]], pa.list_(pa.int64())),
        pa.array([["a"], ["b"], ["c"]]),
        pa.array(["a", None, "c"]),
    ],
)
def test_picked_rows_are_those_that_arrow_takes(column: pa.Array) -> None:
    places = np.array([2, 0, 0, 1, 2])
    for some in (places, places[:0]):
        picked = Picked.of(column).take(some)
        assert picked.type == column.type
        assert picked.equals(column.take(pa.array(some, pa.int64())))
