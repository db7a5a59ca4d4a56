"""A simulated service that looks up feature rows in a store with known faults."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

import numpy as np

Line = TypeVar("Line")
Key = Any


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row of a feature table: from when it is true, from when the store could have it, and its values."""

    event_time: datetime
    available_time: datetime
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Store:
    """All rows of one feature table by key, in the order of their event times."""

    rows: Mapping[Key, Sequence[StoredRow]]
    ttl: timedelta | None = None

    @classmethod
    def of(cls, rows: Iterable[tuple[Key, StoredRow]], ttl: timedelta | None = None) -> Self:
        """Sort the rows."""
        by_key: dict[Key, list[StoredRow]] = {}
        for key, row in rows:
            by_key.setdefault(key, []).append(row)
        return cls({key: sorted(some, key=lambda row: row.event_time) for key, some in by_key.items()}, ttl)

    def row(self, key: Key, at: datetime, late: timedelta = timedelta()) -> StoredRow | None:
        """Return the row with the greatest event time before ``at`` that a store that is ``late`` has at that time."""
        rows = self.rows.get(key, ())
        for place in range(bisect_right(rows, at, key=lambda row: row.event_time) - 1, -1, -1):
            row = rows[place]
            if row.event_time < at and row.available_time + late <= at:
                return None if self.ttl is not None and at - row.event_time > self.ttl else row
        return None


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with the service. Views and shares are those of look-ups; a fault that is left out does not occur.

    ``late`` delays a whole store, and ``late_part`` the part of its keys whose hash is 0 modulo a number. ``failing`` look-ups
    find no row. ``clock`` is how far the service's clock is ahead.
    ``lost`` lines are not logged, and ``repeated`` ones twice.
    """

    late: Mapping[str, timedelta] = field(default_factory=dict)
    late_part: Mapping[str, tuple[int, timedelta]] = field(default_factory=dict)
    failing: Mapping[str, float] = field(default_factory=dict)
    clock: timedelta = timedelta()
    lost: float = 0.0
    repeated: float = 0.0


class Server:
    """Looks up the rows of each request. Deterministic: equal seeds and requests have equal faults."""

    def __init__(self, stores: Mapping[str, Store], faults: Faults, seed: int = 0) -> None:
        self._stores, self._faults, self._random = stores, faults, np.random.default_rng(seed)

    def rows(self, at: datetime, keys: Mapping[str, Key]) -> dict[str, StoredRow | None]:
        """Return the row of each view at the time of a request, or None. ``keys`` has the key in each view."""
        return {view: self._row(view, at + self._faults.clock, key) for view, key in keys.items()}

    def _row(self, view: str, at: datetime, key: Key) -> StoredRow | None:
        faults = self._faults
        if self._random.random() < faults.failing.get(view, 0.0):
            return None
        late = faults.late.get(view, timedelta())
        parts, delay = faults.late_part.get(view, (1, timedelta()))
        if view in faults.late_part and part_of(key, parts) == 0:
            late = delay
        return self._stores[view].row(key, at, late)

    def logged(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield the lines that reach the log."""
        for line in lines:
            lot = self._random.random()
            if lot >= self._faults.lost:
                yield line
                if lot >= 1 - self._faults.repeated:
                    yield line


def part_of(key: Key, parts: int) -> int:
    """Return the partition of a whole number in a store with some partitions."""
    return (int(key) * 0x9E3779B97F4A7C15 % 2**64 >> 32) % parts
