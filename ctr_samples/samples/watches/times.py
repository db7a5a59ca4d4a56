"""Implausible times: a number read in the wrong unit gives a time in 1970 or in the far future.

The clocks of a source are checked before any filter by time. Otherwise an impression of 1970 would simply belong to a different
day, a feature row of 1970 would be visible to every impression, and actions of 1970 would leave every history empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, SnapshotView, View
from ctr_samples.errors import InputError
from ctr_samples.samples.impressions import time_not_read
from ctr_samples.samples.inputs.clocks import EARLY, LATE, MORE_CLOCKS, Clock, clocks_by_name, together, which_apply
from ctr_samples.samples.inputs.listing import LOG_DAY
from ctr_samples.samples.inputs.log_days import by_day, in_log_of, kinds_by_day
from ctr_samples.sparksql.columns import micros_at
from ctr_samples.sparksql.observations import Aggregates, Tally

_MICROS_OF_A_YEAR = 365.2425 * 86_400e6
_UNITS = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}
"""Microseconds per step of ``timestamp_<unit>``."""
_AROUND_NOW = (1.0e15, 4.1e15)  # microseconds since 1970: the years 2001 to 2099


@dataclass(frozen=True, slots=True)
class ClockCounts:
    """Number of rows with a time, of unusable rows, and of rows whose time is too early or too late.

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
        """Number of implausible times."""
        return self.early + self.late


ClocksByDay = dict[str, dict[date | None, ClockCounts]]
"""Counts by clock name and log day. The day is None for a source without days."""


_JOINED = "&"
"""Joins the names of clocks that are counted together."""
_UNUSABLE, _EARLY_TIME, _LATE_TIME = 1, 2, 4
_KINDS = 6
"""Number of row kinds, each a sum of flags: a row may be unusable, and either early or late."""


def clock_counts(clocks: Sequence[Clock], days: Collection[date] = ()) -> Aggregates:
    """Return aggregates over the rows of a source: :class:`ClockCounts` of each clock and each of the ``days``."""
    counts: dict[str, Column | Tally] = {}
    for some in together(clocks):
        micros = F.unix_micros(some[0].time)  # numbers need fewer calls to the JVM than instants
        early, late = micros.between(micros_at(EARLY[0]), micros_at(EARLY[1]) - 1), micros >= micros_at(LATE)
        kind = some[0].is_missing.cast("int") + F.when(early, _EARLY_TIME).when(late, _LATE_TIME).otherwise(0)
        which = which_apply([_counted(clock) for clock in some])
        counts |= kinds_by_day(
            _JOINED.join(clock.name for clock in some), which * _KINDS + kind, _KINDS << len(some), days
        )
        for clock in some:
            mine = _counted(clock)
            counts[f"{clock.name}|latest_early"] = F.max(F.when(mine & early, micros))
            counts[f"{clock.name}|latest_late"] = F.max(F.when(mine & late, micros))
    return counts


def _counted(clock: Clock) -> Column:
    return clock.applies if clock.days is None else clock.applies & F.col(LOG_DAY).isin(*clock.days)


def by_clock(latest: Mapping[str, int], tallies: Mapping[str, Mapping[int, int]]) -> ClocksByDay:
    """Decode the numbers and tallies of :func:`clock_counts`. The latest times cover all days."""
    return {
        name: {day: _counts_of(number, kinds, name, latest) for day, kinds in of_clocks.items()}
        for key, of_clocks in by_day(tallies, lambda names: _KINDS << len(names.split(_JOINED))).items()
        for number, name in enumerate(key.split(_JOINED))
    }


def _counts_of(number: int, kinds: Sequence[int], name: str, latest: Mapping[str, int]) -> ClockCounts:
    """Return the counts of a clock from those of several clocks, of which it is the one with a ``number``."""
    mine = [which for which in range(len(kinds) // _KINDS) if which >> number & 1]
    own = [sum(kinds[which * _KINDS + kind] for which in mine) for kind in range(_KINDS)]
    return ClockCounts(
        rows=sum(own),
        unusable=sum(own[_UNUSABLE::2]),
        early=sum(own[_EARLY_TIME:_LATE_TIME]),
        late=sum(own[_LATE_TIME:]),
        latest_early=latest.get(f"{name}|latest_early", 0),
        latest_late=latest.get(f"{name}|latest_late", 0),
    )


def check_clocks(config: JobConfig, counts: ClocksByDay, source_of: Callable[[str], DataFrame] | None = None) -> None:
    """Raise InputError if implausible times or unusable view rows of a log day exceed `bad_records` of the source.

    ``source_of`` returns the rows of a source. If given, the error quotes a time that could not be read.
    """
    for name, (text, source) in clocks_by_name(config).items():
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
    """Describe an unreadable time of a view in a sentence, or return an empty string."""
    if view.clock is None or isinstance(view, SnapshotView):
        return ""
    return time_not_read(rows, f"views.{name}", view.where_of_source, "event_time", view.clock)


def counts_of_view(counts: ClocksByDay, name: str) -> dict[str, int]:
    """Return the manifest entry of a view's rows: number of unusable rows, and of implausible times."""
    clocks = [counts.get(f"views.{name}.{clock}", {}).values() for clock in ("event_time", *MORE_CLOCKS)]
    return {
        "unusable": sum(of_day.unusable for of_day in clocks[0]),
        "implausible": sum(of_day.implausible for clock in clocks for of_day in clock),
    }


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
    """Return the year of a time, which may exceed the range of Python's calendar."""
    year = 1970 + int(micros / _MICROS_OF_A_YEAR)
    return str(year) if year < 10_000 else f"{year:,}"


def _hint(text: str, micros: int) -> str:
    """Suggest the function that would read the number correctly, according to the size of the error."""
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
