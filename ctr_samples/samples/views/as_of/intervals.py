"""Small views: broadcast of the interval in which each row is the best. Impressions are not shuffled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.samples.views.as_of.ranked_rows import (
    KEY,
    MOMENT,
    PAYLOAD,
    RANK,
    ROW,
    Join,
    by_rank,
    placed,
    view_struct,
    with_latest_snapshot,
)
from ctr_samples.sparksql.columns import bytes_of, same_key_type

_BYTES_OF_A_ROW = 100
"""Size in bytes of a broadcast row without its payload: its key, its times, and its entry in the hash table."""


def join_by_intervals(impressions: DataFrame, join: Join) -> DataFrame:
    """Add a column for the view to the impressions.

    Suits views with few rows per key: each impression is compared with all intervals of its key, at most one of which
    contains its time.
    """
    how = join.how
    left_key, right_key = same_key_type(impressions, how.on, join.features, KEY)
    left = impressions
    if how.snapshot:
        left = with_latest_snapshot(left, join, "_latest")
    right = F.broadcast(_intervals(placed(join, right_key), how.in_order))
    time = F.col(how.time)
    holds = (time >= F.col("_from")) & (F.col("_to").isNull() | (time < F.col("_to")))
    joined = left.withColumn("_on", left_key).join(right, (F.col("_on") == F.col("_key")) & holds, how="left")
    view = view_struct(join, "_best", time, F.col("_latest") if how.snapshot else None)
    return joined.select(*[F.col(f"`{c}`") for c in impressions.columns], view)


@dataclass(frozen=True, slots=True)
class ViewSize:
    """Cost of broadcasting a view: the maximum number of rows per key, and the approximate total bytes."""

    rows_of_a_key: int
    bytes_in_memory: int


def sizes_of_views(views: Mapping[str, DataFrame]) -> dict[str, ViewSize]:
    """Measure one or more views whose payloads have the columns to join. Runs one Spark job."""
    rows = reduce(DataFrame.unionAll, [_size(name, features) for name, features in views.items()]).collect()
    return {name: ViewSize(most or 0, size or 0) for name, most, size in rows}


def _size(name: str, features: DataFrame) -> DataFrame:
    payload = F.lit(_BYTES_OF_A_ROW) + bytes_of(F.col(PAYLOAD), features.schema[PAYLOAD].dataType)
    keys = features.groupBy(KEY).agg(F.count(F.lit(1)).alias("rows"), F.sum(payload).alias("bytes"))
    return keys.agg(F.max("rows"), F.sum("bytes")).select(F.lit(name), "*")


def _intervals(rows: DataFrame, in_order: bool) -> DataFrame:
    """``_key``, ``_from``, ``_to`` and ``_best``: the best row known in each interval between consecutive moments."""
    so_far = Window.partitionBy(KEY).orderBy(MOMENT).rangeBetween(Window.unboundedPreceding, Window.currentRow)
    by_moment = Window.partitionBy(KEY).orderBy(MOMENT, *by_rank(RANK))
    return (
        rows.withColumn("_best", F.col(ROW) if in_order else F.max_by(ROW, RANK).over(so_far))
        .withColumn("_to", F.lead(MOMENT).over(by_moment))
        .where(F.col("_to").isNull() | (F.col(MOMENT) < F.col("_to")))
        .select(F.col(KEY).alias("_key"), F.col(MOMENT).alias("_from"), "_to", "_best")
    )
