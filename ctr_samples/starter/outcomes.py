"""Columns known only after the impression: their values follow from a label.

A column is left out if one of these holds in the sample, beyond chance:

- where it has a value other than 0, the label is nearly always positive, as with the time played of a click;
- there the label is never positive, as with "not interested" beside "interested";
- the label is positive only there, as a purchase is only after a click;
- one of a few values, or the number itself, predicts the label (AUC above 0.95).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ctr_samples.starter import words as w
from ctr_samples.starter.tables import Column, is_there

_TOO_GOOD = 0.95
_ENOUGH = 20
_FEW = 32
_ROWS_OF_EACH = 50
"""With fewer rows per category, its share of positives says little."""
_MANY = 0.8
"""If a larger share of rows has a property, it says little."""
_NEVER = 1e-5
"""Probability below which something is no accident."""
_NEUTRAL = frozenset(["0", "0.0", "false", "no", "n", "none", "null", "-", "[]"])


def tells(column: Column, outcomes: Sequence[Sequence[bool]]) -> str | None:
    """Return why a column seems known only after some label; None if nothing suggests it."""
    if outcomes and w.words(column) & w.OUTCOME and column.is_number:
        return "its name says that it is known only afterwards"
    return next((why for positive in outcomes if (why := follows(column, positive))), None)


def follows(column: Column, positive: Sequence[bool]) -> str | None:
    """Return why a column's values seem to follow from a label, given the positive rows; None if they do not."""
    rate = sum(positive) / max(1, len(positive))
    if not 0 < rate < 1:
        return None
    there = [is_there(value) and str(value).lower() not in _NEUTRAL for value in column.values]
    if 0 < sum(there) < len(there) and (said := _implies(there, positive, rate)):
        return said
    if not _ENOUGH <= sum(positive) <= len(positive) - _ENOUGH:
        return None
    for scores, what in ((there, "that it is there"), (_scores(column, positive), "its value")):
        area = _area(scores, positive)
        if max(area, 1 - area) > _TOO_GOOD:
            return f"{what} tells a label (AUC {max(area, 1 - area):.2f}), so it seems to be known only afterwards"
    return None


def _implies(there: Sequence[bool], positive: Sequence[bool], rate: float) -> str | None:
    both, some, all_positive = sum(map(min, there, positive)), sum(there), sum(positive)
    share = some / len(there)
    if both >= 0.95 * some and rate <= _MANY and rate**both < _NEVER:
        return f"where it has a value the label is positive ({both:,} of {some:,} rows), so it seems to follow from it"
    if both <= 0.1 * rate * some and rate * some >= _ENOUGH and share <= _MANY:
        return (
            f"where it has a value the label is hardly ever positive ({both:,} of {some:,} rows), so it seems to follow"
        )
    if both >= 0.99 * all_positive and share <= _MANY and share**all_positive < _NEVER:
        return f"the label is positive only where it has a value ({both:,} of {all_positive:,} rows), so it seems an outcome"
    return None


def _scores(column: Column, positive: Sequence[bool]) -> list[float]:
    """Numbers unchanged; for a few categories with many rows each, the positive rate of each."""
    if len(column.distinct) > min(_FEW, len(positive) // _ROWS_OF_EACH):
        return [float(value) if is_there(value) and column.is_number else 0.0 for value in column.values]
    shown, liked = Counter(map(str, column.values)), Counter[str]()
    for value, yes in zip(column.values, positive, strict=True):
        liked[str(value)] += yes
    return [liked[str(value)] / shown[str(value)] for value in column.values]


def _area(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """Area under the ROC curve, ties counting half."""
    negatives = Counter(score for score, yes in zip(scores, positive, strict=True) if not yes)
    positives = Counter(score for score, yes in zip(scores, positive, strict=True) if yes)
    below, won = 0, 0.0
    for score in sorted({*negatives, *positives}):
        won += positives[score] * (below + negatives[score] / 2)
        below += negatives[score]
    return won / (positives.total() * negatives.total())
