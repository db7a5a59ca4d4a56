"""Many small files are read by a few tasks, as many as Spark's own sources would start."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

import ctr_samples
from ctr_samples.shards import open_storage
from ctr_samples.sparksql.releases import COUNTS_WITHOUT_COLUMNS
from ctr_samples.tfrecord.data_source import TfrecordSource
from ctr_samples.tfrecord.files import DataFile, Packing, packing_of
from tests.support.tensorflow_files import example, tensorflow_writes


def sizes_of_tasks(packing: Packing, *sizes: int) -> list[list[int]]:
    storage = open_storage("/nowhere")
    files = [DataFile(storage, str(number), size, "none") for number, size in enumerate(sizes)]
    return [[file.size for file in task] for task in packing.packed(files)]


@pytest.mark.parametrize(
    ("packing", "sizes", "expected"),
    [
        (Packing(100, 10, 1), [], []),
        (Packing(100, 10, 1), [50, 30, 20, 5], [[50, 30], [20, 5]]),  # 50 + 10 + 30 + 10 = 100, and no room for 20
        (Packing(100, 10, 1), [500, 1, 500], [[500], [1], [500]]),  # files are not split
        (Packing(100, 10, 1), [0] * 20, [[0] * 10 + [0], [0] * 9]),
        (Packing(100, 10, 4), [10, 10, 10, 10], [[10], [10], [10], [10]]),  # a task for each core
        (Packing(100, 10, 2), [10, 10, 10, 10], [[10, 10], [10, 10]]),
        (Packing(100, 10, 40), [10, 0, 0], [[10], [0, 0]]),  # but none for less than it costs to open a file
        (Packing(100, 0, 1), [0] * 500, [[0] * 500]),
    ],
)
def test_files_are_packed_up_to_a_size_in_their_order(
    packing: Packing, sizes: list[int], expected: list[list[int]]
) -> None:
    assert sizes_of_tasks(packing, *sizes) == expected


def test_four_hundred_small_files_are_a_dozen_tasks() -> None:
    assert len(sizes_of_tasks(Packing(least_tasks=2), *[200] * 400)) == 13


@pytest.fixture
def small_files(tmp_path: Path) -> Path:
    for number in range(40):
        tensorflow_writes(tmp_path / f"part-{number:02}", example(id=[number]))
    return tmp_path


@pytest.mark.thorough
def test_small_files_are_read_in_as_many_tasks_as_by_sparks_own_sources(
    tfrecord: SparkSession, small_files: Path
) -> None:
    def tasks_of(format_name: str = "tfrecord", **options: str) -> int:
        return tfrecord.read.format(format_name).options(**options).load(str(small_files)).rdd.getNumPartitions()

    assert tasks_of() == tasks_of("binaryFile") == 2
    assert tasks_of(openCostInBytes="1MiB", maxPartitionBytes="4 MiB") == 10
    tfrecord.conf.set("spark.sql.files.maxPartitionBytes", "20m")
    try:
        ctr_samples.register(tfrecord)  # a setting counts as it was then
        assert packing_of(tfrecord) == Packing(20 << 20, 4 << 20, 2)
        assert tasks_of() == tasks_of("binaryFile") == 8
    finally:
        tfrecord.conf.unset("spark.sql.files.maxPartitionBytes")
        ctr_samples.register(tfrecord)


def test_spark_reads_rows_in_order_and_counts_them_without_columns(tfrecord: SparkSession, small_files: Path) -> None:
    rows = tfrecord.read.format("tfrecord").load(str(small_files)).collect()
    assert [row.id for row in rows] == list(range(40))
    without_columns = tfrecord.read.format("tfrecord").schema(StructType()).load(str(small_files))
    if COUNTS_WITHOUT_COLUMNS:
        assert without_columns.count() == 40
    else:
        with pytest.raises(PySparkException, match=r"Spark 4\.0 loses rows without columns; expected a schema with a"):
            without_columns.count()


def test_the_rows_of_small_files_are_handed_over_together(small_files: Path) -> None:
    reader = TfrecordSource({"path": str(small_files)}).reader(StructType([StructField("id", LongType())]))
    batches = [list(reader.read(task)) for task in reader.partitions()]
    assert [[batch.to_pydict() for batch in task] for task in batches] == [
        [{"id": list(range(32))}],
        [{"id": list(range(32, 40))}],
    ]


def test_batches_of_many_rows_are_handed_over_as_they_are(tmp_path: Path) -> None:
    for name, rows in (("a", 9_000), ("b", 900), ("c", 200)):
        tensorflow_writes(tmp_path / name, *[example(id=[rows])] * rows)
    source = TfrecordSource({"path": str(tmp_path)})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    assert [batch.num_rows for batch in reader.read(partition)] == [9_900, 200]
