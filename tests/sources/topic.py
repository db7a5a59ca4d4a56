"""Writes messages to a topic of Kafka, or drains it to a table: spark-submit topic.py write|drain ADDRESS ..."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples import register

TOPIC = "clicks"


def write(spark: SparkSession, address: str, first: int, end: int) -> None:
    """A message for each number, spread over the partitions of the topic by its key."""
    numbers = spark.range(first, end).select(
        F.col("id").cast("string").alias("key"), F.to_json(F.struct(F.col("id").alias("n"))).alias("value")
    )
    numbers.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", TOPIC).save()


def drain(spark: SparkSession, address: str, table: str, checkpoint: str, at_once: str) -> None:
    """What was not read yet, at most so many messages in a micro-batch."""
    register(spark)
    topic = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", TOPIC)
    messages = topic.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", at_once).load()
    rows = messages.select(
        F.from_json(F.col("value").cast("string"), "n bigint").n.alias("n"), "partition", "offset", "timestamp"
    )
    query = rows.writeStream.format("tfrecord").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start(table).awaitTermination()


if __name__ == "__main__":
    session = SparkSession.builder.appName("topic").getOrCreate()
    what, where, *rest = sys.argv[1:]
    if what == "write":
        write(session, where, int(rest[0]), int(rest[1]))
    else:
        drain(session, where, rest[0], rest[1], rest[2])
    session.stop()
