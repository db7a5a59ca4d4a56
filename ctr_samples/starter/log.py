"""The log of what was shown, with the roles of its columns: its flags and ratings, and the columns that follow a label.

A column is known only after the impression, and left out, if one of these holds in the sample, beyond chance:

- In rows with a non-zero value, a label is nearly always positive, as with the play time of a click.
- In rows with a non-zero value, a label is never positive, as with "not interested" and "interested".
- A label is positive only in rows with a non-zero value, as a purchase requires a click.
- That there is a value, the number itself, or the category of a column with few values, predicts a label (AUC above 0.95).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pandas as pd

from ctr_samples.starter import words as w
from ctr_samples.starter.links import Follower, determines, is_unique, rows_of, values_of
from ctr_samples.starter.questions import Candidate
from ctr_samples.starter.tables import Column, Table, is_there, sql_text
from ctr_samples.starter.times import Time

_PAIRS = "1 0/true false/y n/yes no/t f/ja nein/oui non/si no/sí no/sim não/да нет/是 否"
_YES = {frozenset(pair.split()): pair.split()[0] for pair in _PAIRS.split("/")}
"""Two values that say yes and no, with the one that says yes."""
_TRUE = frozenset(_YES.values())
_MOST_RATINGS = 20


@dataclass(frozen=True, slots=True)
class Flag:
    """A label in the impression row."""

    column: Column
    expr: str
    rate: float
    why: str


def named_flags(columns: Sequence[Column]) -> list[Flag]:
    """Return flags with label-like names, except negations such as `not_interested`."""
    said = [(w.words(column), column) for column in columns]
    some = [c for names, c in said if names & w.LABEL or {"long", "view"} <= names if not names & w.NOT]
    return [flag for column in some if (flag := flag_of(column))]


def flag_of(column: Column) -> Flag | None:
    """Return a two-valued column as a condition, or None if the column is not a flag."""
    texts = {_as_text(value) for value in column.distinct}
    if not texts or not any(texts <= pair for pair in _YES):
        return None
    if column.kind in ("BOOLEAN", "BIGINT"):
        expr = column.sql()
    elif column.is_text:
        written = sorted(str(value) for value in column.distinct if _as_text(value) in _TRUE)
        expr = f"{column.expr} = {sql_text(written[0] if written else '1')}"
    else:
        expr = f"{column.sql()} = 1"
    rate = sum(is_positive(column)) / max(1, len(column.values))
    values = ", ".join(sorted(map(str, column.distinct)))
    return Flag(column, expr, rate, f"values {values}; {rate:.2%} of the sample are positive")


def is_positive(column: Column) -> list[bool]:
    """Return a mask of the rows in which a flag is positive."""
    return [_as_text(value) in _TRUE for value in column.values]


def _as_text(value: object) -> str:
    """Convert a flag value of any type to text."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).lower()


def unnamed_flags(keys: Sequence[Column], columns: Sequence[Column]) -> Iterator[Candidate[Flag]]:
    """Yield the flags that no name calls a label: rows of one key differ in them, and other columns follow them."""
    for column in columns:
        flag = flag_of(column)
        if flag is None or len(column.distinct) != 2 or len(column.present) < len(column.values):
            continue
        differs = not any(determines(key, column) for key in keys)
        after = sum(follows(one, is_positive(column)) is not None for one in columns if one is not column)
        why = f"rows of one key {'differ in it' if differs else 'have one value'}; {flag.why}"
        yield Candidate(replace(flag, why=why), column.called, why, (differs, after, flag.rate <= 0.5))


def unnamed_ratings(keys: Sequence[Column], columns: Sequence[Column]) -> Iterator[Candidate[Column]]:
    """Yield the numbers of few values in which rows of one key differ. Those of ratings are 0.5 to 5."""
    for column in filter(has_ratings, columns):
        if not any(determines(key, column) for key in keys):
            why = f"a number with {len(column.distinct)} values, {min(column.present):g} to {max(column.present):g}"
            halves = all(0 < value <= 5 and 2 * value == int(2 * value) for value in column.distinct)
            yield Candidate(column, column.called, why, (halves,))


def has_ratings(column: Column) -> bool:
    """Whether a column holds numbers of a few values."""
    return column.is_number and 2 < len(column.distinct) <= _MOST_RATINGS


# --- what is known only afterwards

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
    label = pd.Series(positive, dtype=bool)
    if not 0 < label.sum() < len(label):
        return None
    there = pd.Series([is_there(value) and str(value).lower() not in _NEUTRAL for value in column.values], dtype=bool)
    if 0 < there.sum() < len(there) and (said := _implies(there, label)):
        return said
    if not _ENOUGH <= label.sum() <= len(label) - _ENOUGH:
        return None
    for scores, what in ((there.astype(float), "that it is there"), (_scores(column, label), "its value")):
        area = _area(scores, label)
        if max(area, 1 - area) > _TOO_GOOD:
            return f"{what} tells a label (AUC {max(area, 1 - area):.2f}), so it seems to be known only afterwards"
    return None


def _implies(there: pd.Series[bool], label: pd.Series[bool]) -> str | None:
    both, some, positive = int((there & label).sum()), int(there.sum()), int(label.sum())
    share, rate = some / len(there), positive / len(label)
    if both >= 0.95 * some and rate <= _MANY and rate**both < _NEVER:
        return f"where it has a value the label is positive ({both:,} of {some:,} rows), so it seems to follow from it"
    if both <= 0.1 * rate * some and rate * some >= _ENOUGH and share <= _MANY:
        return (
            f"where it has a value the label is hardly ever positive ({both:,} of {some:,} rows), so it seems to follow"
        )
    if both >= 0.99 * positive and share <= _MANY and share**positive < _NEVER:
        return (
            f"the label is positive only where it has a value ({both:,} of {positive:,} rows), so it seems an outcome"
        )
    return None


def _scores(column: Column, label: pd.Series[bool]) -> pd.Series[float]:
    """Return a score per row: the positive rate of its category if categories are few, else the number itself."""
    if len(column.distinct) <= min(_FEW, len(label) // _ROWS_OF_EACH):
        return label.astype(float).groupby(pd.Series(column.values, dtype=object).map(str)).transform("mean")
    return pd.Series([float(value) if is_there(value) and column.is_number else 0.0 for value in column.values])


def _area(scores: pd.Series[float], label: pd.Series[bool]) -> float:
    """Return the area under the ROC curve, where ties count half."""
    positive = int(label.sum())
    won = scores.rank()[label].sum() - positive * (positive + 1) / 2
    return float(won / (positive * (len(label) - positive)))


# --- the log

_ITEM_LIST = re.compile(r"\[\s*[^\[\]{}]*\]")


@dataclass(frozen=True)
class Log:
    """The log of what was shown, with the roles of its columns."""

    table: Table
    action: Column | None = None
    shown: str | None = None
    clicked_list: Column | None = None
    time: Column | None = None
    user: Column | None = None
    item: Column | None = None
    request: Column | None = None
    position: Column | None = None
    ratings: Column | None = None
    flags: Sequence[Flag] = ()
    followers: Sequence[Follower] = ()
    others: dict[str, Column] = field(default_factory=dict)
    """Further join keys, by name."""

    @property
    def when(self) -> Time | None:
        """The timestamp of the log, if it has one."""
        return self.time.time if self.time is not None else None

    @cached_property
    def impressions(self) -> list[int]:
        """The sampled rows that are impressions."""
        if self.action is None:
            return list(range(self.table.rows))
        return [row for row, value in enumerate(self.action.values) if value == self.shown]

    @cached_property
    def explodes(self) -> bool:
        """Whether a row holds a list of items."""
        if self.item is None or self.clicked_list is not None:
            return False
        shown = self.item.of(self.impressions).present
        return self.item.is_list or sum(map(holds_list, shown)) > 0.05 * len(shown)

    @property
    def item_name(self) -> str:
        """Name of the item key. Lists need ``article``, the only key that a configuration can explode."""
        return "article" if self.explodes else "item"

    @property
    def item_expr(self) -> str | None:
        """SQL expression of the item key."""
        if self.clicked_list is not None:
            return "regexp_replace(shown, '-[01]$', '')"
        return None if self.item is None else self.item.expr if self.explodes else w.key_expr(self.item)

    @cached_property
    def items(self) -> frozenset[str]:
        """Items shown in the sample."""
        column = self.clicked_list or self.item
        return values_of(column) if column is not None else frozenset()

    @property
    def has_lists(self) -> bool:
        """Whether each request shows an item at one time, so that request and item identify an impression."""
        if self.request is None or self.item is None:
            return False
        rows = self.impressions
        pairs = rows_of([self.request.of(rows), self.item.of(rows)])
        times = self.time.of(rows).instants if self.time is not None else range(len(rows))
        return len(set(pairs)) >= 0.995 * len(set(zip(pairs, times, strict=True)))

    @property
    def tells_rows_apart(self) -> bool:
        """Whether the request, or request and item together, identify a row."""
        return self.request is not None and (is_unique(self.request) or self.has_lists)

    @property
    def taken(self) -> list[Column]:
        """Columns that have a role."""
        columns = [self.action, self.clicked_list, self.time, self.user, self.item, self.request, self.position]
        more = [self.ratings, *(flag.column for flag in self.flags), *self.others.values()]
        return [column for column in [*columns, *more] if column is not None]

    @property
    def rest(self) -> list[Column]:
        """Columns without a role."""
        return [column for column in self.table.columns if not any(column is one for one in self.taken)]

    @cached_property
    def least_liked(self) -> float:
        """The rating that about half of the ratings reach."""
        assert self.ratings is not None
        present = pd.Series(self.ratings.present)
        values: list[float] = sorted(self.ratings.distinct)[1:]
        return min(values, key=lambda value: abs((present >= value).mean() - 0.5))

    @cached_property
    def outcomes(self) -> list[list[bool]]:
        """A mask of positive impressions for each label."""
        found = [is_positive(flag.column) for flag in self.flags]
        if self.ratings is not None:
            found.append([is_there(value) and value >= self.least_liked for value in self.ratings.values])
        if (
            not found
            and self.action is not None
            and self.user is not None
            and self.item is not None
            and not self.explodes
        ):
            pairs, shown = rows_of([self.user, self.item]), set(self.impressions)
            acted = {pair for row, pair in enumerate(pairs) if row not in shown}
            return [[pairs[row] in acted for row in self.impressions]]
        return found or [follower.followed() for follower in self.followers]

    @cached_property
    def marks(self) -> list[bool]:
        """Whether each item of the lists with marks was clicked."""
        lists = self.clicked_list.present if self.clicked_list is not None else []
        return [item.endswith("-1") for value in lists for item in str(value).split(" ")]

    @property
    def prior(self) -> float:
        """The positive rate of the first label in the sample, used as the prior for new items."""
        marks = self.outcomes[0] if self.flags or self.ratings is not None else self.marks
        return float(f"{sum(marks) / len(marks):.2g}") if marks else 0.1

    @property
    def actions(self) -> dict[str, int]:
        """How often each value of the action column occurs in the sample, except the impression value, most frequent first."""
        values = self.action.present if self.action is not None else []
        return dict(Counter(str(value) for value in values if value != self.shown).most_common())


def holds_list(value: object) -> bool:
    """Whether a value is a list that is written as text, such as ``[18577, 14299]``."""
    return _ITEM_LIST.fullmatch(str(value)) is not None
