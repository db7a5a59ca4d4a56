"""What values take in memory, and how much of it there is."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.sparksql.columns import bytes_of
from ctr_samples.sparksql.session import smallest_memory


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("1L", 8),
        ("cast(null as bigint)", 0),
        ("'four'", 20),
        ("array(1D, 2D, 3D)", 40),
        ("array('one', null, 'two')", 16 + 19 + 0 + 19),
        ("map('a', 1D)", 16 + 17 + 16 + 8),
        ("named_struct('a', 1, 'b', array(1F))", 8 + 24),
        ("cast(null as array<string>)", 0),
    ],
)
def test_a_value_takes_about_its_bytes_in_memory(spark: SparkSession, value: str, size: int) -> None:
    row = spark.range(1).select(F.expr(value).alias("value"))
    assert row.select(bytes_of(F.col("value"), row.schema["value"].dataType)).collect()[0][0] == size


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({}, 1 << 30),
        ({"spark.driver.memory": "8g"}, 1 << 30),
        ({"spark.driver.memory": "8g", "spark.executor.memory": "2500m"}, 2500 << 20),
        ({"spark.driver.memory": "8g", "spark.master": "local[2]"}, 8 << 30),
        ({"spark.driver.memory": "2048", "spark.master": "local[*,4]"}, 2 << 30),
        ({"spark.driver.memory": "512MB", "spark.master": "local"}, 512 << 20),
        ({"spark.driver.memory": "1048576b", "spark.master": "local"}, 1 << 20),
    ],
)
def test_what_is_broadcast_must_fit_into_the_driver_and_into_each_executor(settings: dict[str, str], size: int) -> None:
    session = Mock()
    session.conf.get = settings.get
    assert smallest_memory(session) == size
