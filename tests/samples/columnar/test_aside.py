"""Columns that Spark computes while the others wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, MapType, StringType, StructField, StructType

from ctr_samples.samples.columnar import aside
from ctr_samples.samples.columnar.aside import _SetAside, _TakeUp, with_columns
from ctr_samples.samples.columnar.blocks import DamagedBlock, Item
from ctr_samples.samples.columnar.columns import Picked, plain
from ctr_samples.samples.columnar.stages import Stage, TaskCounts
from tests.support.literal_frames import Frame


def stage(frame: Frame, count: int) -> Stage:
    rows = [((n, f"text {n}"), "waits" if n % 2 else None) for n in range(count)]
    return Stage.of(frame("view struct<number: int, text: string>, other string", rows).repartition(3))


@pytest.mark.thorough
@pytest.mark.parametrize("count", [0, 1, 20_000])
def test_each_row_gets_the_new_column_and_keeps_what_waited(frame: Frame, count: int) -> None:
    def twice(rows: DataFrame) -> DataFrame:
        assert rows.schema["view"].dataType.simpleString() == "struct<number:int>"
        assert "other" not in rows.columns
        return rows.withColumn("twice", F.col("view.number") * 2)

    made = with_columns(stage(frame, count), {"view": ["number"]}, {}, twice, ["twice"], TaskCounts()).rows()
    assert made.columns == ["view", "other", "twice"]
    expected = {(n, f"text {n}", "waits" if n % 2 else None, 2 * n) for n in range(count)}
    assert {(row.view.number, row.view.text, row.other, row.twice) for row in made.collect()} == expected


def batches_of(items: Iterable[Item]) -> list[pa.RecordBatch]:
    return [item for item in items if isinstance(item, pa.RecordBatch)]


MAPS: list[dict[str, float | None] | None] = [{"a": 1.5, "b": None}, {}, None, {"c": 2.5}]
"""Rows of a view: the last one is that of an impression without a row."""


def with_shared_maps(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Give each row the map whose number it has, as a join does for rows of a key."""
    maps = [None if one is None else list(one.items()) for one in MAPS]
    numbers = rows.column("number").to_numpy()
    column = Picked.of(pa.array(maps, pa.map_(pa.string(), pa.float64()))).shared(numbers.astype(np.int64))
    view = pa.StructArray.from_arrays([column, rows.column("number")], ["wide", "number"])
    return rows.append_column("view", view)


def sharing(frame: Frame, numbers: Sequence[int]) -> Stage:
    rows = frame("number int, other string", [(n, f"row {at}") for at, n in enumerate(numbers)]).coalesce(1)
    view = StructType().add("wide", MapType(StringType(), DoubleType())).add("number", IntegerType())
    stage = Stage.of(rows)
    shared = stage.each(with_shared_maps, StructType([*rows.schema, StructField("view", view, False)]))
    return replace(shared, shared={"view": ("wide",)})


def weight(rows: DataFrame) -> DataFrame:
    """Add what needs the shared map, another field of its struct, and another column."""
    text = F.concat_ws(" ", F.to_json("view.wide"), "view.number")
    return rows.withColumn("weight", text).withColumn("size", F.size("view.wide"))


RUNS = [0, 0, 0, 3, 3, 1, 2, 2, 2, 0]


@pytest.mark.parametrize(
    "numbers", [[], RUNS, *[pytest.param(n, marks=pytest.mark.thorough) for n in ([2], RUNS * 2000)]]
)
def test_rows_that_share_a_map_are_computed_like_rows_with_a_map_each(frame: Frame, numbers: Sequence[int]) -> None:
    def made_of(stage: Stage) -> list[Row]:
        return with_columns(stage, {"view": None}, {}, weight, ["weight", "size"], TaskCounts()).rows().collect()

    made = made_of(sharing(frame, numbers))
    alone = sharing(frame, numbers)
    assert made == made_of(replace(alone.each(plain, alone.kind), shared={}))
    assert [(row.number, row.other, row.view.wide) for row in made] == [
        (n, f"row {at}", MAPS[n]) for at, n in enumerate(numbers)
    ]


def test_a_run_of_rows_hands_its_map_to_spark_once() -> None:
    set_aside = _SetAside({"view": ["number"]}, {}, {"view": ("wide",)})
    rows = with_shared_maps(pa.RecordBatch.from_pydict({"number": pa.array(RUNS, pa.int32())}))
    (runs,) = batches_of(set_aside([rows]))
    maps = [None if one is None else dict(one) for one in runs.column("view").field("wide").to_pylist()]
    assert maps == [MAPS[0], MAPS[3], MAPS[1], MAPS[2], MAPS[0]]
    numbers = [[row["view"]["number"] for row in rows] for rows in runs.column("_each").to_pylist()]
    assert numbers == [[0, 0, 0], [3, 3], [1], [2, 2, 2], [0]]


def test_wide_maps_are_handed_over_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "_BYTES", 1000)
    entries = [20] * 5 + [0] * 1000 + [70, 70]
    column = Picked.of(pa.array([[("a", 1.0)] * count for count in entries], pa.map_(pa.string(), pa.float64())))
    view = pa.StructArray.from_arrays([column.shared(np.array([0, 0, 0, 1, 1, 2, 3, 4, 1005, 1006, 5, 6]))], ["wide"])
    rows = pa.RecordBatch.from_pydict({"view": view})
    sizes = [runs.num_rows for runs in batches_of(_SetAside({}, {}, {"view": ("wide",)})([rows]))]
    assert sizes == [3, 2, 1, 3], "runs of rows"


def test_rows_that_spark_loses_or_doubles_fail_the_task() -> None:
    rows = pa.RecordBatch.from_pydict({"view": pa.array([{"n": n} for n in range(5)])})
    (carried,) = batches_of(_SetAside({"view": None}, {})([rows]))
    computed = carried.append_column("new", pa.array(range(5)))
    take_up = _TakeUp(("new",))
    (together,) = batches_of(take_up([computed.slice(0, 2), computed.slice(2)]))
    assert together.to_pydict() == {**rows.to_pydict(), "new": [0, 1, 2, 3, 4]}
    with pytest.raises(DamagedBlock, match="Spark returned 4 rows, expected 5"):
        list(take_up([computed.slice(0, 4)]))
    with pytest.raises(DamagedBlock, match="Spark returned 6 rows, expected 5"):
        list(take_up([computed, computed.slice(4)]))
