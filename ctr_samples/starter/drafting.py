"""What the sections of a configuration share while it is drafted: the log, the names that are given, the days that are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ctr_samples.starter.entries import Entry
from ctr_samples.starter.features import Feature
from ctr_samples.starter.links import Match
from ctr_samples.starter.roles import Log
from ctr_samples.starter.tables import Column, Table, plain_name

OWN = frozenset(
    "impression_id impression_time request position impression time user article item clicks_of_item recent".split()
)
"""Names that mean something, or that each configuration gives."""

_FEATURES = ("user_id", "item_id", "place", "hour", "weekday", "recent_items")


@dataclass(frozen=True, slots=True)
class View:
    """A table around the log: on which key it is joined, its entries, and the columns that these use."""

    name: str
    match: Match
    on: str
    keys: tuple[Entry, ...]
    used: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """A column of the impressions, as its expression, and the feature that is made of it."""

    name: str
    expr: str
    feature: Feature


@dataclass
class Drafting:
    """A configuration in the making. Later sections use the names that earlier ones gave."""

    log: Log
    tables: Sequence[Table]
    dated: bool
    views: list[View] = field(default_factory=list)
    labels: list[Entry] = field(default_factory=list)
    carried: list[Carried] = field(default_factory=list)
    features: list[Entry] = field(default_factory=list)
    """Those that are made beside their view or history."""
    positive: str | None = None
    """Which rows of the log are clicks."""
    reach: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many days before and after its own a run reads, by source."""
    filling: list[str] = field(default_factory=list)
    """Features of windows that begin with the log and are full only some days later."""
    of_views: dict[str, list[tuple[Column, Feature]]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    """What each input is taken for."""
    notes: list[str] = field(default_factory=list)
    """What was left out, and why."""
    left_out: list[tuple[Table, Column, str]] = field(default_factory=list)
    """The columns that become no feature."""
    given: set[str] = field(default_factory=lambda: set(_FEATURES))

    def reaches(self, table: Table, before: int = 0, after: int = 0) -> None:
        """Have some days around a run's own read of a table."""
        old = self.reach.get(table.name, (0, 0))
        self.reach[table.name] = (max(old[0], before), max(old[1], after))

    def leave_out(self, table: Table, column: Column, why: str) -> None:
        """Note that a column becomes no feature."""
        self.notes.append(f"{table.name}.{column.called} is left out: {why}.")
        self.left_out.append((table, column, why))

    def free(self, name: str) -> str:
        """A name for a feature or column that nothing else has."""
        name = _as_name(name, "column")[:56]
        taken = {*OWN, *(entry.key for entry in self.labels), *self.log.others, *self.given}
        taken = {one.lower() for one in taken | {view.name for view in self.views}}
        free, number = name, 1
        while free.lower() in taken:
            number += 1
            free = f"{name}_{number}"
        self.given.add(free)
        return free

    def label_name(self, name: str) -> str:
        """A name for a label that nothing else has."""
        name = _as_name(name, "label")[:50]
        taken = {*OWN, *(entry.key for entry in self.labels), *(view.name for view in self.views)}
        return f"{name}_label" if name.lower() in {one.lower() for one in taken} else name


def _as_name(text: str, kind: str) -> str:
    name = re.sub(r"\W+", "_", plain_name(text), flags=re.ASCII).strip("_") or kind
    return name if name[0].isalpha() else f"{kind}_{name}"
