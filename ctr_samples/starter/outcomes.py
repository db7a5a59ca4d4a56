"""Columns known only after the impression, because their values depend on a label.

A column is omitted if one of these conditions holds in the sample, beyond chance:

- In rows with a non-zero value, the label is nearly always positive, as with the play time of a click.
- In rows with a non-zero value, the label is never positive, as with "not interested" and "interested".
- The label is positive only in rows with a non-zero value, as a purchase requires a click.
- The number itself, or the category of a column with few values, predicts the label (AUC above 0.95).
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
"""Minimum number of rows per category for a meaningful positive rate."""
_MANY = 0.8
"""Share of rows above which a property is too common to be informative."""
_NEVER = 1e-5
"""Probability below which a coincidence is ruled out."""
_NEUTRAL = frozenset(["0", "0.0", "false", "no", "n", "none", "null", "-", "[]"])


def tells(column: Column, outcomes: Sequence[Sequence[bool]]) -> str | None:
    """Explain why a column seems to be known only after a label. Return None if nothing suggests it."""
    if outcomes and w.words(column) & w.OUTCOME and column.is_number:
        return "its name says that it is known only afterwards"
    return next((why for positive in outcomes if (why := follows(column, positive))), None)


def follows(column: Column, positive: Sequence[bool]) -> str | None:
    """Explain why column values seem to depend on a label, given its positive rows. Return None if nothing suggests it."""
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
    """Return a score per row: the positive rate of its category if categories are few, else the number itself."""
    if len(column.distinct) > min(_FEW, len(positive) // _ROWS_OF_EACH):
        return [float(value) if is_there(value) and column.is_number else 0.0 for value in column.values]
    shown, liked = Counter(map(str, column.values)), Counter[str]()
    for value, yes in zip(column.values, positive, strict=True):
        liked[str(value)] += yes
    return [liked[str(value)] / shown[str(value)] for value in column.values]


def _area(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """Return the area under the ROC curve, where ties count half."""
    negatives = Counter(score for score, yes in zip(scores, positive, strict=True) if not yes)
    positives = Counter(score for score, yes in zip(scores, positive, strict=True) if yes)
    below, won = 0, 0.0
    for score in sorted({*negatives, *positives}):
        won += positives[score] * (below + negatives[score] / 2)
        below += negatives[score]
    return won / (positives.total() * negatives.total())
