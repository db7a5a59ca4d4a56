"""The period of a run as two instants, in the zone of the configuration, and the instant at which the run looks back at it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from pyspark.sql import Column
from pyspark.sql import functions as F

from ctr_samples.periods import Period, span_of


@dataclass(frozen=True, slots=True)
class Span:
    """``[start, end)`` of a day, which is 23 or 25 hours long when the clocks change, or of an hour; both None for all time.

    What was not known at ``known_by`` does not exist.
    """

    start: datetime | None
    end: datetime | None
    known_by: datetime | None = None

    @classmethod
    def of(cls, period: Period, timezone: str, known_by: datetime | None = None) -> Self:
        """Midnight to midnight of local time, or while the clocks show an hour. UsageError for one that they skip."""
        start, end = span_of(period, timezone) or (None, None)
        return cls(start, end, known_by)

    def contains(self, when: Column) -> Column:
        """Whether an instant lies in the period."""
        return self.reaches(when, timedelta(), timedelta())

    def reaches(self, when: Column, before: timedelta, after: timedelta) -> Column:
        """Whether an instant lies in the period or so little before or after it, and what happened then was known."""
        return self.knows(when, self.goes_back(when, before) & self.is_before_end(when, after))

    def knows(self, when: Column, rows: Column) -> Column:
        """Those of some rows that were known; ``when`` is the time at which each became so."""
        return rows if self.known_by is None else rows & (when <= F.lit(self.known_by))

    def if_known(self, when: Column, value: Column) -> Column:
        """A value that became known at an instant; null if that was too late."""
        return value if self.known_by is None else F.when(when <= F.lit(self.known_by), value)

    def goes_back(self, when: Column, before: timedelta) -> Column:
        """Whether an instant lies at most so long before the start, or later."""
        return when.isNotNull() if self.start is None else when >= F.lit(self.start - before)

    def is_before_end(self, when: Column, after: timedelta = timedelta()) -> Column:
        """Whether an instant lies before the end, or less than so long after it."""
        return when.isNotNull() if self.end is None else when < F.lit(self.end + after)

    def slices(self, count: int) -> tuple[datetime, timedelta] | None:
        """Start and length of so many equal parts; None for all time, which has no ends."""
        if self.start is None or self.end is None:
            return None
        return self.start, (self.end - self.start) / count


EVER = Span(None, None)
"""All time."""
