"""The shared state of a draft: the log, the names in use, and the days to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ctr_samples.starter.entries import Entry
from ctr_samples.starter.features import FeatureTemplate
from ctr_samples.starter.links import Match
from ctr_samples.starter.log import Log
from ctr_samples.starter.questions import Answers
from ctr_samples.starter.tables import Column, Table, plain_name, unused
from ctr_samples.starter.zones import Zone

OWN = frozenset(
    "impression_id impression_time request position impression time user article item clicks_of_item recent".split()
)
"""Reserved names, and names used in every configuration."""

_FEATURES = ("user_id", "item_id", "place", "hour", "weekday", "recent_items")


@dataclass(frozen=True, slots=True)
class View:
    """A table joined to the log: its join key, its configuration entries, and the columns used in the entries."""

    name: str
    match: Match
    on: str
    keys: tuple[Entry, ...]
    used: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """An impression column, its expression, and its feature."""

    name: str
    expr: str
    feature: FeatureTemplate


@dataclass
class Drafting:
    """A draft in progress. Later sections reuse names chosen by earlier sections."""

    log: Log
    tables: Sequence[Table]
    dated: bool
    answers: Answers
    zone: Zone
    views: list[View] = field(default_factory=list)
    labels: list[Entry] = field(default_factory=list)
    carried: list[Carried] = field(default_factory=list)
    features: list[Entry] = field(default_factory=list)
    """Features created together with their view or history."""
    positive: str | None = None
    """The SQL condition for click rows of the log."""
    reach: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many extra days a run reads before and after its own day, by source."""
    filling: list[str] = field(default_factory=list)
    """Features whose windows start with the log and fill up over several days."""
    of_views: dict[str, list[tuple[Column, FeatureTemplate]]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    """The role of each input."""
    notes: list[str] = field(default_factory=list)
    """Notes on omitted inputs and columns, with reasons."""
    left_out: list[tuple[Table, Column, str]] = field(default_factory=list)
    """Columns that do not become features."""
    given: set[str] = field(default_factory=lambda: set(_FEATURES))

    def reaches(self, table: Table, before: int = 0, after: int = 0) -> None:
        """Extend the range of a table's days that a run reads around its own day."""
        old = self.reach.get(table.name, (0, 0))
        self.reach[table.name] = (max(old[0], before), max(old[1], after))

    def leave_out(self, table: Table, column: Column, why: str) -> None:
        """Record that a column does not become a feature."""
        self.notes.append(f"{table.name}.{column.called} is left out: {why}.")
        self.left_out.append((table, column, why))

    def free(self, name: str) -> str:
        """Return an unused name for a feature or column."""
        name = _as_name(name, "column")[:56]
        taken = {*OWN, *(entry.key for entry in self.labels), *self.log.others, *self.given}
        taken = {one.lower() for one in taken | {view.name for view in self.views}}
        free = unused(name, taken)
        self.given.add(free)
        return free

    def label_name(self, name: str) -> str:
        """Return an unused name for a label."""
        name = _as_name(name, "label")[:50]
        if name.lower() in {one.lower() for one in (*OWN, *(view.name for view in self.views))}:
            name = f"{name}_label"
        return unused(name, {entry.key.lower() for entry in self.labels})


def _as_name(text: str, kind: str) -> str:
    name = re.sub(r"\W+", "_", plain_name(text), flags=re.ASCII).strip("_") or kind
    return name if name[0].isalpha() else f"{kind}_{name}"
