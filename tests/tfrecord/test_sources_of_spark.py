"""What users of Spark's own sources expect of a format: it works, or one sentence says what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.tensorflow_files import example, tensorflow_writes
from tests.tfrecord.schemas import Read


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


def test_files_of_other_days_are_not_read_where_paths_name_the_days(
    tfrecord: SparkSession, tmp_path: Path, read: Read
) -> None:
    for day in (1, 2, 3):
        tensorflow_writes(tmp_path / f"day={day}/a", example(x=[day]))
    (tmp_path / "day=2/a").write_bytes(b"damaged: whoever reads it fails")
    schema, base = "x int, day int", str(tmp_path)
    assert read(tmp_path / "day={1,3}", schema, basePath=base) == [{"x": 1, "day": 1}, {"x": 3, "day": 3}]
    reader = tfrecord.read.format("tfrecord").schema(schema).option("basePath", base)
    assert sorted(reader.load([f"{base}/day=1", f"{base}/day=3"]).collect()) == [(1, 1), (3, 3)]
