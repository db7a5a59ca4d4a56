"""The run date as two instants, in the zone of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Self
from zoneinfo import ZoneInfo

from pyspark.sql import Column
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True)
class Day:
    """``[start, end)``; 23 or 25 hours long when the clocks change."""

    start: datetime
    end: datetime

    @classmethod
    def of(cls, run_date: date, timezone: str) -> Self:
        """Midnight to midnight of local time."""
        zone = ZoneInfo(timezone)
        midnights = (datetime.combine(day, time(), zone) for day in (run_date, run_date + timedelta(days=1)))
        start, end = (m.astimezone(UTC) for m in midnights)
        return cls(start, end)

    def contains(self, when: Column) -> Column:
        """Whether an instant lies on this day."""
        return (when >= F.lit(self.start)) & (when < F.lit(self.end))

    def reaches(self, when: Column, before: timedelta, after: timedelta) -> Column:
        """Whether an instant lies on this day or so little before or after it."""
        return (when >= F.lit(self.start - before)) & (when < F.lit(self.end + after))
