"""Counts, sums, distinct values and rates over sliding windows, as rows of a feature view: one row per change.

Time is divided into steps. An action enters its windows at the end of its step, and leaves each window after the
window's length. A running sum of entries and exits is the aggregate from that time on. So the cost does not depend on
the window length, all numbers are exact, and even a hot key has at most one row per step.

A distinct value enters with an action, and leaves with it or when a later action of the value enters and keeps it. So
distinct counts are exact too, and need no sketch.

With `available_time`, an action enters no sooner than at the end of the step in which it became known, and leaves as if
it had been known at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Self
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.config import Aggregates, DailyCountView, WindowView
from ctr_samples.config.counting import Rate, windowed
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.as_of.matching import KEY, PAYLOAD
from ctr_samples.samples.views.as_of.planning import AVAILABLE_TIME, EVENT_TIME, GONE
from ctr_samples.sparksql.columns import (
    INTEGERS,
    boolean_column,
    key_column,
    later,
    micros_of,
    number_column,
    time_column,
)
from ctr_samples.sparksql.expressions import typed_expression

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)
ROWS = "rows of the source"
STEP, WHICH, VALUE, KNOWN = "_step", "_which", "_value", "_known"
"""Columns of steps besides the key: step number, and number and value of a distinct count (or 0 and null). With
`available_time` also the step in which the actions became known, not before their own.
"""

_AT, _LEAVES, _KEPT = "_at", "_leaves", "_kept"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Counting:
    """Names of a view's measures, and its windows and steps."""

    step: timedelta
    windows: tuple[timedelta, ...]
    counts: tuple[str, ...]
    sums: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()

    @classmethod
    def of(cls, view: WindowView | DailyCountView) -> Self:
        """Return the measures of a view. Daily counts are windows of whole days, in steps of a day."""
        if isinstance(view, DailyCountView):
            return cls(_DAY, (view.daily_counts.days * _DAY,), tuple(view.daily_counts.counts))
        counted = view.aggregates
        return cls(counted.step, counted.windows, tuple(counted.counts), tuple(counted.sums), tuple(counted.distinct))

    @property
    def measures(self) -> list[str]:
        """All measures, starting with the row count."""
        return [ROWS, *self.counts, *self.sums, *self.distinct]

    @property
    def steps_of_a_day(self) -> int:
        """Number of steps in a day."""
        return _DAY // self.step

    def step_at(self, instant: datetime, zone: str) -> int:
        """Return the number of the step that contains an instant."""
        if self.step == _DAY:
            return (instant.astimezone(ZoneInfo(zone)).date() - _EPOCH.date()).days
        return (instant - _EPOCH) // self.step


def steps_of(
    source: DataFrame, rows: DataFrame, key: Column, view: WindowView | DailyCountView, where: str
) -> DataFrame:
    """Aggregate the rows of each key in each step into one row, plus one row per distinct value.

    Rows without a key or a time do not count. Steps are whole numbers: see :func:`instant_of`. Frames of steps can be
    combined, such as those of two log days.
    """
    time, step = time_column(source, view.event_time, f"{where}.event_time"), Counting.of(view).step
    counts, sums, distinct = _measures(source, view, where)
    numbers = {STEP: _number_of(time, step)}
    if isinstance(view, WindowView) and view.available_time is not None:
        known = later(time_column(source, view.available_time, f"{where}.available_time"), -_MICROSECOND)
        numbers[KNOWN] = F.when(known.isNotNull(), F.greatest(_number_of(known, step), numbers[STEP]))
    values = [F.lit(None).cast("string"), *distinct.values()]
    kinds = [F.struct(F.lit(n).alias(WHICH), value.alias(VALUE)) for n, value in enumerate(values)]
    placed = rows.select(
        key.alias(KEY),
        *[number.alias(name) for name, number in numbers.items()],
        *[column.alias(own(name)) for name, column in {**counts, **sums}.items()],
        F.inline(F.array(*kinds)),
    ).where(F.col(KEY).isNotNull() & ((F.col(WHICH) == 0) | F.col(VALUE).isNotNull()))
    placed = placed.where(reduce(Column.__and__, [F.col(number).isNotNull() for number in numbers]))
    return placed.groupBy(KEY, WHICH, VALUE, *numbers).agg(
        F.count_if(F.col(WHICH) == 0).alias(own(ROWS)),
        *[F.count_if((F.col(WHICH) == 0) & F.col(own(n))).alias(own(n)) for n in counts],
        *[F.coalesce(F.sum(F.when(F.col(WHICH) == 0, F.col(own(n)))), F.lit(0)).alias(own(n)) for n in sums],
    )


def _number_of(time: Column, step: timedelta) -> Column:
    """Return the number of the step that contains an instant."""
    number = F.unix_date(F.to_date(time)) if step == _DAY else F.floor(F.unix_micros(time) / F.lit(micros_of(step)))
    return number.cast("bigint")


@dataclass(frozen=True, slots=True)
class Seen:
    """Steps known to impressions: before ``first`` for the first impression, before ``last`` for the last impression."""

    first: int
    last: int

    @classmethod
    def of(cls, view: WindowView | DailyCountView, span: Span, zone: str) -> Self | None:
        """Return the steps of a day, or None for all time."""
        if span.start is None or span.end is None:
            return None
        counting = Counting.of(view)
        return cls(counting.step_at(span.start - view.delay, zone), counting.step_at(span.end - view.delay, zone))


def counted_rows(
    steps: DataFrame, view: WindowView | DailyCountView, columns: Sequence[str], seen: Seen | None = None
) -> DataFrame:
    """Return the view's rows from :func:`steps_of`, with some ``columns``.

    With ``seen``, returns only rows visible to impressions. All rows known at the first impression are reduced to their sum.
    """
    if isinstance(view, DailyCountView):
        counted = _daily_rows(steps, view, columns, seen)
        return counted.select(KEY, EVENT_TIME, later(F.col(EVENT_TIME), view.delay).alias(AVAILABLE_TIME), PAYLOAD)
    return _windowed_rows(steps, view, columns, seen)


def in_reach(steps: DataFrame, view: WindowView | DailyCountView, span: Span, zone: str) -> DataFrame:
    """Keep the steps that may be in a window of an impression of the day. Keeps all steps for daily counts."""
    if span.start is None or span.end is None or isinstance(view, DailyCountView):
        return steps
    counting = Counting.of(view)
    first, last = counting.step_at(span.start - reach(view), zone), counting.step_at(span.end, zone)
    return steps.where(F.col(STEP).between(first, last))


def _windowed_rows(steps: DataFrame, view: WindowView, columns: Sequence[str], seen: Seen | None) -> DataFrame:
    """Rows of a view with ``aggregates``: ``key``, both times, ``gone`` and ``payload``.

    The event time of a row is the last microsecond of its step, so an impression one microsecond later sees the row.
    """
    aggregates = view.aggregates
    changed = _changes(steps, Counting.of(view), seen)
    began = instant_of(F.col(_AT), aggregates.step)
    values = _values(aggregates, lambda name, number: F.col(_measure(name, number)))
    return changed.select(
        KEY,
        later(began, -_MICROSECOND).alias(EVENT_TIME),
        later(began, view.delay).alias(AVAILABLE_TIME),
        (F.col(_measure(ROWS, aggregates.windows.index(aggregates.longest))) == 0).alias(GONE),
        F.struct(*[values[column].alias(column) for column in columns]).alias(PAYLOAD),
    )


def _daily_rows(steps: DataFrame, view: DailyCountView, columns: Sequence[str], seen: Seen | None) -> DataFrame:
    """Rows of ``daily_counts``: ``key``, ``event_time``, ``payload``, with a row for each midnight with a nonzero count.

    A key whose window becomes empty has one more row to show it.
    """
    counted = view.daily_counts
    changed = _changes(steps, Counting.of(view), seen)
    following = F.lead(_AT).over(Window.partitionBy(KEY).orderBy(_AT))
    # Midnights after the last visible midnight are not listed.
    until = following - 1 if seen is None else F.coalesce(following - 1, F.lit(seen.last))
    last = F.when(F.col(_measure(ROWS, 0)) > 0, until).otherwise(F.col(_AT))
    values = {name: F.col(_measure(name, 0)) for name in counted.counts}
    values |= {name: smoothed(rate, values[rate.count], values[rate.of]) for name, rate in counted.rates.items()}
    payload = F.struct(*[values[column].alias(column) for column in columns]).alias(PAYLOAD)
    midnights = changed.withColumn("_last", last).select(
        KEY, F.explode(F.sequence(_AT, "_last")).alias("_midnight"), payload
    )
    return midnights.select(KEY, instant_of(F.col("_midnight"), _DAY).alias(EVENT_TIME), PAYLOAD)


def reach(view: WindowView) -> timedelta:
    """Return the longest time before an impression at which an action or a change still matters."""
    aggregates = view.aggregates
    # A calendar day may have 25 hours.
    slack = timedelta(hours=2) if aggregates.step == _DAY else timedelta()
    return aggregates.longest + view.delay + aggregates.step + slack


def filled(joined: DataFrame, name: str, aggregates: Aggregates) -> Column:
    """Return the struct of a joined view. Empty windows give zeros, and the prior of each rate."""
    empty = _values(aggregates, lambda *_: F.lit(0).cast("bigint"))
    kind = joined.schema[name].dataType
    assert isinstance(kind, StructType)
    values = [
        F.coalesce(F.col(name)[field], empty[field]).alias(field) if field in empty else F.col(name)[field].alias(field)
        for field in kind.fieldNames()
    ]
    return F.struct(*values).alias(name)


def _changes(steps: DataFrame, counting: Counting, seen: Seen | None) -> DataFrame:
    """Rows of ``key``, ``_at`` (first step that sees the change), and each measure per window from that step on.

    All changes visible to the first impression become one row, whose ``_at`` is the last of them. Changes after the
    last impression are dropped.
    """
    lengths = [window // counting.step for window in counting.windows]
    enters = F.col(KNOWN if KNOWN in steps.columns else STEP) + 1
    leaves = [F.col(STEP) + 1 + length for length in lengths]
    if counting.distinct:
        steps = steps.withColumn(_KEPT, _kept_from(enters))
        leaves = [F.least(leave, F.col(_KEPT)) for leave in leaves]
    entering = F.explode(F.array(*[F.lit(n) for n in range(-1, len(lengths))])).alias(_LEAVES)
    moved = F.element_at(F.array(enters, *leaves), F.col(_LEAVES) + 2)
    both = steps.select("*", entering).withColumn(_AT, moved)
    deltas = {
        _measure(m, n): _delta(m, n, enters < leaves[n], counting)
        for m in counting.measures
        for n in range(len(lengths))
    }
    each = F.col(_AT)
    if seen is not None:
        both, each = both.where(each <= seen.last), F.greatest(each, F.lit(seen.first))
    at_step = both.groupBy(KEY, each.alias("_each")).agg(
        F.max(_AT).alias(_AT), *[F.sum(delta).alias(name) for name, delta in deltas.items()]
    )
    until = Window.partitionBy(KEY).orderBy(_AT).rowsBetween(Window.unboundedPreceding, 0)
    return at_step.select(KEY, _AT, *[F.sum(name).over(until).alias(name) for name in deltas])


def instant_of(step: Column, length: timedelta) -> Column:
    """Return the start of a step: local midnight in the session time zone for one-day steps, else counted in UTC."""
    if length == _DAY:
        return F.date_from_unix_date(step.cast("int")).cast("timestamp")
    return F.timestamp_micros(step * F.lit(micros_of(length)))


def smoothed(rate: Rate, count: Column, of: Column) -> Column:
    """Return a rate smoothed towards its prior."""
    return (count + F.lit(rate.prior * rate.strength)) / (of + F.lit(rate.strength))


def _measures(source: DataFrame, view: WindowView | DailyCountView, where: str) -> tuple[dict[str, Column], ...]:
    """Return the columns of counts, sums and distinct counts, by name."""
    if isinstance(view, DailyCountView):
        where = f"{where}.daily_counts"
        counts = view.daily_counts.counts
        return {n: boolean_column(source, e, f"{where}.counts.{n}") for n, e in counts.items()}, {}, {}
    aggregates, where = view.aggregates, f"{where}.aggregates"
    return (
        {n: boolean_column(source, e, f"{where}.counts.{n}") for n, e in aggregates.counts.items()},
        {n: _exact(source, e, f"{where}.sums.{n}") for n, e in aggregates.sums.items()},
        {n: key_column(source, e, f"{where}.distinct.{n}").cast("string") for n, e in aggregates.distinct.items()},
    )


def _exact(source: DataFrame, text: str, where: str) -> Column:
    """Number that can be added and subtracted without rounding error, unlike a float."""
    column, kind = typed_expression(source, text, where)
    if isinstance(kind, INTEGERS):
        return column.cast("decimal(19,0)")
    return number_column(source, text, where).try_cast("decimal(28,9)")


def _kept_from(enters: Column) -> Column:
    """Return the first step at which a later occurrence of the same distinct value enters and keeps it, or null.

    A later occurrence leaves no window sooner, so from then on this one no longer counts.
    """
    # From the last one on: Spark would add up all that follow anew for each row.
    of_value = Window.partitionBy(KEY, WHICH, VALUE).orderBy(F.desc(STEP), enters.desc())
    following = of_value.rowsBetween(Window.unboundedPreceding, -1)
    return F.when(F.col(WHICH) > 0, F.min(enters).over(following))


def _delta(name: str, number: int, is_in: Column, counting: Counting) -> Column:
    """Change in a measure of one window when a step's row enters or leaves the window, given whether it is ever in it."""
    enters, leaves = is_in & (F.col(_LEAVES) == -1), is_in & (F.col(_LEAVES) == number)
    if name not in counting.distinct:
        return F.when(enters, F.col(own(name))).when(leaves, -F.col(own(name))).otherwise(0)
    mine = F.col(WHICH) == 1 + counting.distinct.index(name)
    return F.when(mine & enters, 1).when(mine & leaves, -1).otherwise(0)


def own(name: str) -> str:
    """Return the column of a measure in a step. It cannot clash with any configured name."""
    return f"of {name}"


def _measure(name: str, window: int) -> str:
    """Column of a measure over a window, by the window's number."""
    return f"{name} {window}"


def _values(aggregates: Aggregates, measure: Callable[[str, int], Column]) -> dict[str, Column]:
    """Columns of the view, computed from the measures of their windows."""
    values: dict[str, Column] = {}
    for number, window in enumerate(aggregates.windows):
        for name in (*aggregates.counts, *aggregates.distinct):
            values[windowed(name, window)] = measure(name, number)
        for name in aggregates.sums:
            values[windowed(name, window)] = measure(name, number).cast("double")
        for name, rate in aggregates.rates.items():
            values[windowed(name, window)] = smoothed(rate, measure(rate.count, number), measure(rate.of, number))
    return values
