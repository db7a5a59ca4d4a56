"""Implausible times: a number read in the wrong unit lands in 1970, or in the far future.

The clocks of a source are looked at as its rows are read, before anything is filtered by time: an impression of 1970 would
otherwise just belong to another day, a feature row of 1970 would be visible to every impression, and actions of 1970 would make
every history empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from ctr_samples.config import DailyCountView, EventView, History, JobConfig, SnapshotView, StaticView, View, WindowView
from ctr_samples.config.references import actions_among, inherited
from ctr_samples.errors import InputError
from ctr_samples.samples.impressions import does_match, time_not_read
from ctr_samples.samples.inputs.log_days import LOG_DAY, by_day, in_log_of, kinds_by_day
from ctr_samples.samples.labels import impression_reach, label_reach, plan_labels
from ctr_samples.samples.period import Day
from ctr_samples.samples.views.aggregates import in_windows
from ctr_samples.samples.views.keys import key_columns
from ctr_samples.samples.views.rows import has_readable_end
from ctr_samples.sparksql.columns import micros_at, time_column
from ctr_samples.sparksql.expressions import typed_expression
from ctr_samples.sparksql.observations import Observations

Use = Literal["impressions", "labels", "views", "histories"]

_EARLY = (datetime(1970, 1, 1, tzinfo=UTC), datetime(1972, 1, 1, tzinfo=UTC))
_LATE = datetime(2200, 1, 1, tzinfo=UTC)
_NO_TIMES = datetime(2000, 1, 1, tzinfo=UTC)
"""Stands for the time of tables without any."""
_MORE_CLOCKS = ("available_time", "valid_to", "closed_available")
"""The clocks that a view of events may have beside its event time."""
_MICROS_OF_A_YEAR = 365.2425 * 86_400e6
_UNITS = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}
"""Microseconds of one step of ``timestamp_<unit>``."""
_AROUND_NOW = (1.0e15, 4.1e15)  # microseconds since 1970: the years 2001 to 2099


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of the configuration: its key there, its text, the instant, and the rows for which it is read.

    ``near`` are the rows that the run needs, by this time or by another one, ``placed_by``. ``needed`` are further columns
    without which a row is of no use, such as the key of a view. Only rows of ``days`` of a log are counted, if days are given.
    """

    name: str
    text: str
    time: Column
    applies: Column
    near: Column
    needed: tuple[Column, ...] = ()
    placed_by: Column | None = None
    days: Collection[date] | None = None

    def within(self, days: Collection[date]) -> Clock:
        """The clock, of which only rows of some days of a log are counted."""
        return replace(self, days=days)

    @property
    def looked_at(self) -> Column:
        """Rows that the run needs, or has to count. It depends on one time alone, so that files are still pruned."""
        time = self.time if self.placed_by is None else self.placed_by
        return self.near | time.isNull() | is_early(time) | is_late(time)

    @property
    def is_missing(self) -> Column:
        """Whether a row has no such time, or nothing to use it for."""
        return reduce(Column.__or__, [column.isNull() for column in (self.time, *self.needed)])

    @property
    def is_implausible(self) -> Column:
        """Whether a row's time is implausible."""
        return is_early(self.time) | is_late(self.time)


def clocks_of(config: JobConfig, day: Day, source: str, use: Use, frame: DataFrame) -> list[Clock]:
    """The clocks that are read from a source for one use. Planning only."""
    uses = {"impressions": _of_impressions, "labels": _of_labels, "views": _of_views, "histories": _of_histories}
    return list(uses[use](config, day, source, frame))


def texts_of_times(config: JobConfig, source: str) -> dict[str, str]:
    """The expressions of the times that are read from a source, each with the first key that has it; not days of snapshots."""
    snapshots = {f"views.{name}.event_time" for name, view in config.views.items() if isinstance(view, SnapshotView)}
    texts: dict[str, str] = {}
    for name, (text, of) in _clocks_by_name(config).items():
        if of == source and text and name not in snapshots:
            texts.setdefault(text, name)
    return texts


def of_interest(clocks: Sequence[Clock]) -> Column:
    """The rows that a run needs or has to count. Spark passes it on to the files, so that they are still pruned."""
    return reduce(Column.__or__, [clock.applies & clock.looked_at for clock in clocks])


def seen_on(day: Day, config: JobConfig, clocks: Sequence[Clock]) -> dict[str, Column]:
    """For impressions, each view and each history the rows that may matter to an impression of the day: it may see them, or
    repeat them."""
    by_name = {clock.name: clock for clock in clocks}
    delays = {"impressions.time": timedelta()}
    delays |= {f"views.{name}.event_time": view.delay for name, view in config.views.items()}
    delays |= {f"histories.{name}.time": history.delay for name, history in config.histories.items()}
    seen = {}
    for key, delay in delays.items():
        if (clock := by_name.get(key)) is not None:
            name = key.rpartition(".")[0]
            rows = clock.applies & clock.looked_at & ~clock.is_missing & day.is_before_end(clock.time, -delay)
            known = by_name.get(f"{name}.available_time")
            seen[name] = rows if known is None else rows & day.is_before_end(known.time)
    return seen


@dataclass(frozen=True, slots=True)
class ClockCounts:
    """The rows that have a time: how many, those that are of no use, and those whose time is too early or too late.

    ``latest_early`` and ``latest_late`` are the greatest such times, in microseconds since 1970.
    """

    rows: int = 0
    unusable: int = 0
    early: int = 0
    late: int = 0
    latest_early: int = 0
    latest_late: int = 0

    @property
    def implausible(self) -> int:
        """How many times are implausible."""
        return self.early + self.late


ClocksByDay = dict[str, dict[date | None, ClockCounts]]
"""What was counted of each clock, by its name and the day of the log; the day of a source without days is None."""


class ClocksWatch:
    """Counts the implausible times of all sources. Lives on the driver."""

    def __init__(self, *, active: bool = True) -> None:
        self._observations = Observations(active=active)

    def on(self, rows: DataFrame, clocks: Sequence[Clock], days: Collection[date] = ()) -> DataFrame:
        """The rows of a source, with the counts of these clocks taken; ``days`` are those of its log, where paths name them."""
        return self._observations.on(rows, clock_counts(clocks, days))

    def result(self) -> ClocksByDay:
        """What was counted; call it after the action."""
        return by_clock(self._observations.counts(), self._observations.tallies())


_UNUSABLE, _EARLY_TIME, _LATE_TIME = 1, 2, 4
_KINDS = 6
"""Of rows, as sums: they may be unusable, and either early or late."""


def clock_counts(clocks: Sequence[Clock], days: Collection[date] = ()) -> dict[str, Column]:
    """Aggregates over the rows of a source: all that :class:`ClockCounts` has of each clock and each of the ``days``."""
    counts: dict[str, Column] = {}
    for clock in clocks:
        micros = F.unix_micros(clock.time)  # numbers take fewer calls to the JVM than instants do
        early, late = micros.between(micros_at(_EARLY[0]), micros_at(_EARLY[1]) - 1), micros >= micros_at(_LATE)
        kind = clock.is_missing.cast("int") + F.when(early, _EARLY_TIME).when(late, _LATE_TIME).otherwise(0)
        mine = clock.applies if clock.days is None else clock.applies & F.col(LOG_DAY).isin(*clock.days)
        counts |= kinds_by_day(clock.name, F.when(mine, kind), _KINDS, days)
        counts[f"{clock.name}|latest_early"] = F.max(F.when(mine & early, micros))
        counts[f"{clock.name}|latest_late"] = F.max(F.when(mine & late, micros))
    return counts


def by_clock(latest: Mapping[str, int], tallies: Mapping[str, Mapping[int, int]]) -> ClocksByDay:
    """The values of :func:`clock_counts`: numbers, and tallies. The latest times are those of all days."""
    return {
        name: {
            day: ClockCounts(
                rows=sum(kinds),
                unusable=sum(kinds[_UNUSABLE::2]),
                early=sum(kinds[_EARLY_TIME:_LATE_TIME]),
                late=sum(kinds[_LATE_TIME:]),
                latest_early=latest.get(f"{name}|latest_early", 0),
                latest_late=latest.get(f"{name}|latest_late", 0),
            )
            for day, kinds in of_clock.items()
        }
        for name, of_clock in by_day(tallies, _KINDS).items()
    }


def is_early(time: Column) -> Column:
    """In 1970 or 1971. Earlier times are no mistake of a unit: some tables say 1900 for `always`."""
    return (time >= F.lit(_EARLY[0])) & (time < F.lit(_EARLY[1]))


def is_late(time: Column) -> Column:
    """In 2200 or later."""
    return time >= F.lit(_LATE)


def check_clocks(config: JobConfig, counts: ClocksByDay, source_of: Callable[[str], DataFrame] | None = None) -> None:
    """Refuse a run if in a day of a log more times are implausible, or more rows of a view unusable, than `bad_records` of
    their source allows.

    With ``source_of``, which gives the rows of a source, it says a time that could not be read.
    """
    for name, (text, source) in _clocks_by_name(config).items():
        for day, of_day in counts.get(name, {}).items():
            _check_times(name, text, day, of_day, config.sources[source].bad_records.max_rate, source)
    for name, view in config.views.items():
        allowed = config.sources[view.source].bad_records.max_rate
        for day, of_day in counts.get(f"views.{name}.event_time", {}).items():
            if of_day.unusable > allowed * of_day.rows:
                raise InputError(
                    f"views.{name}: {of_day.unusable:,} of {of_day.rows:,} rows{in_log_of(day)} have no key or no time, more "
                    f"than `bad_records.max_rate: {allowed:g}` of sources.{view.source} allows. Leave them out with `where`, "
                    f"or raise the rate.{'' if source_of is None else _not_read(source_of(view.source), name, view)}"
                )


def _not_read(rows: DataFrame, name: str, view: View) -> str:
    """A time of a view that cannot be read, as a sentence; empty for none."""
    if view.clock is None or isinstance(view, SnapshotView):
        return ""
    return time_not_read(rows, f"views.{name}", view.where, "event_time", view.clock)


def counts_of_view(counts: ClocksByDay, name: str) -> dict[str, int]:
    """What the manifest keeps of a view's rows: how many could not be used, and how many had impossible times."""
    clocks = [counts.get(f"views.{name}.{clock}", {}).values() for clock in ("event_time", *_MORE_CLOCKS)]
    return {
        "unusable": sum(of_day.unusable for of_day in clocks[0]),
        "implausible": sum(of_day.implausible for clock in clocks for of_day in clock),
    }


def _clocks_by_name(config: JobConfig) -> dict[str, tuple[str, str]]:
    """The expression and the source of each clock."""
    impressions = config.impressions
    clocks = {"impressions.time": (impressions.time, impressions.source)}
    clocks |= {
        f"labels.{name}.time": (label.time or impressions.time, label.source)
        for name, label in actions_among(config.labels).items()
    }
    for name, view in config.views.items():
        clocks[f"views.{name}.event_time"] = (view.clock or "", view.source)
        if isinstance(view, EventView):
            more = {key: getattr(view, key) for key in _MORE_CLOCKS}
            clocks |= {f"views.{name}.{key}": (text, view.source) for key, text in more.items() if text is not None}
    for name, history in _histories(config).items():
        clocks[f"histories.{name}.time"] = (history.time or "", history.source)
    return clocks


def _histories(config: JobConfig) -> dict[str, History]:
    """The histories with what they inherit."""
    return {name: inherited(history, config.impressions) for name, history in config.histories.items()}


def _check_times(name: str, text: str, day: date | None, counts: ClockCounts, allowed: float, source: str) -> None:
    if counts.implausible <= allowed * counts.rows:
        return
    early = counts.early >= counts.late
    latest = counts.latest_early if early else counts.latest_late
    when = f"in {_year(latest)}" if early else f"in years such as {_year(latest)}"
    raise InputError(
        f"{name}: {counts.early if early else counts.late:,} of {counts.rows:,} times{in_log_of(day)} lie "
        f"{when}{_hint(text, latest)} Correct the expression or, if only those rows are wrong, raise "
        f"`sources.{source}.bad_records.max_rate` ({allowed:g})."
    )


def _year(micros: int) -> str:
    """A year that Python's calendar may not have."""
    year = 1970 + int(micros / _MICROS_OF_A_YEAR)
    return str(year) if year < 10_000 else f"{year:,}"


def _hint(text: str, micros: int) -> str:
    """The function that would have read the number correctly, judged by how far off it is."""
    factor = next((f for f in (1e3, 1e6, 1e-3, 1e-6) if _AROUND_NOW[0] <= micros * f < _AROUND_NOW[1]), None)
    if factor is None:
        return "."
    function = re.fullmatch(r"\s*timestamp_(seconds|millis|micros)\s*\((.*)\)\s*", text, re.IGNORECASE | re.DOTALL)
    cast = re.fullmatch(r"\s*(?:timestamp\s*\((.*)\)|cast\s*\((.*)\s+as\s+timestamp\s*\))\s*", text, re.I | re.DOTALL)
    if function or cast:
        seconds = ("seconds", (cast[1] or cast[2]) if cast else "")
        unit, number = (function[1].lower(), function[2]) if function else seconds
        right = next((name for name, size in _UNITS.items() if size == round(_UNITS[unit] * factor)), None)
        return f"; did you mean timestamp_{right}({number.strip()})?" if right else "."
    off = f"{round(max(factor, 1 / factor)):,} times too {'small' if factor > 1 else 'large'}"
    return f": the numbers behind {text} were read in the wrong unit, {off}."


def _of_impressions(config: JobConfig, day: Day, source: str, frame: DataFrame) -> Iterator[Clock]:
    impressions = config.impressions
    if impressions.source == source:
        time = time_column(frame, impressions.time, "impressions.time")
        reach = impression_reach(config)
        applies = does_match(frame, impressions.where, "impressions.where")
        yield Clock("impressions.time", impressions.time, time, applies, day.reaches(time, reach, reach))


def _of_labels(config: JobConfig, day: Day, source: str, frame: DataFrame) -> Iterator[Clock]:
    plans = plan_labels(config)
    reach = label_reach(plans)
    for plan in plans:
        if plan.label.source == source:
            where = f"labels.{plan.name}"
            time = time_column(frame, plan.time, f"{where}.time")
            applies = does_match(frame, plan.label.where, f"{where}.where")
            yield Clock(f"{where}.time", plan.time, time, applies, day.reaches(time, reach, reach))


def _of_views(config: JobConfig, day: Day, source: str, frame: DataFrame) -> Iterator[Clock]:
    for name, view in config.views.items():
        if view.source == source:
            yield from _of_view(name, view, day, frame)


def _of_view(name: str, view: View, day: Day, frame: DataFrame) -> Iterator[Clock]:
    """The event time comes last and needs all that a row must have to be used."""
    where = f"views.{name}"
    applies = does_match(frame, view.where, f"{where}.where")
    text, time = view.clock or "", _event_time(frame, view, where)
    near = _near(view, day, time)
    needed = key_columns(frame, view, where)
    if isinstance(view, EventView) and view.available_time is not None:
        known = time_column(frame, view.available_time, f"{where}.available_time")
        yield Clock(f"{where}.available_time", view.available_time, known, applies, near, placed_by=time)
        needed.append(known)
    if isinstance(view, EventView) and view.valid_to is not None:
        for key, end in (("valid_to", view.valid_to), ("closed_available", view.closed_available)):
            if end is not None:
                ended = _ended(frame, end, f"{where}.{key}")
                yield Clock(f"{where}.{key}", end, ended, applies, near, placed_by=time)
        needed.append(F.when(has_readable_end(frame, view, where), True))
    yield Clock(f"{where}.event_time", text, time, applies, near, tuple(needed))


def _of_histories(config: JobConfig, day: Day, source: str, frame: DataFrame) -> Iterator[Clock]:
    for name, history in _histories(config).items():
        if history.source == source:
            where, text = f"histories.{name}", history.time or ""
            time = time_column(frame, text, f"{where}.time")
            near = day.is_before_end(time)
            if history.within is not None:
                near &= day.goes_back(time, history.within)
            applies = does_match(frame, history.where, f"{where}.where")
            yield Clock(f"{where}.time", text, time, applies, near)


def _event_time(frame: DataFrame, view: View, where: str) -> Column:
    if isinstance(view, SnapshotView):
        column, kind = typed_expression(frame, view.snapshot, f"{where}.snapshot")
        day = column.try_cast("date") if isinstance(kind, StringType) else column.cast("date")
        return F.date_add(day, 1).cast("timestamp")
    return F.lit(_NO_TIMES) if view.clock is None else time_column(frame, view.clock, f"{where}.event_time")


def _ended(frame: DataFrame, text: str, where: str) -> Column:
    """The end of a row; null for the far future, since that is how some tables write that a row has not ended."""
    end = time_column(frame, text, where)
    return F.when(~is_late(end), end)


def _near(view: View, day: Day, time: Column) -> Column:
    """The rows that some impression of the day can see, or that count for one; all rows of daily counts."""
    if isinstance(view, WindowView):
        return in_windows(time, view, day)
    if isinstance(view, StaticView | DailyCountView):
        return F.lit(True)
    before_end = day.is_before_end(time)
    return before_end if view.max_age is None else before_end & day.goes_back(time, view.max_age)
