"""Marks of the generations with which users were forgotten: no earlier generation of the day may come back.

A mark is an empty file beside the manifests, ``00000002.forgotten``. It is put before the manifest that it is about, and
nothing removes it, so it holds also where that manifest cannot be read, was moved away, or was followed by others.
"""

from __future__ import annotations

from contextlib import suppress

from ctr_samples.periods import Period
from ctr_samples.shards.naming import forgotten_among, forgotten_path, manifests_directory
from ctr_samples.shards.storage import NameTaken, Storage


def mark_forgotten(storage: Storage, day: Period, generation: int) -> None:
    """Say that earlier generations of a day may have samples of users whom this one and later ones lack."""
    with suppress(NameTaken):
        storage.put_new(forgotten_path(day, generation), b"")


def last_forgotten(storage: Storage, day: Period) -> int:
    """The last generation of a day with which users were forgotten; 0 if there is none."""
    return max(forgotten_among(storage.names(manifests_directory(day))), default=0)
