"""Remove files that no reader needs any more. Pure functions select the files; only :func:`carry_out` deletes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ctr_samples.errors import DamagedFile, InputError, StorageError
from ctr_samples.periods import Period
from ctr_samples.shards import generations
from ctr_samples.shards.generations import time_of
from ctr_samples.shards.manifest import Manifest
from ctr_samples.shards.naming import (
    MANIFESTS_OF_TABLE,
    day_directory,
    is_shard_name,
    is_staged_name,
    manifest_path,
    manifests_directory,
    started_at,
)
from ctr_samples.shards.publish import days_of, read_manifest
from ctr_samples.shards.storage import Storage, StoredFile
from ctr_samples.shards.table import Table, TableManifest


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention policy: how many generations to keep, and how long a run or a reader may still need older files.

    ``longest_run`` exceeds the duration of any run, and of any training job that reads a replaced generation.
    """

    generations: int = 3
    longest_run: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Cleanup:
    """The run directories to remove, and single files to remove because they are incomplete or in no manifest.

    ``damage`` explains why a day is not cleaned; nothing is removed then.
    """

    directories: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int = 0
    damage: str = ""

    def __bool__(self) -> bool:
        return bool(self.directories or self.files)


def plan_day(
    day: Period, needed: Sequence[Manifest], files: Sequence[StoredFile], retention: Retention, now: datetime
) -> Cleanup:
    """Plan the cleanup of a day: ``needed`` lists the generations to keep, and ``files`` lists all files of the day.

    A run directory is removed if its newest file is older than ``longest_run`` and no generation to keep lists any of
    its files. Only the store's own timestamps count, since the clocks of drivers differ.
    """
    limit = now - retention.longest_run
    kept = {_run_directory(day, shard.path) for manifest in needed for shard in manifest.shards}
    runs: dict[str, list[StoredFile]] = {}
    staged = []
    for file in files:
        directory = _run_directory(day, file.path)
        if directory is not None:
            runs.setdefault(directory, []).append(file)
        elif is_staged_name(_name(file.path)) and file.modified < limit:
            staged.append(file)
    gone = {run: some for run, some in runs.items() if run not in kept and all(f.modified < limit for f in some)}
    size = sum(file.size for some in [*gone.values(), staged] for file in some)
    return Cleanup(tuple(sorted(gone)), tuple(file.path for file in staged), size)


def needed_generations(
    day: Period, numbers: Sequence[int], files: Sequence[StoredFile], retention: Retention, now: datetime
) -> Iterator[int]:
    """Yield the last generations and all generations replaced within ``longest_run``. Some may not exist.

    ``numbers`` are the existing generations, in order. A manifest missing from ``files`` was written after the listing.
    """
    last = numbers[-1] if numbers else 0
    first_kept = max(1, last - retention.generations + 1)
    yield from range(last, first_kept - 1, -1)
    put = {file.path: file.modified for file in files}
    for number in numbers:
        replaced_at = put.get(manifest_path(day, number), now)
        if 1 < number <= first_kept and replaced_at >= now - retention.longest_run:
            yield number - 1


def plan_table(
    current: TableManifest | None, files: Sequence[StoredFile], retention: Retention, now: datetime
) -> Cleanup:
    """Plan the cleanup of a table: old shards that readers do not see, and old incomplete files."""
    limit = now - retention.longest_run
    seen = {shard.path for shard in current.shards} if current else set()
    gone = [file for file in files if file.modified < limit and file.path not in seen and _is_ours(file.path)]
    return Cleanup(files=tuple(file.path for file in gone), bytes=sum(file.size for file in gone))


def cleanups_of(storage: Storage, day: Period | None, retention: Retention) -> Iterator[Cleanup]:
    """Plan the cleanup of a day, of all days, or of a table. Raises InputError if the directory contains neither days
    nor a table.

    For a named ``day``, damage raises DamagedFile as in :func:`cleanup_of_day`. For all days, the plan of a damaged day
    describes the damage in ``damage``.
    """
    if day is None and generations.latest(storage, MANIFESTS_OF_TABLE):
        yield cleanup_of_table(storage, retention)
        return
    if day is not None:
        yield cleanup_of_day(storage, day, retention)
        return
    days = days_of(storage)
    if not days:
        raise InputError(f"{storage.url} holds neither samples nor a table; expected an output directory.")
    for any_day in days:
        try:
            yield cleanup_of_day(storage, any_day, retention)
        except (DamagedFile, StorageError) as error:
            yield Cleanup(damage=f"{any_day} is left as it is: {error}")


def cleanup_of_day(storage: Storage, day: Period, retention: Retention) -> Cleanup:
    """List a day and plan its cleanup. Lists files first, so that the manifests include any run published meanwhile.

    Raises DamagedFile if the manifest of a generation to keep is missing or damaged, since its shards would look like
    leftovers of a killed run. Nothing is removed then.
    """
    files = storage.files(day_directory(day))
    if not files:
        return Cleanup()
    now = time_of(storage, day_directory(day))
    numbers = generations.numbers(storage, manifests_directory(day))
    if not numbers and any(file.path == f"{day_directory(day)}/_SUCCESS" for file in files):
        raise DamagedFile(f"{storage.locate(manifests_directory(day))} has no manifest, though the day was published.")
    needed = [_manifest(storage, day, number) for number in needed_generations(day, numbers, files, retention, now)]
    return plan_day(day, needed, files, retention, now)


def cleanup_of_table(storage: Storage, retention: Retention) -> Cleanup:
    """List a table and plan its cleanup; see :func:`cleanup_of_day`."""
    files = storage.files("")
    now = time_of(storage, MANIFESTS_OF_TABLE)
    return plan_table(Table(storage).current(), files, retention, now)


def carry_out(storage: Storage, cleanup: Cleanup) -> None:
    """Delete the planned items. Safe to repeat after an error, and to run alongside readers and writers."""
    for directory in cleanup.directories:
        storage.delete_directory(directory)
    for path in cleanup.files:
        storage.delete(path)


def _manifest(storage: Storage, day: Period, generation: int) -> Manifest:
    try:
        return read_manifest(storage, day, generation)
    except FileNotFoundError:
        location = storage.locate(manifest_path(day, generation))
        raise DamagedFile(f"{location} is missing, though there are later generations; restore it.") from None


def _run_directory(day: Period, path: str) -> str | None:
    """Return the run directory ``dt=.../data/<run id>`` that contains a file, or None for a file elsewhere."""
    runs = f"{day_directory(day)}/data/"
    run, slash, _ = path.removeprefix(runs).partition("/")
    return f"{runs}{run}" if path.startswith(runs) and slash and started_at(run) is not None else None


def _is_ours(path: str) -> bool:
    name = _name(path)
    return (
        is_shard_name(name) or is_staged_name(name) or (path.startswith(f"{MANIFESTS_OF_TABLE}/") and name == "probe")
    )


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
