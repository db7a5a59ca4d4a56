"""Appends rows to a table in the format tfrecord: spark-submit rows_to_append.py TABLE. Tests import it, too."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples import register

FIRST, SECOND = range(1_000), range(1_000, 4_000)
PARTITIONS = 8


def append(spark: SparkSession, table: Path, numbers: range) -> None:
    """Numbers with a vector, spread over the partitions by a shuffle."""
    register(spark)
    rows = spark.createDataFrame([(n,) for n in numbers], "n bigint").repartition(PARTITIONS, F.col("n"))
    vectors = rows.select("n", F.array_repeat(F.col("n").cast("float"), 64).alias("vector"))
    vectors.write.format("tfrecord").mode("append").option("shardSize", "32KiB").save(str(table))


if __name__ == "__main__":
    session = SparkSession.builder.appName("rows to append").getOrCreate()
    append(session, Path(sys.argv[1]), SECOND)
    session.stop()
