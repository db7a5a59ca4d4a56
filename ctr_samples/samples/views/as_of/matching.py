"""Matching: the row of a view that an impression sees. Runs on executors, over the columns of one partition.

The rows of a key are sorted by the instant from which an impression sees them. The greatest (event_time, available_time,
sequence, content) so far is the best. So a late correction of an old fact never hides a newer one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heappop, heappush
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.columnar.columns import (
    Doubles,
    Flags,
    Integers,
    Picked,
    begins,
    comparable,
    flags,
    in_order,
    integers,
    ranks,
    there,
    whole,
)
from ctr_samples.sparksql.columns import micros_of

KEY, PAYLOAD = "key", "payload"
EVENT, KNOWN, END, CLOSED = "_event", "_known", "_end", "_closed"
SEQUENCE, CONTENT, GONE = "_sequence", "_content", "_gone"
"""Columns of rows that are ready: when a row became true and known, when it ceased to be true and when this became
known (all in microseconds; no end is null), a hash of the payload, and whether the row is a tombstone. Static rows have
neither times nor tombstones; only rows that end have the second two.
"""
COPY = "_copy"
"""Column of rows that are copied to several partitions: the number of the copy."""

OVERLAPS, CONTRADICTIONS = "overlaps", "contradictions"
SEVERAL_ROWS, TIES = "keys_with_several_rows", "ties"
MATCHED, WITHOUT_KEY, AGES = "matched", "without_key", "ages"
STEPS_OF_AGES = 50
"""Ages are counted in steps of 2 %, so percentiles are correct within 1 % for any distribution."""

FOREVER = 2**63 - 1
_LEAST = -(2**63)


@dataclass(frozen=True, slots=True)
class AsOf:
    """Join settings of one view: its name, the parts of its key, and the maximum age of a row.

    ``snapshot`` views have their rows in snapshots, with one event time per snapshot. An entity missing from the
    latest visible snapshot has no features. ``static`` views have rows without times. ``one_row`` views should have one
    row per key, or per key and snapshot; keys with several different rows are counted.
    """

    name: str
    on: tuple[str, ...]
    ttl: timedelta | None
    inclusive: bool = False
    snapshot: bool = False
    static: bool = False
    one_row: bool = False
    absent: pa.StructArray | None = field(default=None, compare=False)
    """The payload of an impression that matches no row; one row. None stands for nulls."""
    shared: tuple[str, ...] = ()
    """Columns of the payload that are not copied for each impression."""

    def seen_from(self, rows: pa.Table) -> Integers:
        """Return the first instant at which an impression sees each row: when both its clocks have passed."""
        return np.maximum(integers(rows[EVENT]) + self._strictly, integers(rows[KNOWN]))

    def seen_until(self, rows: pa.Table) -> Integers:
        """Return the first instant at which an impression sees that a row has ended, or :data:`FOREVER`."""
        end, closed = integers(rows[END]) + self._strictly, integers(pc.fill_null(rows[CLOSED], _LEAST))
        return np.where(there(rows[END]), np.maximum(end, closed), FOREVER)

    @property
    def _strictly(self) -> int:
        # A strict clock is an inclusive clock one microsecond later, the resolution of a Spark timestamp.
        return 0 if self.inclusive else 1


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The snapshots of a view: the instants from which impressions see them, and the greatest event time so far."""

    seen_from: Integers
    latest: Integers

    @classmethod
    def of(cls, how: AsOf, rows: pa.Table) -> Snapshots:
        """Return the snapshots among rows, or among their distinct times."""
        times = np.unique(np.stack([how.seen_from(rows), integers(rows[EVENT])]), axis=1)
        return cls(times[0], np.maximum.accumulate(times[1]) if times.size else times[1])

    def visible(self, times: Integers) -> Integers:
        """Return the event time of the latest snapshot that each time sees, or -2**63."""
        place = np.searchsorted(self.seen_from, times, side="right")
        return np.concatenate([[_LEAST], self.latest])[place]


@dataclass(frozen=True, slots=True)
class ViewRows:
    """Rows of a view, sorted by key and by the instant from which they are seen. Made once, matched many times."""

    how: AsOf
    table: pa.Table
    keys: pa.Array
    """The distinct keys; the number of a key is its place."""
    starts: Integers
    """Where the rows of each key begin in the following columns, and their end."""
    seen_from: Integers
    until: Integers
    best: Integers
    """The row of the table that is the best from each instant on."""
    payload: Mapping[str, Picked]
    """The columns of the payloads of the table, and last, that of an impression without a row."""
    event: Integers | None
    """When each row of the table became true, or None without times or rows."""
    snapshots: Snapshots | None = None

    @classmethod
    def of(
        cls, how: AsOf, table: pa.Table, snapshots: Snapshots | None = None, counts: Counts | None = None
    ) -> ViewRows:
        """Sort rows. ``counts`` receives the irregular rows of the view, unless None."""
        if END in table.column_names:
            table = table.filter(pa.array(how.seen_from(table) < how.seen_until(table)))
        encoded = whole(table[KEY]).dictionary_encode()
        code = integers(encoded.indices)
        ranked = _by_rank(how, table)
        rank = np.empty(len(code), np.int64)
        rank[ranked] = np.arange(len(code))
        if counts is not None and how.one_row:
            counts.add(f"{how.name}.{SEVERAL_ROWS}", _several(how, table, code))
        if how.static:
            order = in_order([code, rank])
            seen_from, until, best = np.full(len(code), _LEAST), np.full(len(code), FOREVER), order
            tied = order
        elif END in table.column_names:
            best, seen_from, until, met = _pieces(code, how.seen_from(table), how.seen_until(table), rank)
            order, tied = best, in_order([code, rank])
            if counts is not None:
                met = met[:, _first_copy(table)[met[0]]]
                counts.add(f"{how.name}.{OVERLAPS}", met.shape[1])
                counts.add(f"{how.name}.{CONTRADICTIONS}", _contradict(table, *met).sum())
        else:
            order = tied = in_order([code, how.seen_from(table), rank])
            seen_from, until = how.seen_from(table)[order], np.full(len(order), FOREVER)
            # The codes ascend, so the greatest so far stays within its key.
            size = max(1, len(order))
            best = ranked[np.maximum.accumulate(code[order] * size + rank[order]) % size]
        if counts is not None:
            counts.add(f"{how.name}.{TIES}", _ties(how, table, code, tied))
        starts = np.searchsorted(code[order], np.arange(len(encoded.dictionary) + 1))
        if how.snapshot and snapshots is None:
            snapshots = Snapshots.of(how, table)
        payload = _with_absent(how, table[PAYLOAD])
        event = None if how.static or not table.num_rows else integers(table[EVENT])
        return cls(how, table, encoded.dictionary, starts, seen_from, until, best, payload, event, snapshots)

    def match(self, keys: pa.Array, times: Integers) -> Integers:
        """Return the row of the table that each impression sees, or -1. ``times`` are in microseconds."""
        code = integers(pc.fill_null(pc.index_in(comparable(keys), value_set=comparable(self.keys)), -1))
        low, high = self.starts[code], self.starts[code + 1]
        high = np.where(code < 0, low, high)
        first = low
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            seen = (low < high) & (self.seen_from[np.minimum(middle, len(self.seen_from) - 1)] <= times)
            low, high = np.where(seen, middle + 1, low), np.where(seen, high, np.minimum(middle, high))
        place = low - 1
        if not len(self.best):
            return np.full(len(times), -1)
        row = np.where(place >= first, self.best[place], -1)
        return np.where((row >= 0) & self._holds(row, place, times), row, -1)

    def _holds(self, row: Integers, place: Integers, times: Integers) -> Flags:
        """Return whether a row has neither ended nor expired, and is no tombstone and of the latest snapshot."""
        holds = times < self.until[place]
        if self.event is None:
            return holds
        event = self.event[row]
        holds &= ~flags(self.table[GONE])[row]
        if self.how.ttl is not None:
            holds &= event >= times - micros_of(self.how.ttl)
        if self.snapshots is not None:
            holds &= event == self.snapshots.visible(times)
        return holds

    @property
    def bytes_of_a_row(self) -> int:
        """The mean size of what is copied of a payload."""
        copied = [one.column for name, one in self.payload.items() if name not in self.how.shared]
        return int(sum(column.nbytes for column in copied)) // max(1, int(self.table.num_rows))

    def _ages(self, rows: Integers, times: Integers) -> Doubles | None:
        """Return the age of each row in seconds at a time, or None without times."""
        return None if self.event is None else (times - self.event[rows]) / 1e6

    def structs(self, rows: Integers, times: Integers, only: Collection[str] | None = None) -> pa.StructArray:
        """Return the struct from which features are computed: the payload of the rows, ``age_s`` and ``matched``.

        ``only`` has the fields of the payload to return; None stands for all.
        """
        matched = rows >= 0
        picked = {name: column for name, column in self.payload.items() if only is None or name in only}
        places = np.where(matched, rows, self.table.num_rows)
        columns = [one.shared(places) if name in self.how.shared else one.take(places) for name, one in picked.items()]
        ages = self._ages(rows, times)
        age = pa.nulls(len(rows), pa.float64()) if ages is None else pa.array(ages, mask=~matched)
        return pa.StructArray.from_arrays([*columns, age, pa.array(matched)], [*picked, "age_s", "matched"])

    def count(self, without_key: int, rows: Integers, times: Integers, counts: Counts) -> None:
        """Count the impressions that matched a row, those without a key, and the ages of the rows."""
        view, matched = self.how.name, rows >= 0
        counts.add(f"{view}.{MATCHED}", matched.sum())
        counts.add(f"{view}.{WITHOUT_KEY}", without_key)
        ages = self._ages(rows[matched], times[matched])
        if ages is None or not len(ages):
            return
        counts.extend(f"{view}.{AGES}", float(ages.min()), float(ages.max()))
        steps = np.floor(np.log1p(np.maximum(ages, 0)) * STEPS_OF_AGES + 0.5).astype(np.int64)
        for step, number in zip(*np.unique(steps, return_counts=True), strict=True):
            counts.add(f"{view}.{AGES}.{step}", number)


def _with_absent(how: AsOf, payload: pa.ChunkedArray) -> dict[str, Picked]:
    """Return the columns of payloads, each with the value of an impression without a row at its end, or null."""
    absent = pa.nulls(1, payload.type)
    if how.absent is not None:
        there, fields = dict(zip(how.absent.type.names, how.absent.flatten(), strict=True)), list(payload.type)
        columns = [there[f.name].cast(f.type) if f.name in there else pa.nulls(1, f.type) for f in fields]
        absent = pa.StructArray.from_arrays(columns, fields=fields)
    every = zip(*[chunk.flatten() for chunk in (*payload.chunks, absent)], strict=True)
    return {name: Picked.of(pa.chunked_array(parts)) for name, parts in zip(payload.type.names, every, strict=True)}


def _first_copy(table: pa.Table) -> Flags:
    return integers(table[COPY]) == 0 if COPY in table.column_names else np.ones(table.num_rows, np.bool_)


def _by_rank(how: AsOf, table: pa.Table) -> Integers:
    """Return the rows by ascending rank, which decides between rows that are visible at one time."""
    content = integers(table[CONTENT])
    if how.static:
        return in_order([content])
    # A tombstone loses a tie: an update ends one row and begins the next.
    content = np.where(flags(table[GONE]), _LEAST, content)
    return in_order([*_clocks(how, table), content])


def _clocks(how: AsOf, table: pa.Table) -> list[Integers]:
    """Return what decides between visible rows of a key before their content does: both clocks, and the sequence."""
    if how.static:
        return []
    sequence = [ranks(table[SEQUENCE])] if SEQUENCE in table.column_names else []
    return [integers(table[EVENT]), integers(table[KNOWN]), *sequence]


def _several(how: AsOf, table: pa.Table, code: Integers) -> int:
    """Return the number of keys, or keys of a snapshot, that have several different rows. Tombstones do not differ."""
    alive = _first_copy(table)
    group = code
    if not how.static:
        alive &= ~flags(table[GONE])
        group = code * max(1, len(code)) + np.unique(integers(table[EVENT]), return_inverse=True)[1]
    pairs = np.unique(np.stack([group[alive], integers(table[CONTENT])[alive]]), axis=1)[0]
    return int((np.unique(pairs, return_counts=True)[1] > 1).sum())


def _ties(how: AsOf, table: pa.Table, code: Integers, order: Integers) -> int:
    """Return the number of rows that only their content tells from another one of their key, which follow in ``order``."""
    alive = _first_copy(table) if how.static else _first_copy(table) & ~flags(table[GONE])
    order = order[alive[order]]
    same = ~begins(code[order])
    for clock in _clocks(how, table):
        same &= ~begins(clock[order])
    return int((same & begins(integers(table[CONTENT])[order])).sum())


def _contradict(table: pa.Table, one: Integers, other: Integers) -> Flags:
    """Return whether two rows of a key are true at one time with other values, and no column says which is the last.

    Of rows that begin at one time, the one that was known last corrects the others. A tombstone does not differ.
    """
    event, content, gone = integers(table[EVENT]), integers(table[CONTENT]), flags(table[GONE])
    end = np.where(there(table[END]), integers(table[END]), FOREVER)
    order = [integers(table[KNOWN])] + ([ranks(table[SEQUENCE])] if SEQUENCE in table.column_names else [])
    corrected = (event[one] == event[other]) & np.logical_or.reduce([key[one] != key[other] for key in order])
    both_true = (event[one] < end[other]) & (event[other] < end[one])
    contradict: Flags = both_true & (content[one] != content[other]) & ~corrected & ~gone[one] & ~gone[other]
    return contradict


def _pieces(
    code: Integers, seen_from: Integers, until: Integers, rank: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Cut rows that end, so that one row of a key is visible at a time.

    Returns the row of each piece, by key and start, its start and end, and two rows of numbers: those rows that became visible
    while others of their key were, each above the best of the others. The best visible row may end before a row that it hid, so
    overlapping rows are split at each instant at which the best one changes. In a well-kept table, no rows overlap.
    """
    size = max(1, len(code))
    order = in_order([code, seen_from, rank])
    first = begins(code[order])
    end_rank = np.empty(len(code), np.int64)
    end_rank[in_order([until])] = np.arange(len(code))
    latest = np.maximum.accumulate(code[order] * size + end_rank[order]) % size
    sorted_ends = np.sort(until)
    meets = np.zeros(len(code), np.bool_)
    meets[1:] = ~first[1:] & (sorted_ends[latest[:-1]] > seen_from[order][1:])
    meets[:-1] |= ~first[1:] & (seen_from[order][1:] < until[order][:-1])
    alone, meeting = order[~meets], order[meets]
    columns = (code[meeting], seen_from[meeting], until[meeting], 1 + rank[meeting], meeting)
    met: list[tuple[int, int]] = []
    pieces = list(pieces_of(zip(*[column.tolist() for column in columns], strict=True), met))
    row, start, end = (
        (np.array(column, np.int64) for column in zip(*pieces, strict=True)) if pieces else [np.empty(0, np.int64)] * 3
    )
    row = np.concatenate([alone, row])
    start, end = np.concatenate([seen_from[alone], start]), np.concatenate([until[alone], end])
    sorted_pieces = in_order([code[row], start])
    pairs = np.array(met, np.int64).reshape(-1, 2).T
    return row[sorted_pieces], start[sorted_pieces], end[sorted_pieces], pairs


def pieces_of(
    rows: Iterator[tuple[Any, int, int, int, Any]], met: list[tuple[Any, Any]]
) -> Iterator[tuple[Any, int, int]]:
    """Split rows (key, start, end, number, what), sorted by key and start, into disjoint pieces (what, start, end).

    At each instant, the row with the greatest ``number`` is chosen among the rows with ``start <= instant < end``.
    ``met`` receives each row that starts while others are visible, with the one that was chosen until then. Memory
    holds the simultaneously visible rows of one key.
    """
    for _, of_key in groupby(rows, key=itemgetter(0)):
        visible: list[tuple[int, int, Any]] = []  # a heap: the greatest number first
        now = 0
        for _, start, end, number, what in chain(of_key, [(None, FOREVER, FOREVER, 0, None)]):
            while visible and now < start:
                _, until, best = visible[0]
                stop = min(until, start)
                if now < stop:
                    yield best, now, stop
                    now = stop
                if until <= start:
                    heappop(visible)
            now = start
            while visible and visible[0][1] <= start:
                heappop(visible)
            if visible:
                met.append((what, visible[0][2]))
            heappush(visible, (-number, end, what))
