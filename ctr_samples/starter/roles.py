"""Which input is the log of what was shown, which columns are its keys and labels, and which inputs followed.

Each role is a question. Its candidates come from simple evidence: types, uniqueness, values that inputs share, values that
determine others, and names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ctr_samples.errors import UsageError
from ctr_samples.starter import words as w
from ctr_samples.starter.flags import flag_of, is_rating, named_flags, unnamed_flags, unnamed_ratings
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
from ctr_samples.starter.log import Log, called, holds_list
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
    some = _having(some, answers)
    logs = [log for table in sorted(some, key=lambda one: -one.bytes) for log in _as_logs(table, tables, answers)]
    asks = "Which input says what was shown?"
    chosen = answers.to("log", asks, [_candidate(log, tables) for log in logs], may_be_none=False)
    assert chosen is not None
    for name in followed_by:
        if all(follower.table.name != name for follower in chosen.followers):
            raise UsageError(
                f"`--actions {name}` has no time, or no column with values of {chosen.table.name}; expected a log of "
                "actions that shares a key with it."
            )
    return _with_labels(_with_keys(chosen, tables, answers), answers)


def _having(tables: Sequence[Table], answers: Answers) -> list[Table]:
    """Return the tables that have each column which an option names."""
    some = list(tables)
    for role in ("item", "user", "request", "time", "label"):
        for name in answers.names(role):
            having = [table for table in some if any(_is_called(column, name) for column in _columns_of(table))]
            if not having:
                said = "; ".join(f"{t.name} has {', '.join(c.called for c in t.columns[:40])}" for t in some)
                raise UsageError(f"There is no column {name} for `--{role}`: {said}.")
            some = having
    return some


def _columns_of(table: Table) -> list[Column]:
    return [column for one in (table, *unfolded(table)) for column in one.columns]


def _is_called(column: Column, name: str) -> bool:
    return name in (column.name, column.expr, column.title)


def _told(table: Table, answers: Answers, role: str) -> Column | None:
    """Return the column that an option names."""
    return next((c for name in answers.names(role) for c in table.columns if _is_called(c, name)), None)


# --- the log


def _as_logs(table: Table, tables: Sequence[Table], answers: Answers) -> Iterator[Log]:
    """Yield a table as the log of what was shown, and with the elements of each list of structs as its rows."""
    others = [one for one in tables if one is not table]
    for one in (table, *unfolded(table)):
        time = _told(one, answers, "time") or time_column(one)
        own = answers.names("label")
        action, shown = (None, None) if own else _actions(one)
        clicked = one.find(_is_clicked_list)
        alone = action is not None or clicked is not None or own
        followers = () if alone else tuple(followers_of(one, time, others, answers.names("actions")))
        yield Log(one, action, shown, clicked, time, followers=followers)


def _is_clicked_list(column: Column) -> bool:
    some = [str(value) for value in column.present] if column.is_text else []
    return bool(some) and all(map(CLICKED_LIST.fullmatch, some[:2000])) and any("-1" in value for value in some)


def _candidate(log: Log, tables: Sequence[Table]) -> Candidate[Log]:
    """Return a log as a candidate: what follows it, or what of it says that something was clicked."""
    table = log.table
    flags = list(named_flags(table.columns))
    ratings = [column for column in table.columns if is_rating(column, named=True)]
    unnamed = [c for c in table.columns if len(c.distinct) == 2 and flag_of(c)]
    shared = max((len(follower.matches) for follower in log.followers), default=0)
    others = [one for one in tables if one.name != table.name]
    referring = [one.name for one in others if _refers(one, table)]
    if log.action is not None:
        why = f"{log.action.called} has {log.shown} and other actions"
    elif log.clicked_list is not None:
        why = f"{log.clicked_list.called} lists what was shown, with marks"
    elif log.followers:
        why = "; ".join(
            f"{one.table.name} shares {called([m.own for m in one.matches])} with it and comes later"
            for one in log.followers
        )
    elif flags or ratings:
        why = f"{called([flag.column for flag in flags] or ratings)} says what came of it"
    else:
        why = f"rows of {', '.join(referring)} refer to it" if referring else f"{table.rows:,} rows were sampled"
    facts = (
        bool(log.action or log.clicked_list or log.followers),
        shared,
        bool(flags or ratings),
        not referring,
        sum(_refers(table, one) for one in others),
        bool(unnamed),
        bool(log.when and log.when.has_clock),
    )
    name = table.name if table.element is None else f"{table.name}.{table.element}"
    return Candidate(log, name, why, facts)


def _refers(one: Table, other: Table) -> bool:
    """Whether rows of a table reference rows of ``other``."""
    repeated = [column for column in one.columns if column.may_be_key and not is_unique(column)]
    return best_match(repeated, of_keys(other)) is not None


def _actions(table: Table) -> tuple[Column | None, str | None]:
    """Find the column with the kind of each row, and its value for what was shown, by the value's name."""
    for column in table.columns:
        if not column.is_text or not 2 <= len(column.distinct) <= _MOST_ACTIONS:
            continue
        for value in sorted(map(str, column.distinct)):
            if frozenset(words_of(value)) & w.SHOWN and len(words_of(value)) <= 2:
                return column, value
    return None, None


def _actions_by_values(log: Log) -> tuple[Column | None, str | None]:
    """Find a text column whose rare values follow the most frequent one with the same keys, more often than itself does."""
    keys = [column for column in (log.user, log.item) if column is not None]
    if len(keys) < 2 or log.time is None:
        return None, None
    pairs = rows_of(keys)
    order = sorted((at, row) for row, at in enumerate(log.time.instants) if at is not None and None not in pairs[row])
    for column in log.table.columns:
        if not column.is_text or not 2 <= len(column.distinct) <= _MOST_KINDS or any(column is key for key in keys):
            continue
        usual = max(column.distinct, key=column.present.count)
        seen: set[tuple[str | None, ...]] = set()
        new = {True: [0, 0], False: [0, 0]}
        """Rows of the most frequent value, and others: how many there are, and how many whose keys are new."""
        for _, row in order:
            counts = new[column.values[row] == usual]
            counts[0] += 1
            counts[1] += pairs[row] not in seen
            if column.values[row] == usual:
                seen.add(pairs[row])
        (shown, first), (others, alone) = new[True], new[False]
        if others >= _FEWEST and alone / others <= 0.25 * first / shown:
            return column, str(usual)
    return None, None


# --- the keys


def _with_keys(log: Log, tables: Sequence[Table], answers: Answers) -> Log:
    """Return the log with its request, its item and its user."""
    table = log.table
    followers = [follower.table for follower in log.followers]
    around = [one for one in tables if one.name != table.name and all(one is not other for other in followers)]
    request = _request(log, answers)
    item = _item(replace(log, request=request), around, answers)
    user = _user(replace(log, request=request, item=item), around, answers)
    log = replace(log, request=request, item=item, user=user)
    lists = request is not None and not answers.names("request") and not is_unique(request) and log.action is None
    if lists and item is not None and not log.has_lists:
        log = replace(log, request=None)
    return replace(log, position=_position(log))


def _shared(log: Log, column: Column) -> list[Match]:
    return [match for one in log.followers for match in one.matches if match.own is column]


def _request(log: Log, answers: Answers) -> Column | None:
    """Find the id of a request: it stands in each row once, or in the rows of one short time, and what followed has it."""
    if (column := _told(log.table, answers, "request")) is not None:
        return column
    found = []
    for column in log.table.columns:
        if not column.may_be_key or len(column.keys) < 3 or column in (log.action, log.clicked_list, log.time):
            continue
        shared, named = (
            bool(_shared(log, column)),
            w.names_key(column, w.REQUEST) or column.name.lower() in ("id", "row"),
        )
        alone = is_unique(column)
        counted = alone and column.kind == "BIGINT" and not column.named
        brief = not alone and len(column.keys) >= 10 and (log.time is None or is_brief(column, log.time))
        if w.names_key(column, w.USER | w.ITEM) or not (alone or brief) or not (shared or named or counted):
            continue
        why = "each row has its own" if alone else "its rows lie within an hour"
        found.append(Candidate(column, column.called, f"{why}{_shared_with(log, column)}", (shared, not alone, named)))
    return answers.to("request", "Which column tells requests apart?", found)


def _shared_with(log: Log, column: Column) -> str:
    found = [
        f"{match.overlap:.0%} of its values are in {match.table.name}.{match.column.called}"
        for match in _shared(log, column)
    ]
    return "".join(f"; {one}" for one in found)


def _likely(log: Log, around: Sequence[Table]) -> dict[int, tuple[Column, Match | None]]:
    """Return the columns that may be a key, with the table that they may be the key of."""
    repeated = [c for c in log.table.columns if c.may_be_key and len(c.keys) > 2 and not is_unique(c)]
    repeated = [c for c in repeated if not any(c is one for one in log.taken)]
    keyed = {id(match.own): match for one in around if (match := best_match(repeated, of_keys(one)))}
    return {
        id(c): (c, keyed.get(id(c))) for c in repeated if id(c) in keyed or _shared(log, c) or _looks_like_a_key(log, c)
    }


def _looks_like_a_key(log: Log, column: Column) -> bool:
    """Whether values may be ids: by the name or, in a log with times, as codes or integers far from 0 that come back."""
    if w.names_key(column, w.USER | w.ITEM):
        return True
    if (
        (log.time is None and log.item is None)
        or not 5 <= len(column.keys) <= 0.9 * len(column.present)
        or w.words(column) & (w.CATEGORY - w.ID)
    ):
        return False
    if column.is_text:
        return all(_CODE.fullmatch(str(value)) for value in column.present[:500])
    return len(column.keys) >= _MANY and (w.ends_as_key(column) or min(column.distinct) >= 1000)


def _is_attribute(column: Column, likely: Sequence[Column]) -> bool:
    """Whether a column depends on another key, as a brand on an item and a city on a user."""
    return any(len(one.keys) > len(column.keys) and determines(one, column) for one in likely if one is not column)


def _item(log: Log, around: Sequence[Table], answers: Answers) -> Column | None:
    """Find what was shown: a request has several, and tables and what followed have its values."""
    table = log.table
    if (column := _told(table, answers, "item")) is not None:
        return column
    if log.clicked_list is not None:
        return None
    likely = _likely(log, around)
    every = [column for column, _ in likely.values()]
    candidates = []
    for column, match in likely.values():
        varies = _varies(log, column)
        is_user = w.names_key(column, w.USER) or (match is not None and _is_of_users(match.table))
        named = w.names_key(column, w.ITEM)
        facts = (
            named,
            not is_user,
            not _is_attribute(column, every),
            bool(_shared(log, column)),
            bool(match),
            bool(varies),
        )
        if named or not (is_user or varies is False):
            candidates.append(Candidate(column, column.called, _evidence(log, column, match, varies=varies), facts))
    for column in filter(_holds_items, table.columns):
        named = bool(w.words(column) & w.ITEM) and w.words(column) <= w.ITEM | w.ID
        found = [match for one in log.followers if (match := next(iter(matches([column], one.table)), None))]
        match = _keyed(column, around)
        if named or found or match:
            facts = (named, True, True, bool(found), bool(match), True)
            candidates.append(Candidate(column, column.called, _evidence(log, column, match, found), facts))
    return answers.to("item", "What was shown?", candidates)


def _keyed(column: Column, around: Sequence[Table]) -> Match | None:
    """Return the table whose rows the values of a column identify, if there is one."""
    return next((match for one in around if (match := best_match([column], of_keys(one)))), None)


def _is_of_users(table: Table) -> bool:
    said = frozenset(words_of(table.name))
    return bool(said & w.USER) and not said & w.ITEM


def _varies(log: Log, column: Column) -> bool | None:
    """Whether rows of one request differ in a column. None if that cannot be told, since each row has a request of its own."""
    if log.request is None or is_unique(log.request):
        return None
    return not determines(log.request, column)


def _user(log: Log, around: Sequence[Table], answers: Answers) -> Column | None:
    """Find to whom it was shown: a request has one, and a table has its values."""
    if (column := _told(log.table, answers, "user")) is not None:
        return column
    likely = _likely(log, around)
    of_request = [c for c in log.rest if c.may_be_key and len(c.keys) >= _MANY and _varies(log, c) is False]
    likely |= {id(c): (c, None) for c in of_request if id(c) not in likely}
    every = [column for column, _ in likely.values()]
    shown = log.clicked_list or log.item
    of_items = None if shown is None else _keyed(shown, around)
    candidates = []
    for column, match in likely.values():
        named, varies = w.names_key(column, w.USER), _varies(log, column)
        of_item = match is not None and of_items is not None and match.table.name == of_items.table.name
        of_item |= log.item is not None and determines(log.item, column)
        if w.names_key(column, w.ITEM) or of_item or varies:
            continue
        few = len(column.keys) < _MANY and len(column.present) > _FREQUENT * len(column.keys)
        if few and not (named or match):  # an attribute of somebody who is not named
            continue
        again = comes_back(column, log.time) >= 0.5
        facts = (named, bool(match), bool(_shared(log, column)), again, not _is_attribute(column, every))
        candidates.append(Candidate(column, column.called, _evidence(log, column, match, varies=varies), facts))
    return answers.to("user", "To whom was it shown?", candidates)


def _evidence(
    log: Log, column: Column, match: Match | None, found: Sequence[Match] = (), *, varies: bool | None = None
) -> str:
    why = [f"{len(column.distinct):,} different values"]
    why += [
        f"{m.overlap:.0%} of them are in {m.table.name}.{m.column.called}" for m in (match, *found) if m is not None
    ]
    if varies is not None and log.request is not None:
        why.append(f"rows of one {log.request.called} {'differ in it' if varies else 'have one'}")
    return "; ".join(why) + _shared_with(log, column)


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
        pairs = set(zip(log.request.texts, column.texts, strict=True))
        if 2 < len(column.keys) <= 100 and min(column.present) in (0, 1) and len(pairs) >= 0.99 * log.table.rows:
            return column
    return None


# --- the labels


def _with_labels(log: Log, answers: Answers) -> Log:
    """Return the log with the columns that say what was clicked, unless other rows or inputs do."""
    if log.action is None and log.clicked_list is None and not log.followers and not answers.names("label"):
        action, shown = _actions_by_values(log)
        log = replace(log, action=action, shown=shown)
    told = _told(log.table, answers, "label")
    if told is not None:
        flag = flag_of(told)
        if flag is None and not told.is_number:
            raise UsageError(f"--label {told.name} has {len(told.distinct)} values; expected a flag or a number.")
        return replace(log, flags=(flag,) if flag else (), ratings=None if flag else told, followers=())
    if log.action is not None or log.clicked_list is not None or log.followers:
        return log
    flags = tuple(named_flags(log.rest))
    ratings = next((c for c in log.rest if is_rating(c, named=True)), None)
    if not flags and ratings is None:
        keys = [key for key in (log.user, log.item) if key is not None]
        asks = "Which column says what was clicked?"
        flag = answers.to("label", asks, unnamed_flags(keys, log.rest))
        flags = (flag,) if flag else ()
        if flag is None and keys:
            ratings = answers.to("label", asks, unnamed_ratings(keys, log.rest))
    return replace(log, flags=flags, ratings=ratings)
