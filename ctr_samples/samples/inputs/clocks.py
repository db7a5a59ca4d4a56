"""The configured times of a source. They select the rows, and therefore the files, that a run needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import (
    CountingView,
    DailyCountView,
    EventView,
    JobConfig,
    SnapshotView,
    StaticView,
    View,
    WindowView,
)
from ctr_samples.samples.impressions import does_match
from ctr_samples.samples.labels.plans import impression_reach, label_reach, plan_labels
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.aggregates import reach
from ctr_samples.samples.views.rows import has_readable_end, key_columns, snapshot_clocks
from ctr_samples.sparksql.columns import key_column, time_column

Use = Literal["impressions", "labels", "views", "histories"]

EARLY = (datetime(1970, 1, 1, tzinfo=UTC), datetime(1972, 1, 1, tzinfo=UTC))
LATE = datetime(2200, 1, 1, tzinfo=UTC)
_NO_TIMES = datetime(2000, 1, 1, tzinfo=UTC)
"""Placeholder event time for tables without timestamps."""
MORE_CLOCKS = ("available_time", "valid_to", "closed_available")
"""Optional clocks of a view besides its event time."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A configured time: its key and expression, its value in a row, and the rows to which it applies.

    ``near`` selects the rows that the run needs, by this time or by ``placed_by``. ``needed`` lists further columns
    without which a row is useless, such as a view's key. ``days`` restricts the counts to rows of some log days.
    """

    name: str
    text: str
    time: Column
    applies: Column
    near: Column
    needed: tuple[Column, ...] = ()
    placed_by: Column | None = None
    days: Collection[date] | None = None

    @property
    def looked_at(self) -> Column:
        """Condition for rows that the run needs or must count. Depends on a single time, so file pruning still works."""
        time = self.time if self.placed_by is None else self.placed_by
        return self.near | time.isNull() | is_early(time) | is_late(time)

    @property
    def is_missing(self) -> Column:
        """Whether a row lacks this time, or a column needed to use it."""
        return reduce(Column.__or__, [column.isNull() for column in (self.time, *self.needed)])


@dataclass(frozen=True, slots=True)
class Reader:
    """What reads the rows of a source: its use, its configuration key, its condition, and the expressions of its clocks."""

    use: Use
    key: str
    source: str
    where: str | None
    clocks: Mapping[str, str]


def readers(config: JobConfig) -> Iterator[Reader]:
    """Yield all readers of a configuration, with inherited values filled in."""
    shown = config.impressions
    yield Reader("impressions", "impressions", shown.source, shown.where, {"time": shown.time})
    for plan in plan_labels(config):
        yield Reader("labels", f"labels.{plan.name}", plan.label.source, plan.label.where, {"time": plan.time})
    for name, view in config.views.items():
        keys = MORE_CLOCKS if isinstance(view, EventView | WindowView) else ()
        more = {key: text for key in keys if (text := getattr(view, key, None)) is not None}
        clocks = {"event_time": view.clock or "", **more}
        yield Reader("views", f"views.{name}", view.source, view.where_of_source, clocks)
    for name in config.histories:
        history = config.history(name)
        known = {} if history.available_time is None else {"available_time": history.available_time}
        clocks = {"time": history.time or "", **known}
        yield Reader("histories", f"histories.{name}", history.source, history.where, clocks)


def clocks_of(config: JobConfig, span: Span, source: str, use: Use, frame: DataFrame) -> list[Clock]:
    """Return the clocks of a source for one use. Planning only."""
    of_use = {"impressions": _of_log, "labels": _of_log, "views": _of_view, "histories": _of_history}[use]
    mine = [one for one in readers(config) if (one.source, one.use) == (source, use)]
    return [
        clock
        for reader in mine
        for clock in of_use(config, span, reader, frame, does_match(frame, reader.where, f"{reader.key}.where"))
    ]


def texts_of_times(config: JobConfig, source: str) -> dict[str, str]:
    """Return the time expressions read from a source, each with its first configuration key. Excludes snapshot days."""
    snapshots = {f"views.{name}.event_time" for name, view in config.views.items() if isinstance(view, SnapshotView)}
    texts: dict[str, str] = {}
    for name, (text, of) in clocks_by_name(config).items():
        if of == source and text and name not in snapshots:
            texts.setdefault(text, name)
    return texts


def conditions_of(config: JobConfig, source: str, uses: Collection[Use]) -> dict[str, str]:
    """Return the conditions of rows of a source for some uses, each with its configuration key."""
    mine = [one for one in readers(config) if one.source == source and one.use in uses]
    return {one.where: f"{one.key}.where" for one in mine if one.where is not None}


def of_interest(clocks: Sequence[Clock]) -> Column:
    """Return a condition for the rows that a run needs or must count. Spark pushes it down, so file pruning still works."""
    return reduce(Column.__or__, [clock.applies & clock.looked_at for clock in clocks])


_MOST_TOGETHER = 5


def together(clocks: Sequence[Clock]) -> list[list[Clock]]:
    """Return the clocks in groups of one time, so that a row is counted once for all clocks of a group.

    A count for each clock would cost as much as parsing a line.
    """
    groups: dict[str, list[list[Clock]]] = {}
    for clock in clocks:
        some = groups.setdefault(clock.name if clock.needed else clock.text, [])
        if not some or len(some[-1]) == _MOST_TOGETHER:
            some.append([])
        some[-1].append(clock)
    return [group for some in groups.values() for group in some]


def which_apply(conditions: Sequence[Column]) -> Column:
    """Return the conditions that hold for a row, as the bits of a number. Null if none does."""
    bits = [F.when(condition, 1 << number).otherwise(0) for number, condition in enumerate(conditions)]
    which = reduce(Column.__add__, bits)
    return F.when(which > 0, which)


def is_early(time: Column) -> Column:
    """Whether a time is in 1970 or 1971. Earlier times are not unit errors: some tables use 1900 for `always`."""
    return (time >= F.lit(EARLY[0])) & (time < F.lit(EARLY[1]))


def is_late(time: Column) -> Column:
    """Whether a time is in 2200 or later."""
    return time >= F.lit(LATE)


def clocks_by_name(config: JobConfig) -> dict[str, tuple[str, str]]:
    """Return the expression and source of each clock, by configuration key."""
    return {f"{of.key}.{key}": (text, of.source) for of in readers(config) for key, text in of.clocks.items()}


def _of_log(config: JobConfig, span: Span, reader: Reader, frame: DataFrame, applies: Column) -> Iterator[Clock]:
    """Yield the clock of impressions or actions."""
    reach = label_reach(plan_labels(config))
    around = impression_reach(config, span) if reader.use == "impressions" else (reach, reach)
    name, text = f"{reader.key}.time", reader.clocks["time"]
    time = time_column(frame, text, name)
    yield Clock(name, text, time, applies, span.reaches(time, *around))


def _of_view(config: JobConfig, span: Span, reader: Reader, frame: DataFrame, applies: Column) -> Iterator[Clock]:
    """Yield the clocks of a view. The event time comes last and requires all columns that make a row usable."""
    where, view = reader.key, config.views[reader.key.removeprefix("views.")]
    time = _event_time(frame, view, where)
    near, needed = _near(view, span, time), _keys(frame, view, where)
    for key, text in reader.clocks.items():
        if key == "available_time":
            known = time_column(frame, text, f"{where}.{key}")
            yield Clock(f"{where}.{key}", text, known, applies, near, placed_by=time)
            needed.append(known)
        elif key != "event_time":
            yield Clock(f"{where}.{key}", text, _ended(frame, text, f"{where}.{key}"), applies, near, placed_by=time)
    if "valid_to" in reader.clocks and isinstance(view, EventView):
        needed.append(F.when(has_readable_end(frame, view, where), True))
    yield Clock(f"{where}.event_time", reader.clocks["event_time"], time, applies, near, tuple(needed))


def _keys(frame: DataFrame, view: View, where: str) -> list[Column]:
    """Return the keys of a row that stand in it: its own, or those of the views that it looks up."""
    if not isinstance(view, CountingView) or not view.look_up:
        return key_columns(frame, view, where)
    given = [(other, text) for other, texts in view.look_up.items() for text in texts]
    return [key_column(frame, text, f"{where}.look_up.{other}") for other, text in given]


def _of_history(config: JobConfig, span: Span, reader: Reader, frame: DataFrame, applies: Column) -> Iterator[Clock]:
    history = config.history(reader.key.removeprefix("histories."))
    times = {key: time_column(frame, text, f"{reader.key}.{key}") for key, text in reader.clocks.items()}
    near = span.is_before_end(times["time"])
    if history.within is not None:
        near &= span.goes_back(times["time"], history.within)
    for key, text in reversed([*reader.clocks.items()]):
        placed_by = None if key == "time" else times["time"]
        yield Clock(f"{reader.key}.{key}", text, times[key], applies, near, placed_by=placed_by)


def _event_time(frame: DataFrame, view: View, where: str) -> Column:
    if isinstance(view, SnapshotView):
        return snapshot_clocks(frame, view, where)[0]
    return F.lit(_NO_TIMES) if view.clock is None else time_column(frame, view.clock, f"{where}.event_time")


def _ended(frame: DataFrame, text: str, where: str) -> Column:
    """Return the time at which a row ends. Far-future dates, which some tables use for open-ended rows, become null."""
    end = time_column(frame, text, where)
    return F.when(~is_late(end), end)


def _near(view: View, span: Span, time: Column) -> Column:
    """Return a condition for rows that may matter to an impression. True for static tables and daily counts."""
    if isinstance(view, WindowView):
        return span.reaches(time, reach(view), timedelta())
    if isinstance(view, StaticView | DailyCountView):
        return F.lit(True)
    before_end = span.is_before_end(time)
    return before_end if view.max_age is None else before_end & span.goes_back(time, view.max_age)
