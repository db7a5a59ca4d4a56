"""List the generations of a day or of a table, oldest first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from ctr_samples.errors import DamagedFile, InputError, StorageError
from ctr_samples.periods import Period, in_zone, zone_of
from ctr_samples.shards import generations
from ctr_samples.shards.naming import MANIFESTS_OF_TABLE, manifests_directory, run_directory
from ctr_samples.shards.publish import published_days, read_manifest, require_manifest
from ctr_samples.shards.storage import Storage
from ctr_samples.shards.table import Table


@dataclass(frozen=True, slots=True)
class Generation:
    """One line of a history. ``bytes`` is None if the shards are gone; without a manifest only ``note`` is set.

    The time in ``published`` is in the zone of the generation's configuration; a table has none and uses UTC.
    """

    generation: int
    published: str = ""
    run_id: str = ""
    records: int | None = None
    shards: int | None = None
    bytes: int | None = None
    note: str = ""


def generations_of(storage: Storage, day: Period | None) -> Iterator[Generation]:
    """List the generations of a day (default: the latest), or of a table. Raises InputError if nothing is published.

    A missing or damaged manifest gets a line that says so, since users look here for a generation to return to.
    """
    if day is None and (numbers := generations.numbers(storage, MANIFESTS_OF_TABLE)):
        return _lines(numbers, partial(_of_table, Table(storage)))
    days = [day] if day is not None else published_days(storage)
    if not days:
        raise InputError(f"{storage.url} holds no published samples; expected an output directory, or a table.")
    numbers = generations.numbers(storage, manifests_directory(days[-1]))
    if not numbers:
        require_manifest(storage, days[-1])  # raises, naming the published days
    there = set(storage.names(run_directory(days[-1], "").rstrip("/")))
    return _lines(numbers, partial(_of_day, storage, days[-1], there))


def _lines(numbers: list[int], line: Callable[[int], Generation]) -> Iterator[Generation]:
    for before, number in pairwise([0, *numbers]):
        if number > before + 1:
            up_to = f", as are all up to {number - 1}" if number > before + 2 else ""
            yield Generation(before + 1, note=f"missing{up_to}")
        try:
            entry = line(number)
        except (DamagedFile, StorageError) as error:
            entry = Generation(number, note=str(error))
        except FileNotFoundError:
            entry = Generation(number, note="its manifest was listed but cannot be found")
        yield replace(entry, note=", ".join(filter(None, [entry.note, "what readers see" * (number == numbers[-1])])))


def _of_day(storage: Storage, day: Period, there: Collection[str], number: int) -> Generation:
    manifest = read_manifest(storage, day, number)
    gone = bool(manifest.shards) and manifest.made_by not in there
    size = None if gone else manifest.bytes
    notes = [
        f"rollback to {manifest.rollback.to}" if manifest.rollback else "",
        "cleaned" if gone else "",
        "" if manifest.label_mature else "labels not final",
    ]
    return Generation(
        number,
        in_zone(manifest.created_at, zone_of(manifest.config)),
        manifest.run_id,
        manifest.records,
        len(manifest.shards),
        size,
        ", ".join(filter(None, notes)),
    )


def _of_table(table: Table, number: int) -> Generation:
    at = table.at(number)
    size = sum(shard.bytes for shard in at.shards)
    return Generation(number, in_zone(at.created_at, "UTC"), at.run_id, at.records, len(at.shards), size)
