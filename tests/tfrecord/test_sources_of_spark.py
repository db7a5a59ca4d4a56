"""What users of Spark's own sources expect of a format: it works, or one sentence says what to do instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.tfrecord.tensorflow_files import example, tensorflow_writes


@pytest.fixture
def table(tfrecord: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    tfrecord.range(0, 3, 1, 1).write.format("tfrecord").mode("append").save(path)
    return path


def test_a_table_of_the_catalog_is_refused_when_it_is_made(tfrecord: SparkSession, tmp_path: Path) -> None:
    tensorflow_writes(tmp_path / "a", example(id=[1]))
    refused = "For a table of the catalog .*Use a temporary view: CREATE TEMPORARY VIEW"
    for place in (f"LOCATION '{tmp_path}'", f"OPTIONS (path '{tmp_path}')"):
        with pytest.raises(PySparkException, match=refused):
            tfrecord.sql(f"CREATE TABLE events USING tfrecord {place}")
    without_a_path = "was given no path; use load.*saveAsTable.*neither LOCATION nor OPTIONS"
    with pytest.raises(PySparkException, match=without_a_path):
        tfrecord.range(2).write.format("tfrecord").saveAsTable("events")
    assert not tfrecord.catalog.tableExists("events")


@pytest.mark.thorough
def test_a_table_of_the_catalog_that_spark_makes_without_asking_is_refused_when_it_is_used_and_a_view_is_not(
    tfrecord: SparkSession, tmp_path: Path
) -> None:
    tensorflow_writes(tmp_path / "a", example(id=[1]))
    tfrecord.sql(f"CREATE TABLE events (id BIGINT) USING tfrecord LOCATION '{tmp_path}'")
    tfrecord.sql(f"CREATE TEMPORARY VIEW seen USING tfrecord OPTIONS (path '{tmp_path}')")
    try:
        for use in (
            lambda: tfrecord.table("events").collect(),
            lambda: tfrecord.sql("INSERT INTO events VALUES (1)"),
            lambda: tfrecord.range(2).write.insertInto("events"),
            lambda: tfrecord.range(2).writeTo("events").append(),
        ):
            with pytest.raises(PySparkException, match="was given no path; use load.*For a table of the catalog"):
                use()
        assert tfrecord.sql("SELECT id FROM seen").collect() == [(1,)]
    finally:
        tfrecord.sql("DROP TABLE events")
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
