"""The kernel that finds the last actions before each impression, in one pass over rows that are sorted by key and time.

It stands among the codec's because it is compiled and kept with them; what the actions are is in ``samples/histories``.

Of all actions of a key that are behind it an impression can need only the newest ``last`` items, each with its newest action;
and, since it leaves out the actions of its own request, whichever that is, the newest ``last`` items without any one request.
Leaving out a request replaces at most as many actions as it has among the newest ``last``; so together these are at most twice
as many actions. Only they are remembered: in a list that is searched from its end, and squeezed when it is full.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

from numba import njit

from ctr_samples.codec.kernels.measure import int64_at
from ctr_samples.codec.kernels.memory import load_u8
from ctr_samples.codec.layout import ACTION, FIRST_OF_KEY


@njit
def newest(kept: Any, length: Any, items: Any, requests: Any, without: Any, last: Any, stamps: Any, stamp: Any) -> Any:
    """Find, among the actions in ``kept``, the newest of each of the ``last`` newest items that are not of a request.

    Their places in ``kept`` go behind its ``length`` places, newest first; returns how many they are. ``stamps`` has an int64
    for each item, in which those that were found get the ``stamp``.
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
    """Leave in ``kept`` only what a later impression can need. Returns how many remain; ``marks[0]`` becomes the last stamp."""
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
        # Each request once: the other actions of it need no look of their own.
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
    last: Any,
    within: Any,
    room: Any,
    kept: Any,
    marks: Any,
    stamps: Any,
    lengths: Any,
    found: Any,
) -> Any:
    """Find for each impression among ``rows`` the rows of its actions, newest first. Returns how many they are in all.

    ``flags`` is a byte for each row (FIRST_OF_KEY, ACTION). The rest are int64. For each row: ``items`` and ``requests``,
    numbered from 0 on (-1: no request), and ``times``, where an action is at most ``within`` before its impression (-1: at any
    time). Room for what is found: ``lengths``, one for each impression; ``found``, ``last`` for each. Room for work: ``kept``
    with ``room`` and ``last`` more, ``room`` being more than twice ``last``; ``marks`` with ``room`` and one more; ``stamps``,
    zeros, one for each item. At the end ``marks`` begins with the number of rows of the last key that must be remembered;
    ``kept`` begins with these rows.
    """
    items, requests, times, kept = int64_at(items), int64_at(requests), int64_at(times), int64_at(kept)
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
            kept[length] = row
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
