"""List the generations of a day or a table, oldest first, and roll a day back to an earlier generation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import pairwise

from ctr_samples.errors import DamagedFile, InputError, StorageError, UsageError
from ctr_samples.periods import Period, in_zone, zone_of
from ctr_samples.shards import generations
from ctr_samples.shards.generations import last_forgotten
from ctr_samples.shards.manifest import Manifest, Rollback
from ctr_samples.shards.naming import MANIFESTS_OF_TABLE, manifests_directory, run_directory, run_id
from ctr_samples.shards.publish import (
    check_shards,
    publish,
    published_days,
    read_manifest,
    require_generation,
    require_manifest,
)
from ctr_samples.shards.storage import Storage
from ctr_samples.shards.table import Table


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One line of a generation history. ``bytes`` is None if the shards are gone. Without a manifest, only ``note`` is set.

    ``published`` uses the time zone of the generation's configuration, or UTC for a table, which has no configuration.
    """

    generation: int
    published: str = ""
    run_id: str = ""
    records: int | None = None
    shards: int | None = None
    bytes: int | None = None
    note: str = ""


def generations_of(storage: Storage, day: Period | None) -> Iterator[HistoryLine]:
    """List the generations of a day (default: the latest), or of a table. Raises InputError if nothing is published.

    A missing or damaged manifest still gets a line with a note, since users look here for a generation to restore.
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


def _lines(numbers: list[int], line: Callable[[int], HistoryLine]) -> Iterator[HistoryLine]:
    for before, number in pairwise([0, *numbers]):
        if number > before + 1:
            up_to = f", as are all up to {number - 1}" if number > before + 2 else ""
            yield HistoryLine(before + 1, note=f"missing{up_to}")
        try:
            entry = line(number)
        except (DamagedFile, StorageError) as error:
            entry = HistoryLine(number, note=str(error))
        except FileNotFoundError:
            entry = HistoryLine(number, note="its manifest was listed but cannot be found")
        yield replace(entry, note=", ".join(filter(None, [entry.note, "what readers see" * (number == numbers[-1])])))


def _of_day(storage: Storage, day: Period, there: Collection[str], number: int) -> HistoryLine:
    manifest = read_manifest(storage, day, number)
    gone = bool(manifest.shards) and manifest.made_by not in there
    size = None if gone else manifest.bytes
    notes = [
        f"rollback to {manifest.rollback.to}" if manifest.rollback else "",
        "cleaned" if gone else "",
        "" if manifest.label_mature else "labels not final",
    ]
    return HistoryLine(
        number,
        in_zone(manifest.created_at, zone_of(manifest.config)),
        manifest.run_id,
        manifest.records,
        len(manifest.shards),
        size,
        ", ".join(filter(None, notes)),
    )


def _of_table(table: Table, number: int) -> HistoryLine:
    at = table.at(number)
    size = sum(shard.bytes for shard in at.shards)
    return HistoryLine(number, in_zone(at.created_at, "UTC"), at.run_id, at.records, len(at.shards), size)


def rollback(storage: Storage, day: Period, to: int, now: datetime, token: str) -> Manifest:
    """Publish the samples of generation ``to`` as the next generation and return its manifest. Runs on the driver.

    ``token`` is a unique string of eight hex digits. The new manifest has no parent if the newest manifest is
    unreadable. Raises InputError if the generation does not exist, UsageError if it is current or predates a removal of
    users, DamagedFile if its shards are missing, and the errors of :func:`ctr_samples.shards.publish.publish`.
    """
    numbers = generations.numbers(storage, manifests_directory(day))
    if to in numbers[-1:]:
        raise UsageError(f"Readers already see generation {to} of {day}; choose an earlier one.")
    earlier = require_generation(storage, day, to)
    current = _readable(storage, day, numbers[-1])
    _check_forgotten(storage, earlier)
    remedy = f"so generation {to} cannot be restored. Choose another one, or run the day again"
    check_shards(storage, earlier.shards, remedy)
    number = generations.following(numbers[-1], storage.locate(manifests_directory(day)))
    made = replace(
        earlier,
        generation=number,
        run_id=run_id(now, token),
        parent=current.run_id if current else None,
        created_at=now.isoformat(timespec="seconds"),
        rollback=Rollback(to, earlier.made_by),
    )
    publish(storage, made)
    # A run of the day may have cleaned up between the check and the put, since the generation was old.
    check_shards(
        storage, made.shards, f"so generation {number} cannot be read. Roll back to another one, or run the day again"
    )
    return made


def _check_forgotten(storage: Storage, earlier: Manifest) -> None:
    """Raise UsageError if the generation predates a removal of users from the day, regardless of later runs."""
    last = last_forgotten(storage, earlier.day)
    if earlier.generation < last:
        raise UsageError(
            f"Generation {earlier.generation} of {earlier.run_date} may still have samples of users who were forgotten with "
            f"generation {last}. Go back to generation {last} or a later one, or run the day again from logs without them."
        )


def _readable(storage: Storage, day: Period, generation: int) -> Manifest | None:
    try:
        return read_manifest(storage, day, generation)
    except (DamagedFile, StorageError, FileNotFoundError):
        return None
