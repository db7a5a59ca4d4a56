"""What the inputs are to each other: which is the log, what its keys and labels are, and which tables lie around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ctr_samples.errors import InputError
from ctr_samples.starter import words as w
from ctr_samples.starter.tables import Column, Table, is_there, sql_text
from ctr_samples.starter.times import Time, words_of

_CLICKED_LIST = re.compile(r"\S+-[01](?: \S+-[01])*")
_ITEM_LIST = re.compile(r"\[\s*[^\[\]{}]*\]")
_CODED_ID = re.compile(r"[A-Za-z]{1,8}\d+")
_YES = ({"0", "1"}, {"true", "false"}, {"y", "n"}, {"yes", "no"}, {"t", "f"})
_TRUE = ("1", "true", "y", "yes", "t")
_MOST_RATINGS = 20
_MOST_ACTIONS = 40
_ENOUGH = 1.2
"""Points from which two columns are taken for the same key."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A label that an impression's own row holds."""

    column: Column
    expr: str
    rate: float
    why: str


@dataclass(frozen=True, slots=True)
class Match:
    """A column of a table that holds the values of a log's or another table's column."""

    own: Column
    table: Table
    column: Column
    overlap: float
    points: float


@dataclass(frozen=True)
class Log:
    """The input of the impressions, and what its columns are."""

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
    flags: tuple[Flag, ...] = ()
    others: dict[str, Column] = field(default_factory=dict)
    """More keys by name, on which tables are joined."""

    @property
    def when(self) -> Time | None:
        """Its time."""
        return self.time.time if self.time is not None else None

    @cached_property
    def impressions(self) -> list[int]:
        """The rows of the sample that show something."""
        if self.action is None:
            return list(range(self.table.rows))
        return [row for row, value in enumerate(self.action.values) if value == self.shown]

    @cached_property
    def explodes(self) -> bool:
        """Whether a row shows a list."""
        if self.item is None or self.clicked_list is not None:
            return False
        shown = self.item.of(self.impressions).present
        return self.item.is_list or sum(map(_holds_list, shown)) > 0.05 * len(shown)

    @property
    def has_labels(self) -> bool:
        """Whether the log itself says what was clicked."""
        return any(one is not None for one in (self.action, self.clicked_list, self.ratings)) or bool(self.flags)

    @property
    def item_name(self) -> str:
        """What the key of what was shown is called: lists need the name that their key of the configuration has."""
        return "article" if self.explodes else "item"

    @property
    def item_expr(self) -> str | None:
        """The key of what was shown."""
        if self.clicked_list is not None:
            return "regexp_replace(shown, '-[01]$', '')"
        return None if self.item is None else self.item.expr if self.explodes else w.key_expr(self.item)

    @cached_property
    def items(self) -> set[str]:
        """What the sample shows."""
        column = self.clicked_list or self.item
        return _values(column) if column is not None else set()

    @property
    def tells_rows_apart(self) -> bool:
        """Whether each row has a request of its own."""
        return self.request is not None and len(self.request.distinct) == self.table.rows

    @property
    def taken(self) -> list[Column]:
        """The columns that have a role."""
        columns = [self.action, self.clicked_list, self.time, self.user, self.item, self.request, self.position]
        more = [self.ratings, *(flag.column for flag in self.flags), *self.others.values()]
        return [column for column in [*columns, *more] if column is not None]

    @cached_property
    def least_liked(self) -> Any:
        """The rating from which on about half of the ratings are."""
        if self.ratings is None:
            return None
        present = self.ratings.present
        values = sorted(self.ratings.distinct)[1:]
        return min(values, key=lambda value: abs(sum(one >= value for one in present) / len(present) - 0.5))

    @cached_property
    def outcomes(self) -> list[list[bool]]:
        """For each label of the row, which rows are positive."""
        found = [[_as_text(value) in _TRUE for value in flag.column.values] for flag in self.flags]
        if self.ratings is not None:
            found.append([is_there(value) and value >= self.least_liked for value in self.ratings.values])
        return found

    @property
    def prior(self) -> float:
        """How often the first label is positive in the sample, for what was never shown before."""
        if self.clicked_list is not None:
            marks = [item[-1] for value in self.clicked_list.present for item in str(value).split(" ")]
            return float(f"{marks.count('1') / len(marks):.2g}")
        return float(f"{sum(self.outcomes[0]) / len(self.outcomes[0]):.2g}") if self.outcomes else 0.1

    @property
    def actions(self) -> dict[str, int]:
        """The other values of the column of actions, and how often the sample has them."""
        if self.action is None:
            return {}
        found = [str(value) for value in self.action.present if value != self.shown]
        return {value: found.count(value) for value in sorted(set(found), key=found.index)}


def _holds_list(value: object) -> bool:
    return _ITEM_LIST.fullmatch(str(value)) is not None


def find_log(tables: Sequence[Table]) -> Log:
    """The log of impressions among the inputs, with its roles. InputError where none of them can be one."""
    return max((_log_of(table) for table in tables), key=lambda log: (_points(log), log.table.bytes))


def _points(log: Log) -> float:
    table = log.table
    points = 8.0 * bool(log.action) + 8 * bool(log.clicked_list) + 3 * bool(log.flags) + 3 * bool(log.ratings)
    points += 2 * bool(log.user) + 2 * bool(log.item) + 2 * bool(log.when and log.when.has_clock)
    points += 2 * bool(frozenset(words_of(table.name)) & w.LOG) + 3 * bool(frozenset(words_of(table.name)) & w.SHOWN)
    first = log.user or log.item or (table.columns[0] if table.columns else None)
    unique = first is not None and table.rows > 1 and len(first.distinct) == table.rows
    return points - 4 * (unique and not (log.flags or log.action or log.clicked_list))


def _log_of(table: Table) -> Log:
    action, shown = _actions(table)
    clicked = table.find(
        lambda c: c.is_text and bool(c.present) and all(_CLICKED_LIST.fullmatch(v) for v in c.present[:2000])
    )
    clicked = clicked if clicked is not None and any("-1" in value for value in clicked.present) else None
    time = _time(table)
    user = table.find(lambda c: w.names_key(c, w.USER)) or _coded_user(table, time, clicked)
    item = table.find(
        lambda c: w.names_key(c, w.ITEM) or (c.is_list and bool(w.words(c) & w.ITEM) and w.words(c) <= w.ITEM | w.ID)
    )
    taken = [column for column in (user, item, time, clicked, action) if column is not None]
    rest = [column for column in table.columns if not any(column is one for one in taken)]
    log = Log(table, action, shown, clicked, time, user, item)
    request = _request(log, rest)
    position = next((c for c in rest if w.words(c) & w.POSITION and c.kind == "BIGINT"), None)
    flags = tuple(_flags(rest)) if action is None else ()
    ratings = next((c for c in rest if _is_rating(c, named=True)), None) if action is None else None
    if not flags and ratings is None and action is None and clicked is None:
        ratings = next((c for c in rest if not c.named and _is_rating(c, named=False)), None)
        flags = () if ratings is not None else tuple(_unnamed_flag(rest))
    return replace(log, request=request, position=position, flags=flags, ratings=ratings)


def _actions(table: Table) -> tuple[Column | None, str | None]:
    """The column that says what a row is, and its value for what was shown."""
    for column in table.columns:
        if not column.is_text or not 2 <= len(column.distinct) <= _MOST_ACTIONS:
            continue
        for value in sorted(map(str, column.distinct)):
            if frozenset(words_of(value)) & w.SHOWN and len(words_of(value)) <= 2:
                return column, value
    return None, None


def _time(table: Table) -> Column | None:
    """The column that says when: one with a clock, rather than days, and the one with most different values."""
    times = [
        c
        for c in table.columns
        if c.time is not None and len(c.present) > 0.5 * len(c.values) and not w.words(c) & w.BIRTH
    ]
    return max(times, key=lambda c: (c.time is not None and c.time.has_clock, len(c.distinct)), default=None)


def _coded_user(table: Table, time: Column | None, clicked: Column | None) -> Column | None:
    """In a log without names: text such as ``U123`` that comes back."""
    if time is None or any(column.named for column in table.columns):
        return None
    for column in table.columns:
        some = [str(value) for value in column.present[:500]]
        if column is not clicked and column.is_text and some and all(_CODED_ID.fullmatch(value) for value in some):
            return column
    return None


def _request(log: Log, rest: Sequence[Column]) -> Column | None:
    """A number of the row or of the list: named so, or a made-up name and different in each row."""
    for column in rest:
        named = w.names_key(column, w.REQUEST) or column.name.lower() in ("id", "row")
        if not (named or not column.named) or column.kind not in ("BIGINT", "STRING") or column.time is not None:
            continue
        unique = len(column.distinct) == log.table.rows and log.table.rows > 1
        counted = column.kind == "BIGINT" and unique
        if (named and (unique or log.action is None)) or (not column.named and counted):
            return column
    return None


def _flags(columns: Sequence[Column]) -> Iterator[Flag]:
    for column in columns:
        said = w.words(column)
        if (said & w.LABEL or {"long", "view"} <= said) and (flag := _flag(column)):
            yield flag


def _flag(column: Column) -> Flag | None:
    """A column of two values as a condition; None if it is no flag."""
    texts = {_as_text(value) for value in column.distinct}
    if not texts or not any(texts <= kind for kind in _YES):
        return None
    yes = [value for value in column.present if _as_text(value) in _TRUE]
    if column.kind in ("BOOLEAN", "BIGINT"):
        expr = column.expr
    elif column.kind == "STRING":
        written = sorted(str(value) for value in column.distinct if _as_text(value) in _TRUE)
        expr = f"{column.expr} = {sql_text(written[0] if written else '1')}"
    else:
        expr = f"{column.expr} = 1"
    rate = len(yes) / max(1, len(column.values))
    values = ", ".join(sorted(map(str, column.distinct)))
    return Flag(column, expr, rate, f"values {values}; {rate:.2%} of the sample are positive")


def _as_text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value).lower()


def _unnamed_flag(columns: Sequence[Column]) -> Iterator[Flag]:
    """Where no name tells: the first column of two values."""
    for column in columns:
        flag = _flag(column)
        if flag is not None and len(column.distinct) == 2 and len(column.present) == len(column.values):
            yield replace(flag, why=f"the first column with two values; {flag.rate:.2%} of the sample are positive")
            return


def _is_rating(column: Column, *, named: bool) -> bool:
    if not column.is_number or not 2 < len(column.distinct) <= _MOST_RATINGS:
        return False
    if named:
        return bool(w.words(column) & w.RATING)
    return all(0 < value <= 5 and 2 * value == int(2 * value) for value in column.distinct)


# --- tables around the log


def best_match(own: Sequence[Column], table: Table) -> Match | None:
    """The column of a table that holds the values of one of some columns."""
    found = [match for one in own for column in table.columns if (match := _match(one, table, column))]
    return max(found, key=lambda match: match.points, default=None)


def _match(own: Column, table: Table, column: Column) -> Match | None:
    fits = column.kind in ("BIGINT", "STRING") or w.names_key(column, w.USER | w.ITEM)
    if not fits or (column.time is not None and not w.is_identifier(column)):
        return None
    mine, theirs = _values(own), w.key_texts(column)
    both = len(mine & theirs)
    if not both:
        return None
    overlap, coverage = both / len(mine), both / len(theirs)
    said = w.words(own) - w.ID
    points = (
        overlap + 0.5 * coverage + bool(said & w.words(column)) + 0.6 * bool(said & frozenset(words_of(table.name)))
    )
    points += 0.3 * (len(column.distinct) == table.rows) + 0.2 * (column is table.columns[0])
    alike = bool(said & w.words(column))
    return Match(own, table, column, overlap, points) if points >= _ENOUGH and (overlap >= 0.3 or alike) else None


def _values(column: Column) -> set[str]:
    """The keys of a column; those in lists where it holds lists."""
    if column.is_list:
        return {str(item) for value in column.present for item in value}
    if column.is_text and any(str(value).startswith("[") for value in column.present[:100]):
        return {item for value in column.present for item in re.findall(r"[^\s\[\],\"]+", str(value))}
    if column.is_text and column.present and all(_CLICKED_LIST.fullmatch(str(value)) for value in column.present[:100]):
        return {item.rpartition("-")[0] for value in column.present for item in str(value).split(" ")}
    return w.key_texts(column)


def require_labels(log: Log, has_actions: bool) -> None:
    """InputError for a log from which no label follows."""
    if log.has_labels or has_actions:
        return
    names = ", ".join(column.name for column in log.table.columns[:20])
    raise InputError(
        f"No input says what was clicked: {log.table.name} has the columns {names}, and none is a flag such as click, a "
        "rating, or names actions such as exposure and click. Name the log of what was shown, and that of the actions."
    )
