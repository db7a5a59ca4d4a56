"""The configured times of a source. They select the rows, and therefore the files, that a run needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from ctr_samples.config import (
    CountingView,
    DailyCountView,
    EventView,
    History,
    JobConfig,
    SnapshotView,
    StaticView,
    View,
    WindowView,
)
from ctr_samples.config.label import actions_among
from ctr_samples.samples.impressions import does_match
from ctr_samples.samples.labels.plans import impression_reach, label_reach, plan_labels
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.aggregates import reach
from ctr_samples.samples.views.rows import has_readable_end, key_columns
from ctr_samples.sparksql.columns import key_column, time_column
from ctr_samples.sparksql.expressions import typed_expression

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


def clocks_of(config: JobConfig, span: Span, source: str, use: Use, frame: DataFrame) -> list[Clock]:
    """Return the clocks of a source for one use. Planning only."""
    uses = {"impressions": _of_impressions, "labels": _of_labels, "views": _of_views, "histories": _of_histories}
    return list(uses[use](config, span, source, frame))


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
    found: list[tuple[str, str, str | None]] = []
    if "impressions" in uses:
        found.append(("impressions", config.impressions.source, config.impressions.where))
    if "labels" in uses:
        found += [(f"labels.{plan.name}", plan.label.source, plan.label.where) for plan in plan_labels(config)]
    if "views" in uses:
        found += [(f"views.{name}", view.source, view.where_of_source) for name, view in config.views.items()]
    if "histories" in uses:
        found += [(f"histories.{name}", one.source, one.where) for name, one in config.histories.items()]
    return {text: f"{key}.where" for key, of, text in found if of == source and text is not None}


def of_interest(clocks: Sequence[Clock]) -> Column:
    """Return a condition for the rows that a run needs or must count. Spark pushes it down, so file pruning still
    works.
    """
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
    impressions = config.impressions
    clocks = {"impressions.time": (impressions.time, impressions.source)}
    clocks |= {
        f"labels.{name}.time": (label.time or impressions.time, label.source)
        for name, label in actions_among(config.labels).items()
    }
    for name, view in config.views.items():
        clocks[f"views.{name}.event_time"] = (view.clock or "", view.source)
        if isinstance(view, EventView | WindowView):
            more = {key: getattr(view, key, None) for key in MORE_CLOCKS}
            clocks |= {f"views.{name}.{key}": (text, view.source) for key, text in more.items() if text is not None}
    for name, history in _histories(config).items():
        clocks[f"histories.{name}.time"] = (history.time or "", history.source)
        if history.available_time is not None:
            clocks[f"histories.{name}.available_time"] = (history.available_time, history.source)
    return clocks


def _histories(config: JobConfig) -> dict[str, History]:
    """Return the histories with their inherited values filled in."""
    return {name: config.history(name) for name in config.histories}


def _of_impressions(config: JobConfig, span: Span, source: str, frame: DataFrame) -> Iterator[Clock]:
    impressions = config.impressions
    if impressions.source == source:
        time = time_column(frame, impressions.time, "impressions.time")
        around = impression_reach(config, span)
        applies = does_match(frame, impressions.where, "impressions.where")
        yield Clock("impressions.time", impressions.time, time, applies, span.reaches(time, *around))


def _of_labels(config: JobConfig, span: Span, source: str, frame: DataFrame) -> Iterator[Clock]:
    plans = plan_labels(config)
    around = label_reach(plans)
    for plan in plans:
        if plan.label.source == source:
            where = f"labels.{plan.name}"
            time = time_column(frame, plan.time, f"{where}.time")
            applies = does_match(frame, plan.label.where, f"{where}.where")
            yield Clock(f"{where}.time", plan.time, time, applies, span.reaches(time, around, around))


def _of_views(config: JobConfig, span: Span, source: str, frame: DataFrame) -> Iterator[Clock]:
    for name, view in config.views.items():
        if view.source == source:
            yield from _of_view(name, view, span, frame)


def _of_view(name: str, view: View, span: Span, frame: DataFrame) -> Iterator[Clock]:
    """Yield the clocks of a view. The event time comes last and requires all columns that make a row usable."""
    where = f"views.{name}"
    applies = does_match(frame, view.where_of_source, f"{where}.where")
    text, time = view.clock or "", _event_time(frame, view, where)
    near = _near(view, span, time)
    needed = _keys(frame, view, where)
    if isinstance(view, EventView | WindowView) and view.available_time is not None:
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


def _keys(frame: DataFrame, view: View, where: str) -> list[Column]:
    """Return the keys of a row that stand in it: its own, or those of the views that it looks up."""
    if not isinstance(view, CountingView) or not view.look_up:
        return key_columns(frame, view, where)
    given = [(other, text) for other, texts in view.look_up.items() for text in texts]
    return [key_column(frame, text, f"{where}.look_up.{other}") for other, text in given]


def _of_histories(config: JobConfig, span: Span, source: str, frame: DataFrame) -> Iterator[Clock]:
    for name, history in _histories(config).items():
        if history.source == source:
            where, text = f"histories.{name}", history.time or ""
            time = time_column(frame, text, f"{where}.time")
            near = span.is_before_end(time)
            if history.within is not None:
                near &= span.goes_back(time, history.within)
            applies = does_match(frame, history.where, f"{where}.where")
            if history.available_time is not None:
                known = time_column(frame, history.available_time, f"{where}.available_time")
                name_of_known = f"{where}.available_time"
                yield Clock(name_of_known, history.available_time, known, applies, near, placed_by=time)
            yield Clock(f"{where}.time", text, time, applies, near)


def _event_time(frame: DataFrame, view: View, where: str) -> Column:
    if isinstance(view, SnapshotView):
        column, kind = typed_expression(frame, view.snapshot, f"{where}.snapshot")
        day = column.try_cast("date") if isinstance(kind, StringType) else column.cast("date")
        return F.date_add(day, 1).cast("timestamp")
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
