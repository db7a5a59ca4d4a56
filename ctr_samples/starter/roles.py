"""Roles of the inputs: the impression log, its key and label columns, and the logs of later actions.

Roles are inferred from values, or from names if values are inconclusive. Keys are shared between inputs, a request has
one user and one time, and an item determines its attributes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations, product
from typing import Any

from ctr_samples.errors import UsageError
from ctr_samples.starter import words as w
from ctr_samples.starter.flags import Flag, flag_of, is_positive, is_rating, named_flags, unnamed_flag
from ctr_samples.starter.followers import Follower, followers_of, time_column
from ctr_samples.starter.links import CLICKED_LIST, best_match, determines, is_brief, is_unique, rows_of, values_of
from ctr_samples.starter.outcomes import follows
from ctr_samples.starter.tables import Column, Table, is_there
from ctr_samples.starter.times import Time, words_of

_ITEM_LIST = re.compile(r"\[\s*[^\[\]{}]*\]")
_KINDS = w.CATEGORY - w.ID
_COUNTED_ID = re.compile(r"[^\W\d_]{1,8}[-_]?\d+")
_CODED_ID = re.compile(r"(?=\S*\d)(?=\S*[^\W\d_])\S+|\d{12,}")
_MOST_KEYS = 8
_MANY = 20
_MOST_ACTIONS = 40


@dataclass(frozen=True, slots=True)
class Told:
    """The roles of inputs and log columns that the user specified."""

    log: str | None = None
    actions: tuple[str, ...] = ()
    item: str | None = None
    user: str | None = None
    request: str | None = None
    time: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Log:
    """The impression log with the roles of its columns."""

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
    followers: tuple[Follower, ...] = ()
    todo: str = ""
    """Open question about the keys."""
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
        return self.item.is_list or sum(map(_holds_list, shown)) > 0.05 * len(shown)

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
    def tells_rows_apart(self) -> bool:
        """Whether the request, or request and item together, identify a row."""
        if self.request is None:
            return False
        return is_unique(self.request) or (self.item is not None and _is_told_apart(self, self.request, self.item))

    @property
    def taken(self) -> list[Column]:
        """Columns that have a role."""
        columns = [self.action, self.clicked_list, self.time, self.user, self.item, self.request, self.position]
        more = [self.ratings, *(flag.column for flag in self.flags), *self.others.values()]
        return [column for column in [*columns, *more] if column is not None]

    @cached_property
    def least_liked(self) -> Any:
        """The rating threshold that about half of the ratings reach."""
        if self.ratings is None:
            return None
        present = self.ratings.present
        values = sorted(self.ratings.distinct)[1:]
        return min(values, key=lambda value: abs(sum(one >= value for one in present) / len(present) - 0.5))

    @cached_property
    def outcomes(self) -> list[list[bool]]:
        """A mask of positive rows for each label."""
        found = [is_positive(flag.column) for flag in self.flags]
        if self.ratings is not None:
            found.append([is_there(value) and value >= self.least_liked for value in self.ratings.values])
        found += [follower.followed() for follower in self.followers if not found]
        return found or _acted_on(self)

    @property
    def prior(self) -> float:
        """The positive rate of the first label in the sample, used as the prior for new items."""
        if self.clicked_list is not None:
            marks = [item[-1] for value in self.clicked_list.present for item in str(value).split(" ")]
            return float(f"{marks.count('1') / len(marks):.2g}")
        own = self.outcomes if self.flags or self.ratings is not None else []
        return float(f"{sum(own[0]) / len(own[0]):.2g}") if own else 0.1

    @property
    def actions(self) -> dict[str, int]:
        """How often each value of the action column occurs in the sample, except the impression value."""
        if self.action is None:
            return {}
        found = [str(value) for value in self.action.present if value != self.shown]
        return {value: found.count(value) for value in sorted(set(found), key=found.index)}


def _holds_list(value: object) -> bool:
    return _ITEM_LIST.fullmatch(str(value)) is not None


def _acted_on(log: Log) -> list[list[bool]]:
    """Return a mask of impressions with a later action of the same user, for a log of impressions and actions."""
    if log.action is None or log.item is None or log.user is None or log.explodes:
        return []
    pairs, shown = rows_of([log.user, log.item]), set(log.impressions)
    acted = {pair for row, pair in enumerate(pairs) if row not in shown}
    return [[pairs[row] in acted for row in log.impressions]]


# --- choice of the log


def find_log(tables: Sequence[Table], told: Told = Told()) -> Log:
    """Find the impression log among the inputs, with its roles. Raise UsageError if ``told`` names an unknown input or
    column.
    """
    names = [table.name for table in tables]
    for name in (*told.actions, *([told.log] if told.log else [])):
        if name not in names:
            raise UsageError(f"There is no input {name}; the inputs are {', '.join(names)}.")
    candidates = [table for table in tables if told.log in (None, table.name) and table.name not in told.actions]
    if not candidates:
        raise UsageError("All inputs are named by `--actions`; one must be the log of what was shown.")
    for role in ("item", "user", "request", "time", "label"):
        name = getattr(told, role)
        having = [table for table in candidates if name is None or _find(table, name)]
        if not having:
            said = "; ".join(f"{t.name} has {', '.join(c.called for c in t.columns[:40])}" for t in candidates)
            raise UsageError(f"There is no column {name} for `--{role}`: {said}.")
        candidates = having
    logs = [_log_of(table, [one for one in tables if one is not table], told) for table in candidates]
    return max(logs, key=lambda log: (_points(log, tables), log.table.bytes))


def _points(log: Log, tables: Sequence[Table]) -> float:
    table = log.table
    points = 8.0 * bool(log.action) + 8 * bool(log.clicked_list) + 3 * bool(log.ratings) + 6 * len(log.followers)
    points += max((0.5 if flag.todo else 3.0 for flag in log.flags), default=0.0)
    points += 2 * bool(log.user) + 2 * bool(log.item) + 3 * bool(log.when and log.when.has_clock)
    points += 2 * bool(frozenset(words_of(table.name)) & w.LOG) + 3 * bool(frozenset(words_of(table.name)) & w.SHOWN)
    others = [one for one in tables if one is not table]
    refers = sum(_refers(table, one) for one in others)
    return points + 2 * min(2, refers) - 5 * any(_refers(one, table) for one in others)


def _refers(one: Table, other: Table) -> bool:
    """Whether rows of a table reference rows of ``other``."""
    repeated = [column for column in one.columns if column.may_be_key and not is_unique(column)]
    return best_match(repeated, _of_keys(other)) is not None


# --- roles of the columns of a log


def _log_of(table: Table, others: Sequence[Table], told: Told) -> Log:
    clicked = table.find(
        lambda c: c.is_text and bool(c.present) and all(CLICKED_LIST.fullmatch(v) for v in c.present[:2000])
    )
    clicked = clicked if clicked is not None and any("-1" in value for value in clicked.present) else None
    time = _find(table, told.time) or time_column(table)
    action, shown = _actions(table) if told.label is None else (None, None)
    followers = tuple(followers_of(table, time, others, told.actions)) if action is None and told.label is None else ()
    log = Log(table, action, shown, clicked, time, followers=followers)
    log = _with_keys(log, [one for one in others if all(one is not follower.table for follower in followers)], told)
    if action is None and clicked is None and not followers and told.label is None:
        action, shown = _actions_by_values(log)
        log = replace(log, action=action, shown=shown)
    log = replace(log, position=_position(log))
    rest = [column for column in table.columns if not any(column is one for one in log.taken)]
    label = _find(table, told.label)
    if label is not None:
        flag = flag_of(label)
        if flag is None and not label.is_number:
            raise UsageError(f"--label {label.name} has {len(label.distinct)} values; expected a flag or a number.")
        return replace(log, flags=(flag,) if flag else (), ratings=None if flag else label, followers=())
    if action is not None or clicked is not None or followers:
        return log
    flags = tuple(named_flags(rest))
    ratings = next((c for c in rest if is_rating(c, named=True)), None)
    if not flags and ratings is None:
        flags = tuple(unnamed_flag([key for key in (log.user, log.item) if key is not None], rest))
    if not flags and ratings is None and log.time is not None:
        ratings = next((c for c in rest if is_rating(c, named=False)), None)
    return replace(log, flags=flags, ratings=ratings)


def _find(table: Table, name: str | None) -> Column | None:
    """Return the column that the user named."""
    return None if name is None else table.find(lambda c: name in (c.name, c.expr, c.title))


def _actions(table: Table) -> tuple[Column | None, str | None]:
    """Find the column that holds the kind of each row, and its value for impressions."""
    for column in table.columns:
        if not column.is_text or not 2 <= len(column.distinct) <= _MOST_ACTIONS:
            continue
        for value in sorted(map(str, column.distinct)):
            if frozenset(words_of(value)) & w.SHOWN and len(words_of(value)) <= 2:
                return column, value
    return None, None


def _actions_by_values(log: Log) -> tuple[Column | None, str | None]:
    """Find a text column in which rare values nearly always follow the most frequent value with the same keys."""
    keys = [column for column in (log.user, log.item) if column is not None]
    if len(keys) < 2 or log.time is None:
        return None, None
    order = [row for _, row in sorted((at, row) for row, at in enumerate(log.time.instants) if at)]
    pairs = rows_of(keys)
    for column in log.table.columns:
        if not column.is_text or not 2 <= len(column.distinct) <= 12 or any(column is key for key in keys):
            continue
        usual = max(column.distinct, key=column.present.count)
        shown: set[tuple[str | None, ...]] = set()
        after, others, again = 0, 0, 0
        for row in order:
            if column.values[row] == usual:
                again += pairs[row] in shown
                shown.add(pairs[row])
            else:
                others += 1
                after += pairs[row] in shown
        if others >= 10 and after >= 0.8 * others and again <= 0.4 * (len(order) - others):
            return column, str(usual)
    return None, None


def _with_keys(log: Log, around: Sequence[Table], told: Told) -> Log:
    """Return the log with its user, item and request, and a question if the evidence is ambiguous."""
    table, roles = log.table, (log.action, log.clicked_list, log.time)
    own = [c for c in table.columns if c.may_be_key and len(c.keys) > 2 and not any(c is one for one in roles)]
    shared = {id(match.own) for follower in log.followers for match in follower.matches}
    repeated = [column for column in own if not is_unique(column)]
    keyed = {id(match.own): match.table for one in around if (match := best_match(repeated, _of_keys(one)))}
    lists = _list_of(log, repeated, shared)
    request = _find(table, told.request) or lists or _row_number(log, own, shared)
    own = [column for column in own if column is not request]
    points = {id(c): _key_points(log, c, keyed.get(id(c)), shared=id(c) in shared, lists=lists) for c in own}
    _count_attributes(own, points)
    user, item = _find(table, told.user), _find(table, told.item) or _list_column(table, around)
    users = [user] if user else [*own, None]
    items = [item] if item else [None] if log.clicked_list else [*own, None]

    def sum_of(one: Column | None, other: Column | None) -> float:
        first, second = (points.get(id(c), (_LEAST, _LEAST)) for c in (one, other))
        return first[0] + second[1]

    chosen = max(
        ((one, other) for one, other in product(users, items) if one is not other or one is None),
        key=lambda pair: sum_of(*pair),
    )
    said = _doubt(*chosen, told, sum_of(*chosen), sum_of(*reversed(chosen)))
    if (
        request is not None
        and not is_unique(request)
        and told.request is None
        and not _is_told_apart(log, request, chosen[1])
    ):
        request = None
    return replace(log, user=chosen[0], item=chosen[1], request=request, todo=said)


def _doubt(user: Column | None, item: Column | None, told: Told, points: float, swapped: float) -> str:
    if user is None or item is None or (told.user and told.item) or item.is_list or points - swapped > 1:
        return ""
    return (
        f"is {item.called} what was shown, and {user.called} the user? If it is the other way round: `--item {user.called} "
        f"--user {item.called}`"
    )


def _of_keys(table: Table) -> Table:
    """Keep only the columns that identify the rows of a table, or of each day of a snapshot."""
    return replace(table, columns=[column for column in table.columns if is_unique(column, table.row_days)])


_LEAST = 0.5
"""Minimum score of a key column."""


def _key_points(
    log: Log, column: Column, keyed: Table | None, *, shared: bool, lists: Column | None
) -> tuple[float, float]:
    """Score a column as a user key and as an item key."""
    user = item = 2.0 * shared - 5.0 * is_unique(column)
    if w.names_key(column, w.USER):
        user, item = user + 4, item - 4
    elif w.names_key(column, w.ITEM):
        user, item = user - 4, item + 4
    if keyed is not None:
        said = frozenset(words_of(keyed.name))
        user, item = (
            user + 2 + bool(said & w.USER) - 2 * bool(said & w.ITEM),
            item + 2 + bool(said & w.ITEM) - 2 * bool(said & w.USER),
        )
    if lists is not None and not determines(column, lists):
        varies = not determines(lists, column)
        user += 2 * (not varies and len(column.keys) >= _MANY)
        item += varies * (item > 0 or _looks_coded(column)) - 2 * (not varies)
    if w.names_key(column, w.REQUEST) and not is_unique(column):
        item += 1  # a value that recurs at other times is not a request
    if log.time is not None and not (user or item) and _looks_coded(column) and not _is_outcome(log, column):
        return 0.6, 0.65
    # A key shared with only one other table is more likely an item than a user.
    return user, item + 0.1 * (item > 0)


def _looks_coded(column: Column) -> bool:
    """Whether values may be ids regardless of the column name: recurring codes, or unnamed integers."""
    some = [str(value) for value in column.present[:500]]
    counted = column.is_text and all(_COUNTED_ID.fullmatch(value) for value in some)
    if not (5 if counted else _MANY) <= len(column.keys) <= 0.9 * len(column.present) or w.words(column) & _KINDS:
        return False
    if column.is_text:
        return counted or all(_CODED_ID.fullmatch(value) for value in some)
    return w.ends_as_key(column) or not column.named or min(column.distinct) >= 1000


def _is_outcome(log: Log, column: Column) -> bool:
    """Whether a column depends on a flag, as time spent depends on a click."""
    flags = [one for one in log.table.columns if len(one.distinct) == 2 and flag_of(one) is not None]
    return any(follows(column, is_positive(flag)) for flag in flags)


def _count_attributes(own: Sequence[Column], points: dict[int, tuple[float, float]]) -> None:
    """Lower the item score of columns that are unlikely to be the item.

    These are attributes, which depend on a different key as a brand depends on the item, and keys with a single user
    each.
    """
    likely = sorted((c for c in own if max(points[id(c)]) > _LEAST), key=lambda c: -max(points[id(c)]))[:_MOST_KEYS]
    for one, other in permutations(likely, 2):
        if len(one.keys) > len(other.keys) and not is_unique(one) and determines(one, other):
            user, item = points[id(other)]
            points[id(other)] = (user, item - 3)
            user, item = points[id(one)]
            if points[id(other)][0] > 2:
                points[id(one)] = (user, item - 3)


def _is_told_apart(log: Log, request: Column, item: Column | None) -> bool:
    """Whether each request shows an item at most once, so that request and item identify an impression."""
    if item is None or log.action is not None:
        return True
    pairs = rows_of([request, item])
    return len(set(pairs)) >= 0.95 * len(pairs)


def _list_of(log: Log, repeated: Sequence[Column], shared: set[int]) -> Column | None:
    """Find the key of a list of items shown together, which recurs only within a short time."""
    for column in sorted(repeated, key=lambda c: (id(c) not in shared, not w.names_key(c, w.REQUEST))):
        likely = (w.names_key(column, w.REQUEST) or id(column) in shared) and not w.names_key(column, w.USER | w.ITEM)
        if likely and len(column.keys) >= 10 and (log.time is None or is_brief(column, log.time)):
            return column
    return None


def _row_number(log: Log, own: Sequence[Column], shared: set[int]) -> Column | None:
    """Find a column that identifies each row: a key shared with another log, an id-like name, or a row number."""
    for column in sorted(own, key=lambda c: id(c) not in shared):
        named = w.names_key(column, w.REQUEST) or column.name.lower() in ("id", "row")
        counted = column.kind == "BIGINT" and not column.named
        if is_unique(column) and (named or counted or id(column) in shared):
            return column
    return None


def _list_column(table: Table, around: Sequence[Table]) -> Column | None:
    """Find the column with the list of shown items, by its name or by keys of another table."""
    named = table.find(lambda c: _holds_lists(c) and bool(w.words(c) & w.ITEM) and w.words(c) <= w.ITEM | w.ID)
    if named is not None or any(w.names_key(column, w.ITEM) for column in table.columns):
        return named
    lists = [c for c in table.columns if _holds_lists(c)]
    found = [match for one in around if (match := best_match(lists, _of_keys(one)))]
    return found[0].own if found and len({id(match.own) for match in found}) == 1 else None


def _holds_lists(column: Column) -> bool:
    whole = column.is_list and "STRUCT" not in column.kind and "DOUBLE" not in column.kind
    return whole or (column.is_text and bool(column.present) and all(map(_holds_list, column.present[:100])))


def _position(log: Log) -> Column | None:
    """Find the column with the list position, by its name, or as a small number that is unique within a request."""
    rest = [c for c in log.table.columns if c.kind == "BIGINT" and not any(c is one for one in log.taken)]
    named = next((c for c in rest if w.words(c) & w.POSITION), None)
    if named is not None or log.request is None or is_unique(log.request) or log.action is not None:
        return named
    for column in rest:
        pairs = set(zip(log.request.texts, column.texts, strict=True))
        if 2 < len(column.keys) <= 100 and min(column.present) in (0, 1) and len(pairs) >= 0.99 * log.table.rows:
            return column
    return None
