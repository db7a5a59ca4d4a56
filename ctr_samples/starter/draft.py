"""Turn the roles of the inputs into configuration entries, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from ctr_samples.starter.around import features_of_views, histories_of, views_around, windows_of
from ctr_samples.starter.drafting import Drafting
from ctr_samples.starter.entries import Entry, todos_of
from ctr_samples.starter.features import ids_of
from ctr_samples.starter.impressions import feature_of_carried, impressions_of
from ctr_samples.starter.labels import labels_of
from ctr_samples.starter.links import matches
from ctr_samples.starter.log import Log
from ctr_samples.starter.questions import Answers, Question
from ctr_samples.starter.roles import find_log
from ctr_samples.starter.tables import Table
from ctr_samples.starter.zones import in_zone, late_actions, zone_of


@dataclass(frozen=True, slots=True)
class Draft:
    """The drafted configuration entries, with input roles, notes on unused columns, and a day of the log."""

    entries: Sequence[Entry]
    tables: Sequence[Table]
    roles: dict[str, str]
    notes: Sequence[str]
    dated: bool
    day: date | None
    missing: str = ""
    """A description of the missing parts, or an empty string if the configuration is complete."""
    open: tuple[Question, ...] = ()
    """The questions that nobody answered."""

    @property
    def todos(self) -> list[str]:
        """The open decisions for the user, each with its key."""
        return [f"{key}: {what}" for key, what in todos_of(self.entries)]


def draft(tables: Sequence[Table], answers: Answers | None = None) -> Draft:
    """Draft a configuration for the inputs. Raise UsageError if an option names an unknown input or column.

    Without a usable label or feature, ``missing`` explains the problem and the draft omits the incomplete sections.
    """
    answers = answers or Answers()
    log = find_log(tables, answers)
    tables = [log.table if table.name == log.table.name else table for table in tables]
    if log.explodes:
        keeps = any(follower.of(log.request) for follower in log.followers) or answers.names("request")
        log = replace(log, request=log.request if keeps else None)  # all items of a list share it
    zone = zone_of(log, tables, answers)
    log = in_zone(log, zone)
    dated = log.table.dated or "date_column" in log.table.options
    d = Drafting(
        log,
        tables,
        dated,
        answers,
        zone,
        notes=[*(note for table in tables for note in table.todo), *late_actions(log)],
    )
    followers = [follower.table for follower in log.followers]
    others = [table for table in tables if table.name != log.table.name]
    entries = _entries(d, [table for table in others if all(table is not one for one in followers)])
    day = _day_of(log, acting=bool(followers or log.actions))
    return Draft(entries, tables, d.roles, d.notes, dated, day, _missing(d, others), tuple(answers.open.values()))


def _missing(d: Drafting, others: Sequence[Table]) -> str:
    """Describe the missing parts of the draft, with advice. Empty if the draft is complete."""
    log = d.log
    unread = None if log.when is not None else log.table.find(lambda column: column.seems_a_time)
    if unread is not None:
        return (
            f"{unread.called} of {log.table.name} seems to say when, in a form that cannot be read here, such as "
            f"'{unread.present[0]}'. All rows have one time so far: write the expression that reads it as "
            "`impressions.time`, or name another column with `--time`."
        )
    if d.labels and (d.carried or d.features or log.user or log.item_expr or d.of_views):
        return ""
    if d.labels:
        return f"{log.table.name} has no column but its label; name an input that has more."
    names = ", ".join(column.called for column in log.table.columns[:20])
    said = (
        f"No input says what was clicked: {log.table.name} has the columns {names}, and none is a flag such as click, a "
        "rating, or names actions such as exposure and click."
    )
    shared = {table.name: [match.own.called for match in matches(log.table.columns, table)] for table in others}
    found = "; ".join(f"{', '.join(names)} with {name}" for name, names in shared.items() if names)
    if found:
        return (
            f"{said} It shares {found}. If that is the log of what followed, say `--log {log.table.name} --actions NAME`, and "
            "`--item COLUMN` for what was shown; if a column says what was clicked, say `--label COLUMN`."
        )
    return (
        f"{said} If one of them is the label, say `--label COLUMN`; else name the log of what was shown together with that of "
        "the clicks, which must share a column such as the id of the item."
    )


def _entries(d: Drafting, others: Sequence[Table]) -> list[Entry]:
    log = d.log
    d.views += views_around(d, others)
    for label in labels_of(d):
        d.labels.append(label)
    impressions = impressions_of(d)
    windows, histories = windows_of(d), histories_of(d)
    features = [*_features_of_log(d), *d.features, *features_of_views(d)]
    labels = d.labels or [Entry("click", {"expr": "..."}, "what was clicked", "which column says so?")]
    views = [*(Entry(view.name, view.keys) for view in d.views), *windows]
    path = Entry("path", f"samples/{log.table.name}", "each day is a directory below" if d.dated else "")
    sections = {
        "sources": list(_sources(d)),
        "impressions": impressions,
        "labels": labels,
        "views": views,
        "histories": histories,
        "features": [*features, *_left_out(d), *_to_forget(d)],
    }
    return [
        Entry("name", log.table.name.lower()),
        Entry("timezone", d.zone.name, d.zone.why, d.zone.todo),
        _grain(d),
        *(
            Entry(name, tuple(section), off=section is labels is not d.labels)
            for name, section in sections.items()
            if section
        ),
        _split(d),
        Entry("output", (path, Entry("partitions", 2, "tasks that write"))),
        *_quality(d),
    ]


def _day_of(log: Log, *, acting: bool) -> date | None:
    """Pick a day of the log for a run, if possible with a following day for late actions."""
    days = sorted(log.table.days)
    if not days and log.when is not None:
        days = sorted(log.when.days)
    if not days:
        return None
    return days[-2] if acting and len(days) > 1 else days[-1]


def _grain(d: Drafting) -> Entry:
    if d.dated:
        return Entry("grain", "day", "the log lies by day, so a run makes a day")
    return Entry(
        "grain", "all", "no path names days, so a run makes one set of the whole log; `day` makes one for each day"
    )


def _sources(d: Drafting) -> Iterator[Entry]:
    used = [d.log.table, *[follower.table for follower in d.log.followers], *[view.match.table for view in d.views]]
    for table in d.tables:
        if not any(table is one for one in used):
            d.roles.setdefault(table.name, "not used: no column of it holds a key of the log")
            continue
        options = {**_allowing(d.log), **table.options} if table is d.log.table else table.options
        keys = [Entry(key, value, why) for key, (value, why) in options.items()]
        if table is d.log.table and d.log.clicked_list is not None:
            expr = f"split({d.log.clicked_list.expr}, ' ')"
            keys.append(Entry("explode", {"shown": expr}, "each item of the list becomes a row"))
        before, after = d.reach.get(table.name, (0, 0))
        if d.dated and before and (table.dated or "date_column" in table.options):
            keys.append(Entry("days_before", before, "as far as what is joined from it looks back"))
        if d.dated and after and (table.dated or "date_column" in table.options):
            keys.append(Entry("days_after", after, "an action may follow after midnight"))
        yield Entry(table.name, tuple(keys))


def _allowing(log: Log) -> dict[str, tuple[Any, str]]:
    """Return the rate of rows without a time or an item that a run is to allow for, if the sample has some."""
    rows = log.impressions
    if log.explodes and log.item is not None and log.item.is_list:
        lacks = [element is None for row in rows for element in log.item.values[row] or ()]
    else:
        needed = [column for column in (log.time, log.item) if column is not None]
        lacks = [any(column.texts[row] is None for column in needed) for row in rows]
    if not any(lacks):
        return {}
    rate = min(0.05, max(0.01, float(f"{2 * sum(lacks) / len(lacks):.1g}")))
    said = f"{sum(lacks):,} of {len(lacks):,} sampled impressions have no time or no item"
    return {"bad_records": ({"max_rate": rate}, said)}


def _features_of_log(d: Drafting) -> Iterator[Entry]:
    log = d.log
    if log.user is not None:
        yield ids_of(log.user.keys, what="different users").entry("user_id", "from", "impression.user")
    if log.item_expr is not None:
        yield ids_of(log.items, what="different items").entry("item_id", "from", f"impression.{log.item_name}")
    for name, column in log.others.items():
        if column is log.request:
            continue
        feature = feature_of_carried(d, column.of(log.impressions), is_key=True)
        if isinstance(feature, str):
            d.leave_out(log.table, column, feature)
        else:
            yield feature.entry(d.free(f"{name}_id"), "from", f"impression.{name}")
    if log.position is not None or log.clicked_list is not None or log.explodes:
        yield Entry("place", {"from": "impression.position", "dtype": "int64"}, "the place in the list")
    if log.when is not None and log.when.has_clock:
        hour = {"from": "impression.impression_time", "date_part": "hour", "dtype": "int64"}
        yield Entry("hour", hour, "of the impression")
    if not d.dated and log.when is not None and len(log.when.days) > 1:
        # Within a single day, the weekday would be constant, and on Mondays equal to the default.
        weekday = {"from": "impression.impression_time", "date_part": "weekday", "dtype": "int64"}
        yield Entry("weekday", weekday, "0 is Monday")
    for one in d.carried:
        yield one.feature.entry(one.name, "from", f"impression.{one.name}")


def _left_out(d: Drafting) -> Iterator[Entry]:
    for table, column, why in d.left_out:
        if "follow" in why or "afterwards" in why or "outcome" in why:
            yield Entry("", None, f"{table.name}.{column.called} is left out: {why}.", off=True)


def _to_forget(d: Drafting) -> Iterator[Entry]:
    """Yield a commented-out user key, which `forget` needs to find samples."""
    if d.log.user is None:
        return
    d.notes.append(
        "The samples hold a user only hashed, so `ctr-samples forget` could not find one; the commented line `user_key` in the "
        "file keeps the id as it is."
    )
    kind = "string" if d.log.user.is_text else "int64"
    why = "the id as it is: without it `ctr-samples forget` cannot find a user's samples. It is personal data, and no feature"
    yield Entry("user_key", {"from": "impression.user", "dtype": kind}, why, off=True)


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
    elif d.dated and d.filling:
        why = "their windows fill in the first days of the log, and their values move until then: remove the line later"
        yield Entry("quality", (Entry("distribution", {"without": d.filling}, why),))
