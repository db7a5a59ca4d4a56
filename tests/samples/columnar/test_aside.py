"""Columns that Spark computes while the others wait."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.samples.columnar.aside import _SetAside, _TakeUp, with_columns
from ctr_samples.samples.columnar.blocks import DamagedBlock
from ctr_samples.samples.columnar.stages import Stage, TaskCounts

Frame = Callable[..., DataFrame]


def stage(frame: Frame, count: int) -> Stage:
    rows = [((n, f"text {n}"), "waits" if n % 2 else None) for n in range(count)]
    return Stage.of(frame("view struct<number: int, text: string>, other string", rows).repartition(3))


@pytest.mark.parametrize("count", [0, 1, 40_000])
def test_each_row_gets_the_new_column_and_keeps_what_waited(frame: Frame, count: int) -> None:
    def twice(rows: DataFrame) -> DataFrame:
        assert rows.schema["view"].dataType.simpleString() == "struct<number:int>"
        assert "other" not in rows.columns
        return rows.withColumn("twice", F.col("view.number") * 2)

    made = with_columns(stage(frame, count), {"view": ["number"]}, {}, twice, ["twice"], TaskCounts()).rows()
    assert made.columns == ["view", "other", "twice"]
    expected = {(n, f"text {n}", "waits" if n % 2 else None, 2 * n) for n in range(count)}
    assert {(row.view.number, row.view.text, row.other, row.twice) for row in made.collect()} == expected


def test_rows_that_spark_loses_or_doubles_fail_the_task() -> None:
    rows = pa.RecordBatch.from_pydict({"view": pa.array([{"n": n} for n in range(5)])})
    (carried,) = _SetAside({"view": None}, {})([rows])
    computed = carried.append_column("new", pa.array(range(5)))
    take_up = _TakeUp(("new",))
    (together,) = take_up([computed.slice(0, 2), computed.slice(2)])
    assert together.to_pydict() == {**rows.to_pydict(), "new": [0, 1, 2, 3, 4]}
    with pytest.raises(DamagedBlock, match="Spark returned 4 rows, expected 5"):
        list(take_up([computed.slice(0, 4)]))
    with pytest.raises(DamagedBlock, match="Spark returned 6 rows, expected 5"):
        list(take_up([computed, computed.slice(4)]))
