"""What users of Spark's own sources expect of a format: it works, or one sentence says what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import ctr_samples
from tests.tfrecord.tensorflow_files import example, tensorflow_writes


@pytest.fixture
def table(tfrecord: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    tfrecord.range(0, 3, 1, 1).write.format("tfrecord").mode("append").save(path)
    return path


@pytest.fixture
def catalog(tfrecord: SparkSession) -> Iterator[SparkSession]:
    """The session; its table ``events`` is dropped afterwards."""
    yield tfrecord
    tfrecord.sql("DROP TABLE IF EXISTS events")


@pytest.fixture
def ten_a_file(tfrecord: SparkSession) -> Iterator[None]:
    tfrecord.conf.set("spark.sql.files.maxRecordsPerFile", "10")
    yield
    tfrecord.conf.unset("spark.sql.files.maxRecordsPerFile")


def records_of_files(spark: SparkSession, path: Path) -> list[int]:
    reader = spark.read.format("tfrecord").option("fileColumn", "file")
    return sorted(row["count"] for row in reader.load(str(path)).groupBy("file").count().collect())


def test_files_hold_at_most_the_records_that_the_option_says(tfrecord: SparkSession, tmp_path: Path) -> None:
    rows = tfrecord.range(0, 25, 1, 1)
    rows.write.format("tfrecord").option("maxRecordsPerFile", 10).mode("append").save(str(tmp_path / "a"))
    assert records_of_files(tfrecord, tmp_path / "a") == [5, 10, 10]
    with_partitions = rows.selectExpr("id", "id < 4 as early")
    ctr_samples.write_tfrecord(with_partitions, str(tmp_path / "b"), partition_by=["early"], max_records_per_file=7)
    assert records_of_files(tfrecord, tmp_path / "b") == [4, 7, 7, 7]


@pytest.mark.thorough
def test_the_session_says_how_many_records_a_file_holds_unless_an_option_does(
    tfrecord: SparkSession, tmp_path: Path, ten_a_file: None
) -> None:
    writer = tfrecord.range(0, 25, 1, 1).write.format("tfrecord").mode("append")
    writer.save(str(tmp_path / "a"))
    writer.option("maxRecordsPerFile", 0).save(str(tmp_path / "b"))
    assert records_of_files(tfrecord, tmp_path / "a") == [5, 10, 10]
    assert records_of_files(tfrecord, tmp_path / "b") == [25]


@pytest.mark.parametrize("how", ["LOCATION '{path}'", "OPTIONS (path '{path}')"])
def test_a_table_of_the_catalog_is_refused_when_it_is_made(catalog: SparkSession, table: str, how: str) -> None:
    with pytest.raises(
        PySparkException, match="For a table of the catalog .*Use a temporary view: CREATE TEMPORARY VIEW"
    ):
        catalog.sql(f"CREATE TABLE events USING tfrecord {how.format(path=table)}")
    assert not catalog.catalog.tableExists("events")


@pytest.mark.thorough
def test_a_table_of_the_catalog_that_spark_makes_without_asking_is_refused_when_it_is_used(
    catalog: SparkSession, table: str
) -> None:
    catalog.sql(f"CREATE TABLE events (id BIGINT) USING tfrecord LOCATION '{table}'")
    reading: list[Callable[[], Any]] = [
        lambda: catalog.table("events").collect(),
        lambda: catalog.sql("INSERT INTO events VALUES (1)"),
        lambda: catalog.range(2).write.insertInto("events"),
        lambda: catalog.range(2).writeTo("events").append(),
    ]
    for use in reading:
        with pytest.raises(PySparkException, match="was given no path; use load.*For a table of the catalog"):
            use()


def test_save_as_table_without_a_path_says_what_to_do(catalog: SparkSession) -> None:
    with pytest.raises(
        PySparkException, match="was given no path; use load.*saveAsTable.*neither LOCATION nor OPTIONS"
    ):
        catalog.range(2).write.format("tfrecord").saveAsTable("events")


@pytest.mark.thorough
def test_a_temporary_view_is_what_a_table_of_the_catalog_is_not(tfrecord: SparkSession, table: str) -> None:
    tfrecord.sql(f"CREATE TEMPORARY VIEW seen USING tfrecord OPTIONS (path '{table}')")
    try:
        assert [row.id for row in tfrecord.sql("SELECT id FROM seen ORDER BY id").collect()] == [0, 1, 2]
    finally:
        tfrecord.catalog.dropTempView("seen")


def test_files_of_other_days_are_not_read_where_paths_name_the_days(tfrecord: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2, 3):
        tensorflow_writes(tmp_path / f"day={day}/a", example(x=[day]))
    (tmp_path / "day=2/a").write_bytes(b"damaged: whoever reads it fails")
    reader = tfrecord.read.format("tfrecord").schema("x int, day int").option("basePath", str(tmp_path))
    for paths in ([f"{tmp_path}/day=1", f"{tmp_path}/day=3"], f"{tmp_path}/day={{1,3}}"):
        assert sorted(reader.load(paths).collect()) == [(1, 1), (3, 3)]


# Reading as a stream


def batches_of(spark: SparkSession, path: Path, checkpoint: Path, **options: Any) -> list[list[int]]:
    """The rows of each micro-batch until nothing is left."""
    batches: list[list[int]] = []
    reader = spark.readStream.format("tfrecord").schema("id bigint").options(**options)
    query = (
        reader.load(str(path))
        .writeStream.foreachBatch(lambda frame, _: batches.append(sorted(row.id for row in frame.collect())))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


@pytest.mark.slow
def test_a_stream_reads_each_file_of_others_once_also_after_a_restart(tfrecord: SparkSession, tmp_path: Path) -> None:
    lake, checkpoint = tmp_path / "lake", tmp_path / "checkpoint"
    for number in (1, 2, 3):
        tensorflow_writes(lake / f"{number}", example(id=[number]))
    assert batches_of(tfrecord, lake, checkpoint) == [[1, 2, 3]]
    assert batches_of(tfrecord, lake, checkpoint) == []
    tensorflow_writes(lake / "0", example(id=[4]))  # before the others by name
    assert batches_of(tfrecord, lake, checkpoint) == [[4]]


@pytest.mark.slow
def test_a_stream_takes_at_most_the_files_of_a_trigger(tfrecord: SparkSession, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        tensorflow_writes(tmp_path / f"lake/{number}", example(id=[number]))
    rows = batches_of(tfrecord, tmp_path / "lake", tmp_path / "checkpoint", maxFilesPerTrigger=2)
    assert rows == [[1, 2], [3]]


@pytest.mark.slow
def test_a_stream_reads_what_a_table_gains_and_nothing_that_no_manifest_names(
    tfrecord: SparkSession, table: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    assert batches_of(tfrecord, Path(table), checkpoint) == [[0, 1, 2]]
    (shard,) = Path(table).glob("part-*")
    shard.with_name("part-00009-9-0123abcd.tfrecord").write_bytes(shard.read_bytes())
    tfrecord.range(7, 9, 1, 1).write.format("tfrecord").mode("append").save(table)
    assert batches_of(tfrecord, Path(table), checkpoint) == [[7, 8]]
