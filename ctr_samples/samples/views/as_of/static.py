"""Tables without times."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.samples.views.as_of.ranked_rows import KEY, PAYLOAD, content_of
from ctr_samples.sparksql.columns import quoted, same_key_type

SEVERAL = "several"
"""A column of rows of which each key has one: whether the table had several that differ."""


def one_each(features: DataFrame) -> DataFrame:
    """One row (``key``, ``payload``, ``several``) for each key of a table without times, the same one on every run."""
    payload = features.schema[PAYLOAD].dataType
    assert isinstance(payload, StructType)
    content = content_of(payload)
    return features.groupBy(KEY).agg(
        F.max_by(PAYLOAD, content).alias(PAYLOAD), (F.min(content) != F.max(content)).alias(SEVERAL)
    )


def join_static(impressions: DataFrame, features: DataFrame, name: str, on: str) -> DataFrame:
    """Impressions with the row of a table without times (``key``, ``payload``).

    Of several rows with one key the same one is taken on every run.
    """
    payload = features.schema[PAYLOAD].dataType
    assert isinstance(payload, StructType)
    rows = features if SEVERAL in features.columns else one_each(features)
    left_key, right_key = same_key_type(impressions, on, rows, KEY)
    right = rows.select(right_key.alias("_key"), F.col(PAYLOAD).alias("_row"))
    joined = impressions.withColumn("_on", left_key).join(right, F.col("_on") == F.col("_key"), how="left")
    fields = [F.col(f"_row.{quoted(field)}").alias(field) for field in payload.fieldNames()]
    view = F.struct(*fields, F.lit(None).cast("double").alias("age_s"), F.col("_row").isNotNull().alias("matched"))
    return joined.select(*[F.col(quoted(c)) for c in impressions.columns], view.alias(name))
