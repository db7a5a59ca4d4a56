"""The start and end of a run's period in the configured time zone, and the time up to which data is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column
from pyspark.sql import functions as F

from ctr_samples.periods import Period, local_midnight, span_of
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
        """Whether an instant is in the period, or within ``before`` or ``after`` of it, and not later than
        ``known_by``.
        """
        return self.knows(when, self.goes_back(when, before) & self.is_before_end(when, after))

    def knows(self, when: Column, rows: Column) -> Column:
        """Restrict the condition ``rows`` to rows known by ``known_by``. ``when`` is the time at which a row became
        known.
        """
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
