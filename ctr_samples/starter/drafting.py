"""The shared state of a draft: the log, the names in use, and the days to read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ctr_samples.starter.entries import Entry
from ctr_samples.starter.log import Log
from ctr_samples.starter.questions import Answers
from ctr_samples.starter.tables import Column, Table, plain_name, unused
from ctr_samples.starter.zones import Zone

OWN = frozenset(
    "impression_id impression_time request position impression time user article item clicks_of_item recent".split()
)
"""Reserved names, and names used in every configuration."""

_FEATURES = ("user_id", "item_id", "place", "hour", "weekday", "recent_items")


@dataclass
class Drafting:
    """A draft in progress. Later sections reuse names chosen by earlier sections."""

    log: Log
    dated: bool
    answers: Answers
    zone: Zone
    notes: list[str]
    """Notes on omitted inputs and columns, with reasons."""
    views: dict[str, str] = field(default_factory=dict)
    """The source of each view of a table."""
    labels: list[Entry] = field(default_factory=list)
    carried: list[Entry] = field(default_factory=list)
    """Features of the columns that impressions carry."""
    features: list[Entry] = field(default_factory=list)
    """Features created together with their view or history."""
    positive: str | None = None
    """The SQL condition for click rows of the log."""
    reach: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many extra days a run reads before and after its own day, by source."""
    filling: list[str] = field(default_factory=list)
    """Features whose windows start with the log and fill up over several days."""
    roles: dict[str, str] = field(default_factory=dict)
    """The role of each input."""
    given: set[str] = field(default_factory=lambda: set(_FEATURES))

    def reaches(self, table: Table, before: int = 0, after: int = 0) -> None:
        """Extend the range of a table's days that a run reads around its own day."""
        old = self.reach.get(table.name, (0, 0))
        self.reach[table.name] = (max(old[0], before), max(old[1], after))

    def leave_out(self, table: Table, column: Column, why: str) -> None:
        """Note that a column does not become a feature."""
        self.notes.append(f"{table.name}.{column.called} is left out: {why}.")

    def free(self, name: str) -> str:
        """Return an unused name for a feature or column."""
        taken = {*OWN, *(entry.key for entry in self.labels), *self.log.others, *self.given, *self.views}
        free = unused(_as_name(name, "column")[:56], {one.lower() for one in taken})
        self.given.add(free)
        return free

    def label_name(self, name: str) -> str:
        """Return an unused name for a label."""
        name = _as_name(name, "label")[:50]
        if name.lower() in {one.lower() for one in (*OWN, *self.views)}:
            name = f"{name}_label"
        return unused(name, {entry.key.lower() for entry in self.labels})


def _as_name(text: str, kind: str) -> str:
    name = re.sub(r"\W+", "_", plain_name(text), flags=re.ASCII).strip("_") or kind
    return name if name[0].isalpha() else f"{kind}_{name}"
