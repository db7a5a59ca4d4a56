"""Checks of the feature view rows that samples match."""

from __future__ import annotations

from collections.abc import Iterator

from ctr_samples.quality.checks.chance import rise
from ctr_samples.quality.checks.score import Days, Score, was

_HALF = 0.5


def matched(days: Days) -> Iterator[Score]:
    """Fall of the match rate of a view. Without a day to compare with, a rate below one half warns."""
    for name, now in days.now.views.items():
        new, before = now["match_rate"], days.before and days.before.views.get(name)
        if days.before and before:
            old = before["match_rate"]
            words = f"{new:.1%} of the samples match a row of {name} ({was(f'{old:.1%}', days.before)})"
            yield Score(name, rise(1 - new, 1 - old, days.now.rows, days.before.rows), words)
        elif days.now.rows:
            words = f"{new:.1%} of the samples match a row of {name}, and there is no earlier day to compare with"
            yield Score(name, 1 - new if new < _HALF else 0.0, words, known=False)


def age(days: Days) -> Iterator[Score]:
    """Age of the view rows that samples match, compared with the closer of the two references.

    Views without a ttl have no `age_s_p10`: their rows cannot be too old.
    """
    for name, view in days.now.views.items():
        parts = ("age_s_p10", "age_s_median") if "age_s_p10" in view else ()
        scores = [score for part in parts if (score := _older(days, name, part)) is not None]
        if scores:
            yield max(scores, key=lambda score: score.value)


def _older(days: Days, view: str, part: str) -> Score | None:
    new = days.now.views[view].get(part)
    ages = [(old, day) for day in days.references if (old := day.views.get(view, {}).get(part)) is not None]
    if new is None or not ages:
        return None
    old, day = max(ages, key=lambda entry: entry[0])
    times = (new + 3600) / (old + 3600) if new - old > 3600 else 1.0
    which = "the newest tenth of the rows" if part == "age_s_p10" else "the median row"
    words = f"{which} of {view} is {_hours_of(new)} old ({was(_hours_of(old), day)})"
    return Score(view, times, words, known=days.weekday_known)


def _hours_of(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
