"""Rows that end, split so that only one row per key is visible at a time.

The best visible row may end before a row that it hid. So the best row so far may be wrong, and overlapping rows are
split at each instant at which the best row changes. In a well-kept table, no rows overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

_FOREVER = 2**63 - 1


def pieces_of(rows: Iterator[tuple[Any, int, int, int, Any]]) -> Iterator[tuple[Any, int, int]]:
    """Split rows (key, start, end, number, what), sorted by key and start, into disjoint pieces (what, start, end).

    At each instant, the row with the greatest ``number`` is chosen among the rows with ``start <= instant < end``.
    Memory holds the simultaneously visible rows of one key.
    """
    for _, of_key in groupby(rows, key=itemgetter(0)):
        visible: list[tuple[int, int, Any]] = []  # a heap: the greatest number first
        now = 0
        for _, start, end, number, what in chain(of_key, [(None, _FOREVER, _FOREVER, 0, None)]):
            while visible and now < start:
                _, until, best = visible[0]
                stop = min(until, start)
                if now < stop:
                    yield best, now, stop
                    now = stop
                if until <= start:
                    heappop(visible)
            now = start
            heappush(visible, (-number, end, what))
