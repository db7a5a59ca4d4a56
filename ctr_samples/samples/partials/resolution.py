"""Which days a run needs step by step. Pure.

A day here is 24 hours of UTC, or a day of the session's zone where that is the step.
"""

from __future__ import annotations

from collections.abc import Set
from datetime import timedelta

from ctr_samples.config import DailyCountView, WindowView
from ctr_samples.samples.period import Day
from ctr_samples.samples.views.aggregates import Counting

_DAY = timedelta(days=1)


def steps_of_a_day(counting: Counting) -> int:
    """How many steps a day has."""
    return _DAY // counting.step


def days_step_by_step(view: WindowView | DailyCountView, day: Day, zone: str) -> Set[int]:
    """The days, as days since 1970, in which a step may enter or leave a window while impressions of ``day`` come.

    Of any other day all steps are in a window, or none is, whenever an impression looks.
    """
    assert day.start is not None
    assert day.end is not None
    counting = Counting.of(view)
    days: set[int] = set()
    for window in (timedelta(), *counting.windows):
        # A step counts when it is over and known, and leaves a window later. One more on each side does no harm.
        first = counting.step_at(day.start - view.delay - window, zone) - 2
        last = counting.step_at(day.end - window, zone) + 1
        days.update(range(first // steps_of_a_day(counting), last // steps_of_a_day(counting) + 1))
    return days
