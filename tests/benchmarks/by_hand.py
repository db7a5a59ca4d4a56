"""The samples of conf/simulated.yaml, without counts and histories, as one would write them by hand in Spark.

Usage: spark-submit by_hand.py LOGS OUTPUT DAY WAY. WAY is ``parquet``, by Spark, or ``tfrecord``, by Python in mapPartitions,
as tutorials do. The log is read as it lies: JSON or Parquet. No line is counted, nothing is checked, compared or published.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

logs, output, text, way = sys.argv[1:]
day = date.fromisoformat(text)
PARAM = "action: STRING, userId: STRING, articleId: STRING, algorithmCombine: STRING"
LINES = f"actionTime STRING, readTime STRING, param STRUCT<{PARAM}>"
WINDOWS = {"click": 1800, "collect": 7200, "share": 7200, "read": 7200}


def of_days(table: str, first: int, last: int) -> list[str]:
    paths = [f"{logs}/{table}/dt={day + timedelta(n)}" for n in range(first, last + 1)]
    return [path for path in paths if Path(path).exists()]


def labelled(spark: SparkSession) -> DataFrame:
    """The day's impressions, each with what happened to it until the next one of the same user and article."""
    days = of_days("user_action", -1, 1)
    is_json = any(Path(days[0]).glob("*.json"))
    log = (spark.read.schema(LINES).json(days) if is_json else spark.read.parquet(*days)).where("param is not null")
    rows = log.select(
        F.to_timestamp("actionTime").alias("t"),
        F.col("param.action").alias("action"),
        F.col("param.userId").alias("user"),
        F.col("param.articleId").alias("article"),
        F.col("param.algorithmCombine").alias("algorithm"),
        F.expr("try_cast(readTime as bigint)").alias("ms"),
    )
    shown = rows.where("action = 'exposure'").select(
        "t", "user", "algorithm", F.posexplode(F.from_json("article", "array<string>")).alias("position", "article")
    )
    before = F.lag("t").over(Window.partitionBy("user", "article").orderBy("t"))
    shown = (
        shown.withColumn("before", before).where("before is null or t > before + interval 30 seconds").drop("before")
    )
    shown = shown.withColumn("id", F.xxhash64("user", "article", "t"))
    actions = rows.where(F.col("action").isin(list(WINDOWS))).select("t", "user", "article", "action", "ms")
    stacked = shown.withColumn("shown_at", F.col("t")).unionByName(actions, allowMissingColumns=True)
    up_to_now = Window.partitionBy("user", "article").orderBy("t", F.col("id").isNull())
    stacked = stacked.withColumn("of", F.last(F.when(F.col("id").isNotNull(), F.col("id")), True).over(up_to_now))
    stacked = stacked.withColumn(
        "since", F.unix_seconds("t") - F.unix_seconds(F.last("shown_at", True).over(up_to_now))
    )

    def any_of(action: str) -> Column:
        return F.coalesce(
            F.max(((F.col("action") == action) & (F.col("since") <= WINDOWS[action])).cast("long")), F.lit(0)
        )

    one = (
        stacked.where("of is not null")
        .groupBy("user", "article", "of")
        .agg(
            F.max("shown_at").alias("t"),
            F.max("algorithm").alias("algorithm"),
            F.max("position").alias("position"),
            any_of("click").alias("clicked"),
            any_of("collect").alias("collected"),
            any_of("share").alias("shared"),
            F.sum(F.when((F.col("action") == "read") & (F.col("since") <= WINDOWS["read"]), F.col("ms"))).alias(
                "read_ms"
            ),
        )
    )
    return one.where(F.to_date("t") == F.lit(day)).withColumnRenamed("of", "id")


def as_of(left: DataFrame, right: DataFrame, key: str, name: str, delay: str, ttl: str) -> DataFrame:
    """The last row of a table with ``key``, ``at`` and ``row`` before each impression."""
    known = right.withColumn("t", F.col("at") + F.expr(delay)).select(key, "t", F.struct("at", "row").alias("found"))
    both = left.withColumn("mine", F.lit(True)).unionByName(known, allowMissingColumns=True)
    so_far = Window.partitionBy(key).orderBy("t", F.col("mine").isNotNull())
    joined = both.withColumn("found", F.last("found", True).over(so_far)).where("mine").drop("mine")
    fresh = F.col("found.at") >= F.col("t") - F.expr(ttl)
    return joined.withColumn(name, F.when(fresh, F.col("found.row"))).drop("found")


def strongest(weights: str) -> Column:
    """The ten greatest values of a map, as floats."""
    return F.expr(f"cast(slice(sort_array(map_values({weights}), false), 1, 10) as array<float>)")


def main() -> None:
    spark = SparkSession.builder.config("spark.sql.session.timeZone", "Asia/Shanghai").getOrCreate()
    profiles = spark.read.parquet(*of_days("user_profile", -7, 0)).select(
        F.col("user_id").cast("string").alias("user"),
        F.col("updated_at").alias("at"),
        F.struct("gender", "age", "article_partial").alias("row"),
    )
    vectors = spark.read.parquet(*of_days("article_vector", -7, 0)).select(
        F.col("article_id").cast("string").alias("article"),
        F.col("trained_at").alias("at"),
        F.struct(F.col("articlevector").cast("array<float>").alias("vector")).alias("row"),
    )
    articles = spark.read.parquet(f"{logs}/article_profile").select(
        F.col("article_id").cast("string").alias("article"),
        F.col("published_at").alias("at"),
        F.struct("channel_id", "topics", strongest("keywords").alias("keywords")).alias("row"),
    )
    rows = as_of(labelled(spark), profiles, "user", "u", "interval 10 minutes", "interval 7 days")
    rows = as_of(rows, articles, "article", "a", "interval 0 seconds", "interval 36500 days")
    own = "map_filter(u.article_partial, (k, w) -> startswith(k, concat(a.channel_id, ':')))"
    weight = "coalesce(u.article_partial[concat(a.channel_id, ':', x)], 0D)"
    affinity = f"aggregate(transform(a.topics, x -> {weight}), 0D, (s, w) -> s + w)"
    rows = rows.select(
        *["id", "t", "user", "article", "clicked", "collected", "shared", "read_ms"],
        F.coalesce("a.channel_id", F.lit(0)).cast("long").alias("channel"),
        F.col("position").cast("long"),
        F.hour("t").cast("long").alias("hour"),
        F.pmod(F.xxhash64("algorithm"), F.lit(32)).alias("algorithm"),
        F.col("u").isNotNull().cast("long").alias("user_known"),
        F.expr("case u.gender when 'male' then 1 when 'female' then 2 else 0 end").cast("long").alias("gender"),
        F.col("u.age").cast("float").alias("age"),
        F.col("a.keywords").alias("article_weights"),
        strongest(own).alias("user_weights"),
        F.expr(affinity).cast("float").alias("topic_affinity"),
    )
    rows = as_of(rows, vectors, "article", "v", "interval 30 minutes", "interval 3 days")
    samples = rows.withColumns(
        {
            "vector_known": F.col("v").isNotNull().cast("long"),
            "article_vector": F.coalesce("v.vector", F.array_repeat(F.lit(0.0).cast("float"), 100)),
            "bucket": F.pmod(F.xxhash64("user"), F.lit(10)),
        }
    ).drop("v", "t", "user", "article")
    samples = samples.repartition(4, "id").sortWithinPartitions("bucket", "id")
    if way == "tfrecord":
        Path(output).mkdir(parents=True, exist_ok=True)
        samples.rdd.mapPartitionsWithIndex(written).count()
    else:
        samples.write.mode("overwrite").parquet(output)


def written(number: int, rows: Iterable[Row]) -> Iterator[int]:
    """Write the rows of a partition as tutorials do, and yield nothing."""
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    import tensorflow as tf

    def feature(value: object) -> tf.train.Feature:
        values = value if isinstance(value, list) else [] if value is None else [value]
        if any(isinstance(one, float) for one in values):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    with tf.io.TFRecordWriter(f"{output}/part-{number:05d}.tfrecord") as writer:
        for row in rows:
            features = tf.train.Features(feature={name: feature(value) for name, value in row.asDict().items()})
            writer.write(tf.train.Example(features=features).SerializeToString())
    yield from ()


if __name__ == "__main__":
    main()
