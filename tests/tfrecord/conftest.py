"""The data source called as Spark calls it: reading needs no cluster to be tested."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession, datasource
from pyspark.sql.types import StructType

import ctr_samples
from ctr_samples.sparksql.releases import arrow_schema
from ctr_samples.tfrecord.data_source import TfrecordSource
from tests.support.disk_fixtures import unsynced
from tests.tfrecord.schemas import Read, schema_from

__all__ = ["unsynced"]


BEFORE_4_1 = not hasattr(datasource, "EqualTo")
"""Spark has no streams of batches for Python sources."""

BEFORE_4_2 = find_spec("pyspark.sql.streaming.datasource") is None
"""Spark tells Python sources of no limits of triggers."""

if BEFORE_4_1:
    collect_ignore = ["test_tfrecord_streams.py"]
NEEDS_4_1 = {"test_the_way_to_the_executors_imports_neither_tensorflow_nor_numba"}
NEEDS_4_2 = {
    "test_a_stream_takes_at_most_the_files_of_a_trigger",
    # Spark's own Parquet fails with an internal error where a column of a directory has no name or no value.
    "test_of_each_shape_those_files_and_columns_are_read_that_spark_reads_of_parquet[no name-false]",
    "test_of_each_shape_those_files_and_columns_are_read_that_spark_reads_of_parquet[no value-false]",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if BEFORE_4_2 and item.name in NEEDS_4_2:
            item.add_marker(pytest.mark.skip(reason="needs Spark 4.2"))
        if BEFORE_4_1 and item.name in NEEDS_4_1:
            item.add_marker(pytest.mark.skip(reason="needs Spark 4.1"))


@pytest.fixture
def tfrecord(spark: SparkSession) -> SparkSession:
    """The session of all tests, which knows the format; a test before may have left another one active."""
    ctr_samples.register(spark)
    return spark


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """This process runs the task of partition 0, attempt 17; the settings of its session, which a test may change."""
    settings: dict[str, str] = {}
    context = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 17, getLocalProperty=settings.get)
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    return settings


@pytest.fixture(scope="session")
def ddl() -> Callable[[str], StructType]:
    """``ddl("a int, b string")``."""
    return schema_from


@pytest.fixture
def read(ddl: Callable[[str], StructType]) -> Read:
    """``read(path, "a int")``: the rows that tasks hand to Spark, each file in turn; without a schema it is inferred."""

    def rows(path: Path | str, schema: str | None = None, **options: str) -> list[dict[str, Any]]:
        source = pickle.loads(cloudpickle.dumps(TfrecordSource({"path": str(path), **options})))
        wanted = ddl(schema) if schema else source.schema()
        reader = source.reader(wanted)
        partitions = reader.partitions()
        on_executor = pickle.loads(cloudpickle.dumps(reader))
        batches = [batch for one in partitions for batch in on_executor.read(pickle.loads(pickle.dumps(one)))]
        for batch in batches:
            batch.validate(full=True)
            assert batch.schema.equals(arrow_schema(wanted))
        return [row for batch in batches for row in batch.to_pylist()]

    return rows
