"""Impressions and labels: what was shown, with what was known at that moment and the features of it, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from math import ceil
from typing import Any

from ctr_samples.starter import words as w
from ctr_samples.starter.drafting import Drafting
from ctr_samples.starter.entries import Entry
from ctr_samples.starter.features import FeatureTemplate, feature_of, ids_of, numbered
from ctr_samples.starter.links import Follower, comes_back, determines, grows, matches, rows_of
from ctr_samples.starter.log import tells
from ctr_samples.starter.questions import Candidate
from ctr_samples.starter.tables import Column, sql_text

_MANY = 50
"""Minimum number of distinct values to judge whether values recur."""


def impressions_of(d: Drafting) -> Iterator[Entry]:
    """Yield the entries of the section ``impressions``, and add the columns that it carries to ``d.carried``."""
    log, table = d.log, d.log.table
    each = f"each item of {log.clicked_list.name} is an impression" if log.clicked_list is not None else ""
    yield Entry("source", table.name, each or f"{table.rows:,} rows were sampled", d.answers.todo("log"))
    yield from _where(d)
    if log.when is not None:
        yield Entry("time", d.zone.expr_of(log.when), log.when.why, log.when.todo)
    else:
        todo = "the log has no time, so all rows have this one; views and histories need a real one"
        yield Entry("time", "timestamp'2020-01-01 12:00:00'", "", todo)
    yield from _keys(d)
    if log.explodes:
        yield Entry("explode", "article", "the column holds a list: each item is an impression")
        if log.request is None:
            yield Entry("dedup", "30s", "the same shown again this soon is a repeat", "is it a repeat?")
    if log.request is not None:
        yield Entry("request", w.key_expr(log.request), "it tells rows or lists apart")
    if log.clicked_list is not None:
        yield Entry("position", "shown_position", "the place in the list")
    elif log.position is not None:
        yield Entry("position", log.position.expr, "named so")
    acted = (log.action is not None and log.request is None) or (log.followers and log.user)
    if not acted and log.clicked_list is None and not log.tells_rows_apart:
        some = [c.called for c in table.columns if c.may_be_key and 5 <= len(c.keys) <= 0.9 * len(c.present)][:6]
        todo = f"who saw what? `--user` and `--item` of init name columns, such as {' or '.join(some)}" if some else ""
        why = "no column tells rows apart: each is an impression, equal ones too"
        yield Entry("identity", "row", why, "" if log.user or log.item_expr else todo)
    if carried := list(_carry(d)):
        yield Entry("columns", tuple(carried), "what else a row says of the moment")


def _where(d: Drafting) -> Iterator[Entry]:
    log, where, why = d.log, [d.log.table.where], "other lines lie between the rows"
    if log.action is not None:
        where.append(f"{log.action.expr} = {sql_text(str(log.shown))}")
        counts = {str(log.shown): len(log.impressions)} | log.actions
        why = "in the sample: " + ", ".join(f"{value} {count:,}" for value, count in counts.items())
    if any(where):
        yield Entry("where", " and ".join(filter(None, where)), why)


def _keys(d: Drafting) -> Iterator[Entry]:
    log = d.log
    todo = " ".join(filter(None, map(d.answers.todo, ("item", "user", "request"))))
    others = {name: w.key_expr(column) for name, column in log.others.items()}
    own = {}
    if log.user is not None:
        own["user"] = Entry("user", w.key_expr(log.user), f"{log.user.called}: {len(log.user.keys):,} different users")
    if log.item_expr is not None:
        shown = log.item.called if log.item else "the item"
        own["item"] = Entry(log.item_name, log.item_expr, f"{shown} is what was shown", todo if log.explodes else "")
    if log.explodes:
        yield from own.values()
    else:
        others = {one.key: one.value for one in own.values()} | others
    if others:
        why = "" if log.explodes else "; ".join(one.why for one in own.values())
        yield Entry("keys", others, why, "" if log.explodes else todo)


def _carry(d: Drafting) -> Iterator[Entry]:
    """Yield the columns that become features: columns without a role that do not depend on a label."""
    log = d.log
    rest = [column.of(log.impressions) for column in log.rest if column.name != log.table.day_column]
    vectors = numbered(rest)
    found: list[tuple[str, str, FeatureTemplate]] = []
    for name, group in vectors.items():
        expr = "array(" + ", ".join(column.sql() for column in group) + ")"
        why = f"{len(group)} numbered columns, {group[0].name} to {group[-1].name}"
        keys = {"dtype": "float32", "shape": [len(group)], "fill": 0}
        found.append((d.free(name), expr, FeatureTemplate("{}", keys, why)))
    grouped = {column.name for group in vectors.values() for column in group}
    for column in rest:
        if column.name in grouped:
            continue
        feature = _feature_of(d, column)
        if feature is not None:
            why = f"{column.title}: {feature.why}" if column.title else feature.why
            expr = feature.expr.replace("{}", column.sql())
            found.append((d.free(column.name), expr, replace(feature, why=why)))
    for name, expr, feature in found:
        yield Entry(name, expr)
        d.carried.append(feature.entry(name, "from", f"impression.{name}"))


def _feature_of(d: Drafting, column: Column, *, is_key: bool = False) -> FeatureTemplate | None:
    """Return the feature of a log column, based on impression rows, or None for a column that is left out."""
    known = tells(column, d.log.outcomes) if column.time is None else None
    feature = feature_of(column, is_key=is_key, known=d.log.items)
    if known is not None:
        d.leave_out(d.log.table, column, f"{known}. If it is a label, add it there")
    elif isinstance(feature, str):
        d.leave_out(d.log.table, column, feature)
    elif passes := _passes(d, column, feature):
        d.leave_out(d.log.table, column, passes)
    else:
        return feature
    return None


def _passes(d: Drafting, column: Column, feature: FeatureTemplate) -> str | None:
    """Explain why values of a column do not recur on later days, as with visit ids. None if they recur."""
    if len(column.keys) < _MANY:
        return None
    user, time = (one.of(d.log.impressions) if one is not None else None for one in (d.log.user, d.log.time))
    if column.is_whole and time is not None and grows(column, time):
        return "it grows with time, so other days have values that no model has seen"
    if not feature.values or feature.keys.get("ragged"):
        return None
    if user is not None and len(column.keys) > len(user.keys) and determines(column, user):
        return "each of its values belongs to one user, as that of a visit does"
    if comes_back(column, time) < 0.02:
        return "its values do not come back on other days, as those of visits do not"
    return None


def features_of_log(d: Drafting) -> Iterator[Entry]:
    """Yield the features of keys, place and time, and those of the columns that impressions carry."""
    log = d.log
    if log.user is not None:
        yield ids_of(log.user.keys, what="different users").entry("user_id", "from", "impression.user")
    if log.item_expr is not None:
        yield ids_of(log.items, what="different items").entry("item_id", "from", f"impression.{log.item_name}")
    for name, column in log.others.items():
        if column is not log.request and (feature := _feature_of(d, column.of(log.impressions), is_key=True)):
            yield feature.entry(d.free(f"{name}_id"), "from", f"impression.{name}")
    if log.position is not None or log.clicked_list is not None or log.explodes:
        yield Entry("place", {"from": "impression.position", "dtype": "int64"}, "the place in the list")
    at = "impression.impression_time"
    if log.when is not None and log.when.has_clock:
        yield Entry("hour", {"from": at, "date_part": "hour", "dtype": "int64"}, "of the impression")
    if not d.dated and log.when is not None and len(log.when.days) > 1:
        # Within a single day, the weekday would be constant, and on Mondays equal to the default.
        yield Entry("weekday", {"from": at, "date_part": "weekday", "dtype": "int64"}, "0 is Monday")
    yield from d.carried


# --- the labels

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
