"""Turn the roles of the inputs into configuration entries, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from ctr_samples.starter.around import features_of_views, histories_of, views_around, windows_of
from ctr_samples.starter.drafting import Drafting
from ctr_samples.starter.entries import Entry, todos_of
from ctr_samples.starter.impressions import features_of_log, impressions_of, labels_of
from ctr_samples.starter.links import matches
from ctr_samples.starter.log import Log
from ctr_samples.starter.questions import Answers, Question
from ctr_samples.starter.roles import find_log
from ctr_samples.starter.tables import Options, Table
from ctr_samples.starter.text import allowed
from ctr_samples.starter.zones import in_zone, zone_of


@dataclass(frozen=True, slots=True)
class Draft:
    """The drafted configuration entries, with input roles, notes on unused columns, and a day of the log."""

    entries: Sequence[Entry]
    tables: Sequence[Table]
    roles: Mapping[str, str]
    notes: Sequence[str]
    dated: bool
    day: date | None
    missing: str = ""
    """A description of the missing parts, or an empty string if the configuration is complete."""
    open: Sequence[Question] = ()
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
    if log.explodes and not (any(one.of(log.request) for one in log.followers) or answers.names("request")):
        log = replace(log, request=None)  # all items of a list share it
    tables = [log.table if table.name == log.table.name else table for table in tables]
    zone = zone_of(log, tables, answers)
    dated = log.table.dated or "date_column" in log.table.options
    d = Drafting(in_zone(log, zone), dated, answers, zone, [note for table in tables for note in table.todo])
    entries = _entries(d, tables)
    return Draft(
        entries, tables, d.roles, d.notes, dated, _day_of(log), _missing(d, tables), tuple(answers.open.values())
    )


def _missing(d: Drafting, tables: Sequence[Table]) -> str:
    """Describe the missing parts of the draft, with advice. Empty if the draft is complete."""
    log, table = d.log, d.log.table
    unread = None if log.when is not None else table.find(lambda column: column.seems_a_time)
    if unread is not None:
        return (
            f"{unread.called} of {table.name} seems to say when, in a form that cannot be read here, such as "
            f"'{unread.present[0]}'. All rows have one time so far: write the expression that reads it as "
            "`impressions.time`, or name another column with `--time`."
        )
    if d.labels:
        some = d.carried or d.features or log.user or log.item_expr or d.views
        return "" if some else f"{table.name} has no column but its label; name an input that has more."
    names = ", ".join(column.called for column in table.columns[:20])
    shared = {one.name: [m.own.called for m in matches(table.columns, one)] for one in tables if one is not table}
    found = "; ".join(f"{', '.join(columns)} with {name}" for name, columns in shared.items() if columns)
    return (
        f"No input says what was clicked: {table.name} has the columns {names}, and none is a flag such as click, a rating, or "
        "names actions such as exposure and click. If one of them is the label, say `--label COLUMN`; else name the log of "
        "what was shown together with that of the clicks, which must share a column such as the id of the item."
        + (f" It shares {found}. If that is the log of what followed, say `--log {table.name} --actions NAME`, and "
           "`--item COLUMN` for what was shown." if found else "")
    )  # fmt: skip


def _entries(d: Drafting, tables: Sequence[Table]) -> list[Entry]:
    log = d.log
    used = {log.table.name, *(follower.table.name for follower in log.followers)}
    views = views_around(d, [table for table in tables if table.name not in used])
    for label in labels_of(d):
        d.labels.append(label)
    impressions = list(impressions_of(d))
    windows, histories = windows_of(d), histories_of(d)
    features = [*features_of_log(d), *d.features, *features_of_views(d, views)]
    labels = d.labels or [Entry("click", {"expr": "..."}, "what was clicked", "which column says so?")]
    sections = {
        "sources": list(_sources(d, tables, used | {*d.views.values()})),
        "impressions": impressions,
        "labels": labels,
        "views": [*(Entry(view.name, view.keys) for view in views), *windows],
        "histories": histories,
        "features": [*features, *_left_out(d), *_to_forget(d)],
    }
    path = Entry("path", f"samples/{log.table.name}", "each day is a directory below" if d.dated else "")
    return [
        Entry("name", log.table.name.lower()),
        Entry("timezone", d.zone.name, d.zone.why, d.zone.todo),
        _grain(d),
        *(Entry(name, tuple(some), off=some is labels is not d.labels) for name, some in sections.items() if some),
        _split(log),
        Entry("output", (path, Entry("partitions", 2, "tasks that write"))),
        *_quality(d),
    ]


def _day_of(log: Log) -> date | None:
    """Pick a day of the log for a run, if possible with a following day for late actions."""
    days = sorted(log.table.days or (log.when.days if log.when is not None else ()))
    acting = bool(log.followers or log.actions)
    return days[-2] if acting and len(days) > 1 else days[-1] if days else None


def _grain(d: Drafting) -> Entry:
    if d.dated:
        return Entry("grain", "day", "the log lies by day, so a run makes a day")
    return Entry(
        "grain", "all", "no path names days, so a run makes one set of the whole log; `day` makes one for each day"
    )


def _sources(d: Drafting, tables: Sequence[Table], used: set[str]) -> Iterator[Entry]:
    for table in tables:
        if table.name not in used:
            d.roles.setdefault(table.name, "not used: no column of it holds a key of the log")
            continue
        is_log, by_day = table is d.log.table, d.dated and (table.dated or "date_column" in table.options)
        options = {**(_allowing(d.log) if is_log else {}), **table.options}
        keys = [Entry(key, value, why) for key, (value, why) in options.items()]
        if is_log and d.log.clicked_list is not None:
            expr = f"split({d.log.clicked_list.expr}, ' ')"
            keys.append(Entry("explode", {"shown": expr}, "each item of the list becomes a row"))
        before, after = d.reach.get(table.name, (0, 0))
        if by_day and before:
            keys.append(Entry("days_before", before, "as far as what is joined from it looks back"))
        if by_day and after:
            keys.append(Entry("days_after", after, "an action may follow after midnight"))
        yield Entry(table.name, tuple(keys))


def _allowing(log: Log) -> Options:
    """Return the rate of rows without a time or an item that a run is to allow for, if the sample has some."""
    rows = log.impressions
    if log.explodes and log.item is not None and log.item.is_list:
        lacks = [element is None for row in rows for element in log.item.values[row] or ()]
    else:
        needed = [column for column in (log.time, log.item) if column is not None]
        lacks = [any(column.texts[row] is None for column in needed) for row in rows]
    said = f"{sum(lacks):,} of {len(lacks):,} sampled impressions have no time or no item"
    return {"bad_records": ({"max_rate": allowed(sum(lacks), len(lacks))}, said)} if any(lacks) else {}


def _left_out(d: Drafting) -> Iterator[Entry]:
    """Yield what is left out since it is known only afterwards, as comments."""
    for note in d.notes:
        if any(word in note.partition(" is left out: ")[2] for word in ("follow", "afterwards", "outcome")):
            yield Entry("", None, note, off=True)


def _to_forget(d: Drafting) -> Iterator[Entry]:
    """Yield a commented-out user key, which `forget` needs to find samples."""
    if d.log.user is not None:
        d.notes.append(
            "The samples hold a user only hashed, so `ctr-samples forget` could not find one; the commented line `user_key` in "
            "the file keeps the id as it is."
        )
        kind = "string" if d.log.user.is_text else "int64"
        why = "the id as it is: without it `ctr-samples forget` cannot find a user's samples. It is personal data, no feature"
        yield Entry("user_key", {"from": "impression.user", "dtype": kind}, why, off=True)


def _split(log: Log) -> Entry:
    by, why = "impression", "by a hash of each impression"
    if log.user is not None and len(log.user.distinct) >= 20:
        by, why = "user", "no user is in train and in eval"
    elif log.clicked_list is not None and log.request is not None:
        by, why = "request", "a list goes to one split as a whole"
    return Entry("split", {"eval": 0.1, "by": by}, why)


def _quality(d: Drafting) -> Iterator[Entry]:
    if d.log.when is None:
        yield Entry("quality", (Entry("silent_hours", "off", "all rows have one time"),))
    elif d.dated and d.filling:
        why = "their windows fill in the first days of the log, and their values move until then: remove the line later"
        yield Entry("quality", (Entry("distribution", {"without": d.filling}, why),))
