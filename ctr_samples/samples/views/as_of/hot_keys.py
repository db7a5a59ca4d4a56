"""Keys with too many rows for one task, split into time slices.

Each slice starts with the best row of all earlier slices, so the join stays exact. Each slice is joined like a
separate key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.samples.views.as_of.ranked_rows import KEY, MOMENT, RANK, ROW
from ctr_samples.sparksql.columns import micros_of


@dataclass(frozen=True, slots=True)
class HotKeys:
    """Hot keys (as text), and the division of their time into ``slices`` of ``length`` from ``start`` on.

    Times before ``start`` are in slice 0, times after the end in the last slice.
    """

    keys: tuple[str, ...]
    start: datetime
    length: timedelta
    slices: int


def slice_of(hot: HotKeys | None, key: Column, moment: Column) -> Column:
    """Return the slice of a key that contains an instant, or 0 for keys that are not hot."""
    if hot is None or not hot.keys:
        return F.lit(0).cast("bigint")
    micros = F.unix_micros(moment) - F.unix_micros(F.lit(hot.start))
    number = F.floor(micros / F.lit(micros_of(hot.length))) + 1
    inside = F.greatest(F.lit(0), F.least(F.lit(hot.slices), number)).cast("bigint")
    return F.when(_is_hot(hot, key), inside).otherwise(F.lit(0).cast("bigint"))


def carried(rows: DataFrame, hot: HotKeys) -> DataFrame:
    """Return the best earlier row for each slice of a hot key except the first slice.

    ``rows`` has ``key``, ``moment``, ``rank`` and ``row``; the result also has ``slice``. The result is small: the
    tasks that read the rows first reduce each slice to its best row.
    """
    of_slice = (
        rows.where(_is_hot(hot, F.col(KEY)))
        .withColumn("slice", slice_of(hot, F.col(KEY), F.col(MOMENT)))
        .groupBy(KEY, "slice")
        .agg(F.max_by(F.struct(MOMENT, RANK, ROW), RANK).alias("best"))
    )
    # Each best row is a candidate for every later slice, which carries its best candidate.
    later = F.sequence(F.col("slice") + 1, F.lit(hot.slices).cast("bigint"))
    offered = of_slice.where(F.col("slice") < hot.slices).select(KEY, F.explode(later).alias("slice"), "best")
    best = offered.groupBy(KEY, "slice").agg(F.max_by("best", F.col(f"best.{RANK}")).alias("best"))
    return best.select(KEY, f"best.{MOMENT}", f"best.{RANK}", f"best.{ROW}", "slice")


def measure_hot_keys(
    frames: Sequence[tuple[DataFrame, str, float]], least_rows: int, most_keys: int = 1000
) -> tuple[str, ...]:
    """Return the keys with at least ``least_rows`` rows in all frames combined, as text, most frequent first.

    Runs a Spark job. Each frame comes with its key column and its sampling fraction: 1 for all rows, less for a sample.
    """
    counts = None
    for frame, key, share in frames:
        named = frame.select(F.col(key).cast("string").alias(KEY)).where(F.col(KEY).isNotNull())
        own = named.groupBy(KEY).agg((F.count(F.lit(1)) / F.lit(share)).alias("rows"))
        counts = own if counts is None else counts.unionByName(own)
    assert counts is not None
    total = counts.groupBy(KEY).agg(F.sum("rows").alias("rows")).where(F.col("rows") >= least_rows)
    top = total.orderBy(F.col("rows").desc(), KEY).limit(most_keys)
    return tuple(row[KEY] for row in top.collect())


def _is_hot(hot: HotKeys, key: Column) -> Column:
    return F.coalesce(key.cast("string").isin(*hot.keys), F.lit(False))
