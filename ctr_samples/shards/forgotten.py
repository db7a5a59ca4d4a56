"""Marks of generations that forgot users: no earlier generation of the day may come back.

A mark is an empty file next to the manifests, ``00000002.forgotten``. It is put before its manifest and never removed,
so it stays valid even if that manifest is unreadable, was moved away, or was followed by others.
"""

from __future__ import annotations

from contextlib import suppress

from ctr_samples.periods import Period
from ctr_samples.shards.naming import forgotten_among, forgotten_path, manifests_directory
from ctr_samples.shards.storage import NameTaken, Storage


def mark_forgotten(storage: Storage, day: Period, generation: int) -> None:
    """Record that generations before this one may contain samples of forgotten users."""
    with suppress(NameTaken):
        storage.put_new(forgotten_path(day, generation), b"")


def last_forgotten(storage: Storage, day: Period) -> int:
    """Last generation of a day that forgot users; 0 if there is none."""
    return max(forgotten_among(storage.names(manifests_directory(day))), default=0)
