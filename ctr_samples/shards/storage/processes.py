"""Detect forks. Libraries with their own threads do not survive a fork, and the child would wait for them forever."""

from __future__ import annotations

import os

from ctr_samples.errors import StorageError

_first_used: dict[str, int] = {}


def check_process(library: str, location: str) -> None:
    """Raise StorageError in a process forked from a user of the library. Called before each connection."""
    first = _first_used.setdefault(library, os.getpid())
    if first != os.getpid():
        raise StorageError(
            f"{location} cannot be reached: this process was forked from one that had used {library}, which does not work "
            "there. Start processes with `spawn`, or fork them before the store is first used."
        )
