"""Tables joined to the log: join keys and times; and views and histories that the log itself gives: clicks counted before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise, permutations, starmap
from operator import eq

from ctr_samples.starter import words as w
from ctr_samples.starter.drafting import OWN, Drafting, View
from ctr_samples.starter.entries import Entry
from ctr_samples.starter.features import FeatureTemplate, feature_of, ids_of
from ctr_samples.starter.links import Match, best_match
from ctr_samples.starter.tables import Column, Table, sql_text
from ctr_samples.starter.times import words_of

_FOREVER = 9999
"""The year of an end that never comes."""


def views_around(d: Drafting, others: Sequence[Table]) -> Iterator[View]:
    """Yield views for tables joined on log keys, then for tables joined on columns of these views."""
    waiting = list(others)
    found: list[View] = []
    for table in list(waiting):
        match = best_match(_joinable(d), table)
        if match is not None:
            waiting.remove(table)
            found.append(_view(d, match, _key_name(d, match.own)))
    for table in waiting:
        of = {id(column): view for view in found for column in view.match.table.columns if _may_lead(column, view)}
        own = [column for view in found for column in view.match.table.columns if id(column) in of]
        match = best_match(own, table)
        if match is not None:
            leading = of[id(match.own)]
            found.append(_view(d, match, f"{leading.name}.{match.own.expr}"))
    leading_views = {view.on.partition(".")[0] for view in found}
    for view in found:
        if _features_of(d, view) or view.name in leading_views:
            yield view
        else:
            d.roles[view.match.table.name] = "not used: none of its columns can be a feature"


def _may_lead(column: Column, view: View) -> bool:
    return w.is_identifier(column) and column is not view.match.column and "." not in column.expr


def _joinable(d: Drafting) -> list[Column]:
    log = d.log
    keys = [column for column in (log.user, log.clicked_list or log.item) if column is not None]
    rest = [c for c in log.table.columns if w.is_identifier(c) and not any(c is k for k in [*keys, log.clicked_list])]
    return [*keys, *rest]


def _key_name(d: Drafting, column: Column) -> str:
    log = d.log
    if column is log.user:
        return "user"
    if column is log.item or column is log.clicked_list:
        return d.log.item_name
    said = [word for word in words_of(column.name) if word not in w.ID]
    name = "_".join(said) or "key"
    log.others.setdefault(name, column)
    return name


def _view(d: Drafting, match: Match, on: str) -> View:
    table, column = match.table, match.column
    name = table.name if table.name not in OWN or table.name in ("user", "item", "article") else f"{table.name}_table"
    key = w.key_expr(column)
    why = f"{column.called} holds {match.overlap:.0%} of the values of {match.own.called}"
    keys = [Entry("source", table.name), Entry("on", on, why), Entry("key", key), *where_of(table)]
    times, used = _times_of(d, match)
    keys += times
    d.roles[table.name] = f"a table on {on}: " + ", ".join(entry.key for entry in times if entry.key != "ttl")
    return View(name, match, on, tuple(keys), (column.name, *used))


def _changes(table: Table) -> Column | None:
    """Find the column with the time at which each row became valid."""
    times = [c for c in table.columns if c.time is not None and not w.words(c) & (w.BIRTH | w.ENDS)]

    def rank(column: Column) -> tuple[int, bool]:
        said = w.words(column)
        order = 3 if said & w.BEGINS else 2 if said & w.CHANGED else 1 if not said & w.MADE else 0
        return order, column.time is not None and column.time.has_clock

    return max(times, key=rank, default=None)


def _interval(table: Table, key: Column) -> tuple[Column, Column] | None:
    """Find the columns with the start and the end of each row, by their names or since the rows of a key follow each other."""
    times = [c for c in table.columns if c.time is not None or (_is_date(c) and w.words(c) & w.ENDS)]
    for begin, end in permutations(times, 2):
        if begin.time is not None and w.words(begin) & w.BEGINS and w.words(end) & w.ENDS:
            return begin, end
    for begin, end in permutations([c for c in times if c.time is not None], 2):
        rows = [
            (text, since, until)
            for text, since, until in zip(key.texts, begin.instants, end.instants, strict=True)
            if text is not None and since is not None
        ]
        rows.sort(key=lambda row: row[:2])
        if any(until is not None and until < since for _, since, until in rows):
            continue
        follow = [(one[2], other[1]) for one, other in pairwise(rows) if one[0] == other[0]]
        ends = all(until is not None and until <= since for until, since in follow)
        open_ = any(until is None for *_, until in rows) or 2 * sum(starmap(eq, follow)) > len(follow)
        if len(follow) >= 10 and ends and open_:
            return begin, end
    return None


def _times_of(d: Drafting, match: Match) -> tuple[list[Entry], list[str]]:
    """Return the entries for event time and availability, and the columns they use."""
    table = match.table
    if d.log.when is None:
        return [Entry("static", True, "without times in the log, no table can change")], []
    day = _snapshot_column(table, match.column)
    interval = _interval(table, match.column)
    changes, ends = interval or (_changes(table), None)
    if day is not None and (changes is None or _stands_each_day(table, match.column)):
        d.reaches(table, 5)
        todo = "when is the snapshot of a day there? Until it is known, a day after that day ended is assumed"
        return [
            Entry("snapshot", day, "the table is written whole for each day"),
            Entry("publish_delay", "1d", "", todo),
            Entry("ttl", "4d", "an older snapshot is none"),
        ], [day]
    if changes is None or changes.time is None:
        todo = "the table has no times; is it the same on all days of the log? If it changes, it leaks"
        return [Entry("static", True, "", todo)], []
    entries = [Entry("event_time", d.zone.expr_of(changes.time), changes.time.why, changes.time.todo)]
    used = [changes.name]
    if ends is not None:
        entries.append(
            Entry("valid_to", d.zone.expr_of(ends.time) if ends.time else ends.expr, "when a row ceased to be true")
        )
        used.append(ends.name)
    known = _known(table, changes, used)
    if known is not None and known.time is not None:
        todo = f"is {known.called} when a row became known?"
        entries.append(
            Entry("available_time", d.zone.expr_of(known.time), f"it is never before {changes.called}", todo)
        )
        used.append(known.name)
    else:
        todo = "when does a row become known? Until that is known, a day after it became true is assumed"
        entries.append(Entry("available_after", "1d", "", todo))
        if ends is not None and ends.time is not None:
            end = d.zone.expr_of(ends.time)
            closed = f"timestamp({end}) + interval 1 day"
            if max(ends.time.moments).year == _FOREVER:
                closed = f"if(year({end}) < {_FOREVER}, {closed}, null)"
            entries.append(Entry("closed_available", closed, "as late as the row that follows it"))
    entries.append(Entry("ttl", "unbounded", "the last row stays true"))
    d.reaches(table, min(30, max(7, len(table.days))))
    return entries, used


def _known(table: Table, changes: Column, used: Sequence[str]) -> Column | None:
    """Find another time with a clock that each row has, and that is never before the time at which it became true."""
    others = [
        c for c in table.columns if c.time and c.time.has_clock and c.name not in used and not w.words(c) & w.BIRTH
    ]
    pairs = {c.name: list(zip(changes.instants, c.instants, strict=True)) for c in others}
    later = [c for c in others if all(at and known and at <= known for at, known in pairs[c.name])]
    return later[0] if len(later) == 1 else None


def _stands_each_day(table: Table, key: Column) -> bool:
    """Whether most keys stand on each day of a dated table once, as in a snapshot, and not in a log of changes."""
    keys: dict[object, set[str]] = {}
    for day, text in zip(table.row_days, key.texts, strict=False):
        if text is not None:
            keys.setdefault(day, set()).add(text)
    every, rows = set[str]().union(*keys.values()), sum(map(len, keys.values()))
    return not keys or (2 * rows > len(every) * len(keys) and rows == sum(text is not None for text in key.texts))


def features_of_views(d: Drafting) -> Iterator[Entry]:
    """Yield features for the columns of joined tables, named after their views."""
    for view in d.views:
        for column, feature in _features_of(d, view):
            name = column.name if column.name.lower().startswith(f"{view.name}_") else f"{view.name}_{column.name}"
            plain = feature.expr == column.read == "{}" and "." not in column.expr
            source = "from" if plain else "expr"
            yield feature.entry(d.free(name), source, feature.expr.replace("{}", column.sql(f"{view.name}.")))


def _features_of(d: Drafting, view: View) -> list[tuple[Column, FeatureTemplate]]:
    """Return the features for the columns of a joined table. Add a note for each omitted column."""
    if view.name not in d.of_views:
        d.of_views[view.name] = list(_find_features(d, view))
    return d.of_views[view.name]


def _find_features(d: Drafting, view: View) -> Iterator[tuple[Column, FeatureTemplate]]:
    table = view.match.table
    for column in table.columns:
        if column.name in view.used or column.name == table.day_column or (column.named and w.words(column) <= w.INDEX):
            continue
        feature = (
            "it is a time" if column.time is not None or column.seems_a_time else feature_of(column, known=d.log.items)
        )
        if isinstance(feature, str):
            d.leave_out(table, column, feature)
        else:
            yield column, feature


def _is_date(column: Column) -> bool:
    return column.is_text and any(re.match(r"\d{4}-\d\d-\d\d", str(value)) for value in column.present[:100])


def _snapshot_column(table: Table, key: Column) -> str | None:
    """Return the day column of a snapshot table: the partition column, or a date column in which each key occurs once
    per day.
    """
    if table.day_column is not None:
        return table.day_column
    days = table.find(
        lambda c: c.name.lower() in ("dt", "ds", "snapshot_date", "snapshot", "date") and c.time is not None
    )
    if days is None or days.time is None or days.time.has_clock or len(days.distinct) < 2:
        return None
    pairs = {(str(day), str(value)) for day, value in zip(days.values, key.values, strict=True)}
    return days.time.expr if len(pairs) == table.rows > len(key.distinct) else None


_LONG = timedelta(days=60)
_KNOWN = "1h"


def where_of(table: Table) -> list[Entry]:
    """Return the ``where`` entry of a table whose files also contain unrelated lines."""
    return [Entry("where", table.where, "other lines lie between the rows")] if table.where else []


def windows_of(d: Drafting) -> list[Entry]:
    """Return a view with windowed impression and click counts of items, and add its features."""
    log, when, item = d.log, d.log.when, d.log.item_expr
    if when is None or item is None or d.positive is None or log.explodes:
        return []
    lengths, step = (["1d", "7d"], "1h") if when.span <= _LONG else (["30d", "365d"], "1d")
    d.reaches(log.table, 8)
    counts = {"shown": "true", "clicked": d.positive}
    if log.action is not None:
        counts["shown"] = f"{log.action.expr} = {sql_text(str(log.shown))}"
    aggregates = {
        "windows": lengths,
        "step": step,
        "counts": counts,
        "rates": {"rate": {"count": "clicked", "of": "shown", "prior": d.log.prior, "strength": 20}},
    }
    todo = f"when is an action known? Until that is known, {_KNOWN} after it happened is assumed"
    keys = (
        Entry("source", log.table.name, "how often the item was shown and clicked before"),
        Entry("on", d.log.item_name),
        Entry("key", item),
        *where_of(log.table),
        Entry("event_time", d.zone.expr_of(when)),
        Entry("available_after", _KNOWN, "", todo),
        Entry("aggregates", aggregates, "counted from the log, never from the present or the future"),
    )
    for length in lengths:
        name = d.free(f"item_rate_{length}")
        d.filling.append(name)
        why = "the share of clicks among the impressions of the item"
        d.features.append(Entry(name, {"from": f"clicks_of_item.rate_{length}", "dtype": "float32"}, why))
    return [Entry("clicks_of_item", keys)]


def histories_of(d: Drafting) -> list[Entry]:
    """Return a history of the user's last clicks, and add its feature."""
    log = d.log
    if log.user is None or log.when is None or d.positive is None or d.log.item_expr is None:
        return []
    within = "7d" if log.when.span <= _LONG else "unbounded"
    d.reaches(log.table, 8)
    what = {
        "source": log.table.name,
        "where": d.positive,
        "last": 20,
        "within": within,
        "available_after": _KNOWN,
    }
    items = ids_of(log.items, what="different items", ragged=True)
    items = replace(items, why="what the user clicked last, newest first")
    d.features.append(items.entry("recent_items", "from", "recent.items"))
    todo = f"when is an action known? Until that is known, {_KNOWN} after it happened is assumed"
    return [Entry("recent", what, "the user's last clicks", todo)]
