"""Labels section: actions in the log or in separate logs, flags and ratings in the row, clicks in lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from math import ceil
from typing import Any

from ctr_samples.starter import words as w
from ctr_samples.starter.drafting import Drafting
from ctr_samples.starter.entries import Entry
from ctr_samples.starter.links import Follower, matches, rows_of
from ctr_samples.starter.questions import Candidate
from ctr_samples.starter.tables import Column, sql_text

_MOST_KINDS = 20
_WINDOW = "2h"
_WINDOWS = {_WINDOW: timedelta(hours=2), **{f"{days}d": timedelta(days=days) for days in (1, 3, 7, 30)}}
_LONG = "how long after being shown does {} still count?"


def labels_of(d: Drafting) -> Iterator[Entry]:
    """Yield the labels, and set ``d.positive`` to the click condition. The caller adds the labels to ``d.labels``."""
    log = d.log
    d.roles[log.table.name] = "the log of what was shown" + (", with the actions" if log.action is not None else "")
    if log.action is not None:
        yield from _of_actions(d, log.action)
    elif log.clicked_list is not None:
        d.positive = "shown rlike '-1$'"
        rate = sum(log.marks) / len(log.marks)
        yield Entry(
            "click", {"expr": d.positive}, f"the item ends in -1; {rate:.2%} of {len(log.marks):,} sampled items"
        )
    elif log.followers:
        for follower in log.followers:
            yield from _of_table(d, follower)
    else:
        yield from _of_rows(d)


def _of_actions(d: Drafting, action_column: Column) -> Iterator[Entry]:
    log = d.log
    d.reaches(log.table, 1, 1)
    for action, count in log.actions.items():
        where = f"{action_column.expr} = {sql_text(action)}"
        d.positive = d.positive if d.positive and "click" not in action.lower() else where
        what = {"source": log.table.name, "where": where, "window": _WINDOW}
        why = f"{count:,} in the sample, for {len(log.impressions):,} rows of {log.shown}"
        yield Entry(d.label_name(action), what, why, _LONG.format(action))
        rows = [row for row, value in enumerate(action_column.values) if value == action]
        for column in log.rest:
            if _measures(d, column, rows):
                total = {**what, "value": column.sql(), "reduce": "sum"}
                yield Entry(d.label_name(f"{action}_{column.name}"), total, f"a number that only rows of {action} have")


def _measures(d: Drafting, column: Column, rows: list[int]) -> bool:
    """Whether a column has numbers in the rows of an action, but hardly any in impression rows."""
    there, shown = column.of(rows).present, column.of(d.log.impressions).present
    own = 2 * len(there) >= len(rows) and len(shown) <= 0.05 * len(d.log.impressions)
    numbers = all(re.fullmatch(r"\d+(\.\d+)?", str(value)) for value in there[:500])
    return own and numbers and not w.is_identifier(column) and len(set(map(str, there))) > 1


def _of_table(d: Drafting, follower: Follower) -> Iterator[Entry]:
    log, table = d.log, follower.table
    window = _window_of(follower.delays)
    late = ceil(_WINDOWS[window] / timedelta(days=1))
    d.reaches(table, 1, late)
    d.reaches(log.table, 1, late)
    d.roles[table.name] = "actions that follow what was shown"
    item, user, request = (follower.of(column) for column in (log.item, log.user, log.request))
    if log.item is not None and log.explodes:
        item = next(iter(matches([log.item], table)), None)
    keys = {name: w.key_expr(match.column) for name, match in ((log.item_name, item), ("user", user)) if match}
    what: dict[str, Any] = {"time": d.zone.expr_of(follower.time.time) if follower.time.time else ""}
    what |= {"request": w.key_expr(request.column)} if request else {}
    what |= {"keys": keys} if keys else {}
    if request is None and len(keys) < 2:
        what["match"] = [list(keys)]
    elif log.item is not None and item is None:
        what["match"] = [["request"]]
    what["window"] = window
    said = _said_of(follower)
    kinds = _kinds_of(d, follower)
    if kinds is None:
        yield Entry(
            d.label_name(table.name.removesuffix("s")), {"source": table.name, **what}, said, _LONG.format("one")
        )
        return
    for value in sorted(map(str, kinds.distinct)):
        where = {"source": table.name, "where": f"{kinds.expr} = {sql_text(value)}"}
        count = sum(str(one) == value for one in kinds.present)
        yield Entry(d.label_name(value), where | what, f"{count:,} in the sample; {said}", _LONG.format(value))


def _kinds_of(d: Drafting, follower: Follower) -> Column | None:
    """Find the column with the kind of an action: a few words, of which one user does several with what was shown."""
    keys, name = [match.column for match in follower.matches], follower.table.name
    candidates = []
    for column in follower.table.columns:
        if not column.is_text or not 2 <= len(column.distinct) <= _MOST_KINDS or any(column is key for key in keys):
            continue
        kinds: dict[tuple[str | None, ...], set[object]] = {}
        for action, value in zip(rows_of(keys), column.values, strict=True):
            kinds.setdefault(action, set()).add(value)
        several = sum(len(some - {None}) > 1 for some in kinds.values())
        named = not w.LABEL.isdisjoint(str(value).lower() for value in column.distinct)
        if named or several:
            values = ", ".join(sorted(map(str, column.distinct))[:5])
            why = f"its values are {values}; {several:,} of {len(kinds):,} have more than one"
            candidates.append(
                Candidate(column, f"{name}.{column.called}", why, (named, round(several / len(kinds), 1)))
            )
    return d.answers.to("kinds", f"Which column of {name} tells kinds of actions, each a label?", candidates)


def _window_of(delays: Sequence[timedelta]) -> str:
    """Return a window of at least two hours that covers nearly all sampled delays."""
    late = delays[int(0.99 * len(delays)) - 1] if delays else timedelta(0)
    return next((window for window, length in _WINDOWS.items() if late <= length), _WINDOW)


def _said_of(follower: Follower) -> str:
    pairs = [(match.own.called, match.column.called) for match in follower.matches]
    shared = ", ".join(own if own == other else f"{own} as {other}" for own, other in pairs)
    minutes = f"{follower.middle / timedelta(minutes=1):,.0f} minutes" if follower.delays else ""
    soon = f"; half of its rows come within {minutes}" if minutes else ""
    return f"{follower.table.name} shares {shared} with the log{soon}"


def _of_rows(d: Drafting) -> Iterator[Entry]:
    log = d.log
    for flag in log.flags:
        d.positive = d.positive or (flag.expr if flag.column.kind != "BIGINT" else f"{flag.expr} = 1")
        name = d.label_name(flag.column.name if flag.column.named else "label")
        yield Entry(name, {"expr": flag.expr}, flag.why, d.answers.todo("label"))
    if (column := log.ratings) is not None:
        liked = f"{column.sql()} >= {log.least_liked:g}"
        d.positive = d.positive or liked
        rate = sum(log.outcomes[-1]) / len(column.values)
        todo = "from which value on is it a positive?"
        yield Entry("liked", {"expr": liked}, f"{rate:.1%} of the sample are positive", todo)
        values = f"{len(column.distinct)} values, {min(column.present):g} to {max(column.present):g}"
        yield Entry(d.label_name("stars"), {"expr": column.sql(), "dtype": "float32"}, values)
