"""Relations between columns, by their values: shared keys, columns that determine others, and logs of later actions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

from ctr_samples.starter import words as w
from ctr_samples.starter.tables import Column, Table
from ctr_samples.starter.times import words_of

CLICKED_LIST = re.compile(r"\S+-[01](?: \S+-[01])*")
_SURE = 0.3
"""Minimum overlap, beyond chance, of two columns with the same keys."""
_FEW = 20
"""Number of small integers below which a column may match others by chance."""
_BRIEF = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Match:
    """A pair of columns with shared values: a column of the log or a joined table, and a column of another table."""

    own: Column
    table: Table
    column: Column
    overlap: float
    points: float


def best_match(own: Sequence[Column], table: Table) -> Match | None:
    """Find the best match between the given columns and the columns of a table."""
    found = [match for one in own for column in table.columns if (match := _match(one, table, column))]
    return max(found, key=lambda match: match.points, default=None)


def matches(own: Sequence[Column], table: Table) -> Iterator[Match]:
    """Yield pairs of columns with shared values, best match first. Each column occurs at most once.

    The table may contain only a few of the keys, like a click log.
    """
    found = [match for one in own for column in table.columns if (match := _match(one, table, column, part=True))]
    taken: set[int] = set()
    for match in sorted(found, key=lambda match: -match.points):
        if not {id(match.own), id(match.column)} & taken:
            taken |= {id(match.own), id(match.column)}
            yield match


def values_of(column: Column) -> frozenset[str]:
    """Return the keys of a column, including keys inside lists."""
    some = [str(value) for value in column.present[:100]]
    if column.is_list:
        return frozenset(str(item) for value in column.present for item in value)
    if column.is_text and any(value.startswith("[") for value in some):
        return frozenset(item for value in column.present for item in re.findall(r"[^\s\[\],\"]+", str(value)))
    if column.is_text and some and all(CLICKED_LIST.fullmatch(value) for value in some):
        return frozenset(item.rpartition("-")[0] for value in column.present for item in str(value).split(" "))
    return column.keys


def _match(own: Column, table: Table, column: Column, *, part: bool = False) -> Match | None:
    if not column.may_be_key:
        return None
    mine, theirs = values_of(own), column.keys
    both = len(mine & theirs)
    if not both:
        return None
    overlap, coverage = both / len(mine), both / len(theirs)
    said = w.words(own) - w.ID
    alike = bool(said & w.words(column)) or (own.name.lower() == column.name.lower() and own.named and column.named)
    related = any(one.startswith(word) for one in words_of(table.name) for word in said)  # as of id_item and items
    unique = len(column.present) == len(column.keys)
    above = _above(overlap, _by_chance(mine, theirs))
    if part:
        above = max(above, _above(coverage, _by_chance(theirs, mine)))
    all_there = overlap >= 0.9 and coverage >= 0.9 and len(theirs) >= _FEW
    if not (above >= _SURE or ((alike or related) and overlap >= 0.1) or all_there) or (
        not alike and min(len(mine), len(theirs)) <= 2
    ):
        return None
    points = overlap + 0.5 * coverage + above + 0.8 * alike + 0.5 * related + 0.3 * unique
    return Match(own, table, column, overlap, points + 0.1 * (column is table.columns[0]))


def _above(share: float, chance: float) -> float:
    return (share - chance) / (1 - chance) if chance < 1 else 0.0


def _by_chance(mine: frozenset[str], theirs: frozenset[str]) -> float:
    """Return the share of numbers expected in the other set by chance, since small numbers are common."""
    numbers, others = ({int(one) for one in group if one.isdecimal()} for group in (mine, theirs))
    if 2 * len(numbers) < len(mine) or 2 * len(others) < len(theirs):
        return 0.0
    low, high = min(numbers), max(numbers)
    return min(1.0, sum(low <= one <= high for one in others) / (high - low + 1))


def is_unique(column: Column, days: Sequence[date | None] = ()) -> bool:
    """Whether keys are unique, or unique within each day if ``days`` holds the days of the rows."""
    if column.may_be_key and days and len(column.keys) > 1:
        return len(set(zip(days, column.texts, strict=True))) == len(column.values)
    return column.may_be_key and len(column.keys) == len(column.values) > 1


def rows_of(columns: Sequence[Column]) -> list[tuple[str | None, ...]]:
    """Return the keys of the columns, row by row."""
    return list(zip(*[column.texts for column in columns], strict=True))


def determines(column: Column, other: Column) -> bool:
    """Whether each repeated value of a column has a single value of ``other``, as a request has one user."""
    groups: dict[str, Counter[str | None]] = {}
    for one, what in zip(column.texts, other.texts, strict=True):
        if one is not None:
            groups.setdefault(one, Counter())[what] += 1
    again = [group for group in groups.values() if group.total() > 1]
    rows = sum(group.total() for group in again)
    return rows >= 10 and sum(max(group.values()) for group in again) >= 0.98 * rows


def is_brief(column: Column, time: Column) -> bool:
    """Whether the rows with each value span at most an hour, as for a request id."""
    spans: dict[str, tuple[datetime, datetime]] = {}
    for text, at in zip(column.texts, time.instants, strict=True):
        if text is not None and at is not None:
            first, last = spans.get(text, (at, at))
            spans[text] = (min(first, at), max(last, at))
    brief = sum(last - first <= _BRIEF for first, last in spans.values())
    return bool(spans) and brief >= 0.95 * len(spans)


def comes_back(column: Column, time: Column | None) -> float:
    """Return the share of the values that stand on several days, as users do and visits do not. 1 for times of one day."""
    days: dict[str, set[date]] = {}
    for text, at in zip(column.texts, time.instants if time else [], strict=False):
        if text is not None and at is not None:
            days.setdefault(text, set()).add(at.date())
    if len(set().union(*days.values())) < 2:
        return 1.0
    return sum(len(some) > 1 for some in days.values()) / len(days)


def grows(column: Column, time: Column) -> bool:
    """Whether a numeric column rarely decreases over time, like a row or visit id."""
    numbers = zip(time.instants, column.values, strict=True)
    values = [
        value for _, value in sorted((at, value) for at, value in numbers if at is not None and value is not None)
    ]
    steps = [high - low for low, high in pairwise(values)]
    return len(steps) >= 50 and sum(step >= 0 for step in steps) >= 0.98 * len(steps)


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
