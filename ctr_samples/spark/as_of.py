"""The as-of join: to each impression the last row of a feature view that was known before it.

A row is visible to an impression iff ``event_time < impression_time`` (``<=`` if inclusive) and ``available_time <=
impression_time``; among the visible rows the greatest (event_time, available_time, content) wins, if its event time is
``>= impression_time - ttl``. One row out for each impression in, always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ctr_samples.spark.columns import hash_of_fields, same_key_type

KEY, EVENT_TIME, AVAILABLE_TIME, PAYLOAD = "key", "event_time", "available_time", "payload"
"""The columns of a feature table that is ready to be joined."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """How one view is joined: under what name, on which key of the impressions, and how old a row may be.

    ``time`` and ``id`` are the columns with the impression's time and its unique id.
    """

    name: str
    on: str
    ttl: timedelta | None
    inclusive: bool = False
    time: str = "impression.impression_time"
    id: str = "impression.impression_id"


def as_of_join(impressions: DataFrame, features: DataFrame, how: AsOf) -> DataFrame:
    """Impressions with one more column ``how.name``: the payload of the row that was valid, ``age_s`` and ``matched``.

    ``features`` has ``key``, ``event_time``, ``available_time`` and ``payload`` (a struct); rows without key or times must have
    been removed. Union and one window: one shuffle and no fan-out; Spark keeps the rows of one key at a time, and spills.
    """
    both = _union(impressions, features, how)
    # A row takes effect when both clocks have passed; from then on a running maximum keeps the best so far, so that a late
    # correction of an old fact never hides a newer one.
    in_order = (
        Window.partitionBy("key", "alone")
        .orderBy("moment", "is_impression")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    best = F.max_by("row", "rank").over(in_order)
    joined = both.withColumn("best", best).where("is_impression")
    return joined.select("left.*", _view(F.col(f"left.{how.time}"), features, how))


def join_static(impressions: DataFrame, features: DataFrame, name: str, on: str) -> DataFrame:
    """Impressions with the row of a table without times (``key``, ``payload``).

    Of several rows with one key the same one is taken on every run.
    """
    payload = features.schema[PAYLOAD].dataType
    one_each = features.groupBy(KEY).agg(F.max_by(PAYLOAD, _content(F.col(PAYLOAD), payload)).alias("_row"))
    left_key, right_key = same_key_type(impressions, on, one_each, KEY)
    right = one_each.select(right_key.alias("_key"), "_row")
    joined = impressions.withColumn("_on", left_key).join(right, F.col("_on") == F.col("_key"), how="left")
    fields = [F.col(f"_row.{f}").alias(f) for f in _fields(payload)]
    view = F.struct(*fields, F.lit(None).cast("double").alias("age_s"), F.col("_row").isNotNull().alias("matched"))
    return joined.select(*[F.col(c) for c in impressions.columns], view.alias(name))


def _union(impressions: DataFrame, features: DataFrame, how: AsOf) -> DataFrame:
    left_key, right_key = same_key_type(impressions, how.on, features, KEY)
    left = F.struct(*[F.col(c) for c in impressions.columns])
    left_type = impressions.select(left.alias("left")).schema["left"].dataType
    payload = features.schema[PAYLOAD].dataType
    row = F.struct(EVENT_TIME, PAYLOAD)
    rank = F.struct(EVENT_TIME, AVAILABLE_TIME, _content(F.col(PAYLOAD), payload).alias("content"))
    # A strict event clock is an inclusive one a microsecond later, the resolution of a Spark timestamp.
    after_event = F.col(EVENT_TIME) if how.inclusive else F.col(EVENT_TIME) + F.lit(timedelta(microseconds=1))
    right = features.select(
        right_key.alias("key"),
        F.lit(None).cast("bigint").alias("alone"),
        F.greatest(after_event, F.col(AVAILABLE_TIME)).alias("moment"),
        F.lit(False).alias("is_impression"),
        row.alias("row"),
        rank.alias("rank"),
        F.lit(None).cast(left_type).alias("left"),
    )
    return impressions.select(
        left_key.alias("key"),
        # An impression without a key matches nothing; alone, it does not gather with the others on one task.
        F.when(left_key.isNull(), F.col(how.id)).alias("alone"),
        F.col(how.time).alias("moment"),
        F.lit(True).alias("is_impression"),
        F.lit(None).cast(right.schema["row"].dataType).alias("row"),
        F.lit(None).cast(right.schema["rank"].dataType).alias("rank"),
        left.alias("left"),
    ).unionByName(right)


def _view(impression_time: Column, features: DataFrame, how: AsOf) -> Column:
    """The struct that features are made from; a row past its ttl is no match."""
    event_time = F.col(f"best.{EVENT_TIME}")
    fresh = F.lit(True) if how.ttl is None else event_time >= impression_time - F.lit(how.ttl)
    matched = F.coalesce(event_time.isNotNull() & fresh, F.lit(False))
    age = (F.unix_micros(impression_time) - F.unix_micros(event_time)) / F.lit(1e6)
    fields = [
        F.when(matched, F.col(f"best.{PAYLOAD}.{field}")).alias(field)
        for field in _fields(features.schema[PAYLOAD].dataType)
    ]
    return F.struct(*fields, F.when(matched, age).alias("age_s"), matched.alias("matched")).alias(how.name)


def _fields(payload: DataType) -> Sequence[str]:
    assert isinstance(payload, StructType)
    return payload.fieldNames()


def _content(payload: Column, kind: DataType) -> Column:
    assert isinstance(kind, StructType)
    return hash_of_fields([payload[f.name] for f in kind.fields], [f.dataType for f in kind.fields])
