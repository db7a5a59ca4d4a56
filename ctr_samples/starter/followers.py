"""Logs of later actions, which share keys with the impression log and have later times."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ctr_samples.starter import words as w
from ctr_samples.starter.links import Match, is_unique, matches, rows_of
from ctr_samples.starter.tables import Column, Table

_LATE = timedelta(days=30)
_WHOLE = 9 << 20
"""Size in bytes up to which inputs are sampled completely."""
_EARLY = timedelta(hours=15)
"""Largest difference between time zones considered here."""


@dataclass(frozen=True, slots=True)
class Follower:
    """A log of later actions: its key columns, and their delays after the impression."""

    table: Table
    time: Column
    matches: tuple[Match, ...]
    delays: tuple[timedelta, ...]
    """Delays after the impression, sorted."""

    @property
    def middle(self) -> timedelta:
        """The median delay."""
        return self.delays[len(self.delays) // 2]

    def of(self, column: Column | None) -> Match | None:
        """Return the match for a column of the log, if any."""
        return next((match for match in self.matches if match.own is column), None)

    def followed(self) -> list[bool]:
        """Return a mask of the log rows whose keys occur in this table."""
        acted = set(rows_of([match.column for match in self.matches]))
        return [row in acted for row in rows_of([match.own for match in self.matches])]


def time_column(table: Table) -> Column | None:
    """Find the time column. Prefer columns with a time of day, then with a zone, then with the most distinct values."""
    times = [
        c
        for c in table.columns
        if c.time is not None and len(c.present) > 0.5 * len(c.values) and not w.words(c) & w.BIRTH
    ]
    return max(
        times, key=lambda c: (c.time is not None and (c.time.has_clock, c.time.zoned), len(c.distinct)), default=None
    )


def followers_of(
    table: Table, time: Column | None, others: Iterable[Table], named: Collection[str]
) -> Iterator[Follower]:
    """Yield logs that share keys with the impression log and have later times, limited to ``named`` if set."""
    own = [column for column in table.columns if column.may_be_key and len(column.keys) > 2]
    for other in others:
        its = time_column(other)
        is_named = other.name in named
        clock = its is not None and its.time is not None and its.time.has_clock
        if its is None or not (clock or is_named) or (named and not is_named):
            continue
        shared = _that_hold(list(matches(own, other)), table)
        alone = len(shared) == 1 and not is_unique(shared[0].own)
        if not shared or (alone and not is_named):
            continue
        follower = Follower(other, its, tuple(shared), tuple(sorted(_delays(shared, time, its))))
        theirs, mine = ({*rows_of([m.column for m in shared])}, {*rows_of([m.own for m in shared])})
        timely = (
            5 * len(follower.delays) >= other.rows and bool(follower.delays) and -_EARLY <= follower.middle <= _LATE
        )
        if is_named or (timely and len(mine - theirs) > len(theirs - mine)):
            yield follower


def _that_hold(shared: list[Match], table: Table) -> list[Match]:
    """Drop accidental matches. Each action belongs to one impression, so its key combination must match."""
    while len(shared) > 1 and table.bytes <= _WHOLE:
        pairs, theirs = set(rows_of([match.own for match in shared])), rows_of([match.column for match in shared])
        if sum(row in pairs for row in theirs) >= 0.3 * len(theirs):
            break
        shared = shared[:-1]
    return shared


def _delays(shared: Sequence[Match], time: Column | None, its: Column) -> list[timedelta]:
    """Return the delay of each row after the last impression with its keys, negative if all impressions are later."""
    if time is None:
        return []
    moments: dict[tuple[str | None, ...], list[Any]] = {}
    for keys, at in zip(rows_of([match.own for match in shared]), time.instants, strict=True):
        if at is not None:
            moments.setdefault(keys, []).append(at)
    found = []
    for keys, at in zip(rows_of([match.column for match in shared]), its.instants, strict=True):
        apart = [at - one for one in moments.get(keys, ())] if at is not None else []
        if apart:
            found.append(min((one for one in apart if one >= timedelta(0)), default=max(apart)))
    return found
