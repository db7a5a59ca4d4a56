"""Which input is the log of what was shown, which columns are its keys and labels, and which inputs followed.

Each role is a question. Its candidates come from simple evidence: types, uniqueness, values that inputs share, values that
determine others, and names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ctr_samples.errors import UsageError
from ctr_samples.starter import words as w
from ctr_samples.starter.links import (
    CLICKED_LIST,
    Match,
    best_match,
    comes_back,
    determines,
    followers_of,
    is_brief,
    is_unique,
    matches,
    of_keys,
    rows_of,
    time_column,
)
from ctr_samples.starter.log import Log, flag_of, has_ratings, holds_list, named_flags, unnamed_flags, unnamed_ratings
from ctr_samples.starter.questions import Answers, Candidate
from ctr_samples.starter.tables import Column, Table, unfolded
from ctr_samples.starter.times import words_of

_CODE = re.compile(r"(?=\S*\d)(?=\S*[^\W\d_])\S+|\d{12,}")
_MOST_ACTIONS = 40
_MOST_KINDS = 12
_FEWEST = 10
_MANY = 20
_FREQUENT = 100


def find_log(tables: Sequence[Table], answers: Answers) -> Log:
    """Find the log of what was shown, with its roles. Raise UsageError if an option names an unknown input or column."""
    names, followed_by = [table.name for table in tables], answers.names("actions")
    for name in (*followed_by, *answers.names("log")):
        if name.partition(".")[0] not in names:
            raise UsageError(f"There is no input {name}; the inputs are {', '.join(names)}.")
    some = [table for table in tables if table.name not in followed_by]
    if not some:
        raise UsageError("All inputs are named by `--actions`; one must be the log of what was shown.")
    some = sorted(_having(some, answers), key=lambda one: -one.bytes)
    logs = [log for table in some for log in _as_logs(table, tables, answers)]
    asks = "Which input says what was shown?"
    log = answers.to("log", asks, [_candidate(log, tables) for log in logs], may_be_none=False)
    assert log is not None
    for name in {*followed_by} - {follower.table.name for follower in log.followers}:
        raise UsageError(
            f"`--actions {name}` has no time, or no column with values of {log.table.name}; expected a log of actions that "
            "shares a key with it."
        )
    return _with_labels(_with_keys(log, tables, answers), answers)


def _having(tables: Sequence[Table], answers: Answers) -> list[Table]:
    """Return the tables that have each column which an option names."""
    some = list(tables)
    for role in ("item", "user", "request", "time", "label"):
        for name in answers.names(role):
            having = [table for table in some if any(_told(one, answers, role) for one in (table, *unfolded(table)))]
            if not having:
                said = "; ".join(f"{t.name} has {', '.join(c.called for c in t.columns[:40])}" for t in some)
                raise UsageError(f"There is no column {name} for `--{role}`: {said}.")
            some = having
    return some


def _told(table: Table, answers: Answers, role: str) -> Column | None:
    """Return the column that an option names."""
    return table.find(
        lambda column: any(name in (column.name, column.expr, column.title) for name in answers.names(role))
    )


# --- the log


def _as_logs(table: Table, tables: Sequence[Table], answers: Answers) -> Iterator[Log]:
    """Yield a table as the log of what was shown, and with the elements of each list of structs as its rows."""
    others = [one for one in tables if one is not table]
    for one in (table, *unfolded(table)):
        time = _told(one, answers, "time") or time_column(one)
        if answers.names("label"):
            yield Log(one, time=time)
        elif (action := one.find(_names_what_was_shown)) is not None:
            yield Log(one, action, min(filter(_is_shown, map(str, action.distinct))), time=time)
        elif (clicked := one.find(_is_clicked_list)) is not None:
            yield Log(one, clicked_list=clicked, time=time)
        else:
            yield Log(one, time=time, followers=tuple(followers_of(one, time, others, answers.names("actions"))))


def _names_what_was_shown(column: Column) -> bool:
    """Whether a column has the kind of each row, one of which is by its name what was shown."""
    return column.is_text and 2 <= len(column.distinct) <= _MOST_ACTIONS and any(map(_is_shown, column.distinct))


def _is_shown(value: str) -> bool:
    said = words_of(value)
    return len(said) <= 2 and not w.SHOWN.isdisjoint(said)


def _is_clicked_list(column: Column) -> bool:
    some = [str(value) for value in column.present] if column.is_text else []
    return bool(some) and all(map(CLICKED_LIST.fullmatch, some[:2000])) and any("-1" in value for value in some)


def _candidate(log: Log, tables: Sequence[Table]) -> Candidate[Log]:
    """Return a log as a candidate: what follows it, or what of it says that something was clicked."""
    table = log.table
    said = [flag.column for flag in named_flags(table.columns)]
    said = said or [c for c in table.columns if has_ratings(c) and w.words(c) & w.RATING]
    others = [one for one in tables if one.name != table.name]
    referring = [one.name for one in others if _refers(one, table)]
    if log.action is not None:
        why = f"{log.action.called} has {log.shown} and other actions"
    elif log.clicked_list is not None:
        why = f"{log.clicked_list.called} lists what was shown, with marks"
    elif log.followers:
        shared = [(one.table.name, ", ".join(match.own.called for match in one.matches)) for one in log.followers]
        why = "; ".join(f"{name} shares {columns} with it and comes later" for name, columns in shared)
    elif said:
        why = f"{', '.join(column.called for column in said)} says what came of it"
    else:
        why = f"rows of {', '.join(referring)} refer to it" if referring else f"{table.rows:,} rows were sampled"
    facts = (
        bool(log.action or log.clicked_list or log.followers),
        max((len(follower.matches) for follower in log.followers), default=0),
        bool(said),
        not referring,
        sum(_refers(table, one) for one in others),
        bool(log.when and log.when.has_clock),
    )
    return Candidate(log, table.name if table.element is None else f"{table.name}.{table.element}", why, facts)


def _refers(one: Table, other: Table) -> bool:
    """Whether rows of a table reference rows of ``other``."""
    repeated = [column for column in one.columns if column.may_be_key and not is_unique(column)]
    return best_match(repeated, of_keys(other)) is not None


# --- the keys


@dataclass(frozen=True)
class _Key:
    """A column that may be a key of the log, with the facts that tell whose."""

    column: Column
    table: Match | None
    """The table of which it may be the key."""
    shared: Sequence[Match]
    """Its columns in the logs of what followed."""
    varies: bool | None
    """Whether rows of one request differ in it. None if each row has a request of its own."""

    def candidate(self, log: Log, facts: tuple[float, ...]) -> Candidate[Column]:
        """Return the column as a candidate, with its evidence in words."""
        why = [f"{len(self.column.distinct):,} different values"]
        why += [
            f"{m.overlap:.0%} of them are in {m.table.name}.{m.column.called}" for m in (self.table, *self.shared) if m
        ]
        if self.varies is not None and log.request is not None:
            why.append(f"rows of one {log.request.called} {'differ in it' if self.varies else 'have one'}")
        return Candidate(self.column, self.column.called, "; ".join(why), facts)


def _with_keys(log: Log, tables: Sequence[Table], answers: Answers) -> Log:
    """Return the log with its request, its item, its user and the place in a list."""
    followers = [follower.table.name for follower in log.followers]
    around = [of_keys(one) for one in tables if one.name not in (log.table.name, *followers)]
    request = _told(log.table, answers, "request") or answers.to(
        "request", "Which column tells requests apart?", _requests(log)
    )
    log = replace(log, request=request)
    item = _told(log.table, answers, "item") or answers.to("item", "What was shown?", _items(log, around))
    log = replace(log, item=item)
    user = _told(log.table, answers, "user") or answers.to("user", "To whom was it shown?", _users(log, around))
    log = replace(log, user=user)
    lists = request is not None and not answers.names("request") and not is_unique(request) and log.action is None
    if lists and item is not None and not log.has_lists:
        log = replace(log, request=None)
    return replace(log, position=_position(log))


def _shared(log: Log, column: Column) -> list[Match]:
    return [match for one in log.followers if (match := one.of(column))]


def _requests(log: Log) -> Iterator[Candidate[Column]]:
    """Yield ids of a request: they stand in each row once, or in the rows of one short time, and what followed has them."""
    for column in log.rest:
        if len(column.keys) < 3 or not column.may_be_key or w.names_key(column, w.USER | w.ITEM):
            continue
        shared, alone = _shared(log, column), is_unique(column)
        named = w.names_key(column, w.REQUEST) or column.name.lower() in ("id", "row")
        counted = alone and column.kind == "BIGINT" and not column.named
        brief = not alone and len(column.keys) >= _FEWEST and (log.time is None or is_brief(column, log.time))
        if (alone or brief) and (shared or named or counted):
            why = ["each row has its own" if alone else "its rows lie within an hour"]
            why += [f"{m.overlap:.0%} of its values are in {m.table.name}.{m.column.called}" for m in shared]
            yield Candidate(column, column.called, "; ".join(why), (bool(shared), not alone, named))


def _keys_of(log: Log, around: Sequence[Table]) -> list[_Key]:
    """Return the columns that may be a key of the log, by their names or what their values hang together with."""
    found = []
    repeated = [c for c in log.rest if c.may_be_key and len(c.keys) > 2 and not is_unique(c)]
    tables = {id(match.own): match for one in around if (match := best_match(repeated, one))}
    for column in repeated:
        lists = log.request is not None and not is_unique(log.request)
        varies = not determines(log.request, column) if lists and log.request is not None else None
        key = _Key(column, tables.get(id(column)), _shared(log, column), varies)
        if key.table or key.shared or (varies is False and len(column.keys) >= _MANY) or _looks_like_a_key(log, column):
            found.append(key)
    return found


def _looks_like_a_key(log: Log, column: Column) -> bool:
    """Whether values may be ids: by the name or, in a log with times, as codes or integers far from 0 that come back."""
    if w.names_key(column, w.USER | w.ITEM):
        return True
    if (
        (log.time is None and log.item is None)
        or w.words(column) & (w.CATEGORY - w.ID)
        or not 5 <= len(column.keys) <= 0.9 * len(column.present)
    ):
        return False
    if column.is_text:
        return all(_CODE.fullmatch(str(value)) for value in column.present[:500])
    return len(column.keys) >= _MANY and (w.ends_as_key(column) or min(column.distinct) >= 1000)


def _items(log: Log, around: Sequence[Table]) -> Iterator[Candidate[Column]]:
    """Yield what may have been shown: a request has several, and tables and what followed have its values."""
    if log.clicked_list is not None:
        return
    for key in _keys_of(log, around):
        named = w.names_key(key.column, w.ITEM)
        said = set(words_of(key.table.table.name)) if key.table else set()
        is_user = w.names_key(key.column, w.USER) or bool(said & w.USER and not said & w.ITEM)
        if named or not (is_user or key.varies is False):
            facts = (named, not is_user, bool(key.shared), bool(key.table), bool(key.varies))
            yield key.candidate(log, facts)
    for column in filter(_holds_items, log.table.columns):
        named = bool(w.words(column) & w.ITEM) and w.words(column) <= w.ITEM | w.ID
        shared = [match for one in log.followers for match in matches([column], one.table)[:1]]
        key = _Key(column, _keyed(column, around), shared, varies=None)
        if named or shared or key.table:
            yield key.candidate(log, (named, True, True, bool(shared), bool(key.table), True))


def _keyed(column: Column | None, around: Sequence[Table]) -> Match | None:
    """Return the table whose rows the values of a column identify, if there is one."""
    return next((match for one in around if column and (match := best_match([column], one))), None)


def _users(log: Log, around: Sequence[Table]) -> Iterator[Candidate[Column]]:
    """Yield to whom it may have been shown: a request has one, and a table has its values."""
    of_items = _keyed(log.clicked_list or log.item, around)
    for key in _keys_of(log, around):
        column, named = key.column, w.names_key(key.column, w.USER)
        of_item = key.table is not None and of_items is not None and key.table.table.name == of_items.table.name
        of_item |= log.item is not None and determines(log.item, column)
        few = len(column.keys) < _MANY and len(column.present) > _FREQUENT * len(column.keys)
        attribute = few and not (named or key.table)  # of somebody who is not named
        if not (w.names_key(column, w.ITEM) or of_item or key.varies or attribute):
            again = comes_back(column, log.time) >= 0.5
            yield key.candidate(log, (named, bool(key.table), bool(key.shared), again))


def _holds_items(column: Column) -> bool:
    whole = column.is_list and "STRUCT" not in column.kind and "DOUBLE" not in column.kind
    return whole or (column.is_text and bool(column.present) and all(map(holds_list, column.present[:100])))


def _position(log: Log) -> Column | None:
    """Find the place in a list, by its name, or as a small number of which the rows of a request have each once."""
    rest = [column for column in log.rest if column.kind == "BIGINT"]
    named = next((c for c in rest if w.words(c) & w.POSITION), None)
    if named is not None or log.request is None or is_unique(log.request) or log.action is not None:
        return named
    for column in rest:
        pairs = set(rows_of([log.request, column]))
        if 2 < len(column.keys) <= 100 and min(column.present) in (0, 1) and len(pairs) >= 0.99 * log.table.rows:
            return column
    return None


# --- the labels


def _with_labels(log: Log, answers: Answers) -> Log:
    """Return the log with the columns that say what was clicked, unless other rows or inputs do."""
    told = _told(log.table, answers, "label")
    if told is not None:
        flag = flag_of(told)
        if flag is None and not told.is_number:
            raise UsageError(f"--label {told.name} has {len(told.distinct)} values; expected a flag or a number.")
        return replace(log, flags=(flag,)) if flag else replace(log, ratings=told)
    if log.action is None and log.clicked_list is None and not log.followers:
        log = _with_actions_by_values(log)
    if log.action is not None or log.clicked_list is not None or log.followers:
        return log
    flags = named_flags(log.rest)
    ratings = next((c for c in log.rest if has_ratings(c) and w.words(c) & w.RATING), None)
    if not flags and ratings is None:
        keys = [key for key in (log.user, log.item) if key is not None]
        asks = "Which column says what was clicked?"
        flag = answers.to("label", asks, unnamed_flags(keys, log.rest))
        flags = [flag] if flag else []
        if flag is None and keys:
            ratings = answers.to("label", asks, unnamed_ratings(keys, log.rest))
    return replace(log, flags=flags, ratings=ratings)


def _with_actions_by_values(log: Log) -> Log:
    """Find a text column whose rare values follow the most frequent one with the same keys, more often than itself does."""
    if log.user is None or log.item is None or log.time is None:
        return log
    rows = pd.DataFrame({"user": log.user.texts, "item": log.item.texts, "at": log.time.moments})
    first = ~rows.dropna().sort_values("at", kind="stable").duplicated(["user", "item"])
    for column in log.rest:
        if not column.is_text or not 2 <= len(column.distinct) <= _MOST_KINDS:
            continue
        usual = max(sorted(column.distinct), key=column.present.count)
        is_usual = pd.Series(column.values, dtype=object)[first.index] == usual
        if (~is_usual).sum() >= _FEWEST and first[~is_usual].mean() <= 0.25 * first[is_usual].mean():
            return replace(log, action=column, shown=usual)
    return log
