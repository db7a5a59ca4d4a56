"""How many tasks join a log of some size. The run and the description of its needs agree on this."""

from __future__ import annotations

from math import ceil

LEAST, MOST = 32 << 20, 256 << 20
"""Bytes of logs that a joining task has. A task holds up to four times as much, see docs/operations.md, "Sizing"."""

_MANY = 4096


def joining_tasks(log_bytes: int) -> int:
    """Return the number of tasks that join logs of ``log_bytes``.

    Tasks stay small as long as there are at most 4,096. Beyond, they grow, since a shuffle has a piece for each pair of
    tasks.
    """
    return max(1, ceil(log_bytes / min(MOST, max(LEAST, log_bytes // _MANY))))
