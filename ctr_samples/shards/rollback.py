"""Roll a day back to an earlier generation by publishing its shards as the next one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ctr_samples.errors import DamagedFile, StorageError, UsageError
from ctr_samples.periods import Period
from ctr_samples.shards import generations
from ctr_samples.shards.forgotten import last_forgotten
from ctr_samples.shards.manifest import Manifest, Rollback
from ctr_samples.shards.naming import manifests_directory, run_id
from ctr_samples.shards.publish import check_shards, publish, read_manifest, require_generation
from ctr_samples.shards.storage import Storage


def rollback(storage: Storage, day: Period, to: int, now: datetime, token: str) -> Manifest:
    """Publish the samples of generation ``to`` as the next generation and return its manifest. Runs on the driver.

    ``token`` is a unique string of eight hex digits. If the newest manifest is unreadable, there is no parent. Raises
    InputError for a missing generation, UsageError for the current one and for one from before users were forgotten,
    DamagedFile for one whose shards are missing, and otherwise like :func:`ctr_samples.shards.publish.publish`.
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
    """Raise UsageError for a generation from before users of the day were forgotten, whatever was published since."""
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
