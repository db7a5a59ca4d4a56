"""Impressions section: keys, time, and other columns known at impression time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ctr_samples.starter import words as w
from ctr_samples.starter.drafting import Carried, Drafting
from ctr_samples.starter.entries import Entry
from ctr_samples.starter.features import FeatureTemplate, feature_of, numbered
from ctr_samples.starter.flags import tells
from ctr_samples.starter.links import comes_back, determines, grows
from ctr_samples.starter.tables import Column, sql_text

_MANY = 50
"""Minimum number of distinct values to judge whether values recur."""


def impressions_of(d: Drafting) -> list[Entry]:
    """Return the entries of the section ``impressions``."""
    log = d.log
    entries = [Entry("source", log.table.name, f"{log.table.rows:,} rows were sampled", d.answers.todo("log"))]
    if log.clicked_list is not None:
        entries[0] = Entry("source", log.table.name, f"each item of {log.clicked_list.name} is an impression")
    if log.action is not None:
        counts = {str(log.shown): len(log.impressions)} | log.actions
        why = "in the sample: " + ", ".join(f"{value} {count:,}" for value, count in counts.items())
        where = f"{log.action.expr} = {sql_text(str(log.shown))}"
        entries.append(Entry("where", f"{log.table.where} and {where}" if log.table.where else where, why))
    elif log.table.where:
        entries.append(Entry("where", log.table.where, "other lines lie between the rows"))
    if log.when is not None:
        entries.append(Entry("time", d.zone.expr_of(log.when), log.when.why, log.when.todo))
    else:
        todo = "the log has no time, so all rows have this one; views and histories need a real one"
        entries.append(Entry("time", "timestamp'2020-01-01 12:00:00'", "", todo))
    entries += _keys(d)
    if log.explodes:
        entries.append(Entry("explode", "article", "the column holds a list: each item is an impression"))
        if log.request is None:
            entries.append(Entry("dedup", "30s", "the same shown again this soon is a repeat", "is it a repeat?"))
    if log.request is not None:
        entries.append(Entry("request", w.key_expr(log.request), "it tells rows or lists apart"))
    if log.clicked_list is not None:
        entries.append(Entry("position", "shown_position", "the place in the list"))
    elif log.position is not None:
        entries.append(Entry("position", log.position.expr, "named so"))
    if (
        (log.action is None or log.request is not None)
        and log.clicked_list is None
        and not log.tells_rows_apart
        and not (log.followers and log.user)
    ):
        todo = "" if log.user or log.item_expr else _ask_for_keys(d)
        why = "no column tells rows apart: each is an impression, equal ones too"
        entries.append(Entry("identity", "row", why, todo))
    d.carried += _carry(d)
    if d.carried:
        why = "what else a row says of the moment"
        entries.append(Entry("columns", tuple(Entry(one.name, one.expr) for one in d.carried), why))
    return entries


def _ask_for_keys(d: Drafting) -> str:
    some = [c.called for c in d.log.table.columns if c.may_be_key and 5 <= len(c.keys) <= 0.9 * len(c.present)]
    named = f", such as {' or '.join(some[:6])}" if some else ""
    return (
        f"no column is taken for the user or for what was shown: `--user` and `--item` of init name them{named}"
        if named
        else ""
    )


def _keys(d: Drafting) -> Iterator[Entry]:
    log = d.log
    keys: dict[str, Any] = {}
    why = []
    if log.user is not None:
        keys["user"] = w.key_expr(log.user)
        why.append(f"{log.user.called}: {len(log.user.distinct):,} different users")
    item = d.log.item_expr
    if item is not None:
        keys[d.log.item_name] = item
        why.append(f"{log.item.called if log.item else 'the item'} is what was shown")
    todo = " ".join(filter(None, map(d.answers.todo, ("item", "user", "request"))))
    if not log.explodes:
        keys |= {name: w.key_expr(column) for name, column in log.others.items()}
        if keys:
            yield Entry("keys", keys, "; ".join(why), todo)
        return
    for name, expr in keys.items():
        yield Entry(name, expr, why[list(keys).index(name)], todo if name == d.log.item_name else "")
    if log.others:
        yield Entry("keys", {name: w.key_expr(column) for name, column in log.others.items()})


def _carry(d: Drafting) -> Iterator[Carried]:
    """Yield the columns that become features: columns without a role that do not depend on a label."""
    log = d.log
    rest = [c.of(log.impressions) for c in log.table.columns if not any(c is one for one in log.taken)]
    vectors = numbered(rest)
    for name, group in vectors.items():
        expr = "array(" + ", ".join(column.sql() for column in group) + ")"
        why = f"{len(group)} numbered columns, {group[0].name} to {group[-1].name}"
        yield Carried(
            d.free(name), expr, FeatureTemplate("{}", {"dtype": "float32", "shape": [len(group)], "fill": 0}, why)
        )
    grouped = {column.name for group in vectors.values() for column in group}
    for column in rest:
        if column.name in grouped or column.name == log.table.day_column:
            continue
        feature = feature_of_carried(d, column)
        if isinstance(feature, str):
            d.leave_out(log.table, column, feature)
        else:
            feature = replace(feature, why=f"{column.title}: {feature.why}") if column.title else feature
            yield Carried(d.free(column.name), feature.expr.replace("{}", column.sql()), feature)


def feature_of_carried(d: Drafting, column: Column, *, is_key: bool = False) -> FeatureTemplate | str:
    """Return the feature of a log column, based on impression rows, or a reason to omit it."""
    if column.time is not None or column.seems_a_time:
        return "it is a time"
    known = tells(column, d.log.outcomes)
    if known is not None:
        return f"{known}. If it is a label, add it there"
    feature = feature_of(column, is_key=is_key, known=d.log.items)
    return feature if isinstance(feature, str) else _passes(d, column, feature) or feature


def _passes(d: Drafting, column: Column, feature: FeatureTemplate) -> str | None:
    """Explain why values of a column do not recur on later days, as with visit ids. None if they recur."""
    user, time = (one.of(d.log.impressions) if one is not None else None for one in (d.log.user, d.log.time))
    if len(column.keys) < _MANY:
        return None
    if column.is_whole and time is not None and not column.is_text and grows(column, time):
        return "it grows with time, so other days have values that no model has seen"
    if not feature.values or feature.keys.get("ragged"):
        return None
    if user is not None and len(column.keys) > len(user.keys) and determines(column, user):
        return "each of its values belongs to one user, as that of a visit does"
    if comes_back(column, time) < 0.02:
        return "its values do not come back on other days, as those of visits do not"
    return None
