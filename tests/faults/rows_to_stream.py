"""Streams rows into a table in the format tfrecord: spark-submit rows_to_stream.py FILES TABLE CHECKPOINT. Tests import it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples import register

BATCHES = (range(1_000), range(1_000, 4_000), range(4_000, 4_200))
"""A file for each micro-batch. Of the second, each task writes several shards; of the third, none writes 256 rows."""
PARTITIONS = 8


def add_file(files: Path, batch: int) -> None:
    """What the micro-batch will read; files are read in the order of their times."""
    hidden = files / f"_{batch}.json"
    hidden.write_text("".join(json.dumps({"n": n}) + "\n" for n in BATCHES[batch]))
    os.utime(hidden, (1_500_000_000 + batch, 1_500_000_000 + batch))
    hidden.rename(files / f"{batch}.json")


def stream(spark: SparkSession, files: Path, table: Path, checkpoint: Path) -> None:
    """Whatever has not been read yet, a file in each micro-batch, spread over the partitions by a shuffle."""
    register(spark)
    rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1).json(str(files))
    vectors = rows.repartition(PARTITIONS, F.col("n")).select(
        "n", F.array_repeat(F.col("n").cast("float"), 64).alias("vector")
    )
    writer = vectors.writeStream.format("tfrecord").option("checkpointLocation", str(checkpoint))
    query = writer.option("shardSize", "32KiB").trigger(availableNow=True).start(str(table))
    query.awaitTermination()


if __name__ == "__main__":
    session = SparkSession.builder.appName("rows to stream").getOrCreate()
    stream(session, *map(Path, sys.argv[1:]))
    session.stop()
