"""Input and output of the checks, and the differences expected by chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from ctr_samples.quality.metrics import Measured

FEWEST_ROWS = 1000
"""Minimum number of samples for a meaningful share of one user or value."""
ENOUGH = 50
"""Minimum number of rows to call a feature constant, and of events to compute a share."""
SURELY_SOME = 15.0
"""Expected events per hour. By chance, one such hour in three million has no events."""


@dataclass(frozen=True, slots=True)
class Days:
    """A day and its reference days: the previous published day, and the last published day of the same weekday.

    ``filling`` lists features whose windows or histories exceed the log, on this day or the day before.
    """

    now: Measured
    before: Measured | None = None
    same_weekday: Measured | None = None
    filling: Collection[str] = ()

    @property
    def references(self) -> list[Measured]:
        """Available reference days."""
        return [day for day in (self.before, self.same_weekday) if day is not None]

    @property
    def weekday_known(self) -> bool:
        """Whether a reference of the same weekday exists. Without it, weekday-dependent checks only warn."""
        return self.same_weekday is not None


@dataclass(frozen=True, slots=True)
class Score:
    """The result of a check: a severity and its description.

    A ``sure`` score fails regardless of the limits. A score that is not ``known`` only warns: there is no reference
    day, or the feature was constant on that day.
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
    """Return the ratio of two figures, at least 1, reduced by chance. ``error`` is the variance of the log ratio."""
    if now <= 0 or before <= 0:
        return 1.0 if now == before else 1e9
    return math.exp(max(0.0, abs(math.log(now / before)) - SIGMAS * math.sqrt(error)))


def rise(new: float, old: float, rows: int, rows_before: int) -> float:
    """Return the rise of a share, at least 0, beyond the difference expected by chance for these row counts."""
    return max(0.0, new - old - by_chance(new, old, rows, rows_before))


def by_chance(new: float, old: float, rows: int, rows_before: int) -> float:
    """Return the difference between two shares expected by chance for these row counts."""
    return SIGMAS * math.sqrt(_variance(new, rows) + _variance(old, rows_before))


def _variance(share: float, rows: int) -> float:
    return max(share * (1 - share), 1 / max(1, rows)) / max(1, rows)
