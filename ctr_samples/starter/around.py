"""Tables joined to the log: join keys and times; and views and histories that the log itself gives: clicks counted before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise, permutations

from ctr_samples.starter import words as w
from ctr_samples.starter.drafting import OWN, Drafting
from ctr_samples.starter.entries import Entry
from ctr_samples.starter.features import FeatureTemplate, feature_of, ids_of
from ctr_samples.starter.links import Match, best_match, is_unique
from ctr_samples.starter.tables import Column, Table, sql_text
from ctr_samples.starter.times import words_of

_FOREVER = 9999
"""The year of an end that never comes."""
_DAYS = ("dt", "ds", "snapshot_date", "snapshot", "date")
_LONG = timedelta(days=60)
_KNOWN = "1h"
_WHEN_KNOWN = f"when is an action known? Until that is known, {_KNOWN} after it happened is assumed"


@dataclass(frozen=True, slots=True)
class View:
    """A table joined to the log: its join key, its configuration entries, and its columns that become features."""

    name: str
    match: Match
    keys: tuple[Entry, ...]
    features: Sequence[tuple[Column, FeatureTemplate]]


def views_around(d: Drafting, others: Sequence[Table]) -> list[View]:
    """Return views for tables joined on log keys, then for tables joined on columns of these views."""
    keyed = [match for table in others if (match := best_match(_joinable(d), table))]
    found = [_view(d, match, _key_name(d, match.own)) for match in keyed]
    joined = [view.match.table.name for view in found]
    of = {id(column): view.name for view in found for column in view.match.table.columns if _may_lead(column, view)}
    leading = [column for view in found for column in view.match.table.columns if id(column) in of]
    used = set()
    for table in others:
        if table.name not in joined and (match := best_match(leading, table)) is not None:
            found.append(_view(d, match, f"{of[id(match.own)]}.{match.own.expr}"))
            used.add(of[id(match.own)])
    for view in found:
        if view.features or view.name in used:
            d.views[view.name] = view.match.table.name
        else:
            d.roles[view.match.table.name] = "not used: none of its columns can be a feature"
    return [view for view in found if view.name in d.views]


def _may_lead(column: Column, view: View) -> bool:
    return w.is_identifier(column) and column is not view.match.column and "." not in column.expr


def _joinable(d: Drafting) -> list[Column]:
    log = d.log
    keys = [column for column in (log.user, log.clicked_list or log.item) if column is not None]
    rest = [c for c in log.table.columns if w.is_identifier(c) and not any(c is key for key in keys)]
    return [*keys, *rest]


def _key_name(d: Drafting, column: Column) -> str:
    log = d.log
    if column is log.user:
        return "user"
    if column is log.item or column is log.clicked_list:
        return d.log.item_name
    name = "_".join(word for word in words_of(column.name) if word not in w.ID) or "key"
    log.others.setdefault(name, column)
    return name


def _view(d: Drafting, match: Match, on: str) -> View:
    table, column = match.table, match.column
    name = table.name if table.name not in OWN or table.name in ("user", "item", "article") else f"{table.name}_table"
    why = f"{column.called} holds {match.overlap:.0%} of the values of {match.own.called}"
    times, used = _times_of(d, match)
    keys = [
        Entry("source", table.name),
        Entry("on", on, why),
        Entry("key", w.key_expr(column)),
        *where_of(table),
        *times,
    ]
    d.roles[table.name] = f"a table on {on}: " + ", ".join(entry.key for entry in times if entry.key != "ttl")
    return View(name, match, tuple(keys), list(_features_of(d, table, [column, *used])))


def _features_of(d: Drafting, table: Table, used: Sequence[Column]) -> Iterator[tuple[Column, FeatureTemplate]]:
    """Yield the features for the columns of a joined table. Add a note for each omitted column."""
    for column in table.columns:
        if any(column is one for one in used) or column.name == table.day_column or (
            column.named and w.words(column) <= w.INDEX
        ):  # fmt: skip
            continue
        feature = feature_of(column, known=d.log.items)
        if isinstance(feature, str):
            d.leave_out(table, column, feature)
        else:
            yield column, feature


def features_of_views(d: Drafting, views: Sequence[View]) -> Iterator[Entry]:
    """Yield features for the columns of joined tables, named after their views."""
    for view in views:
        for column, feature in view.features:
            name = column.name if column.name.lower().startswith(f"{view.name}_") else f"{view.name}_{column.name}"
            plain = feature.expr == column.read == "{}" and "." not in column.expr
            expr = feature.expr.replace("{}", column.sql(f"{view.name}."))
            yield feature.entry(d.free(name), "from" if plain else "expr", expr)


# --- when a row of a table was true and known


def _times_of(d: Drafting, match: Match) -> tuple[list[Entry], list[Column]]:
    """Return the entries for event time and availability, and the columns they use."""
    table = match.table
    if d.log.when is None:
        return [Entry("static", True, "without times in the log, no table can change")], []
    day = _snapshot_column(table, match.column)
    changes, ends = _interval(table, match.column) or (_changes(table), None)
    if day is not None and (changes is None or _stands_each_day(table, match.column)):
        d.reaches(table, 5)
        todo = "when is the snapshot of a day there? Until it is known, a day after that day ended is assumed"
        return [
            Entry("snapshot", day, "the table is written whole for each day"),
            Entry("publish_delay", "1d", "", todo),
            Entry("ttl", "4d", "an older snapshot is none"),
        ], [c for c in table.columns if c.expr == day]
    if changes is None or changes.time is None:
        todo = "the table has no times; is it the same on all days of the log? If it changes, it leaks"
        return [Entry("static", True, "", todo)], []
    d.reaches(table, min(30, max(7, len(table.days))))
    entries = [Entry("event_time", d.zone.expr_of(changes.time), changes.time.why, changes.time.todo)]
    used = [changes]
    end = ""
    if ends is not None:
        end = d.zone.expr_of(ends.time) if ends.time else ends.expr
        entries.append(Entry("valid_to", end, "when a row ceased to be true"))
        used.append(ends)
    known = _known(table, changes, used)
    if known is not None and known.time is not None:
        why, todo = f"it is never before {changes.called}", f"is {known.called} when a row became known?"
        entries.append(Entry("available_time", d.zone.expr_of(known.time), why, todo))
        used.append(known)
    else:
        todo = "when does a row become known? Until that is known, a day after it became true is assumed"
        entries.append(Entry("available_after", "1d", "", todo))
        if ends is not None and ends.time is not None:
            closed = f"timestamp({end}) + interval 1 day"
            if max(ends.time.moments).year == _FOREVER:
                closed = f"if(year({end}) < {_FOREVER}, {closed}, null)"
            entries.append(Entry("closed_available", closed, "as late as the row that follows it"))
    return [*entries, Entry("ttl", "unbounded", "the last row stays true")], used


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
    pairs = [(begin, end) for begin, end in permutations(times, 2) if begin.time is not None]
    named = [(begin, end) for begin, end in pairs if w.words(begin) & w.BEGINS and w.words(end) & w.ENDS]
    return next((pair for pair in [*named, *(pair for pair in pairs if _follow_each_other(key, *pair))]), None)


def _follow_each_other(key: Column, begin: Column, end: Column) -> bool:
    """Whether most rows of a key end where the next one begins, and none later."""
    rows = [row for row in zip(key.texts, begin.instants, end.instants, strict=True) if row[0] and row[1]]
    rows.sort(key=lambda row: row[:2])
    follow = [(one[2], other[1]) for one, other in pairwise(rows) if one[0] == other[0]]
    if len(follow) < 10 or any(until and since and until < since for _, since, until in rows):
        return False
    closed = all(until and since and until <= since for until, since in follow)
    ended = sum(until == since for until, since in follow)
    return closed and (2 * ended > len(follow) or any(until is None for *_, until in rows))


def _known(table: Table, changes: Column, used: Sequence[Column]) -> Column | None:
    """Find another time with a clock that each row has, and that is never before the time at which it became true."""
    others = [c for c in table.columns if c.time and c.time.has_clock and not w.words(c) & w.BIRTH]
    later = [
        c
        for c in others
        if all(c is not one for one in used) and bool((changes.moments <= c.moments).all())  # NaT is never later
    ]
    return later[0] if len(later) == 1 else None


def _stands_each_day(table: Table, key: Column) -> bool:
    """Whether most keys stand on each day of a dated table once, as in a snapshot, and not in a log of changes."""
    days = {day for day in table.row_days if day is not None}
    return not days or (is_unique(key, table.row_days) and 2 * len(key.values) > len(key.keys) * len(days))


def _is_date(column: Column) -> bool:
    return column.is_text and any(re.match(r"\d{4}-\d\d-\d\d", str(value)) for value in column.present[:100])


def _snapshot_column(table: Table, key: Column) -> str | None:
    """Return the day column of a snapshot table: the partition column, or a date column in which each key occurs once
    per day.
    """
    if table.day_column is not None:
        return table.day_column
    days = table.find(lambda column: column.name.lower() in _DAYS and column.time is not None)
    if days is None or days.time is None or days.time.has_clock or len(days.distinct) < 2:
        return None
    pairs = set(zip(days.texts, key.texts, strict=True))
    return days.time.expr if len(pairs) == table.rows > len(key.distinct) else None


# --- what the log itself gives


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
    shown = "true" if log.action is None else f"{log.action.expr} = {sql_text(str(log.shown))}"
    aggregates = {
        "windows": lengths,
        "step": step,
        "counts": {"shown": shown, "clicked": d.positive},
        "rates": {"rate": {"count": "clicked", "of": "shown", "prior": log.prior, "strength": 20}},
    }
    for length in lengths:
        name = d.free(f"item_rate_{length}")
        d.filling.append(name)
        why = "the share of clicks among the impressions of the item"
        d.features.append(Entry(name, {"from": f"clicks_of_item.rate_{length}", "dtype": "float32"}, why))
    keys = (
        Entry("source", log.table.name, "how often the item was shown and clicked before"),
        Entry("on", d.log.item_name),
        Entry("key", item),
        *where_of(log.table),
        Entry("event_time", d.zone.expr_of(when)),
        Entry("available_after", _KNOWN, "", _WHEN_KNOWN),
        Entry("aggregates", aggregates, "counted from the log, never from the present or the future"),
    )
    return [Entry("clicks_of_item", keys)]


def histories_of(d: Drafting) -> list[Entry]:
    """Return a history of the user's last clicks, and add its feature."""
    log = d.log
    if log.user is None or log.when is None or d.positive is None or log.item_expr is None:
        return []
    within = "7d" if log.when.span <= _LONG else "unbounded"
    d.reaches(log.table, 8)
    what = {"source": log.table.name, "where": d.positive, "last": 20, "within": within, "available_after": _KNOWN}
    items = replace(ids_of(log.items, ragged=True), why="what the user clicked last, newest first")
    d.features.append(items.entry("recent_items", "from", "recent.items"))
    return [Entry("recent", what, "the user's last clicks", _WHEN_KNOWN)]
