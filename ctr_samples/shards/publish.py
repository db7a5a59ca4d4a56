"""Publish a manifest with one create-only put, and find the manifest that readers see."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import partial

from ctr_samples.errors import ConfigError, ContractError, DamagedFile, InputError, StorageError
from ctr_samples.periods import Hour, Period, Whole
from ctr_samples.shards import generations
from ctr_samples.shards.generations import mark_forgotten, time_of
from ctr_samples.shards.manifest import REMEDY, Manifest, Shard, disagreement
from ctr_samples.shards.naming import day_directory, day_of, hours_among, manifest_path, manifests_directory
from ctr_samples.shards.storage import NameTaken, Storage

_REQUESTS = 16
"""Maximum number of concurrent requests to a store."""


_SHOWN = 10
"""Maximum number of generations listed in an error message, latest last."""


def latest_manifest(storage: Storage, day: Period) -> Manifest | None:
    """Return the manifest that readers of a day see: the highest generation, or None before the first."""
    generation = generations.latest(storage, manifests_directory(day))
    if generation == 0:
        return None
    try:
        return read_manifest(storage, day, generation)
    except FileNotFoundError:
        raise _lost(storage, day, generation) from None


def read_manifest(storage: Storage, day: Period, generation: int) -> Manifest:
    """Read one generation of a day. Raises FileNotFoundError if it was never published.

    Raises DamagedFile if the file is not a valid manifest, was changed, is inconsistent, or belongs to another
    generation or day.
    """
    path = manifest_path(day, generation)
    try:
        data = storage.read(path)
    except StorageError as error:
        if isinstance(error.__cause__, IsADirectoryError):
            raise DamagedFile(f"{storage.locate(path)} is a directory, not a manifest; {REMEDY}.") from None
        raise
    manifest = _sound(data, storage.locate(path))
    if (manifest.day, manifest.generation) != (day, generation):
        raise generations.misplaced(
            storage.locate(path),
            f"generation {manifest.generation} of {manifest.run_date}",
            f"Then go back to an earlier generation with `ctr-samples rollback {storage.url} {day} --to N`.",
        )
    return manifest


def _lost(storage: Storage, day: Period, generation: int) -> StorageError:
    location = storage.locate(manifest_path(day, generation))
    return StorageError(
        f"{location} was listed but cannot be found; expected a store that keeps what it lists. Run again."
    )


def _sound(data: bytes, location: str) -> Manifest:
    """Parse a manifest and check its consistency. Raises DamagedFile if it is invalid."""
    manifest = Manifest.from_json(data, location)
    try:
        wrong = disagreement(manifest)
    except ContractError as error:
        raise DamagedFile(f"{location} has a contract that cannot be read. {error}") from None
    if wrong:
        raise DamagedFile(f"{location} contradicts itself: {wrong}; {REMEDY}.")
    return manifest


def published_days(storage: Storage) -> list[Period]:
    """Return the days below an output directory that have a manifest, in order."""
    return [day for day in days_of(storage) if generations.latest(storage, manifests_directory(day))]


def days_of(storage: Storage) -> list[Period]:
    """Return sorted periods below an output directory, published or not: days, all hours of days, or the whole log."""
    found = [day for day in map(day_of, storage.names("")) if day is not None]
    days = [day for day in found if isinstance(day, date)]
    for day in reversed(days):
        names = storage.names(day_directory(day))
        if hours_among(day, names):
            return [hour for day in days for hour in hours_among(day, storage.names(day_directory(day)))]
        if {"data", "manifests"}.intersection(names):  # an empty directory tells nothing
            break
    return found


def periods_of(storage: Storage, period: Period) -> list[Period]:
    """Return the periods to read for a period: the period itself, or the published hours of a day built by the hour."""
    if not isinstance(period, date) or generations.latest(storage, manifests_directory(period)):
        return [period]
    hours = hours_among(period, storage.names(day_directory(period)))
    return [hour for hour in hours if generations.latest(storage, manifests_directory(hour))] or [period]


def require_manifest(storage: Storage, day: Period) -> Manifest:
    """Return the latest manifest of a day. Raises InputError, listing the published days, if there is none."""
    manifest = latest_manifest(storage, day)
    if manifest is None:
        days = published_days(storage)
        there = f"it has {days[0]} to {days[-1]} ({len(days)} day(s))" if days else "nothing is published there"
        raise InputError(f"{storage.url} has no samples of {day}; {there}. Run the job for that day first.")
    return manifest


def require_generation(storage: Storage, day: Period, number: int) -> Manifest:
    """Return a generation's manifest. Raises InputError, listing the existing generations, if it does not exist."""
    numbers = generations.numbers(storage, manifests_directory(day))
    if not numbers:
        require_manifest(storage, day)  # raises, naming the published days
    if number not in numbers:
        there = ", ".join(map(str, numbers[-_SHOWN:]))
        raise InputError(f"{storage.url} has no generation {number} of {day}; it has {there}. Choose one of these.")
    try:
        return read_manifest(storage, day, number)
    except FileNotFoundError:
        raise _lost(storage, day, number) from None


def check_directory(storage: Storage, day: Period) -> None:
    """Raise InputError if a day's directory has foreign files, such as inputs or the output of another program or
    grain.
    """
    _check_grain(storage, day)
    others = set(storage.names(day_directory(day))) - {"data", "manifests", "_SUCCESS"}
    others = {name for name in others if not name.startswith(".")}  # object stores show what local disks hide
    if others:
        raise InputError(
            f"{storage.locate(day_directory(day))} holds {min(others)}, which ctr-samples did not write; expected an empty or "
            "new directory. Choose another `output.path`, or move it away."
        )


def _check_grain(storage: Storage, period: Period) -> None:
    """Raise InputError if the output mixes hours with a day, or a whole log with days, since readers would confuse
    them.
    """
    whole = isinstance(period, Whole)
    others = {name for name in storage.names("") if (kind := day_of(name)) and isinstance(kind, Whole) is not whole}
    if isinstance(period, Hour):
        others |= {"data", "manifests"} & set(storage.names(day_directory(period.day)))
    if others:
        raise InputError(
            f"{storage.url} holds {min(others)} of a sample set with another `grain` than that of {period}; choose another "
            "`output.path`."
        )


def check_shards(storage: Storage, shards: Sequence[Shard], remedy: str = "run again") -> None:
    """Raise DamagedFile unless every stored shard has the size that its task counted. Detects lost uploads.

    ``remedy`` ends the error message.
    """
    with ThreadPoolExecutor(_REQUESTS) as threads:
        for wrong in threads.map(partial(_wrong_size, storage), shards):
            if wrong:
                threads.shutdown(cancel_futures=True)
                raise DamagedFile(f"{wrong}; {remedy}.")


def _wrong_size(storage: Storage, shard: Shard) -> str | None:
    location = storage.locate(shard.path)
    try:
        size = storage.size(shard.path)
    except FileNotFoundError:
        return f"{location} is missing, though a task wrote it"
    if size != shard.bytes:
        return f"{location} has {size} bytes, but its task wrote {shard.bytes}"
    return None


def check_store(storage: Storage, directory: str) -> datetime:
    """Return the start time of a run by the store's clock. Rejects a store whose create-only put overwrites files.

    On such a store, two racing runs would both report success. Some S3-compatible servers silently ignore
    ``If-None-Match``. Runs once on the driver, before a run starts its work. ``directory`` belongs to that run. Leaves
    no files behind unless the process is killed or lacks permission to delete.
    """
    path = f"{directory}/probe"
    with suppress(NameTaken):  # its own first attempt, whose answer was lost
        storage.put_new(path, b"first")
    try:
        storage.put_new(path, b"second")
    except NameTaken:
        with suppress(FileNotFoundError):
            if storage.read(path) == b"first":
                began = storage.modified(path)
                _forget(storage, path)
                return began
    raise StorageError(
        f"{storage.url} let a create-only put replace {storage.locate(path)}, so two runs could overwrite each other's "
        "manifest; expected it to refuse. Use a store that honours If-None-Match."
    )


def _forget(storage: Storage, path: str) -> None:
    with suppress(StorageError):  # only cleanup needs the right to delete
        storage.delete(path)


def check_age(storage: Storage, directory: str, began: datetime, longest_run: timedelta) -> None:
    """Raise ConfigError if the run is older than ``longest_run`` by the store's clock, since cleanup may remove its
    files.

    ``directory`` belongs to the run. Runs on the driver, right before :func:`publish`.
    """
    age = time_of(storage, directory) - began
    if age > longest_run:
        raise ConfigError(
            f"This run took {age}, longer than `output.retention.longest_run: {longest_run}`, after which another run may "
            "remove its files; nothing was published. Increase it and run again."
        )


def publish(storage: Storage, manifest: Manifest) -> None:
    """Check the shards again, put the manifest, then write ``_SUCCESS``. Runs once, on the driver. Deletes nothing.

    A generation that removes users gets its marker before the manifest (:mod:`ctr_samples.shards.generations`). Raises
    DamagedFile, and publishes nothing, if a shard is missing or readers would reject the manifest. Also raises the
    errors of :func:`ctr_samples.shards.generations.put`, and StorageError if the manifest was written but ``_SUCCESS``
    was not.
    """
    directory, data = manifests_directory(manifest.day), manifest.to_json()
    _sound(
        data,
        f"Nothing was published: the manifest for {storage.locate(manifest_path(manifest.day, manifest.generation))}",
    )
    check_shards(storage, manifest.shards)
    if manifest.forgotten and manifest.rollback is None:
        mark_forgotten(storage, manifest.day, manifest.generation)
    generations.put(storage, directory, manifest.generation, data, manifest.run_id)
    mark_success(storage, manifest)


def mark_success(storage: Storage, manifest: Manifest) -> None:
    """Write ``_SUCCESS``, which only tells schedulers that a generation exists. The manifest is authoritative."""
    try:
        storage.put_new(f"{day_directory(manifest.day)}/_SUCCESS", b"")
    except NameTaken:
        pass
    except StorageError as error:
        raise StorageError(
            f"Generation {manifest.generation} of {manifest.run_date} is published and can be read, but is not marked "
            f"with _SUCCESS, which schedulers wait for. {error}"
        ) from error
