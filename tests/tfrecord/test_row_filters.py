"""Filters on columns of the data: rows that none lets pass are not handed to Spark, and the result is the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from tensorflow_files import example, tensorflow_writes

from ctr_samples.tfrecord.data_source import TfrecordSource
from ctr_samples.tfrecord.filters import rows_needed

NAN = float("nan")
COLUMNS = {
    "n": pa.array([1, 2, None]),
    "x": pa.array([NAN, 0.5, None], pa.float32()),
    "s": pa.array(["ab", "b", None]),
    "flag": pa.array([True, False, None]),
    "list": pa.array([[1], [2], None]),
}


def passing(*filters: Filter) -> list[int] | None:
    """The numbers of the rows that may pass, or None where nothing can be told."""
    needed = rows_needed(list(filters), COLUMNS)
    return None if needed is None else [row for row, passes in enumerate(needed.to_pylist()) if passes]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (EqualTo(("n",), 1), [0]),
        (Not(EqualTo(("n",), 1)), [1]),
        (GreaterThan(("n",), 1), [1]),
        (GreaterThanOrEqual(("n",), 1), [0, 1]),
        (LessThan(("n",), 2), [0]),
        (LessThanOrEqual(("n",), 2), [0, 1]),
        (In(("n",), (2, 3)), [1]),
        (IsNull(("n",)), [2]),
        (IsNotNull(("n",)), [0, 1]),
        (EqualTo(("flag",), True), [0]),
        (StringStartsWith(("s",), "a"), [0]),
        (StringEndsWith(("s",), "b"), [0, 1]),
        (StringContains(("s",), "a"), [0]),
        (Not(StringContains(("s",), "a")), [1]),
        (IsNull(("x",)), [0, 2]),
        # For Spark, NaN is greater than all numbers, so rows with it are left to Spark.
        (GreaterThan(("x",), 0.25), [0, 1]),
        (LessThan(("x",), 0.25), [0]),
        (Not(EqualTo(("x",), 0.5)), [0]),
    ],
)
def test_a_row_is_left_out_only_if_it_cannot_pass(condition: Filter, rows: list[int]) -> None:
    assert passing(condition) == rows


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("elsewhere",), 1),
        EqualTo(("list", "inner"), 1),
        EqualTo(("list",), 1),
        EqualNullSafe(("n",), 1),
        LessThan(("x",), NAN),
        StringContains(("n",), "1"),
    ],
)
def test_all_rows_are_handed_over_where_a_filter_cannot_be_decided(condition: Filter) -> None:
    assert passing(condition) is None


def test_a_row_must_pass_all_filters_that_can_be_decided() -> None:
    assert passing() is None
    assert passing(GreaterThan(("n",), 0), EqualTo(("elsewhere",), 1), StringStartsWith(("s",), "b")) == [1]


def test_only_rows_that_may_pass_are_handed_to_spark(tmp_path: Path) -> None:
    tensorflow_writes(tmp_path / "a", *(example(n=[number], tags=[b"x"]) for number in range(100)))
    source = TfrecordSource({"path": str(tmp_path)})
    reader = source.reader(source.schema())
    assert reader.pushFilters([condition := GreaterThan(("n",), 97)]) == [condition]
    (partition,) = reader.partitions()
    assert [batch.to_pydict() for batch in reader.read(partition)] == [{"n": [98, 99], "tags": ["x", "x"]}]


CONDITIONS = (
    "n = 2",
    "n != 2",
    "n in (1, 3)",
    "x > 0.25",
    "x < 0.25",
    "x = 0.5",
    "s like 'a%'",
    "s is null",
    "not flag",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_filter_in_the_source_gives_what_spark_gives_after_it(
    condition: str, tfrecord: SparkSession, tmp_path: Path
) -> None:
    tensorflow_writes(
        tmp_path / "a",
        example(n=[1], x=[0.5], s=[b"ab"], flag=[1]),
        example(n=[2], x=[NAN], s=[b"b"], flag=[0]),
        example(n=[3], x=[0.125], flag=[1]),
        example(),
    )
    frame = tfrecord.read.format("tfrecord").schema("n bigint, x double, s string, flag boolean").load(str(tmp_path))
    after = tfrecord.createDataFrame(frame.collect(), frame.schema)
    assert list(map(str, frame.where(condition).collect())) == list(map(str, after.where(condition).collect()))


def test_a_record_that_does_not_fit_is_named_also_where_a_filter_leaves_it_out(
    tfrecord: SparkSession, tmp_path: Path
) -> None:
    tensorflow_writes(tmp_path / "a", example(n=[1], x=[0.5]), example(n=[2], x=[b"text"]))
    frame = tfrecord.read.format("tfrecord").schema("n bigint, x float").load(str(tmp_path))
    with pytest.raises(PySparkException, match="record 1 does not match the contract: feature 'x'"):
        frame.where("n = 1").collect()


def test_filters_on_columns_that_spark_names_in_another_case_find_them(tfrecord: SparkSession, tmp_path: Path) -> None:
    tensorflow_writes(tmp_path / "a", example(n=[1]), example(n=[2]))
    frame = tfrecord.read.format("tfrecord").schema("n bigint").load(str(tmp_path))
    assert frame.where("N = 2").collect() == [(2,)]
