"""Kernel that finds the last actions before each impression, in one pass over rows sorted by key and time.

The kernel is part of the codec because it is compiled and cached with the codec's kernels; ``samples/histories`` uses
it.

An impression needs at most the newest ``last`` items of its key, each with its newest action. Since it ignores the
actions of its own request, it may also need the newest ``last`` items without any single request. Excluding a request
replaces at most as many actions as the request has among the newest ``last``, so together these are at most twice as
many actions. Only these actions are kept, in a list that is searched from its end and compacted when full.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.measure import int64_at
from ctr_samples.codec.kernels.memory import load_u8
from ctr_samples.codec.layout import ACTION, FIRST_OF_KEY


@njit
def newest(kept: Any, length: Any, items: Any, requests: Any, without: Any, last: Any, stamps: Any, stamp: Any) -> Any:
    """Find the ``last`` newest items among the actions in ``kept``, and each item's newest action, excluding one
    request.

    Writes the positions of the actions in ``kept`` after its first ``length`` entries, newest first, and returns their
    number. ``stamps`` has one int64 per item; found items are marked with ``stamp``.
    """
    found = 0
    place = length - 1
    while place >= 0 and found < last:
        row = kept[place]
        if stamps[items[row]] != stamp and (without < 0 or requests[row] != without):
            stamps[items[row]] = stamp
            kept[length + found] = place
            found += 1
        place -= 1
    return found


@njit
def squeeze(kept: Any, length: Any, items: Any, requests: Any, last: Any, stamps: Any, stamp: Any, marks: Any) -> Any:
    """Keep only actions that a later impression may need. Return their number, and the last stamp in ``marks[0]``."""
    for place in range(length):
        marks[1 + place] = 0
    stamp += 1
    found = newest(kept, length, items, requests, -1, last, stamps, stamp)
    for one in range(found):
        marks[1 + kept[length + one]] = 2
    for place in range(length):
        request = requests[kept[place]]
        if marks[1 + place] != 2 or request < 0:
            continue
        # Handle each request once: skip its other actions.
        for other in range(place, length):
            if marks[1 + other] == 2 and requests[kept[other]] == request:
                marks[1 + other] = 1
        stamp += 1
        found = newest(kept, length, items, requests, request, last, stamps, stamp)
        for one in range(found):
            if marks[1 + kept[length + one]] == 0:
                marks[1 + kept[length + one]] = 1
    remain = 0
    for place in range(length):
        if marks[1 + place] != 0:
            kept[remain] = kept[place]
            remain += 1
    marks[0] = stamp
    return remain


@njit
def last_actions(
    rows: Any,
    flags: Any,
    items: Any,
    requests: Any,
    times: Any,
    ranks: Any,
    last: Any,
    within: Any,
    room: Any,
    kept: Any,
    marks: Any,
    stamps: Any,
    lengths: Any,
    found: Any,
) -> Any:
    """Find the action rows of each impression among ``rows``, newest first. Return their total number.

    ``flags`` has one byte per row (FIRST_OF_KEY, ACTION). All other arrays are int64. Per row: ``items`` and
    ``requests``, numbered from 0 (-1: no request), ``times``, and ``ranks``, the order of actions from the oldest on: one
    that is known late takes its place among those that came before it. An action is at most ``within`` before its
    impression (-1: no limit). Output: ``lengths``, one per impression; ``found``, ``last`` per impression. Work space: ``kept``
    with ``room`` plus ``last`` entries, where ``room`` is more than twice ``last``; ``marks`` with ``room`` plus one;
    ``stamps``, zeros, one per item. On return, ``marks[0]`` is the number of rows to remember for the last key, and
    ``kept`` starts with these rows.
    """
    items, requests, times, kept = int64_at(items), int64_at(requests), int64_at(times), int64_at(kept)
    ranks = int64_at(ranks)
    marks, stamps, lengths, found = int64_at(marks), int64_at(stamps), int64_at(lengths), int64_at(found)
    length = stamp = total = shown = 0
    for row in range(rows):
        flag = load_u8(flags + row)
        if flag & FIRST_OF_KEY:
            length = 0
        if flag & ACTION:
            if length == room:
                length = squeeze(kept, length, items, requests, last, stamps, stamp, marks)
                stamp = marks[0]
            place = length
            while place > 0 and ranks[kept[place - 1]] > ranks[row]:
                kept[place] = kept[place - 1]
                place -= 1
            kept[place] = row
            length += 1
        else:
            stamp += 1
            begin = total
            for one in range(newest(kept, length, items, requests, requests[row], last, stamps, stamp)):
                action = kept[kept[length + one]]
                if within >= 0 and times[row] - times[action] > within:
                    break
                found[total] = action
                total += 1
            lengths[shown] = total - begin
            shown += 1
    marks[0] = squeeze(kept, length, items, requests, last, stamps, stamp, marks)
    return total
