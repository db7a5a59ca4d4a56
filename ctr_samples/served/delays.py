"""What samples would see of the rows of a view with each delay, and the delay that explains most. NumPy only.

A row explains a difference for each delay of an interval, since a store that is late by so much would serve it. A sweep over
the ends of all intervals finds the one delay that explains most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property

import numpy as np

from ctr_samples.config import EventView, SnapshotView, View, WindowView
from ctr_samples.config.units import format_duration
from ctr_samples.served.columns import Column, Flags, Ints

NO_TIME = np.iinfo(np.int64).min
"""Time of a row that stands for no match, and of an end that does not come."""
FOREVER = np.iinfo(np.int64).max
"""A delay longer than any."""
_ROWS = 400
"""Rows of a key that are tried before an impression, and a tenth of it after it."""
_SECOND = 1_000_000


@dataclass(frozen=True)
class Versions:
    """Rows of a view, by ``group``: the key of an impression, or its number. A row without times is that of no match.

    ``event`` and ``available`` are microseconds since 1970. A row is over from ``end`` on, for those who know that since
    ``closed``; a tombstone, or an entity that a snapshot lacks, is over from the beginning. ``of`` is the group of each
    impression, -1 for none, and ``times`` are theirs.
    """

    view: View
    group: Ints
    event: Ints
    available: Ints
    end: Ints
    closed: Ints
    features: Mapping[str, Column]
    of: Ints
    times: Ints

    @property
    def setting(self) -> str | None:
        """The key of the configuration that says when rows are known, or None if a column says it."""
        if isinstance(self.view, SnapshotView):
            return "publish_delay"
        return None if isinstance(self.view, EventView | WindowView) and self.view.available_time else "available_after"

    @cached_property
    def sight(self) -> Sight:
        """What each sample sees with each delay."""
        begins = np.searchsorted(self.group, np.arange(self.group.max(initial=-1) + 2))
        shared = np.flatnonzero((self.event == NO_TIME) & (self.group < 0))
        parts = []
        for sample, code in enumerate(self.of):
            mine = np.arange(begins[code], begins[code + 1]) if code >= 0 else begins[:0]
            timeless = self.event[mine] == NO_TIME
            none = int(shared[0]) if len(shared) else int(mine[timeless][0]) if timeless.any() else -1
            if none >= 0:
                parts.append(self._seen_by(sample, mine[~timeless], none))
        return Sight.joined(parts)

    def _seen_by(self, sample: int, rows: Ints, none: int) -> Sight:
        """Return the intervals of one sample: of each row, while it is the newest one, and of no row before the first."""
        at = int(self.times[sample])
        event, available = self.event[rows], self.available[rows]
        earliest = np.minimum.accumulate(available[::-1])[::-1]  # of this row and all later ones
        last = at - available - ((event >= at) & (available <= at))
        first = np.append(at - earliest[1:], -FOREVER)[: len(rows)]
        now = int(np.searchsorted(event, at, "right"))
        tried = slice(max(0, now - _ROWS), now + _ROWS // 10)
        seen = np.flatnonzero(first < last)
        seen = seen[(seen >= tried.start) & (seen < tried.stop)]
        old = np.zeros(len(rows), np.bool_)
        if self.view.max_age is not None:
            old = at - event > self.view.max_age // timedelta(microseconds=1)
        end, closed = self.end[rows][seen], self.closed[rows][seen]
        # With a longer delay than `told`, the row is seen as it was before its end was known.
        told = at - np.maximum(closed, end)
        over = (end != NO_TIME) & (end <= at)
        split = np.clip(np.where(over, told, first[seen]), first[seen], last[seen])
        before = range(1 if not tried.start else 0)  # rows that are left out may come before the first one
        start = at - earliest[0] if len(rows) else -FOREVER
        row = np.concatenate(
            [np.full(len(seen), none), np.where(old[seen], none, rows[seen]), np.full(len(before), none)]
        )
        found = np.concatenate([np.zeros(len(seen), np.bool_), ~old[seen], np.zeros(len(before), np.bool_)])
        newest = np.concatenate([rows[seen], np.where(old[seen], rows[seen], -1), np.full(len(before), -1)])
        begins = np.concatenate([first[seen], split, np.full(len(before), start)])
        ends = np.concatenate([split, last[seen], np.full(len(before), FOREVER)])
        return Sight(np.full(len(row), sample), row, begins, ends, found, newest).where(begins < ends)


@dataclass(frozen=True, slots=True)
class Sight:
    """All rows that samples could have seen: with each delay of ``first`` (exclusive) to ``last`` sample ``of`` sees ``row``.

    ``found`` is False where there is no row, or one that is over or too old, which is then ``newest``, else -1.
    """

    of: Ints
    row: Ints
    first: Ints
    last: Ints
    found: Flags
    newest: Ints

    @classmethod
    def joined(cls, parts: Sequence[Sight]) -> Sight:
        """Put the intervals of several parts one after the other."""
        none = np.zeros(0, np.int64)
        empty = cls(none, none, none, none, np.zeros(0, np.bool_), none)
        return cls(*(np.concatenate([getattr(one, name) for one in (empty, *parts)]) for name in cls.__slots__))

    def where(self, flags: Flags) -> Sight:
        """Return some of the intervals."""
        return Sight(*(getattr(self, part)[flags] for part in self.__slots__))

    def seen(self, delay: int = 0) -> Sight:
        """Return what samples see with a delay."""
        return self.where((self.first < delay) & (delay <= self.last))

    def samples(self, count: int) -> Flags:
        """Return which of ``count`` samples have an interval."""
        found = np.zeros(count, np.bool_)
        found[self.of] = True
        return found

    def within(self, first: int, last: int) -> Sight:
        """Return the parts of the intervals with delays from ``first`` to ``last``."""
        return replace(self, first=np.maximum(self.first, first - 1), last=np.minimum(self.last, last))

    def best_delay(self) -> tuple[int, int, int]:
        """Return the delays, first and last, of which most samples agree, and how many. Of several, those nearest to 0."""
        keep = self.first < self.last
        if not keep.any():
            return 0, 0, 0
        steps = np.repeat([1, -1], keep.sum())
        ends, places = np.unique(np.concatenate([self.first[keep], self.last[keep]]), return_inverse=True)
        changes = np.bincount(places, steps)
        ends, counts = ends[changes != 0], np.cumsum(changes[changes != 0])
        best = np.flatnonzero(counts == counts.max())
        low, high = ends[best] + 1, ends[best + 1]
        nearest = int(np.argmin(np.maximum(low, -high)))
        return int(low[nearest]), int(high[nearest]), int(counts.max())


def shown_delay(first: int, last: int) -> int:
    """Return a delay between both, inclusive, that is a whole number of large units if there is one."""
    if first <= 0 <= last:
        return 0
    low, high = (first, last) if first > 0 else (-last, -first)
    for unit in (86400, 3600, 900, 300, 60, 30, 10, 1):
        whole = -(-low // (unit * _SECOND)) * unit * _SECOND
        if whole <= high:
            return whole if first > 0 else -whole
    return first if first > 0 else last


def format_span(micros: int) -> str:
    """Format a delay as the configuration has durations, rounded up to seconds."""
    return format_duration(timedelta(seconds=-(-micros // _SECOND)))
