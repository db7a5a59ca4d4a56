"""Feature rows with their moment and rank, and the struct of a joined view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DoubleType, StructField, StructType

from ctr_samples.sparksql.columns import hash_of_fields, later, quoted

KEY, EVENT_TIME, AVAILABLE_TIME, PAYLOAD = "key", "event_time", "available_time", "payload"
SEQUENCE, GONE = "sequence", "gone"
"""Columns of a feature table that is ready to join.

The last two are optional: the order of rows with equal times, and a flag for tombstones, which mark that the entity no
longer has features.
"""

VALID_TO, CLOSED = "valid_to", "closed_available"
"""Two further columns of a table whose rows end: the end of a row's validity, and the time at which the end became
known.

The first is null if the row has not ended, the second if the end was known at once. Such a table is ready once
:func:`~ctr_samples.samples.views.as_of.validity.cut` has processed its rows.
"""

UNTIL = "until"
"""Column of rows split by validity: the first instant at which an impression no longer sees the row, or null.

Only one row per key is visible at a time, each from its available time on.
"""

SEVERAL = "several"
"""Column of tables with one row per key, or per key and snapshot: whether the source had several different rows."""

MOMENT, RANK, ROW = "moment", "rank", "row"
CONTENT = "content"
_LEAST = -(2**63)


@dataclass(frozen=True, slots=True)
class AsOf:
    """Join settings of one view: its name, the key of the impressions, and the maximum age of a row.

    ``snapshot`` views have their rows in snapshots, with one event time per snapshot. An entity missing from the
    latest visible snapshot has no features. ``in_order`` states that rows become known in event-time order, and
    simultaneous rows become known together; then the best row so far is the last row. ``time`` and ``id`` are the
    columns with the impression's time and its unique id.
    """

    name: str
    on: str
    ttl: timedelta | None
    inclusive: bool = False
    snapshot: bool = False
    in_order: bool = False
    time: str = "impression.impression_time"
    id: str = "impression.impression_id"


@dataclass(frozen=True, slots=True)
class Join:
    """View that is ready to join. ``features`` must not have rows without a key or times.

    ``all_rows`` is the table before :func:`one_each`, if it was applied. It has the same times and needs no shuffle.
    """

    how: AsOf
    features: DataFrame
    all_rows: DataFrame | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the rows end, and are split so that only one row is visible at a time."""
        return UNTIL in self.features.columns

    @property
    def fields(self) -> Sequence[str]:
        """Names of the view's columns."""
        payload = self.features.schema[PAYLOAD].dataType
        assert isinstance(payload, StructType)
        return payload.fieldNames()


def one_each(features: DataFrame) -> DataFrame:
    """Reduce a table without timestamps to one row per key, or snapshots to one row per key and event time.

    Keeps the same rows in every run. Returns the columns of ``features``, and ``several``. Tombstones do not count as
    different rows.
    """
    content = content_of(features.schema[PAYLOAD].dataType)
    alive = F.when(F.col(GONE), None).otherwise(content) if GONE in features.columns else content
    timed = EVENT_TIME in features.columns
    by = [KEY, EVENT_TIME] if timed else [KEY]
    rest = F.struct(*[name for name in features.columns if name not in by])
    best = F.max_by(rest, rank_of(features) if timed else content).alias(ROW)
    rows = features.groupBy(*by).agg(best, (F.min(alive) != F.max(alive)).alias(SEVERAL))
    return rows.select(*by, f"{ROW}.*", SEVERAL)


def placed(join: Join, key: Column) -> DataFrame:
    """Return ``key``, ``moment`` (when both clocks have passed), ``rank`` (which decides the match) and ``row``
    (contents).
    """
    features = join.features
    gone = F.coalesce(F.col(GONE), F.lit(False)) if GONE in features.columns else F.lit(False)
    until = [F.col(UNTIL)] if join.is_cut else []
    return features.select(
        key.alias(KEY),
        effective_from(join.how).alias(MOMENT),
        rank_of(features).alias(RANK),
        F.struct(F.col(EVENT_TIME), gone.alias(GONE), *until, F.col(PAYLOAD)).alias(ROW),
    )


def rank_of(features: DataFrame) -> Column:
    """Return the rank that breaks ties between rows of a key that are visible at the same time.

    For rows already split into validity intervals, the latest ranks highest.
    """
    if UNTIL in features.columns:
        seen_from = F.col(AVAILABLE_TIME)
        return _rank(seen_from, seen_from, F.lit(None).cast("bigint"), F.lit(0).cast("bigint"))
    sequence = F.col(SEQUENCE) if SEQUENCE in features.columns else F.lit(None).cast("bigint")
    content = content_of(features.schema[PAYLOAD].dataType)
    if GONE in features.columns:
        # A tombstone loses a tie: an update ends one row and begins the next.
        content = F.when(F.col(GONE), F.lit(_LEAST)).otherwise(content)
    return _rank(F.col(EVENT_TIME), F.col(AVAILABLE_TIME), sequence, content)


def _rank(event_time: Column, available_time: Column, sequence: Column, content: Column) -> Column:
    parts = {EVENT_TIME: event_time, AVAILABLE_TIME: available_time, SEQUENCE: sequence, CONTENT: content}
    return F.struct(*[part.alias(name) for name, part in parts.items()])


def by_rank(rank: str) -> list[Column]:
    """Return the sort columns for ascending ranks. Spark sorts by the parts of a struct faster than by the struct."""
    return [F.col(f"{rank}.{part}") for part in (EVENT_TIME, AVAILABLE_TIME, SEQUENCE, CONTENT)]


def effective_from(how: AsOf) -> Column:
    """Return the first instant at which an impression sees a row."""
    return F.greatest(_seen_from(how, EVENT_TIME), F.col(AVAILABLE_TIME))


def effective_until(how: AsOf) -> Column:
    """Return the first instant at which an impression sees that a row has ended, or null if it has not."""
    return F.when(F.col(VALID_TO).isNotNull(), F.greatest(_seen_from(how, VALID_TO), F.col(CLOSED)))


def _seen_from(how: AsOf, clock: str) -> Column:
    # A strict event clock is an inclusive clock one microsecond later, the resolution of a Spark timestamp.
    return F.col(clock) if how.inclusive else later(F.col(clock), timedelta(microseconds=1))


def view_struct(join: Join, best: str, impression_time: Column, latest: Column | None = None) -> Column:
    """Return the struct from which features are computed, for the best visible row in the column ``best``.

    A row past its ttl, an ended row, a tombstone, and a row outside the snapshot ``latest`` do not match.
    """
    how = join.how
    event_time = F.col(f"{best}.{EVENT_TIME}")
    valid = event_time.isNotNull() & ~F.col(f"{best}.{GONE}")
    if how.ttl is not None:
        valid &= event_time >= later(impression_time, -how.ttl)
    if join.is_cut:
        until = F.col(f"{best}.{UNTIL}")
        valid &= until.isNull() | (impression_time < until)
    if latest is not None:
        valid &= event_time == latest
    matched = F.coalesce(valid, F.lit(False))
    age = (F.unix_micros(impression_time) - F.unix_micros(event_time)) / F.lit(1e6)
    fields = [F.when(matched, F.col(f"{best}.{PAYLOAD}.{quoted(field)}")).alias(field) for field in join.fields]
    return F.struct(*fields, F.when(matched, age).alias("age_s"), matched.alias("matched")).alias(how.name)


def view_type(join: Join) -> StructType:
    """Return the type of :func:`view_struct`."""
    payload = join.features.schema[PAYLOAD].dataType
    assert isinstance(payload, StructType)
    fields = [StructField(field.name, field.dataType) for field in payload.fields]
    return StructType([*fields, StructField("age_s", DoubleType()), StructField("matched", BooleanType(), False)])


def content_of(kind: DataType) -> Column:
    """Hash of the whole payload. As the last tie-breaker, it makes the order of rows total."""
    assert isinstance(kind, StructType)
    payload = F.col(PAYLOAD)
    return hash_of_fields([payload[f.name] for f in kind.fields], [f.dataType for f in kind.fields])


def with_latest_snapshot(impressions: DataFrame, join: Join, name: str) -> DataFrame:
    """Add the event time of the latest snapshot visible to each impression, or null if none is visible.

    Only one snapshot exists per day, so each task receives all their times as one array.
    """
    rows = join.features if join.all_rows is None else join.all_rows
    snapshots = rows.select(F.struct(EVENT_TIME, effective_from(join.how).alias(MOMENT)).alias("snapshot"))
    all_times = F.broadcast(snapshots.agg(F.collect_set("snapshot").alias("_snapshots")))
    visible = F.filter("_snapshots", lambda one: one[MOMENT] <= F.col(join.how.time))
    return (
        impressions.crossJoin(all_times)
        .withColumn(name, F.array_max(visible)[EVENT_TIME])
        .select(*[F.col(f"`{c}`") for c in impressions.columns], name)
    )
