"""From the roles of the inputs to the entries of a configuration, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from ctr_samples.errors import InputError
from ctr_samples.starter.around import features_of_views, views_around
from ctr_samples.starter.counted import histories_of, windows_of
from ctr_samples.starter.drafting import Drafting
from ctr_samples.starter.entries import Entry, todos_of
from ctr_samples.starter.features import buckets_for, feature_of
from ctr_samples.starter.impressions import impressions_of
from ctr_samples.starter.labels import labels_of
from ctr_samples.starter.roles import Log, Match, best_match, find_log, require_labels
from ctr_samples.starter.tables import Table


@dataclass(frozen=True, slots=True)
class Draft:
    """A configuration as entries, what its inputs were taken for, what was left out, and a day that the log has."""

    entries: Sequence[Entry]
    tables: Sequence[Table]
    roles: dict[str, str]
    notes: Sequence[str]
    dated: bool
    day: date | None

    @property
    def todos(self) -> list[str]:
        """What a person must decide, with the keys that it concerns."""
        return [f"{key}: {what}" for key, what in todos_of(self.entries)]


def draft(tables: Sequence[Table]) -> Draft:
    """The configuration for some inputs. InputError where no input can be the log or nothing can be a label."""
    log = find_log(tables)
    others = [table for table in tables if table is not log.table]
    actions = [] if log.has_labels else _action_tables(log, others)
    require_labels(log, bool(actions))
    if log.explodes:
        log = replace(log, request=None)  # a list's items share it
    dated = log.table.dated or "date_column" in log.table.options
    d = Drafting(log, tables, actions, dated, notes=[note for table in tables for note in table.todo])
    entries = _entries(d, [table for table in others if all(table is not match.table for match in actions)])
    day = _day_of(log, acting=bool(actions or log.actions))
    return Draft(entries, tables, d.roles, d.notes, dated, day)


def _entries(d: Drafting, others: Sequence[Table]) -> list[Entry]:
    log = d.log
    d.views += views_around(d, others)
    for label in labels_of(d):
        d.labels.append(label)
    impressions = impressions_of(d)
    windows, histories = windows_of(d), histories_of(d)
    features = [*_features_of_log(d), *d.features, *features_of_views(d)]
    if not features:
        raise InputError(f"{log.table.name} has no column but its label; name an input that has more.")
    views = [*(Entry(view.name, view.keys) for view in d.views), *windows]
    path = Entry("path", f"samples/{log.table.name}", "each day is a directory below" if d.dated else "")
    sections = {
        "sources": list(_sources(d)),
        "impressions": impressions,
        "labels": d.labels,
        "views": views,
        "histories": histories,
        "features": features,
    }
    return [
        Entry("name", log.table.name),
        _timezone(d),
        _grain(d),
        *(Entry(name, tuple(section)) for name, section in sections.items() if section),
        _split(d),
        Entry("output", (path, Entry("partitions", 2, "tasks that write"))),
        *_quality(d),
    ]


def _action_tables(log: Log, others: Sequence[Table]) -> list[Match]:
    """Logs of what followed: with a time, and with the keys of what was shown."""
    found = []
    for table in others:
        item = best_match([log.item], table) if log.item else None
        who = [column for column in (log.user, log.request) if column is not None]
        rest = best_match(who, table) if who else None
        timed = any(c.time is not None and c.time.has_clock for c in table.columns)
        if item and rest and item.column is not rest.column and timed:
            found.append(item)
    return found


def _day_of(log: Log, *, acting: bool) -> date | None:
    """A day of the log that a run can make: with a day behind it for late actions, if there are several."""
    days = sorted(log.table.days)
    if not days and log.when is not None:
        days = sorted(log.when.days)
    if not days:
        return None
    return days[-2] if acting and len(days) > 1 else days[-1]


def _timezone(d: Drafting) -> Entry:
    times = [c.time for table in d.tables for c in table.columns if c.time and c.time.has_clock]
    plain = [time for time in times if not time.zoned]
    if plain:
        return Entry(
            "timezone", "UTC", plain[0].why, "in which zone are times without one, and where does a day begin?"
        )
    todo = "in which zone does a day begin?" if times else ""
    return Entry("timezone", "UTC", "all times know their zone" if times else "there are no times", todo)


def _grain(d: Drafting) -> Entry:
    if d.dated:
        return Entry("grain", "day", "the log lies by day, so a run makes a day")
    return Entry(
        "grain", "all", "no path names days, so a run makes one set of the whole log; `day` makes one for each day"
    )


def _sources(d: Drafting) -> Iterator[Entry]:
    used = [d.log.table, *[match.table for match in d.actions], *[view.match.table for view in d.views]]
    for table in d.tables:
        if not any(table is one for one in used):
            d.roles.setdefault(table.name, "not used: no column of it holds a key of the log")
            continue
        keys = [Entry(key, value, why) for key, (value, why) in table.options.items()]
        if table is d.log.table and d.log.clicked_list is not None:
            expr = f"split({d.log.clicked_list.expr}, ' ')"
            keys.append(Entry("explode", {"shown": expr}, "each item of the list becomes a row"))
        before, after = d.reach.get(table.name, (0, 0))
        if d.dated and before and (table.dated or "date_column" in table.options):
            keys.append(Entry("days_before", before, "as far as what is joined from it looks back"))
        if d.dated and after and (table.dated or "date_column" in table.options):
            keys.append(Entry("days_after", after, "an action may follow after midnight"))
        yield Entry(table.name, tuple(keys))


def _features_of_log(d: Drafting) -> Iterator[Entry]:
    log = d.log
    if log.user is not None:
        feature = feature_of(log.user, is_key=True)
        if not isinstance(feature, str):
            yield Entry("user_id", {"from": "impression.user", **feature.keys}, feature.why)
    if d.log.item_expr is not None:
        count, buckets = len(log.items), buckets_for(max(1, len(log.items)))
        keys = {"from": f"impression.{d.log.item_name}", "dtype": "int64", "hash_buckets": buckets}
        yield Entry("item_id", keys, f"{count:,} different items in the sample")
    for name, column in log.others.items():
        feature = feature_of(column.of(log.impressions), is_key=True)
        if not isinstance(feature, str):
            free = d.free(f"{name}_id")
            yield Entry(free, {"from": f"impression.{name}", **feature.keys}, feature.why)
    if log.position is not None or log.clicked_list is not None or log.explodes:
        yield Entry("place", {"from": "impression.position", "dtype": "int64"}, "the place in the list")
    if log.when is not None and log.when.has_clock:
        hour = {"from": "impression.impression_time", "date_part": "hour", "dtype": "int64"}
        yield Entry("hour", hour, "of the impression")
    if log.when is not None and len(log.when.days) > 1:
        weekday = {"from": "impression.impression_time", "date_part": "weekday", "dtype": "int64"}
        yield Entry("weekday", weekday, "0 is Monday")
    for one in d.carried:
        yield Entry(one.name, {"from": f"impression.{one.name}", **one.feature.keys}, one.feature.why)


def _split(d: Drafting) -> Entry:
    log = d.log
    if log.user is not None and len(log.user.distinct) >= 20:
        return Entry("split", {"eval": 0.1, "by": "user"}, "no user is in train and in eval")
    if log.clicked_list is not None and log.request is not None:
        return Entry("split", {"eval": 0.1, "by": "request"}, "a list goes to one split as a whole")
    return Entry("split", {"eval": 0.1, "by": "impression"}, "by a hash of each impression")


def _quality(d: Drafting) -> Iterator[Entry]:
    if d.log.when is None:
        yield Entry("quality", (Entry("silent_hours", "off", "all rows have one time"),))
