"""Feature views: sources as rows of key, event time, available time and payload, including tables counted from daily logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType

from ctr_samples.config import DailyCountView, EventView, SnapshotView, StaticView, View, WindowView
from ctr_samples.config.base import VIEW_METADATA
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.errors import InputError
from ctr_samples.samples.impressions import matching_rows
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.aggregates import counted_rows, steps_of
from ctr_samples.samples.views.as_of.matching import KEY, PAYLOAD, AsOf
from ctr_samples.samples.views.as_of.planning import AVAILABLE_TIME, CLOSED, EVENT_TIME, GONE, SEQUENCE, VALID_TO
from ctr_samples.sparksql.columns import boolean_column, joint_key, key_column, later, order_column, quoted, time_column
from ctr_samples.sparksql.expressions import typed_expression

_FOREVER = datetime(9999, 1, 1, tzinfo=UTC) - timedelta(days=1)
"""Tables use 9999-12-31 in rows that have not ended. The start of that year depends on the time zone."""


def as_of(name: str, view: View, on: Sequence[str]) -> AsOf:
    """Return the settings for joining a view on parts of the impressions' key."""
    snapshot, static = isinstance(view, SnapshotView), isinstance(view, StaticView)
    ttl = None if static else view.max_age
    return AsOf(name, tuple(on), ttl, view.inclusive, snapshot, static, has_one_row(view))


def has_one_row(view: View) -> bool:
    """Whether each key of a view should have one row, or one per snapshot, because no column orders several rows."""
    return isinstance(view, StaticView) or (isinstance(view, SnapshotView) and view.sequence is None)


def view_rows(source: DataFrame, name: str, view: View, columns: Sequence[str]) -> DataFrame:
    """Return the rows of a view: ``key``, ``event_time``, ``available_time`` and ``payload`` with just ``columns``.

    Includes rows without a key or a time; :func:`usable` removes them.
    """
    if isinstance(view, WindowView | DailyCountView):
        return counted_rows(view_steps(source, name, view), view, columns)
    where = f"views.{name}"
    rows = matching_rows(source, view.where, f"{where}.where")
    key = joint_key(key_columns(source, view, where))
    match view:
        case StaticView():
            return rows.select(key.alias(KEY), _payload(source, columns, where).alias(PAYLOAD))
        case SnapshotView():
            event_time, available_time = snapshot_clocks(source, view, where)
        case EventView():
            event_time, available_time = _clocks(source, view, where)
            if view.valid_to is not None:
                rows = rows.where(has_readable_end(source, view, where))
    return rows.select(
        key.alias(KEY),
        event_time.alias(EVENT_TIME),
        available_time.alias(AVAILABLE_TIME),
        *_ends(source, view, where),
        *_order(source, view, where),
        _payload(source, columns, where).alias(PAYLOAD),
    )


def key_columns(source: DataFrame, view: View, where: str) -> list[Column]:
    """Return the keys of a source row, in the same order as the matching impression keys."""
    named = [f"{where}.key"] * len(view.key) + [f"{where}.article_key"]
    return [key_column(source, text, name) for text, name in zip(view.keys, named, strict=False)]


def has_readable_end(source: DataFrame, view: EventView, where: str) -> Column:
    """Whether the end times of a row are readable. A row with an unreadable end must not count as a row that never ends."""
    ends = {"valid_to": view.valid_to, "closed_available": view.closed_available}
    readable = F.lit(True)
    for key, text in ends.items():
        if text is not None:
            written, _ = typed_expression(source, text, f"{where}.{key}")
            readable &= written.isNull() | time_column(source, text, f"{where}.{key}").isNotNull()
    return readable


def view_steps(source: DataFrame, name: str, view: WindowView | DailyCountView) -> DataFrame:
    """Return a view's counts per step from a source: see :func:`steps_of`."""
    where = f"views.{name}"
    rows = matching_rows(source, view.where, f"{where}.where")
    return steps_of(source, rows, joint_key(key_columns(source, view, where)), view, where)


def usable(rows: DataFrame) -> DataFrame:
    """Keep the rows that can be joined: with a key and, if they have times, both times."""
    present = F.col(KEY).isNotNull()
    for time in (EVENT_TIME, AVAILABLE_TIME):
        if time in rows.columns:
            present &= F.col(time).isNotNull()
    return rows.where(present)


def within_reach(rows: DataFrame, span: Span, ttl: timedelta | None) -> DataFrame:
    """Keep the rows visible to any impression of the day."""
    if EVENT_TIME not in rows.columns:
        return rows
    reachable = rows.where(span.knows(F.col(AVAILABLE_TIME), span.is_before_end(F.col(EVENT_TIME))))
    return reachable if ttl is None else reachable.where(span.goes_back(F.col(EVENT_TIME), ttl))


def is_empty() -> Column:
    """Whether a row ends no later than it begins, so that it is never true."""
    return F.coalesce(F.col(VALID_TO) <= F.col(EVENT_TIME), F.lit(False))


def lasting(rows: DataFrame, span: Span) -> DataFrame:
    """Keep the rows with ends that an impression of the day can see before they end."""
    end = F.greatest(VALID_TO, CLOSED)
    return rows.where(~is_empty() & (F.col(VALID_TO).isNull() | span.goes_back(end, timedelta())))


def _clocks(source: DataFrame, view: EventView, where: str) -> tuple[Column, Column]:
    """Instants at which a row became true and became known. Rejects a date as event time unless the availability is
    configured. A date means the first moment of its day.
    """
    event_time = time_column(source, view.event_time, f"{where}.event_time")
    _, kind = typed_expression(source, view.event_time, f"{where}.event_time")
    if isinstance(kind, DateType) and not (view.available_time or view.available_after):
        raise InputError(
            f"{where}.event_time: {view.event_time} is a date, so a row would count as known when its day begins; say when "
            f"the row of a day is ready, as in `available_after: 26h`, or, if the whole table is rewritten each day, use "
            f"`snapshot: {view.event_time}` with a `publish_delay`."
        )
    if isinstance(kind, DateType) and (problem := view.too_short(daily=True)):
        raise InputError(end_sentence(f"{where}.ttl: {problem}"))
    if view.available_time:
        return event_time, time_column(source, view.available_time, f"{where}.available_time")
    return event_time, later(event_time, view.delay)


def snapshot_clocks(source: DataFrame, view: SnapshotView, where: str) -> tuple[Column, Column]:
    """Clocks of a snapshot: true as of the midnight that ends its day, in the session time zone, and known later."""
    column, kind = typed_expression(source, view.snapshot, f"{where}.snapshot")
    if isinstance(kind, StringType):
        column = column.try_cast("date")
    elif not isinstance(kind, DateType):
        raise InputError(
            f"{where}.snapshot: {view.snapshot} is {kind.simpleString()}, expected the day of a snapshot: a date, or text such "
            "as 2019-06-05."
        )
    midnight = F.date_add(column, 1).cast("timestamp")
    return midnight, later(midnight, view.delay)


def _order(source: DataFrame, view: EventView | SnapshotView, where: str) -> list[Column]:
    """Columns that order rows of equal times and mark tombstones, if configured."""
    columns = []
    if view.sequence is not None:
        columns.append(order_column(source, view.sequence, f"{where}.sequence").alias(SEQUENCE))
    if view.tombstone is not None:
        columns.append(boolean_column(source, view.tombstone, f"{where}.tombstone").alias(GONE))
    return columns


def _ends(source: DataFrame, view: EventView | SnapshotView, where: str) -> list[Column]:
    """Instants at which a row ceased to be true and at which this became known, if configured."""
    if not isinstance(view, EventView) or view.valid_to is None:
        return []
    end = time_column(source, view.valid_to, f"{where}.valid_to")
    closed = F.lit(None).cast("timestamp")
    if view.closed_available is not None:
        closed = time_column(source, view.closed_available, f"{where}.closed_available")
    return [F.when(end < F.lit(_FOREVER), end).alias(VALID_TO), closed.alias(CLOSED)]


def _payload(source: DataFrame, columns: Sequence[str], where: str) -> Column:
    there = {name.lower() for name in source.columns}
    for column in columns:
        if column.lower() not in there:
            valid = [*source.columns, *VIEW_METADATA]
            raise InputError(end_sentence(f"{where}: its source has no column {column!r}{nearest(column, valid)}"))
    return F.struct(*[F.col(quoted(c)) for c in columns])
