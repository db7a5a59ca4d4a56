"""From the roles of the inputs to the entries of a configuration, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from ctr_samples.errors import InputError
from ctr_samples.starter import words as w
from ctr_samples.starter.entries import Entry, todos_of
from ctr_samples.starter.features import Feature, feature_of, numbered, tells
from ctr_samples.starter.roles import Log, Match, best_match, find_log, require_labels
from ctr_samples.starter.tables import Column, Table
from ctr_samples.starter.times import Time, words_of

_OWN = {"impression_id", "impression_time", "request", "position", "impression", "time", "user", "article", "item"}
_WINDOW = "2h"
_LONG = timedelta(days=60)
_KNOWN = "1h"


@dataclass
class Draft:
    """A configuration in the making: its entries, what a person must decide, and what was found."""

    log: Log
    tables: Sequence[Table]
    grain: str
    day: date | None
    entries: list[Entry] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    """What each input is taken for."""
    notes: list[str] = field(default_factory=list)
    """What was left out, and why."""

    @property
    def todos(self) -> list[str]:
        """What a person must decide, with the keys that it concerns."""
        return [f"{key}: {what}" for key, what in todos_of(self.entries)]


@dataclass(frozen=True, slots=True)
class _View:
    name: str
    match: Match
    on: str
    keys: tuple[Entry, ...]
    used: tuple[str, ...]


def draft(tables: Sequence[Table]) -> Draft:
    """The configuration for some inputs. InputError where no input can be the log or nothing can be a label."""
    log = find_log(tables)
    others = [table for table in tables if table is not log.table]
    actions = _action_tables(log, others) if log.action is None and not log.flags and log.ratings is None else []
    require_labels(log, bool(actions))
    if log.explodes and log.request is not None:
        log = _without_request(log)
    dated = log.table.dated or "date_column" in log.table.options
    made = Draft(log, tables, "day" if dated else "all", _day_of(log, acting=bool(actions or log.actions)))
    made.notes += [note for table in tables for note in table.todo]
    tables_left = [table for table in others if all(table is not match.table for match in actions)]
    writer = _Writer(made, actions)
    writer.write(tables_left)
    return made


def _without_request(log: Log) -> Log:
    from dataclasses import replace

    return replace(log, request=None)


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


class _Writer:
    """Fills a draft, section by section; later ones use the names that earlier ones gave."""

    def __init__(self, made: Draft, actions: Sequence[Match]) -> None:
        self.made, self.log, self.actions = made, made.log, actions
        self.dated = made.grain == "day"
        self.labels: list[Entry] = []
        self.views: list[_View] = []
        self.features: list[Entry] = []
        self.positive: str | None = None
        self.reach: dict[str, tuple[int, int]] = {}
        self.of_views: dict[str, list[tuple[Column, Feature]]] = {}

    # --- the file

    def write(self, others: Sequence[Table]) -> None:
        self.views = list(self._views(others))
        labels = tuple(self._labels())
        impressions = self._impressions()
        windows = self._windows()
        histories = self._histories()
        self.features = [*self._features_of_log(), *self.features, *self._features_of_views()]
        if not self.features:
            raise InputError(f"{self.log.table.name} has no column but its label; name an input that has more.")
        views = [*(Entry(view.name, view.keys) for view in self.views), *windows]
        entries = [
            Entry("name", self.log.table.name),
            self._timezone(),
            self._grain(),
            Entry("sources", tuple(self._sources())),
            Entry("impressions", tuple(impressions)),
            Entry("labels", labels),
            *([Entry("views", tuple(views))] if views else []),
            *([Entry("histories", tuple(histories))] if histories else []),
            Entry("features", tuple(self.features)),
            self._split(),
            Entry(
                "output",
                (
                    Entry(
                        "path", f"samples/{self.log.table.name}", "each day is a directory below" if self.dated else ""
                    ),
                    Entry("partitions", 2, "tasks that write"),
                ),
            ),
            *self._quality(),
        ]
        self.made.entries = entries

    def _timezone(self) -> Entry:
        times = [c.time for table in self.made.tables for c in table.columns if c.time and c.time.has_clock]
        plain = [time for time in times if not time.zoned]
        if plain:
            return Entry(
                "timezone", "UTC", plain[0].why, "in which zone are times without one, and where does a day begin?"
            )
        todo = "in which zone does a day begin?" if times else ""
        return Entry("timezone", "UTC", "all times know their zone" if times else "there are no times", todo)

    def _grain(self) -> Entry:
        if self.dated:
            return Entry("grain", "day", "the log lies by day, so a run makes a day")
        return Entry(
            "grain", "all", "no path names days, so a run makes one set of the whole log; `day` makes one for each day"
        )

    def _sources(self) -> Iterator[Entry]:
        used = [self.log.table, *[match.table for match in self.actions], *[view.match.table for view in self.views]]
        for table in self.made.tables:
            if not any(table is one for one in used):
                self.made.roles.setdefault(table.name, "not used: no column of it holds a key of the log")
                continue
            keys = [Entry(key, value, why) for key, (value, why) in table.options.items()]
            if table is self.log.table and self.log.clicked_list is not None:
                expr = f"split({self.log.clicked_list.expr}, ' ')"
                keys.append(Entry("explode", {"shown": expr}, "each item of the list becomes a row"))
            before, after = self.reach.get(table.name, (0, 0))
            if self.dated and before and (table.dated or "date_column" in table.options):
                keys.append(Entry("days_before", before, "as far as what is joined from it looks back"))
            if self.dated and after and (table.dated or "date_column" in table.options):
                keys.append(Entry("days_after", after, "an action may follow after midnight"))
            yield Entry(table.name, tuple(keys))

    def _reach(self, table: Table, before: int = 0, after: int = 0) -> None:
        old = self.reach.get(table.name, (0, 0))
        self.reach[table.name] = (max(old[0], before), max(old[1], after))

    # --- impressions

    @property
    def item_name(self) -> str:
        return "article" if self.log.explodes else "item"

    def _impressions(self) -> list[Entry]:
        log = self.log
        entries = [Entry("source", log.table.name, f"{log.table.rows:,} rows were sampled")]
        if log.clicked_list is not None:
            entries[0] = Entry("source", log.table.name, f"each item of {log.clicked_list.name} is an impression")
        if log.action is not None:
            counts = {str(log.shown): len(log.impressions)} | log.actions
            why = "in the sample: " + ", ".join(f"{value} {count:,}" for value, count in counts.items())
            entries.append(Entry("where", f"{log.action.expr} = '{log.shown}'", why))
        if log.when is not None:
            entries.append(Entry("time", log.when.expr, log.when.why, log.when.todo))
        else:
            todo = "the log has no time, so all rows have this one; views and histories need a real one"
            entries.append(Entry("time", "timestamp'2020-01-01 12:00:00'", "", todo))
        entries += self._keys()
        if log.explodes:
            entries.append(Entry("explode", "article", "the column holds a list: each item is an impression"))
            entries.append(Entry("dedup", "30s", "the same shown again this soon is a repeat", "is it?"))
        elif log.request is not None:
            entries.append(Entry("request", self._request_expr(), "it tells rows or lists apart"))
        if log.clicked_list is not None:
            entries.append(Entry("position", "shown_position", "the place in the list"))
        elif log.position is not None:
            entries.append(Entry("position", log.position.expr, "named so"))
        if log.action is None and log.clicked_list is None and not self.actions and not self._tells_rows_apart():
            entries.append(
                Entry("identity", "row", "no column tells rows apart: each is an impression, equal ones too")
            )
        columns = {name: expr for name, (expr, _) in self._columns().items()}
        if columns:
            why = "what else a row says of the moment"
            entries.append(Entry("columns", tuple(Entry(name, expr) for name, expr in columns.items()), why))
        return entries

    def _tells_rows_apart(self) -> bool:
        request = self.log.request
        return request is not None and len(request.distinct) == self.log.table.rows

    def _request_expr(self) -> str:
        request = self.log.request
        return w.key_expr(request) if request is not None else ""

    def _keys(self) -> Iterator[Entry]:
        log = self.log
        keys: dict[str, Any] = {}
        why = []
        if log.user is not None:
            keys["user"] = w.key_expr(log.user)
            why.append(f"{log.user.name}: {len(log.user.distinct):,} different users")
        item = self._item_expr()
        if item is not None:
            keys[self.item_name] = item
            why.append(f"{log.item.name if log.item else 'the item'} is what was shown")
        if not log.explodes:
            keys |= {name: w.key_expr(column) for name, column in log.others.items()}
            if keys:
                yield Entry("keys", keys, "; ".join(why))
            return
        for name, expr in keys.items():
            yield Entry(name, expr, why[list(keys).index(name)])
        if log.others:
            yield Entry("keys", {name: w.key_expr(column) for name, column in log.others.items()})

    def _item_expr(self) -> str | None:
        log = self.log
        if log.clicked_list is not None:
            return "regexp_replace(shown, '-[01]$', '')"
        return None if log.item is None else log.item.expr if log.explodes else w.key_expr(log.item)

    def _taken(self) -> list[Column]:
        log = self.log
        columns = [log.action, log.clicked_list, log.time, log.user, log.item, log.request, log.position, log.ratings]
        return [c for c in [*columns, *(flag.column for flag in log.flags), *log.others.values()] if c is not None]

    def _columns(self) -> dict[str, tuple[str, Any]]:
        """The columns that impressions carry along: name -> expression, and the feature that is made of it."""
        if not hasattr(self, "_carried"):
            self._carried = dict(self._carry())
        return self._carried

    def _carry(self) -> Iterator[tuple[str, tuple[str, Any]]]:
        log = self.log
        taken = self._taken()
        rest = [c.of(log.impressions) for c in log.table.columns if not any(c is one for one in taken)]
        vectors = numbered(rest)
        for name, group in vectors.items():
            expr = "array(" + ", ".join(column.expr for column in group) + ")"
            keys = {"dtype": "float32", "shape": [len(group)], "fill": 0}
            why = f"{len(group)} numbered columns, {group[0].name} to {group[-1].name}"
            yield self._free(name), (expr, ({**keys}, why))
        grouped = {column.name for group in vectors.values() for column in group}
        positive = self._positives()
        for column in rest:
            if column.name in grouped or column.name == log.table.day_column:
                continue
            if column.time is not None:
                self.made.notes.append(f"{log.table.name}.{column.name} is left out: it is a time.")
                continue
            if positive is not None and (known := tells(column, positive)):
                self.made.notes.append(f"{log.table.name}.{column.name} is left out: {known}. Is it a label?")
                continue
            feature = feature_of(column)
            if isinstance(feature, str):
                self.made.notes.append(f"{log.table.name}.{column.name} is left out: {feature}.")
                continue
            yield self._free(column.name), (feature.expr.replace("{}", column.expr), (feature.keys, feature.why))

    def _positives(self) -> list[bool] | None:
        log = self.log
        if log.flags:
            flag = log.flags[0].column
            return [str(value).lower() in ("1", "1.0", "true", "y", "yes", "t") for value in flag.values]
        if log.ratings is not None:
            least = self._threshold(log.ratings)
            return [value is not None and value >= least for value in log.ratings.values]
        return None

    def _free(self, name: str) -> str:
        """A name for a feature or column that nothing else has."""
        name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "column"
        name = (name if name[0].isalpha() else f"c_{name}")[:56]
        taken = {*_OWN, *(entry.key for entry in self.labels), *self.log.others, *self._given()}
        taken |= {view.name for view in self.views}
        free, number = name, 1
        while free.lower() in {one.lower() for one in taken}:
            number += 1
            free = f"{name}_{number}"
        self._given().add(free)
        return free

    def _given(self) -> set[str]:
        self.__dict__.setdefault("_names", {"clicks_of_item", "recent", "hour", "weekday"})
        names: set[str] = self.__dict__["_names"]
        return names

    # --- labels

    def _labels(self) -> Iterator[Entry]:
        for entry in self._labels_found():
            self.labels.append(entry)
            yield entry

    def _labels_found(self) -> Iterator[Entry]:
        log = self.log
        if log.action is not None:
            yield from self._labels_of_actions()
        elif log.clicked_list is not None:
            items = [item for value in log.clicked_list.present for item in str(value).split(" ")]
            rate = sum(item.endswith("-1") for item in items) / len(items)
            self.positive = "shown rlike '-1$'"
            yield Entry(
                "click", {"expr": self.positive}, f"the item ends in -1; {rate:.2%} of {len(items):,} sampled items"
            )
        elif self.actions:
            yield from self._labels_of_tables()
        else:
            yield from self._labels_of_rows()
        role = "the log of what was shown" + (", with the actions" if log.action is not None else "")
        self.made.roles[log.table.name] = role

    def _labels_of_actions(self) -> Iterator[Entry]:
        log = self.log
        assert log.action is not None
        self._reach(log.table, 1, 1)
        for action, count in log.actions.items():
            where = f"{log.action.expr} = '{action}'"
            self.positive = self.positive if self.positive and "click" not in action.lower() else where
            what = {"source": log.table.name, "where": where, "window": _WINDOW}
            name = self._label_name(action)
            todo = f"how long after being shown does a {action} still count?"
            yield Entry(name, what, f"{count:,} in the sample, for {len(log.impressions):,} rows of {log.shown}", todo)
            rows = [row for row, value in enumerate(log.action.values) if value == action]
            for column in log.table.columns:
                if self._measures(column, rows):
                    total = {**what, "value": column.expr, "reduce": "sum"}
                    yield Entry(
                        self._label_name(f"{action}_{column.name}"), total, f"a number that only a {action} has"
                    )

    def _measures(self, column: Column, rows: list[int]) -> bool:
        """Whether a column has numbers in the rows of an action, and none in those of what was shown."""
        there, shown = column.of(rows).present, column.of(self.log.impressions).present
        if (
            any(column is one for one in self._taken())
            or len(there) < 0.5 * len(rows)
            or len(shown) > 0.05 * len(self.log.impressions)
        ):
            return False
        return all(re.fullmatch(r"\d+(\.\d+)?", str(value)) for value in there[:500]) and len(set(map(str, there))) > 1

    def _labels_of_tables(self) -> Iterator[Entry]:
        log = self.log
        self._reach(log.table, 1, 1)
        for item in self.actions:
            table = item.table
            self._reach(table, 1, 1)
            time = max((c for c in table.columns if c.time and c.time.has_clock), key=lambda c: len(c.distinct))
            assert time.time is not None
            keys = {self.item_name: w.key_expr(item.column)}
            if log.user is not None and (user := best_match([log.user], table)):
                keys["user"] = w.key_expr(user.column)
            what: dict[str, Any] = {"source": table.name, "time": time.time.expr}
            if log.request is not None and (request := best_match([log.request], table)):
                what["request"] = w.key_expr(request.column)
            what |= {"keys": keys, "window": _WINDOW}
            kinds = table.find(
                lambda c: (
                    c.is_text and 2 <= len(c.distinct) <= 20 and bool({str(v).lower() for v in c.distinct} & w.LABEL)
                )
            )
            self.made.roles[table.name] = "actions that follow what was shown"
            if kinds is None:
                name = table.name.removesuffix("s")
                todo = "how long after being shown does one still count?"
                yield Entry(
                    self._label_name(name), what, f"{item.overlap:.0%} of the items shown are in {table.name}", todo
                )
                continue
            for value in sorted(map(str, kinds.distinct)):
                one = {
                    "source": table.name,
                    "where": f"{kinds.expr} = '{value}'",
                    **{k: v for k, v in what.items() if k != "source"},
                }
                count = sum(str(v) == value for v in kinds.present)
                yield Entry(
                    self._label_name(value), one, f"{count:,} in the sample", f"how long does a {value} still count?"
                )

    def _labels_of_rows(self) -> Iterator[Entry]:
        log = self.log
        for flag in log.flags:
            self.positive = self.positive or (flag.expr if flag.column.kind != "BIGINT" else f"{flag.expr} = 1")
            name = self._label_name(flag.column.name if flag.column.named else "label")
            todo = "" if flag.column.named else "is this the label?"
            yield Entry(name, {"expr": flag.expr}, flag.why, todo)
        if log.ratings is not None:
            column = log.ratings
            least = self._threshold(column)
            rate = sum(value >= least for value in column.present) / len(column.values)
            self.positive = self.positive or f"{column.expr} >= {least:g}"
            todo = "from which value on is it a positive?"
            yield Entry(
                "liked", {"expr": f"{column.expr} >= {least:g}"}, f"{rate:.1%} of the sample are positive", todo
            )
            values = f"{len(column.distinct)} values, {min(column.present):g} to {max(column.present):g}"
            yield Entry(self._label_name("stars"), {"expr": column.expr, "dtype": "float32"}, values)

    @staticmethod
    def _threshold(column: Column) -> Any:
        """The value from which on about half of the ratings are, or more."""
        ordered = sorted(column.present)
        values = sorted(column.distinct)[1:]
        return min(values, key=lambda value: abs(sum(one >= value for one in ordered) / len(ordered) - 0.5))

    def _label_name(self, name: str) -> str:
        name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "label"
        name = (name if name[0].isalpha() else f"label_{name}")[:50]
        taken = {entry.key for entry in self.labels} | _OWN | {view.name for view in self.views}
        return name if name not in taken else f"{name}_label"

    # --- views

    def _views(self, others: Sequence[Table]) -> Iterator[_View]:
        """Tables on the keys of the log, then those on columns of such tables."""
        waiting = list(others)
        found: list[_View] = []
        for table in list(waiting):
            match = best_match(self._joinable(), table)
            if match is not None and (view := self._view(match, self._key_name(match.own))):
                waiting.remove(table)
                found.append(view)
        for table in waiting:
            of = {
                id(column): view
                for view in found
                for column in view.match.table.columns
                if self._may_lead(column, view)
            }
            own = [column for view in found for column in view.match.table.columns if id(column) in of]
            match = best_match(own, table)
            if match is not None:
                leading = of[id(match.own)]
                if view := self._view(match, f"{leading.name}.{match.own.expr}"):
                    found.append(view)
        leading_views = {view.on.partition(".")[0] for view in found}
        for view in found:
            if self._features_of(view) or view.name in leading_views:
                yield view
            else:
                self.made.roles[view.match.table.name] = "not used: none of its columns can be a feature"

    @staticmethod
    def _may_lead(column: Column, view: _View) -> bool:
        return w.is_identifier(column) and column is not view.match.column and "." not in column.expr

    def _joinable(self) -> list[Column]:
        log = self.log
        keys = [column for column in (log.user, log.clicked_list or log.item) if column is not None]
        rest = [
            c
            for c in log.table.columns
            if w.is_identifier(c) and not any(c is k for k in [*keys, log.request, log.clicked_list])
        ]
        return [*keys, *rest]

    def _key_name(self, column: Column) -> str:
        log = self.log
        if column is log.user:
            return "user"
        if column is log.item or column is log.clicked_list:
            return self.item_name
        said = [word for word in words_of(column.name) if word not in w.ID]
        name = "_".join(said) or "key"
        log.others.setdefault(name, column)
        return name

    def _view(self, match: Match, on: str) -> _View | None:
        table, column = match.table, match.column
        name = (
            table.name if table.name not in _OWN or table.name in ("user", "item", "article") else f"{table.name}_table"
        )
        if self._ends_of(table) is None and self._is_of_the_future(match):
            note = (
                f"{table.name} is left out: its rows became true after the log, so that none of them was known by then."
            )
            self.made.notes.append(note)
            self.made.roles[table.name] = "not used: its rows are from after the log"
            return None
        key = w.key_expr(column)
        why = f"{column.name} holds {match.overlap:.0%} of the values of {match.own.name}"
        keys = [Entry("source", table.name), Entry("on", on, why), Entry("key", key)]
        times, used = self._times_of(match)
        keys += times
        self.made.roles[table.name] = f"a table on {on}: " + ", ".join(
            entry.key for entry in times if entry.key != "ttl"
        )
        return _View(name, match, on, tuple(keys), (column.name, *used))

    def _is_of_the_future(self, match: Match) -> bool:
        """Whether more than half of the rows of a table are later than all of the log."""
        time, shown = self._changes(match.table), self.log.when
        if time is None or shown is None or time.time is None or match.table.dated:
            return False
        last = max(shown.moments)
        later = sum(moment > last for moment in time.time.moments)
        return later > 0.5 * len(time.time.moments)

    @staticmethod
    def _changes(table: Table) -> Column | None:
        """The column that says when a row became true."""
        times = [c for c in table.columns if c.time is not None and not w.words(c) & (w.BIRTH | w.ENDS)]

        def rank(column: Column) -> tuple[int, bool]:
            said = w.words(column)
            order = 3 if said & w.BEGINS else 2 if said & w.CHANGED else 1 if not said & w.MADE else 0
            return order, column.time is not None and column.time.has_clock

        return max(times, key=rank, default=None)

    @staticmethod
    def _ends_of(table: Table) -> Column | None:
        return table.find(lambda c: bool(w.words(c) & w.ENDS) and (c.time is not None or _is_date(c)))

    def _times_of(self, match: Match) -> tuple[list[Entry], list[str]]:
        """When the rows of a table became true and known; and the columns that say so."""
        table = match.table
        if self.log.when is None:
            return [Entry("static", True, "without times in the log, no table can change")], []
        day = _snapshot_column(table, match.column)
        changes, ends = self._changes(table), self._ends_of(table)
        if day is not None and (changes is None or not self._is_of_its_day(table, changes)):
            self._reach(table, 5)
            todo = "when is the snapshot of a day there? Until it is known, a day after that day ended is assumed"
            return [
                Entry("snapshot", day, "the table is written whole for each day"),
                Entry("publish_delay", "1d", "", todo),
                Entry("ttl", "4d", "an older snapshot is none"),
            ], [day]
        if changes is None or changes.time is None:
            todo = "the table has no times; is it the same on all days of the log? If it changes, it leaks"
            return [Entry("static", True, "", todo)], []
        entries = [Entry("event_time", changes.time.expr, changes.time.why, changes.time.todo)]
        used = [changes.name]
        if ends is not None and w.words(changes) & w.BEGINS:
            entries.append(
                Entry("valid_to", ends.time.expr if ends.time else ends.expr, "when a row ceased to be true")
            )
            used.append(ends.name)
        todo = "when does a row become known? Until that is known, a day after it became true is assumed"
        entries.append(Entry("available_after", "1d", "", todo))
        entries.append(Entry("ttl", "unbounded", "the last row stays true"))
        self._reach(table, min(30, max(7, len(table.days))))
        return entries, used

    @staticmethod
    def _is_of_its_day(table: Table, changes: Column) -> bool:
        """Whether the rows of a dated table have times of their own, so that they are changes and no snapshots."""
        if changes.time is None or not table.days:
            return False
        days = {day + timedelta(days=n) for day in table.days for n in (-1, 0, 1)}
        inside = sum(count for day, count in changes.time.days.items() if day in days)
        return inside > 0.8 * len(changes.time.moments)

    def _windows(self) -> list[Entry]:
        """How often an item was shown and clicked before, from the log itself."""
        log, when, item = self.log, self.log.when, self._item_expr()
        if when is None or item is None or self.positive is None or log.explodes:
            return []
        lengths, step = (["1d", "7d"], "1h") if when.span <= _LONG else (["30d", "365d"], "1d")
        self._reach(log.table, 8)
        counts = {"shown": "true", "clicked": self.positive}
        if log.action is not None:
            counts["shown"] = f"{log.action.expr} = '{log.shown}'"
        aggregates = {
            "windows": lengths,
            "step": step,
            "counts": counts,
            "rates": {"rate": {"count": "clicked", "of": "shown", "prior": self._prior(), "strength": 20}},
        }
        todo = f"when is an action known? Until that is known, {_KNOWN} after it happened is assumed"
        keys = (
            Entry("source", log.table.name, "how often the item was shown and clicked before"),
            Entry("on", self.item_name),
            Entry("key", item),
            Entry("event_time", when.expr),
            Entry("available_after", _KNOWN, "", todo),
            Entry("aggregates", aggregates, "counted from the log, never from the present or the future"),
        )
        for length in lengths:
            name = self._free(f"item_rate_{length}")
            why = "the share of clicks among the impressions of the item"
            self.features.append(Entry(name, {"from": f"clicks_of_item.rate_{length}", "dtype": "float32"}, why))
        return [Entry("clicks_of_item", keys)]

    def _prior(self) -> float:
        log = self.log
        if log.clicked_list is not None:
            items = [item for value in log.clicked_list.present for item in str(value).split(" ")]
            return _rounded(sum(item.endswith("-1") for item in items) / len(items))
        positive = self._positives()
        if positive:
            return _rounded(sum(positive) / len(positive))
        return 0.1

    def _histories(self) -> list[Entry]:
        """What the user clicked last, from the log itself."""
        log = self.log
        if log.user is None or log.when is None or self.positive is None or self._item_expr() is None:
            return []
        within = "7d" if log.when.span <= _LONG else "unbounded"
        self._reach(log.table, 8)
        what = {
            "source": log.table.name,
            "where": self.positive,
            "last": 20,
            "within": within,
            "available_after": _KNOWN,
        }
        items = max(1, len(self._items()))
        buckets = min(1 << 20, max(16, 1 << (4 * items - 1).bit_length()))
        keys = {"from": "recent.items", "dtype": "int64", "ragged": True, "hash_buckets": buckets}
        self.features.append(Entry("recent_items", keys, "what the user clicked last, newest first"))
        todo = f"when is an action known? Until that is known, {_KNOWN} after it happened is assumed"
        return [Entry("recent", what, "the user's last clicks", todo)]

    def _items(self) -> set[str]:
        from ctr_samples.starter.roles import _values

        column = self.log.clicked_list or self.log.item
        return _values(column) if column is not None else set()

    # --- features

    def _features_of_log(self) -> Iterator[Entry]:
        log = self.log
        if log.user is not None:
            feature = feature_of(log.user, is_key=True)
            if not isinstance(feature, str):
                yield Entry("user_id", {"from": "impression.user", **feature.keys}, feature.why)
        if self._item_expr() is not None:
            count = max(1, len(self._items()))
            buckets = min(1 << 20, max(16, 1 << (4 * count - 1).bit_length()))
            keys = {"from": f"impression.{self.item_name}", "dtype": "int64", "hash_buckets": buckets}
            yield Entry("item_id", keys, f"{count:,} different items in the sample")
        for name, column in log.others.items():
            feature = feature_of(column.of(log.impressions), is_key=True)
            if not isinstance(feature, str):
                free = self._free(f"{name}_id")
                yield Entry(free, {"from": f"impression.{name}", **feature.keys}, feature.why)
        if log.position is not None or log.clicked_list is not None or log.explodes:
            yield Entry("place", {"from": "impression.position", "dtype": "int64"}, "the place in the list")
        if log.when is not None and log.when.has_clock:
            hour = {"from": "impression.impression_time", "date_part": "hour", "dtype": "int64"}
            yield Entry("hour", hour, "of the impression")
        if log.when is not None and len(log.when.days) > 1:
            weekday = {"from": "impression.impression_time", "date_part": "weekday", "dtype": "int64"}
            yield Entry("weekday", weekday, "0 is Monday")
        for name, (_, (keys, why)) in self._columns().items():
            yield Entry(name, {"from": f"impression.{name}", **keys}, why)

    def _features_of_views(self) -> Iterator[Entry]:
        for view in self.views:
            for column, feature in self._features_of(view):
                name = column.name if column.name.lower().startswith(f"{view.name}_") else f"{view.name}_{column.name}"
                plain = feature.expr == "{}" and "." not in column.expr
                source = "from" if plain else "expr"
                keys = {source: feature.expr.replace("{}", f"{view.name}.{column.expr}"), **feature.keys}
                yield Entry(self._free(name), keys, feature.why)

    def _features_of(self, view: _View) -> list[tuple[Column, Feature]]:
        """What the columns of a table become; a note for each that becomes nothing."""
        if view.name not in self.of_views:
            self.of_views[view.name] = list(self._find_features(view))
        return self.of_views[view.name]

    def _find_features(self, view: _View) -> Iterator[tuple[Column, Feature]]:
        table = view.match.table
        for column in table.columns:
            if (
                column.name in view.used
                or column.name == table.day_column
                or (column.named and w.words(column) <= w.INDEX)
            ):
                continue
            feature = "it is a time" if column.time is not None else feature_of(column)
            if isinstance(feature, str):
                self.made.notes.append(f"{table.name}.{column.name} is left out: {feature}.")
            else:
                yield column, feature

    # --- the rest

    def _split(self) -> Entry:
        log = self.log
        if log.user is not None and len(log.user.distinct) >= 20:
            return Entry("split", {"eval": 0.1, "by": "user"}, "no user is in train and in eval")
        if log.clicked_list is not None and log.request is not None:
            return Entry("split", {"eval": 0.1, "by": "request"}, "a list goes to one split as a whole")
        return Entry("split", {"eval": 0.1, "by": "impression"}, "by a hash of each impression")

    def _quality(self) -> Iterator[Entry]:
        limits = []
        if self.log.when is None:
            limits.append(Entry("silent_hours", "off", "all rows have one time"))
        if limits:
            yield Entry("quality", tuple(limits))


def _rounded(rate: float) -> float:
    return min(1.0, max(0.0, float(f"{rate:.2g}")))


def _is_date(column: Column) -> bool:
    return column.is_text and any(re.match(r"\d{4}-\d\d-\d\d", str(value)) for value in column.present[:100])


def _snapshot_column(table: Table, key: Column) -> str | None:
    """The column that names the day of a snapshot: that of the directory, or one of days in which keys come once each."""
    if table.day_column is not None:
        return table.day_column
    days = table.find(
        lambda c: c.name.lower() in ("dt", "ds", "snapshot_date", "snapshot", "date") and c.time is not None
    )
    if days is None or days.time is None or days.time.has_clock or len(days.distinct) < 2:
        return None
    pairs = {(str(day), str(value)) for day, value in zip(days.values, key.values, strict=True)}
    return days.time.expr if len(pairs) == table.rows > len(key.distinct) else None


def described(time: Time | None) -> str:
    """The time of a log in words."""
    return "" if time is None else f"{min(time.moments):%Y-%m-%d} to {max(time.moments):%Y-%m-%d}"
