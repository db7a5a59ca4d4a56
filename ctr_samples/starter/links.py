"""Facts about columns and pairs of columns, by their values: shared keys, columns that determine others, and what follows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import pandas as pd

from ctr_samples.starter import words as w
from ctr_samples.starter.places import LITTLE
from ctr_samples.starter.tables import Column, Table
from ctr_samples.starter.times import words_of

CLICKED_LIST = re.compile(r"\S+-[01](?: \S+-[01])*")
_FEW = 20
_BRIEF = timedelta(hours=1)
_LATE = timedelta(days=30)
_EARLY = timedelta(hours=15)
"""Largest difference between time zones considered here."""


def is_unique(column: Column, days: Sequence[date | None] = ()) -> bool:
    """Whether keys are unique, or unique within each day if ``days`` holds the days of the rows."""
    if not column.may_be_key or len(column.keys) < 2:
        return False
    found = set(zip(days, column.texts, strict=True)) if days else column.keys
    return len(found) == len(column.values)


def of_keys(table: Table) -> Table:
    """Return a table with the columns alone that identify its rows, or those of each day of a snapshot."""
    return table.only(column for column in table.columns if is_unique(column, table.row_days))


def rows_of(columns: Sequence[Column]) -> list[tuple[str | None, ...]]:
    """Return the keys of the columns, row by row."""
    return list(zip(*[column.texts for column in columns], strict=True))


def determines(column: Column, other: Column) -> bool:
    """Whether each repeated value of a column has a single value of ``other``, as a request has one user."""
    rows = pd.DataFrame({"one": column.texts, "other": other.texts}).dropna(subset=["one"]).fillna("")
    most = rows.value_counts().groupby("one").agg(["sum", "max"])
    again = most[most["sum"] > 1].sum()
    return bool(again["sum"] >= 10 and again["max"] >= 0.98 * again["sum"])


def is_brief(column: Column, time: Column) -> bool:
    """Whether the rows with each value span at most an hour, as for a request id."""
    moments = time.moments.groupby(pd.Series(column.texts, dtype=object))
    spans = (moments.max() - moments.min()).dropna()
    return len(spans) > 0 and bool((spans <= _BRIEF).mean() >= 0.95)


def comes_back(column: Column, time: Column | None) -> float:
    """Return the share of the values that stand on several days, as users do and visits do not. 1 for times of one day."""
    days = time.moments.dt.floor("D") if time is not None else pd.Series()
    if days.nunique() < 2:
        return 1.0
    return float((days.groupby(pd.Series(column.texts, dtype=object)).nunique() > 1).mean())


def grows(column: Column, time: Column) -> bool:
    """Whether a numeric column rarely decreases over time, like a row or visit id."""
    rows = pd.DataFrame({"at": time.moments, "number": column.values}).dropna().sort_values(["at", "number"])
    steps = rows["number"].diff().dropna()
    return len(steps) >= 50 and bool((steps >= 0).mean() >= 0.98)


# --- shared keys


@dataclass(frozen=True, slots=True)
class Match:
    """A pair of columns with shared values: a column of the log or a joined table, and a column of another table."""

    own: Column
    table: Table
    column: Column
    overlap: float
    rank: tuple[float, ...]
    """Facts for the match, the weightiest first."""


def best_match(own: Sequence[Column], table: Table) -> Match | None:
    """Find the best match between the given columns and the columns of a table."""
    found = [match for one in own for column in table.columns if (match := _match(one, table, column))]
    return max(found, key=lambda match: match.rank, default=None)


def matches(own: Sequence[Column], table: Table) -> list[Match]:
    """Return pairs of columns with shared values, best match first. Each column occurs at most once.

    The table may contain only a few of the keys, like a click log.
    """
    found = [match for one in own for column in table.columns if (match := _match(one, table, column, part=True))]
    best: list[Match] = []
    for match in sorted(found, key=lambda match: match.rank, reverse=True):
        if all(match.own is not one.own and match.column is not one.column for one in best):
            best.append(match)
    return best


def values_of(column: Column) -> frozenset[str]:
    """Return the keys of a column, including keys inside lists."""
    some = [str(value) for value in column.present[:100]]
    if column.is_list:
        return frozenset(str(item) for value in column.present for item in value)
    if column.is_text and any(value.startswith("[") for value in some):
        return frozenset(item for value in column.present for item in re.findall(r"[^\s\[\],\"]+", str(value)))
    if column.is_text and some and all(map(CLICKED_LIST.fullmatch, some)):
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
    all_there = overlap >= 0.9 and coverage >= 0.9 and len(theirs) >= _FEW
    shared = max(overlap, coverage) if part else overlap
    named = (alike or related) and overlap >= 0.1
    if not (named or all_there or (shared >= 0.3 and not _by_chance(mine))):
        return None
    if not alike and min(len(mine), len(theirs)) <= 2:
        return None
    unique = len(column.present) == len(column.keys)
    return Match(own, table, column, overlap, (round(2 * overlap + alike), alike, unique, related, coverage))


def _by_chance(keys: frozenset[str]) -> bool:
    """Whether keys are mostly numbers that lie close together, since others then hold them by chance."""
    numbers = [int(one) for one in keys if one.isdecimal()]
    return 2 * len(numbers) >= len(keys) and 2 * len(numbers) >= max(numbers) - min(numbers) + 1


# --- logs of what followed


@dataclass(frozen=True, slots=True)
class Follower:
    """A log of later actions: its key columns, and their delays after the impression."""

    table: Table
    time: Column
    matches: Sequence[Match]
    delays: Sequence[timedelta]
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
    times = [(c.time.has_clock, c.time.zoned, len(c.distinct), -n, c) for n, c in enumerate(table.columns)
             if c.time is not None and 2 * len(c.present) > len(c.values) and not w.words(c) & w.BIRTH]  # fmt: skip
    return max(times)[-1] if times else None


def followers_of(
    table: Table, time: Column | None, others: Iterable[Table], named: Collection[str]
) -> Iterator[Follower]:
    """Yield logs that share keys with the impression log and have later times, limited to ``named`` if set."""
    own = [column for column in table.columns if column.may_be_key and len(column.keys) > 2]
    for other in others:
        its, is_named = time_column(other), other.name in named
        if its is None or its.time is None or not (is_named or (its.time.has_clock and not named)):
            continue
        shared = _that_hold(matches(own, other), table)
        alone = len(shared) == 1 and not is_unique(shared[0].own)
        if not shared or (alone and not is_named):
            continue
        follower = Follower(other, its, shared, _delays(shared, time, its))
        theirs, mine = set(rows_of([m.column for m in shared])), set(rows_of([m.own for m in shared]))
        timely = 5 * len(follower.delays) >= other.rows and -_EARLY <= follower.middle <= _LATE
        if is_named or (timely and len(mine - theirs) > len(theirs - mine)):
            yield follower


def _that_hold(shared: Sequence[Match], table: Table) -> Sequence[Match]:
    """Drop accidental matches of a log that was read whole: each action belongs to one impression, so its keys are there."""
    while len(shared) > 1 and table.bytes <= LITTLE:
        pairs, theirs = set(rows_of([match.own for match in shared])), rows_of([match.column for match in shared])
        if sum(row in pairs for row in theirs) >= 0.3 * len(theirs):
            break
        shared = shared[:-1]
    return shared


def _delays(shared: Sequence[Match], time: Column | None, its: Column) -> list[timedelta]:
    """Return the delay of each row after the last impression with its keys, negative if all impressions are later."""
    if time is None:
        return []
    keys = list(range(len(shared)))
    mine = pd.DataFrame({n: match.own.texts for n, match in enumerate(shared)}).assign(
        at=time.moments, shown=time.moments
    )
    acted = pd.DataFrame({n: match.column.texts for n, match in enumerate(shared)}).assign(at=its.moments)
    mine, acted = (rows.dropna(subset=["at"]).sort_values("at", kind="stable") for rows in (mine, acted))
    before, after = (
        pd.merge_asof(acted, mine, on="at", by=keys, direction=way)["shown"] for way in ("backward", "forward")
    )
    delays = acted["at"].reset_index(drop=True) - before.fillna(after)
    return sorted(delay.to_pytimedelta() for delay in delays.dropna())
