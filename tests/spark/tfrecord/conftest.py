"""The data source called as Spark calls it: reading needs no cluster to be tested."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import ctr_samples
from ctr_samples.spark.tfrecord.source import TfrecordSource

Read = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def tfrecord(spark: SparkSession) -> SparkSession:
    """The session of all tests, which knows the format."""
    ctr_samples.register(spark)
    return spark


@pytest.fixture(scope="session")
def ddl(spark: SparkSession) -> Callable[[str], StructType]:
    """``ddl("a int, b string")``."""
    return StructType.fromDDL


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
            assert batch.schema.equals(to_arrow_schema(wanted, timezone="UTC"))
        return [row for batch in batches for row in batch.to_pylist()]

    return rows
