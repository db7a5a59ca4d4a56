"""The watches of a run, the coverage of label windows by logs, and tasks with too large a share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from math import ceil
from typing import Any, Self

from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.config.grain import reach_of
from ctr_samples.config.label import actions_among
from ctr_samples.config.units import format_size
from ctr_samples.periods import in_zone
from ctr_samples.samples.columnar.blocks import FINAL_ORDER, HELD, Counts, setting_of
from ctr_samples.samples.columnar.stages import TaskCounts
from ctr_samples.samples.impressions import ImpressionCounts, impression_counts
from ctr_samples.samples.inputs.clocks import Clock, clocks_by_name, together, which_apply
from ctr_samples.samples.inputs.listing import LOG_DAY
from ctr_samples.samples.inputs.log_days import by_day, kinds_by_day
from ctr_samples.samples.inputs.malformed import LineCounts, line_counts
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.counts import irregular_rows
from ctr_samples.samples.watches.leak_canary import LeakCanary
from ctr_samples.samples.watches.times import ClocksByDay, by_clock, clock_counts
from ctr_samples.sparksql.columns import micros_at, micros_of
from ctr_samples.sparksql.observations import Aggregates, Observations, Tally

MOST_ELSEWHERE = 0.005
"""Share of rows of other days that neighbouring directories must cover. A log that is a few minutes late has fewer."""

_DAY = 24
_MOST = 2 * _DAY
"""Hours outside the day in the path that are told apart. Two time zones differ by at most 26."""
_HOURS = _MOST + _DAY + _MOST
_OWN, _MOVED, _OTHER = range(3)
"""Places of a row: in the directory of the run's day; of the run's day but in another directory; neither."""


@dataclass(slots=True)
class Offsets:
    """Rows by the hour since the day in their path began: all ``hours``, and ``own`` in the directory of the run's day.

    ``moved`` counts the rows of the run's day in other directories.
    """

    hours: dict[int, int] = field(default_factory=dict)
    own: dict[int, int] = field(default_factory=dict)
    moved: int = 0

    @property
    def of_other_days(self) -> int:
        """Rows of other days in the directory of the run's day."""
        return sum(count for hour, count in self.own.items() if not 0 <= hour < _DAY)

    def lag(self, *, after: bool) -> timedelta:
        """Return how long before its day begins, or ``after`` it ends, a directory holds more than a few rows."""
        outside = {(hour - _DAY + 1 if after else -hour): count for hour, count in self.hours.items()}
        few, lag = MOST_ELSEWHERE * sum(self.hours.values()), 0
        for hours in sorted((hours for hours in outside if hours > 0), reverse=True):
            few -= outside[hours]
            if few < 0:
                lag = hours
                break
        return timedelta(hours=lag)


def offset_counts(own_day: date | None, clocks: Sequence[Clock], days: Sequence[date]) -> dict[str, Tally]:
    """Return aggregates over the rows of a log whose path names the day, for :func:`offset_facts`. ``clocks`` are those of
    impressions and labels, and ``days`` those that each run reads for them, whatever it has from partial results.
    """
    tallies: dict[str, Tally] = {}
    for some in together(clocks) if own_day and days else ():
        time, own = some[0].time, F.lit(own_day)
        apart = F.datediff(time.cast("date"), F.col(LOG_DAY))
        hour = F.greatest(F.least(apart * _DAY + F.hour(time), F.lit(_DAY + _MOST - 1)), F.lit(-_MOST)) + _MOST
        moved = F.when(time.cast("date") == own, _MOVED).otherwise(_OTHER)
        place = F.when(F.col(LOG_DAY) == own, _OWN).otherwise(moved)
        number = (which_apply([clock.applies for clock in some]) * 3 + place) * _HOURS + hour
        number = F.when(F.col(LOG_DAY).isin(*days), number)
        tallies["|".join(clock.name for clock in some)] = Tally(number, 3 * _HOURS << len(some))
    return tallies


def offset_facts(config: JobConfig, source: str, tallies: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
    """Return the manifest entry of a source: ``other_days`` counts rows by clock, ``reads_too_few`` has the days to read."""
    names = clocks_by_name(config)
    found = {name: of for name, of in _offsets(tallies).items() if names[name][1] == source}
    other = {
        name: {"rows": sum(of.own.values()), "of_other_days": of.of_other_days, "from_other_days": of.moved}
        for name, of in found.items()
        if of.of_other_days or of.moved
    }
    if not other:
        return {}
    needed = dict(_needed(config, source, found))
    return {"other_days": other, **({"reads_too_few": needed} if needed else {})}


def _offsets(tallies: Mapping[str, Mapping[int, int]]) -> dict[str, Offsets]:
    offsets: dict[str, Offsets] = {}
    for key, numbers in tallies.items():
        for bit, name in enumerate(key.split("|")):
            of = offsets.setdefault(name, Offsets())
            for number, count in numbers.items():
                which, rest = divmod(number, 3 * _HOURS)
                if which >> bit & 1:
                    place, hour = rest // _HOURS, rest % _HOURS - _MOST
                    of.hours[hour] = of.hours.get(hour, 0) + count
                    if place == _OWN:
                        of.own[hour] = of.own.get(hour, 0) + count
                    of.moved += count if place == _MOVED else 0
    return offsets


def _needed(config: JobConfig, name: str, found: Mapping[str, Offsets]) -> Iterator[tuple[str, int]]:
    """Yield ``days_before`` and ``days_after`` that are too small for the hours which the directories hold."""
    source, hourly = config.sources[name], config.grain == "hour"
    for key, reach, after in zip(("days_before", "days_after"), reach_of(config, name), (True, False), strict=True):
        lag = max((of.lag(after=after) for of in found.values()), default=timedelta())
        # An hourly run reads no later days than windows need, but for days that are read beyond those.
        apart = hourly and not after
        needed = _whole(reach) + _whole(lag) if apart else _whole(reach + lag)
        if lag and needed > getattr(source, key):
            yield key, needed


def _whole(span: timedelta) -> int:
    return ceil(span / timedelta(days=1))


@dataclass(frozen=True, slots=True)
class Watches:
    """What one run counts of its rows: where sources are read, and in the tasks between reading and writing."""

    config: JobConfig
    span: Span
    observed: Observations
    tasks: TaskCounts
    canary: LeakCanary
    days_read: dict[str, set[date]] = field(default_factory=dict)
    """Days whose rows a tally of the watch ``days`` counts, by its key."""

    @classmethod
    def of(cls, config: JobConfig, span: Span, *, active: bool = True) -> Self:
        """Create the watches of a configuration for a day. Unless ``active``, they count nothing."""
        tasks = TaskCounts(active=active)
        keys = dict.fromkeys(part for view in config.views.values() for part in view.joined_on if "." not in part)
        return cls(config, span, Observations(active=active), tasks, LeakCanary(tuple(keys), tasks))

    def of_rows(
        self, source: str, clocks: Sequence[Clock], logged: Collection[date], read: Collection[date]
    ) -> dict[str, Aggregates]:
        """Return what counts the times of a source, and the rows of the days that are ``read`` of those ``logged``, if any."""
        days = kinds_by_day(source, F.lit(0), 1, read) if logged and read else {}
        for key in days:
            self.days_read.setdefault(key, set()).update(read)
        return {"days": days, "clocks": clock_counts(clocks, logged)}

    def of_labels(self, source: str, clocks: Sequence[Clock], around: Sequence[date]) -> dict[str, Aggregates]:
        """Return what counts times of impressions and labels. ``around`` are the days of a log that each run reads for them."""
        return {
            "coverage": coverage_counts(self.config, self.span, source, clocks),
            "offsets": offset_counts(self.span.own_day(self.config.timezone), clocks, around),
        }

    def clocks(self) -> ClocksByDay:
        """Return the counts of times. Call it after the action, like all that follow."""
        return by_clock(self.observed.counts("clocks"), self.observed.tallies("clocks"))

    def lines(self, source: str) -> dict[date | None, LineCounts]:
        """Return the counts of the lines of a source, for each day of its log."""
        return line_counts(source, self.observed.tallies("lines"))

    def days_without_rows(self, source: str) -> set[date]:
        """Return the days of a log whose files were read and have no rows."""
        counts = self.observed.tallies("days")
        read = {day for key in counts if key.rpartition("|")[0] == source for day in self.days_read[key]}
        return read - {*by_day(counts, lambda _: 1).get(source, {})}

    def offsets(self, source: str) -> dict[str, Any]:
        """Return what :func:`offset_facts` tells of a source."""
        return offset_facts(self.config, source, self.observed.tallies("offsets"))

    def cut_logs(self) -> Iterator[str]:
        """Yield a sentence for each source whose log ends before the label windows do."""
        return cut_logs(self.config, self.span, self.observed.tallies("coverage"))

    def impressions(self) -> ImpressionCounts:
        """Return the counts of impressions."""
        counts = self.tasks.result().sums | self.observed.counts("impressions")
        return impression_counts(self.config.impressions, counts)

    def irregular_rows(self) -> dict[str, dict[str, int]]:
        """Return the counts of irregular rows of views."""
        return irregular_rows(self.config.views, self.observed.counts("rows") | self.tasks.result().sums)


STEP = timedelta(minutes=15)
ENOUGH = 10
"""Minimum number of rows in the same hours of the run's own day to treat an empty log as truncated, not sparse."""


def ends_of_windows(config: JobConfig, end: datetime) -> dict[str, datetime]:
    """Return the time until which each source may hold a row that changes a label of a day with this ``end``.

    An action belongs to the last impression before it, so impressions matter as long as actions do.
    """
    ends: dict[str, datetime] = {}
    for label in actions_among(config.labels).values():
        for source in (label.source, config.impressions.source):
            ends[source] = max(ends.get(source, end), end + label.window)
    return ends


def coverage_counts(config: JobConfig, span: Span, source: str, clocks: Sequence[Clock]) -> dict[str, Tally]:
    """Return counts of impressions and actions by quarter-hour, up to the end of the windows, for :func:`cut_logs`."""
    ends = {} if span.end is None else ends_of_windows(config, span.end)
    if span.start is None or source not in ends:
        return {}
    steps, tallies = _steps(span.start, ends[source]), {}
    for some in together(clocks):
        step = F.floor((F.unix_micros(some[0].time) - micros_at(span.start)) / micros_of(STEP))
        number = which_apply([clock.applies for clock in some]) * steps + F.when(step.between(0, steps - 1), step)
        tallies[f"{source}|{steps}|{some[0].name}"] = Tally(number, steps << len(some))
    return tallies


def cut_logs(config: JobConfig, span: Span, tallies: Mapping[str, Mapping[int, int]]) -> Iterator[str]:
    """Yield a sentence for each source whose log ends before the windows do.

    A log is truncated if it has no later rows up to the end of the windows, while the same hours of the run's own period
    had at least ten rows.
    """
    if span.start is None or span.end is None:
        return
    ends, own = ends_of_windows(config, span.end), _steps(span.start, span.end)
    for source, counts in _by_source(tallies).items():
        steps, last = _steps(span.start, ends[source]), max(counts, default=-1)
        expected = sum(counts.get(step % own, 0) for step in range(last + 1, steps))
        if expected >= ENOUGH:
            latest, end = (in_zone(at, config.timezone) for at in (span.start + (last + 1) * STEP, ends[source]))
            yield (
                f"sources.{source}: no row is later than {latest}, but the label windows end at {end}, and "
                f"the same hours of the day itself have {expected:,} rows. The log is cut, so the labels are not final; "
                "run again when it is complete."
            )


def _by_source(tallies: Mapping[str, Mapping[int, int]]) -> Mapping[str, Mapping[int, int]]:
    """Return the number of rows of each source by step, for all its uses together."""
    sources: dict[str, dict[int, int]] = {}
    for key, numbers in tallies.items():
        source, steps, _ = key.split("|")
        counts = sources.setdefault(source, {})
        for number, count in numbers.items():
            which, step = divmod(number, int(steps))
            counts[step] = counts.get(step, 0) + count * which.bit_count()
    return sources


def _steps(start: datetime, end: datetime) -> int:
    return ceil((end - start) / STEP)


MULTIPLE = 4
"""A task may hold this multiple of its rows while it works, see docs/operations.md, "Sizing"."""

_MOST_BYTES, _FAIR = 1 << 30, 256 << 20
"""Bytes of rows of a task above which a run warns, and those that it then suggests."""
_UNEVEN = 4
"""A share that is so many times the mean is large because of its keys, and not because the tasks are few."""


def crowded(counts: Counts, tasks: int, writing_tasks: int) -> Iterator[str]:
    """Yield a sentence for each stage in which a task held over 1 GiB of rows, of ``tasks`` that join and ``writing_tasks``."""
    for key, (_, most) in sorted(counts.extremes.items()):
        name = key.removeprefix(HELD)
        if name == key or most <= _MOST_BYTES:
            continue
        total, number = counts.sums[key], writing_tasks if name == FINAL_ORDER else tasks
        held = f"A task of the stage `{name}` held {format_size(int(most))} of rows, and needs up to {MULTIPLE} times as much"
        if most > _UNEVEN * total / number:
            yield (
                f"{held}, because few keys have most of them. Give Python more memory beside the JVM "
                "(spark.executor.memoryOverhead), or look at the most frequent keys in the report."
            )
        else:
            yield f"{held}; set `{setting_of(name)}` to {ceil(total / _FAIR):,}, now {number:,}."
