"""What checks are made of: the days that they compare, and the scores that they yield."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from ctr_samples.quality.metrics import Measured

FEWEST_ROWS = 1000
"""Below this many samples the share of one user, or of one value, means nothing."""
ENOUGH = 50
"""Rows that are all equal by chance only if hardly any differ; and events that are enough for a share of them."""
SURELY_SOME = 15.0
"""Expected events per hour; by chance, an hour has none of them once in three million hours."""


@dataclass(frozen=True, slots=True)
class Days:
    """A day, and the published ones that it is compared with: the last before it, and the last of the same weekday.

    ``filling`` are features of windows and histories that reach further back than the log, today or on the day before.
    """

    now: Measured
    before: Measured | None = None
    same_weekday: Measured | None = None
    filling: Collection[str] = ()

    @property
    def references(self) -> list[Measured]:
        """The days that exist."""
        return [day for day in (self.before, self.same_weekday) if day is not None]

    @property
    def weekday_known(self) -> bool:
        """Whether there is a day of the same weekday: without one, checks that depend on the weekday only warn."""
        return self.same_weekday is not None


@dataclass(frozen=True, slots=True)
class Score:
    """What a check measured: how bad, and in words.

    A ``sure`` score fails whatever the limits. A score that is not ``known`` to be new only warns: there is no day to compare
    with, or the feature was constant on that day.
    """

    subject: str
    value: float
    words: str
    sure: bool = False
    known: bool = True


Check = Callable[[Days], Iterator[Score]]


def was(value: str, day: Measured) -> str:
    """``0.2 on 2019-06-04``."""
    return f"{value} on {day.run_date}"
