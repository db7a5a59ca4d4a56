"""The start and end of a run's period in the configured time zone, the time up to which data is known, and the days read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column
from pyspark.sql import functions as F

from ctr_samples.config.source import FileSource, SourceKind
from ctr_samples.periods import Hour, Period, calendar_day, hours_of, local_days, local_midnight, span_of
from ctr_samples.sparksql.columns import micros_at

_MICROS_OF_DAY = 86_400_000_000
_FIRST = date(1970, 1, 1).toordinal()


class Reach(NamedTuple):
    """The time before and after a period in which rows still matter to it."""

    before: timedelta = timedelta()
    after: timedelta = timedelta()


NO_REACH = Reach()


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open interval ``[start, end)`` of a day or an hour. Both ends are None for all time.

    A day has 23 or 25 hours when the clocks change. Data that became known after ``known_by`` is ignored.
    """

    start: datetime | None
    end: datetime | None
    known_by: datetime | None = None
    _now: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)

    @property
    def clock(self) -> datetime:
        """The time of the run, or ``known_by``."""
        return self.known_by or self._now

    @classmethod
    def of(cls, period: Period, timezone: str, known_by: datetime | None = None) -> Self:
        """Return the span of a local day or of a clock hour. Raises UsageError for an hour that the clocks skip."""
        start, end = span_of(period, timezone) or (None, None)
        return cls(start, end, known_by)

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        """Start and end. Raises ValueError for all time."""
        if self.start is None or self.end is None:
            raise ValueError("all time has neither a start nor an end")
        return self.start, self.end

    def own_day(self, timezone: str) -> date | None:
        """The local day in which the period begins. None for all time."""
        return None if self.start is None else self.start.astimezone(ZoneInfo(timezone)).date()

    def contains(self, when: Column) -> Column:
        """Whether an instant is in the period."""
        return self.reaches(when, timedelta(), timedelta())

    def has(self, micros: npt.NDArray[np.int64], there: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return whether instants, in microseconds since 1970, are in the period and known. Runs on executors."""
        inside = there.copy()
        if self.start is not None:
            inside &= micros >= micros_at(self.start)
        if self.end is not None:
            inside &= micros < micros_at(self.end)
        return inside if self.known_by is None else inside & (micros <= micros_at(self.known_by))

    def reaches(self, when: Column, before: timedelta, after: timedelta) -> Column:
        """Whether an instant is in the period, or within ``before`` or ``after`` of it, and not later than ``known_by``."""
        return self.knows(when, self.goes_back(when, before) & self.is_before_end(when, after))

    def knows(self, when: Column, rows: Column) -> Column:
        """Restrict the condition ``rows`` to rows known by ``known_by``. ``when`` is the time at which a row became known."""
        return rows if self.known_by is None else rows & (when <= F.lit(self.known_by))

    def goes_back(self, when: Column, before: timedelta) -> Column:
        """Whether an instant is after the start, or at most ``before`` ahead of it."""
        return when.isNotNull() if self.start is None else when >= F.lit(self.start - before)

    def is_before_end(self, when: Column, after: timedelta = timedelta()) -> Column:
        """Whether an instant is before the end plus ``after``."""
        return when.isNotNull() if self.end is None else when < F.lit(self.end + after)


def days_of(micros: npt.NDArray[np.int64], timezone: str) -> npt.NDArray[np.int64]:
    """Return a number for the local day of each instant, in microseconds since 1970. Runs on executors."""
    utc = np.unique(micros // _MICROS_OF_DAY)
    days = np.clip(np.unique([utc - 1, utc, utc + 1]) + _FIRST, 366, date.max.toordinal() - 366).tolist()
    midnights = [micros_at(local_midnight(date.fromordinal(day), timezone)) for day in days]
    return np.searchsorted(np.array(midnights, np.int64), micros, side="right")


EVER = Span(None, None)
"""All time."""


def days_needed(source: SourceKind, period: Period, zone: str, reach: Reach = NO_REACH) -> list[date]:
    """Return the days of a dated source to read, in order: whole days, and multiples of 24 hours around them.

    So a one-day window is complete even after a day of 23 hours, for which one more day is read. An hourly run needs no
    day after the day that contains its end plus what ``reach`` says, but for days beyond those of ``reach``. Empty for the
    whole log, which reads all existing days.
    """
    interval, own = _interval(source, period, zone, reach), calendar_day(period)
    if interval is None or own is None:
        return []
    touched = [own - timedelta(days=source.days_before), *local_days(*interval, zone)]
    if not isinstance(period, Hour):
        touched.append(own + timedelta(days=source.days_after))
    first, last = min(touched), max(touched)
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def periods_needed(source: FileSource, period: Period, zone: str, reach: Reach) -> list[Period]:
    """Return the periods of the directories that a run reads: days, or hours if the path names the hour."""
    days, interval = days_needed(source, period, zone, reach), _interval(source, period, zone, reach)
    if not source.is_hourly or interval is None:
        return list(days)
    hours = [(hour, span) for day in days for hour, span in hours_of(day, zone).items()]
    return [hour for hour, (start, end) in hours if end > interval[0] and start < interval[1]]


def _interval(source: SourceKind, period: Period, zone: str, reach: Reach) -> tuple[datetime, datetime] | None:
    """Return the start and end of the interval in which rows of a source may matter. None for the whole log.

    An hour looks back as far as ``reach`` says, but no further than its day does.
    """
    span = span_of(period, zone)
    if span is None:
        return None
    before, after = timedelta(days=source.days_before), timedelta(days=source.days_after)
    if not isinstance(period, Hour):
        return span[0] - before, span[1] + after
    first = local_midnight(period.day, zone) - before
    beyond = max(timedelta(), after - timedelta(days=math.ceil(reach.after / timedelta(days=1))))
    return min(span[0] - before, max(span[0] - reach.before, first)), span[1] + reach.after + beyond
