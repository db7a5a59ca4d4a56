"""Implausible times: a number read in the wrong unit lands in 1970, or in the far future.

The clocks of a source are looked at as its rows are read, before anything is filtered by time: an impression of 1970 would
otherwise just belong to another day, a feature row of 1970 would be visible to every impression, and actions of 1970 would make
every history empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from ctr_samples.config import DailyCountView, EventView, History, JobConfig, SnapshotView, StaticView, View, WindowView
from ctr_samples.config.references import actions_among, inherited
from ctr_samples.errors import InputError
from ctr_samples.samples.impressions import does_match
from ctr_samples.samples.labels import impression_reach, label_reach, plan_labels
from ctr_samples.samples.period import Day
from ctr_samples.samples.views.aggregates import in_windows
from ctr_samples.samples.views.keys import key_columns
from ctr_samples.samples.views.rows import has_readable_end
from ctr_samples.sparksql.columns import time_column
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

    ``looked_at`` are the rows that the run needs or has to count; ``needed`` are further columns without which a row is of no
    use, such as the key of a view.
    """

    name: str
    text: str
    time: Column
    applies: Column
    looked_at: Column
    needed: tuple[Column, ...] = ()

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


class ClocksWatch:
    """Counts the implausible times of all sources. Lives on the driver."""

    def __init__(self, *, active: bool = True) -> None:
        self._observations = Observations(active=active)

    def on(self, rows: DataFrame, clocks: Sequence[Clock]) -> DataFrame:
        """The rows of a source, with the counts of these clocks taken."""
        return self._observations.on(rows, clock_counts(clocks))

    def result(self) -> dict[str, ClockCounts]:
        """What was counted, by the name of the clock; call it after the action."""
        return by_clock(self._observations.counts())


def clock_counts(clocks: Sequence[Clock]) -> dict[str, Column]:
    """Aggregates over the rows of a source: for each clock one for each field of :class:`ClockCounts`."""
    return {f"{clock.name}|{field}": count for clock in clocks for field, count in _counts_of(clock).items()}


def by_clock(counts: Mapping[str, int]) -> dict[str, ClockCounts]:
    """The values of :func:`clock_counts`, by the name of the clock."""
    names = dict.fromkeys(key.partition("|")[0] for key in counts)
    fields = ClockCounts.__dataclass_fields__
    return {name: ClockCounts(**{f: counts[f"{name}|{f}"] for f in fields}) for name in names}


def _counts_of(clock: Clock) -> dict[str, Column]:
    early, late = clock.applies & is_early(clock.time), clock.applies & is_late(clock.time)
    return {
        "rows": F.count_if(clock.applies),
        "unusable": F.count_if(clock.applies & clock.is_missing),
        "early": F.count_if(early),
        "late": F.count_if(late),
        "latest_early": F.max(F.when(early, F.unix_micros(clock.time))),
        "latest_late": F.max(F.when(late, F.unix_micros(clock.time))),
    }


def is_early(time: Column) -> Column:
    """In 1970 or 1971. Earlier times are no mistake of a unit: some tables say 1900 for `always`."""
    return (time >= F.lit(_EARLY[0])) & (time < F.lit(_EARLY[1]))


def is_late(time: Column) -> Column:
    """In 2200 or later."""
    return time >= F.lit(_LATE)


def check_clocks(config: JobConfig, counts: Mapping[str, ClockCounts]) -> None:
    """Refuse a run if more times are implausible, or more rows of a view unusable, than `bad_records` of their source
    allows."""
    for name, (text, source) in _clocks_by_name(config).items():
        _check_times(name, text, counts.get(name, ClockCounts()), config.sources[source].bad_records.max_rate, source)
    for name, view in config.views.items():
        counted = counts.get(f"views.{name}.event_time", ClockCounts())
        allowed = config.sources[view.source].bad_records.max_rate
        if counted.unusable > allowed * counted.rows:
            raise InputError(
                f"views.{name}: {counted.unusable:,} of {counted.rows:,} rows have no key or no time, more than "
                f"`bad_records.max_rate: {allowed:g}` of sources.{view.source} allows. Leave them out with `where`, or raise "
                "the rate."
            )


def counts_of_view(counts: Mapping[str, ClockCounts], name: str) -> dict[str, int]:
    """What the manifest keeps of a view's rows: how many could not be used, and how many had impossible times."""
    clocks = [counts.get(f"views.{name}.{clock}", ClockCounts()) for clock in ("event_time", *_MORE_CLOCKS)]
    return {"unusable": clocks[0].unusable, "implausible": sum(clock.implausible for clock in clocks)}


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


def _check_times(name: str, text: str, counts: ClockCounts, allowed: float, source: str) -> None:
    if counts.implausible <= allowed * counts.rows:
        return
    early = counts.early >= counts.late
    latest = counts.latest_early if early else counts.latest_late
    when = f"in {_year(latest)}" if early else f"in years such as {_year(latest)}"
    raise InputError(
        f"{name}: {counts.early if early else counts.late:,} of {counts.rows:,} times lie {when}{_hint(text, latest)} Correct "
        f"the expression or, if only those rows are wrong, raise `sources.{source}.bad_records.max_rate` ({allowed:g})."
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
        yield Clock(
            "impressions.time", impressions.time, time, applies, _or_wrong(day.reaches(time, reach, reach), time)
        )


def _of_labels(config: JobConfig, day: Day, source: str, frame: DataFrame) -> Iterator[Clock]:
    plans = plan_labels(config)
    reach = label_reach(plans)
    for plan in plans:
        if plan.label.source == source:
            where = f"labels.{plan.name}"
            time = time_column(frame, plan.time, f"{where}.time")
            applies = does_match(frame, plan.label.where, f"{where}.where")
            yield Clock(f"{where}.time", plan.time, time, applies, _or_wrong(day.reaches(time, reach, reach), time))


def _of_views(config: JobConfig, day: Day, source: str, frame: DataFrame) -> Iterator[Clock]:
    for name, view in config.views.items():
        if view.source == source:
            yield from _of_view(name, view, day, frame)


def _of_view(name: str, view: View, day: Day, frame: DataFrame) -> Iterator[Clock]:
    """The event time comes last and needs all that a row must have to be used."""
    where = f"views.{name}"
    applies = does_match(frame, view.where, f"{where}.where")
    text, time = view.clock or "", _event_time(frame, view, where)
    looked_at = _or_wrong(_near(view, day, time), time)
    needed = key_columns(frame, view, where)
    if isinstance(view, EventView) and view.available_time is not None:
        known = time_column(frame, view.available_time, f"{where}.available_time")
        yield Clock(f"{where}.available_time", view.available_time, known, applies, looked_at)
        needed.append(known)
    if isinstance(view, EventView) and view.valid_to is not None:
        for key, end in (("valid_to", view.valid_to), ("closed_available", view.closed_available)):
            if end is not None:
                yield Clock(f"{where}.{key}", end, _ended(frame, end, f"{where}.{key}"), applies, looked_at)
        needed.append(F.when(has_readable_end(frame, view, where), True))
    yield Clock(f"{where}.event_time", text, time, applies, looked_at, tuple(needed))


def _of_histories(config: JobConfig, day: Day, source: str, frame: DataFrame) -> Iterator[Clock]:
    for name, history in _histories(config).items():
        if history.source == source:
            where, text = f"histories.{name}", history.time or ""
            time = time_column(frame, text, f"{where}.time")
            near = day.is_before_end(time)
            if history.within is not None:
                near &= day.goes_back(time, history.within)
            applies = does_match(frame, history.where, f"{where}.where")
            yield Clock(f"{where}.time", text, time, applies, _or_wrong(near, time))


def _event_time(frame: DataFrame, view: View, where: str) -> Column:
    if isinstance(view, SnapshotView):
        column, kind = typed_expression(frame, view.snapshot, f"{where}.snapshot")
        day = F.try_to_date(column) if isinstance(kind, StringType) else column.cast("date")
        return F.date_add(day, 1).cast("timestamp")
    return F.lit(_NO_TIMES) if view.clock is None else time_column(frame, view.clock, f"{where}.event_time")


def _ended(frame: DataFrame, text: str, where: str) -> Column:
    """The end of a row; null for the far future, since that is how some tables write that a row has not ended."""
    end = time_column(frame, text, where)
    return F.when(~is_late(end), end)


def _or_wrong(near: Column, time: Column) -> Column:
    """Rows that are near, and rows without a plausible time. It depends on the time alone, so that files are still pruned."""
    return near | time.isNull() | is_early(time) | is_late(time)


def _near(view: View, day: Day, time: Column) -> Column:
    """The rows that some impression of the day can see, or that count for one; all rows of daily counts."""
    if isinstance(view, WindowView):
        return in_windows(time, view, day)
    if isinstance(view, StaticView | DailyCountView):
        return F.lit(True)
    before_end = day.is_before_end(time)
    return before_end if view.max_age is None else before_end & day.goes_back(time, view.max_age)
