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
from ctr_samples.starter.questions import Answers, Candidate
from ctr_samples.starter.tables import Column, sql_text
from ctr_samples.starter.times import in_words

_MOST_KINDS = 20
_WINDOW = "2h"
_WINDOWS = {_WINDOW: timedelta(hours=2), **{f"{days}d": timedelta(days=days) for days in (1, 3, 7, 30)}}


def labels_of(d: Drafting) -> Iterator[Entry]:
    """Yield the labels, and set ``d.positive`` to the click condition. The caller adds the labels to ``d.labels``."""
    log = d.log
    if log.action is not None:
        yield from _of_actions(d, log.action)
    elif log.clicked_list is not None:
        items = [item for value in log.clicked_list.present for item in str(value).split(" ")]
        rate = sum(item.endswith("-1") for item in items) / len(items)
        d.positive = "shown rlike '-1$'"
        yield Entry("click", {"expr": d.positive}, f"the item ends in -1; {rate:.2%} of {len(items):,} sampled items")
    elif log.followers:
        yield from _of_tables(d)
    else:
        yield from _of_rows(d)
    role = "the log of what was shown" + (", with the actions" if log.action is not None else "")
    d.roles[log.table.name] = role


def _of_actions(d: Drafting, action_column: Column) -> Iterator[Entry]:
    log = d.log
    d.reaches(log.table, 1, 1)
    for action, count in log.actions.items():
        where = f"{action_column.expr} = {sql_text(action)}"
        d.positive = d.positive if d.positive and "click" not in action.lower() else where
        what = {"source": log.table.name, "where": where, "window": _WINDOW}
        name = d.label_name(action)
        todo = f"how long after being shown does {action} still count?"
        yield Entry(name, what, f"{count:,} in the sample, for {len(log.impressions):,} rows of {log.shown}", todo)
        rows = [row for row, value in enumerate(action_column.values) if value == action]
        for column in log.table.columns:
            if _measures(d, column, rows):
                total = {**what, "value": column.sql(), "reduce": "sum"}
                yield Entry(d.label_name(f"{action}_{column.name}"), total, f"a number that only rows of {action} have")


def _measures(d: Drafting, column: Column, rows: list[int]) -> bool:
    """Whether a column has numbers in the rows of an action, but hardly any in impression rows."""
    there, shown = column.of(rows).present, column.of(d.log.impressions).present
    if (
        any(column is one for one in d.log.taken)
        or w.is_identifier(column)
        or len(there) < 0.5 * len(rows)
        or len(shown) > 0.05 * len(d.log.impressions)
    ):
        return False
    return all(re.fullmatch(r"\d+(\.\d+)?", str(value)) for value in there[:500]) and len(set(map(str, there))) > 1


def _of_tables(d: Drafting) -> Iterator[Entry]:
    log = d.log
    d.reaches(log.table, 1, 1)
    for follower in log.followers:
        table = follower.table
        late = ceil(_WINDOWS[_window_of(follower.delays)] / timedelta(days=1))
        d.reaches(table, 1, late)
        d.reaches(log.table, 1, late)
        item, user, request = (follower.of(column) for column in (log.item, log.user, log.request))
        if log.item is not None and log.explodes:
            item = next(iter(matches([log.item], table)), None)
        keys = {name: w.key_expr(match.column) for name, match in ((log.item_name, item), ("user", user)) if match}
        what: dict[str, Any] = {
            "source": table.name,
            "time": d.zone.expr_of(follower.time.time) if follower.time.time else "",
        }
        if request is not None:
            what["request"] = w.key_expr(request.column)
        if keys:
            what["keys"] = keys
        if (item is None or user is None) and request is None:
            what["match"] = [list(keys)]
        elif log.item is not None and item is None:
            what["match"] = [["request"]]
        what["window"] = window = _window_of(follower.delays)
        said = _said_of(follower, window)
        kinds = _kinds_of(follower, d.answers)
        d.roles[table.name] = "actions that follow what was shown"
        if kinds is None:
            name = table.name.removesuffix("s")
            todo = "how long after being shown does one still count?"
            yield Entry(d.label_name(name), what, said, todo)
            continue
        for value in sorted(map(str, kinds.distinct)):
            one = {
                "source": table.name,
                "where": f"{kinds.expr} = {sql_text(value)}",
                **{k: v for k, v in what.items() if k != "source"},
            }
            count = sum(str(v) == value for v in kinds.present)
            yield Entry(
                d.label_name(value),
                one,
                f"{count:,} in the sample; {said}",
                f"how long after being shown does {value} still count?",
            )


def _kinds_of(follower: Follower, answers: Answers) -> Column | None:
    """Find the column with the kind of an action: a few words, of which one user does several with what was shown."""
    keys = [match.column for match in follower.matches]
    actions = rows_of(keys)
    candidates = []
    for column in follower.table.columns:
        if not column.is_text or not 2 <= len(column.distinct) <= _MOST_KINDS or any(column is key for key in keys):
            continue
        kinds: dict[tuple[str | None, ...], set[str]] = {}
        for action, value in zip(actions, column.texts, strict=True):
            if value is not None:
                kinds.setdefault(action, set()).add(value)
        several = sum(len(some) > 1 for some in kinds.values())
        named = bool({str(value).lower() for value in column.distinct} & w.LABEL)
        if named or several:
            values = ", ".join(sorted(map(str, column.distinct))[:5])
            why = f"its values are {values}; {several:,} of {len(kinds):,} have more than one"
            share = round(several / len(kinds), 1)
            candidates.append(Candidate(column, f"{follower.table.name}.{column.called}", why, (named, share)))
    return answers.to(
        "kinds", f"Which column of {follower.table.name} tells kinds of actions, each a label?", candidates
    )


def _window_of(delays: Sequence[timedelta]) -> str:
    """Return a window of at least two hours that covers nearly all sampled delays."""
    late = delays[int(0.99 * len(delays)) - 1] if delays else timedelta(0)
    return next((window for window, length in _WINDOWS.items() if late <= length), _WINDOW)


def _said_of(follower: Follower, window: str) -> str:
    shared = ", ".join(
        match.own.called if match.own.name == match.column.name else f"{match.own.called} as {match.column.called}"
        for match in follower.matches
    )
    if not follower.delays:
        return f"{follower.table.name} shares {shared} with the log"
    return (
        f"{follower.table.name} shares {shared} with the log; half of its rows come within {in_words(follower.middle)}"
    )


def _of_rows(d: Drafting) -> Iterator[Entry]:
    log = d.log
    for flag in log.flags:
        d.positive = d.positive or (flag.expr if flag.column.kind != "BIGINT" else f"{flag.expr} = 1")
        name = d.label_name(flag.column.name if flag.column.named else "label")
        yield Entry(name, {"expr": flag.expr}, flag.why, d.answers.todo("label"))
    if log.ratings is not None:
        column = log.ratings
        least = log.least_liked
        rate = sum(value >= least for value in column.present) / len(column.values)
        d.positive = d.positive or f"{column.sql()} >= {least:g}"
        todo = "from which value on is it a positive?"
        yield Entry("liked", {"expr": f"{column.sql()} >= {least:g}"}, f"{rate:.1%} of the sample are positive", todo)
        values = f"{len(column.distinct)} values, {min(column.present):g} to {max(column.present):g}"
        yield Entry(d.label_name("stars"), {"expr": column.sql(), "dtype": "float32"}, values)
