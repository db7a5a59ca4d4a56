"""Labels in the impression row: flags and ratings, by name or by their effect on other columns; and columns that follow them.

A column is known only after the impression, and left out, if one of these holds in the sample, beyond chance:

- In rows with a non-zero value, a label is nearly always positive, as with the play time of a click.
- In rows with a non-zero value, a label is never positive, as with "not interested" and "interested".
- A label is positive only in rows with a non-zero value, as a purchase requires a click.
- The number itself, or the category of a column with few values, predicts a label (AUC above 0.95).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ctr_samples.starter import words as w
from ctr_samples.starter.links import determines
from ctr_samples.starter.questions import Candidate
from ctr_samples.starter.tables import Column, is_there, sql_text

_YES = tuple(
    {yes, no}
    for yes, no in (
        ("1", "0"), ("true", "false"), ("y", "n"), ("yes", "no"), ("t", "f"), ("ja", "nein"), ("oui", "non"), ("si", "no"),
        ("sí", "no"), ("sim", "não"), ("да", "нет"), ("是", "否"),
    )
)  # fmt: skip
_TRUE = frozenset("1 true y yes t ja oui si sí sim да 是".split())
_MOST_RATINGS = 20


@dataclass(frozen=True, slots=True)
class Flag:
    """A label in the impression row."""

    column: Column
    expr: str
    rate: float
    why: str


def named_flags(columns: Sequence[Column]) -> Iterator[Flag]:
    """Yield flags with label-like names, except negations such as `not_interested`."""
    for column in columns:
        said = w.words(column)
        if (
            not said & {"not", "no", "un", "dis"}
            and (said & w.LABEL or {"long", "view"} <= said)
            and (flag := flag_of(column))
        ):
            yield flag


def flag_of(column: Column) -> Flag | None:
    """Return a two-valued column as a condition, or None if the column is not a flag."""
    texts = {_as_text(value) for value in column.distinct}
    if not texts or not any(texts <= kind for kind in _YES):
        return None
    yes = [value for value in column.present if _as_text(value) in _TRUE]
    if column.kind in ("BOOLEAN", "BIGINT"):
        expr = column.sql()
    elif column.kind == "STRING":
        written = sorted(str(value) for value in column.distinct if _as_text(value) in _TRUE)
        expr = f"{column.expr} = {sql_text(written[0] if written else '1')}"
    else:
        expr = f"{column.sql()} = 1"
    rate = len(yes) / max(1, len(column.values))
    values = ", ".join(sorted(map(str, column.distinct)))
    return Flag(column, expr, rate, f"values {values}; {rate:.2%} of the sample are positive")


def is_positive(column: Column) -> list[bool]:
    """Return a mask of the rows in which a flag is positive."""
    return [_as_text(value) in _TRUE for value in column.values]


def _as_text(value: object) -> str:
    """Convert a flag value of any type to text."""
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value).lower()


def unnamed_flags(keys: Sequence[Column], columns: Sequence[Column]) -> Iterator[Candidate[Flag]]:
    """Yield the flags that no name calls a label: rows of one key differ in them, and other columns depend on them."""
    flags = [
        flag
        for column in columns
        if len(column.distinct) == 2 and len(column.present) == len(column.values) and (flag := flag_of(column))
    ]
    for flag in flags:
        positive = is_positive(flag.column)
        differs = not any(determines(key, flag.column) for key in keys)
        after = sum(follows(one, positive) is not None for one in columns if one is not flag.column)
        why = f"rows of one key {'differ in it' if differs else 'have one value'}; {flag.why}"
        yield Candidate(replace(flag, why=why), flag.column.called, why, (differs, after, flag.rate <= 0.5))


def unnamed_ratings(keys: Sequence[Column], columns: Sequence[Column]) -> Iterator[Candidate[Column]]:
    """Yield the numbers of few values in which rows of one key differ."""
    for column in columns:
        few = column.is_number and 2 < len(column.distinct) <= _MOST_RATINGS
        if few and not any(determines(key, column) for key in keys):
            why = f"a number with {len(column.distinct)} values, {min(column.present):g} to {max(column.present):g}"
            yield Candidate(column, column.called, why, (is_rating(column, named=False),))


def is_rating(column: Column, *, named: bool) -> bool:
    """Whether a column holds ratings, judged by its name or by values such as 0.5 to 5."""
    if not column.is_number or not 2 < len(column.distinct) <= _MOST_RATINGS:
        return False
    if named:
        return bool(w.words(column) & w.RATING)
    return all(0 < value <= 5 and 2 * value == int(2 * value) for value in column.distinct)


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
