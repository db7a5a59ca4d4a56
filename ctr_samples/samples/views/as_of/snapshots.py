"""Daily snapshots: an equi-join on the key and the latest available snapshot."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.samples.views.as_of.ranked_rows import (
    EVENT_TIME,
    KEY,
    RANK,
    ROW,
    SEVERAL,
    Join,
    placed,
    view_struct,
    with_latest_snapshot,
)
from ctr_samples.sparksql.columns import same_key_type


def join_snapshots(impressions: DataFrame, join: Join) -> DataFrame:
    """Add a column for the view, which must be a snapshot view, to the impressions.

    Reduces the rows of each key and snapshot to the best row. Spreads impressions without a key over all tasks.
    """
    how = join.how
    assert how.snapshot, f"{how.name} is no snapshot view"
    left_key, right_key = same_key_type(impressions, how.on, join.features, KEY)
    left = with_latest_snapshot(impressions, join, "_latest").withColumns(
        {"_on": left_key, "_alone": F.when(left_key.isNull(), F.col(how.id))}
    )
    rows = placed(join, right_key).withColumn("_at", F.col(f"{ROW}.{EVENT_TIME}"))
    if SEVERAL in join.features.columns:
        right = rows.select(F.col(KEY).alias("_key"), "_at", F.col(ROW).alias("_best"))
    else:
        right = rows.groupBy(F.col(KEY).alias("_key"), "_at").agg(F.max_by(ROW, RANK).alias("_best"))
    nobody = F.lit(None).cast(left.schema["_alone"].dataType)
    same = (
        (F.col("_on") == F.col("_key"))
        & (F.col("_latest") == F.col("_at"))
        & F.col("_alone").eqNullSafe(F.col("_nobody"))
    )
    joined = left.join(right.withColumn("_nobody", nobody), same, how="left")
    view = view_struct(join, "_best", F.col(how.time))
    return joined.select(*[F.col(f"`{c}`") for c in impressions.columns], view)
