"""Days that checks compare, scores that they yield, and how much of a difference chance explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from ctr_samples.quality.metrics import Measured

FEWEST_ROWS = 1000
"""With fewer samples, the share of one user or one value means nothing."""
ENOUGH = 50
"""Rows needed to call a feature constant; events needed to compute a share."""
SURELY_SOME = 15.0
"""Expected events per hour at which chance leaves one hour in three million without any."""


@dataclass(frozen=True, slots=True)
class Days:
    """A day, and the published days it is compared with: the previous one and the last of the same weekday.

    ``filling`` lists features whose windows or histories reach further back than the log, today or on the day before.
    """

    now: Measured
    before: Measured | None = None
    same_weekday: Measured | None = None
    filling: Collection[str] = ()

    @property
    def references(self) -> list[Measured]:
        """Reference days that exist."""
        return [day for day in (self.before, self.same_weekday) if day is not None]

    @property
    def weekday_known(self) -> bool:
        """True if a day of the same weekday exists; without it, checks that depend on the weekday only warn."""
        return self.same_weekday is not None


@dataclass(frozen=True, slots=True)
class Score:
    """Result of a check: how bad it is, and in words.

    A ``sure`` score fails regardless of the limits. A score not ``known`` to be new only warns: there is no day to
    compare with, or the feature was constant on that day.
    """

    subject: str
    value: float
    words: str
    sure: bool = False
    known: bool = True


Check = Callable[[Days], Iterator[Score]]


def was(value: str, day: Measured) -> str:
    """Format a reference value as ``0.2 on 2019-06-04``."""
    return f"{value} on {day.run_date}"


SIGMAS = 3.0


def times(now: float, before: float, error: float = 0.0) -> float:
    """Factor between two figures, at least 1, less what chance explains; ``error`` is the variance of the log ratio."""
    if now <= 0 or before <= 0:
        return 1.0 if now == before else 1e9
    return math.exp(max(0.0, abs(math.log(now / before)) - SIGMAS * math.sqrt(error)))


def rise(new: float, old: float, rows: int, rows_before: int) -> float:
    """Rise of a share, at least 0, beyond what chance explains for these row counts."""
    return max(0.0, new - old - by_chance(new, old, rows, rows_before))


def by_chance(new: float, old: float, rows: int, rows_before: int) -> float:
    """Difference between two shares that chance explains for these row counts."""
    return SIGMAS * math.sqrt(_variance(new, rows) + _variance(old, rows_before))


def _variance(share: float, rows: int) -> float:
    return max(share * (1 - share), 1 / max(1, rows)) / max(1, rows)
