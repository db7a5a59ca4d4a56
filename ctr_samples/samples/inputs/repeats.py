"""Marks rows of a source that repeat another one, as logs that are delivered at least once do. See docs/logs.md.

A row is a repeat if a row with equal values of `unique` comes before it in the log of the same day, or is in the log of
the day before. So whether a row counts depends on the logs of two days, whatever else a run reads.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.config.source import SourceKind
from ctr_samples.samples.inputs.listing import LOG_DAY
from ctr_samples.sparksql.columns import content_hash, order_column
from ctr_samples.sparksql.expressions import IS_REPEAT, MALFORMED


def with_repeats(rows: DataFrame, source: SourceKind, where: str) -> DataFrame:
    """Add the column ``IS_REPEAT`` if the source has `unique`. Costs a shuffle of all rows.

    Of rows of one day, the one with the least `unique_first` counts, then the one with the least hash of its content. A
    row that lacks a value of `unique` is no repeat, and neither is a malformed line. Raises InputError for a value that
    has no order.
    """
    if not source.unique:
        return rows
    keys = [order_column(rows, text, f"{where}.unique") for text in source.unique]
    first = (
        F.lit(0) if source.unique_first is None else order_column(rows, source.unique_first, f"{where}.unique_first")
    )
    content = content_hash(rows.drop(LOG_DAY, MALFORMED))
    told = [key.isNotNull() for key in keys] + ([F.col(MALFORMED).isNull()] if MALFORMED in rows.columns else [])
    comparable = reduce(Column.__and__, told)
    # Rows without a key are spread over the tasks by their content.
    alike = [F.when(comparable, key) for key in keys] + [F.when(~comparable, content)]
    day = F.col(LOG_DAY) if LOG_DAY in rows.columns else F.lit(None).cast("date")
    before = F.lag(F.struct(day.alias("day"))).over(
        Window.partitionBy(*alike).orderBy(day, first.asc_nulls_last(), content)
    )
    near = F.coalesce(F.datediff(day, before["day"]) <= 1, F.lit(True))
    return rows.withColumn(IS_REPEAT, comparable & before.isNotNull() & near)
