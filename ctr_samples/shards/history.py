"""The generations of a day or of a table, oldest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from ctr_samples.errors import InputError
from ctr_samples.shards import generations
from ctr_samples.shards.manifest import Manifest
from ctr_samples.shards.naming import MANIFESTS_OF_TABLE, run_directory
from ctr_samples.shards.publish import published_days, read_manifest, require_manifest
from ctr_samples.shards.storage import Storage
from ctr_samples.shards.table import Table


@dataclass(frozen=True, slots=True)
class Generation:
    """One line of a history; ``bytes`` is None where the shards are gone."""

    generation: int
    created_at: str
    run_id: str
    records: int
    shards: int
    bytes: int | None
    note: str


def generations_of(storage: Storage, day: date | None) -> Iterator[Generation]:
    """The generations of a day (default: the latest), or of a table; InputError if nothing is published."""
    if day is None and (last := generations.latest(storage, MANIFESTS_OF_TABLE)):
        return _of_table(Table(storage), last)
    days = [day] if day is not None else published_days(storage)
    if not days:
        raise InputError(f"{storage.url} holds no published samples; expected an output directory, or a table.")
    return _of_day(storage, days[-1])


def _of_day(storage: Storage, day: date) -> Iterator[Generation]:
    last = require_manifest(storage, day).generation
    there = set(storage.names(run_directory(day, "").rstrip("/")))
    for number in range(1, last + 1):
        manifest = read_manifest(storage, day, number)
        gone = bool(manifest.shards) and manifest.run_id not in there
        size = None if gone else manifest.bytes
        note = _note(manifest, gone=gone, latest=number == last)
        yield Generation(
            number, manifest.created_at, manifest.run_id, manifest.records, len(manifest.shards), size, note
        )


def _note(manifest: Manifest, *, gone: bool, latest: bool) -> str:
    notes = (
        ("cleaned", gone),
        ("labels not final", not manifest.label_mature),
        ("what readers see", latest),
    )
    return ", ".join(text for text, holds in notes if holds)


def _of_table(table: Table, last: int) -> Iterator[Generation]:
    for number in range(1, last + 1):
        at = table.at(number)
        size = sum(shard.bytes for shard in at.shards)
        note = "what readers see" if number == last else ""
        yield Generation(number, at.created_at, at.run_id, at.records, len(at.shards), size, note)
