"""The expression that a message proposes for a time that could not be read."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.sparksql.moments import example_of


@pytest.mark.parametrize(
    ("value", "example"),
    [
        ("1709546400", "timestamp_seconds(bigint(t))"),
        ("1709546400123", "timestamp_millis(bigint(t))"),
        ("1709546400123456", "timestamp_micros(bigint(t))"),
        ("04/03/2024 10:05:00", "to_timestamp(t, 'dd/MM/yyyy HH:mm:ss')"),
        ("3/14/2024 9:05:07 PM", "to_timestamp(t, 'M/dd/yyyy h:mm:ss a')"),
        ("14.3.2024T10:05", "to_timestamp(t, 'dd.M.yyyy''T''HH:mm')"),
        ("31-12-24", "to_timestamp(t, 'dd-MM-yy')"),
        ("99-12-24 10:05:00,250", "to_timestamp(t, 'yy-MM-dd HH:mm:ss,SSS')"),
        ("2024/03/04 10:05", "to_timestamp(t, 'yyyy/MM/dd HH:mm')"),
        ("2024-W10-1T10:00:00", "to_timestamp(t, 'dd/MM/yyyy HH:mm:ss')"),
        ("noon", "to_timestamp(t, 'dd/MM/yyyy HH:mm:ss')"),
    ],
)
def test_an_example_is_made_of_the_value(value: str, example: str) -> None:
    assert example_of(value, "t") == example


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("1709546400123", "2024-03-04 10:00:00.123"),
        ("04/03/2024 10:05:00", "2024-03-04 10:05:00"),
        ("3/14/2024 9:05:07 PM", "2024-03-14 21:05:07"),
        ("14.3.2024T10:05", "2024-03-14 10:05:00"),
        ("31-12-24", "2024-12-31 00:00:00"),
        ("2024/03/04 10:05", "2024-03-04 10:05:00"),
    ],
)
def test_spark_reads_the_value_with_its_example(spark: SparkSession, value: str, read: str) -> None:
    row = spark.range(1).select(F.lit(value).alias("t")).select(F.expr(example_of(value, "t")).cast("string")).head()
    assert row == (read,)
