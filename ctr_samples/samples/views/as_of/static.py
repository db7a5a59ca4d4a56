"""Join for tables without timestamps."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.samples.views.as_of.ranked_rows import KEY, PAYLOAD, SEVERAL, one_each
from ctr_samples.sparksql.columns import quoted, same_key_type


def join_static(impressions: DataFrame, features: DataFrame, name: str, on: str) -> DataFrame:
    """Add the row of a table without timestamps (``key``, ``payload``) to the impressions.

    If a key has several rows, every run selects the same row.
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
