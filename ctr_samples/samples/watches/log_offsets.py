"""Rows in the directory of another day than their own: late rows, or directories of another time zone than the configured.

If days begin at different hours in the paths and in the configuration, each day lacks the same hours unless neighbouring
directories are read too. So rows are counted by their distance from the day in their path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.config.grain import reach_of
from ctr_samples.samples.inputs.clocks import Clock, together, which_apply
from ctr_samples.samples.inputs.log_days import LOG_DAY
from ctr_samples.samples.period import Span
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


class OffsetsWatch:
    """Counts rows by their distance from the day in their path. Lives on the driver."""

    def __init__(self, config: JobConfig, span: Span, *, active: bool = True) -> None:
        self._config, self._observations = config, Observations(active=active)
        self._own = None if span.start is None else span.start.astimezone(ZoneInfo(config.timezone)).date()

    def on(self, clocks: Sequence[Clock], days: Sequence[date]) -> tuple[Observations, Aggregates]:
        """Return what counts the rows of a log whose path names the day, for :func:`observe`. ``clocks`` are those of
        impressions and labels, and ``days`` those that each run reads for them, whatever it has from partial results.
        """
        tallies: dict[str, Tally] = {}
        for some in together(clocks) if self._own and days else ():
            time, own = some[0].time, F.lit(self._own)
            apart = F.datediff(time.cast("date"), F.col(LOG_DAY))
            hour = F.greatest(F.least(apart * _DAY + F.hour(time), F.lit(_DAY + _MOST - 1)), F.lit(-_MOST)) + _MOST
            moved = F.when(time.cast("date") == own, _MOVED).otherwise(_OTHER)
            place = F.when(F.col(LOG_DAY) == own, _OWN).otherwise(moved)
            number = (which_apply([clock.applies for clock in some]) * 3 + place) * _HOURS + hour
            number = F.when(F.col(LOG_DAY).isin(*days), number)
            tallies["|".join(clock.name for clock in some)] = Tally(number, 3 * _HOURS << len(some))
        return self._observations, tallies

    def facts(self, source: str, names: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
        """Return the manifest entry of a source: ``other_days`` counts rows by clock, ``reads_too_few`` has the days that
        the source must read. ``names`` has the source of each clock. Call it after the action.
        """
        found = {name: of for name, of in self._offsets().items() if names[name][1] == source}
        other = {
            name: {"rows": sum(of.own.values()), "of_other_days": of.of_other_days, "from_other_days": of.moved}
            for name, of in found.items()
            if of.of_other_days or of.moved
        }
        if not other:
            return {}
        needed = dict(self._needed(source, found))
        return {"other_days": other, **({"reads_too_few": needed} if needed else {})}

    def _offsets(self) -> dict[str, Offsets]:
        offsets: dict[str, Offsets] = {}
        for key, numbers in self._observations.tallies().items():
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

    def _needed(self, name: str, found: Mapping[str, Offsets]) -> Iterator[tuple[str, int]]:
        """Yield ``days_before`` and ``days_after`` that are too small for the hours which the directories hold."""
        source, hourly = self._config.sources[name], self._config.grain == "hour"
        for key, reach, after in zip(
            ("days_before", "days_after"), reach_of(self._config, name), (True, False), strict=True
        ):
            lag = max((of.lag(after=after) for of in found.values()), default=timedelta())
            # An hourly run reads no later days than windows need, but for days that are read beyond those.
            apart = hourly and not after
            needed = _whole(reach) + _whole(lag) if apart else _whole(reach + lag)
            if lag and needed > getattr(source, key):
                yield key, needed


def _whole(span: timedelta) -> int:
    return math.ceil(span / timedelta(days=1))
