"""Makes a manifest visible with one create-only put, and finds the one that readers see."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import date

from ctr_samples.errors import DamagedFile, InputError, PublishConflict, PublishUnknown, StorageError
from ctr_samples.shards.manifest import Manifest, Shard
from ctr_samples.shards.naming import day_directory, day_of, latest_generation, manifest_path
from ctr_samples.shards.storage import NameTaken, Storage


def latest_manifest(storage: Storage, day: date) -> Manifest | None:
    """The manifest that readers of a day see: the highest generation, or None before the first."""
    generation = latest_generation(storage.names(f"{day_directory(day)}/manifests"))
    if generation == 0:
        return None
    return read_manifest(storage, day, generation)


def read_manifest(storage: Storage, day: date, generation: int) -> Manifest:
    """One generation of a day; FileNotFoundError if it was never published."""
    path = manifest_path(day, generation)
    return Manifest.from_json(storage.read(path), storage.locate(path))


def published_days(storage: Storage) -> list[date]:
    """The days below an output directory that have a manifest, in order."""
    days = [day for day in map(day_of, storage.names("")) if day is not None]
    return [day for day in days if latest_generation(storage.names(f"{day_directory(day)}/manifests"))]


def require_manifest(storage: Storage, day: date) -> Manifest:
    """The latest manifest of a day; InputError says which days there are instead."""
    manifest = latest_manifest(storage, day)
    if manifest is None:
        days = published_days(storage)
        there = f"published are {days[0]} to {days[-1]} ({len(days)} day(s))" if days else "no day is published there"
        raise InputError(f"{storage.url} has no samples of {day}; {there}. Run the job for that day first.")
    return manifest


def check_shards(storage: Storage, shards: Sequence[Shard]) -> None:
    """Every shard must stand at its store with the size that its task counted (a lost upload shows here)."""
    for shard in shards:
        try:
            size = storage.size(shard.path)
        except FileNotFoundError:
            raise DamagedFile(
                f"{storage.locate(shard.path)} was written by a task but is not there; run again."
            ) from None
        if size != shard.bytes:
            raise DamagedFile(
                f"{storage.locate(shard.path)} has {size} bytes where its task wrote {shard.bytes}; run the day again."
            )


def check_store(storage: Storage, directory: str) -> None:
    """Refuse a store that overwrites where it was told to create: two racing runs would both believe to have published.

    Some servers of the S3 protocol ignore ``If-None-Match`` without a word. Runs on the driver, once, before a run
    starts its work; leaves one file of a few bytes in ``directory``, which belongs to that run.
    """
    path = f"{directory}/probe"
    with suppress(NameTaken):  # its own first try, whose answer was lost
        storage.put_new(path, b"first")
    try:
        storage.put_new(path, b"second")
    except NameTaken:
        if storage.read(path) == b"first":
            return
    raise StorageError(
        f"{storage.url} let a create-only put replace {storage.locate(path)}, so two runs could overwrite each other's "
        "manifest; expected it to refuse. Use a store that honours If-None-Match."
    )


def publish(storage: Storage, manifest: Manifest) -> None:
    """Put the manifest, then ``_SUCCESS``. Runs on the driver, once; nothing is ever deleted here.

    Raises PublishConflict when another run has this generation, PublishUnknown when the store gave no answer, and
    StorageError when the manifest is not there, or is there but ``_SUCCESS`` is not.
    """
    path = manifest_path(manifest.day, manifest.generation)
    try:
        storage.put_new(path, manifest.to_json())
    except (NameTaken, StorageError) as error:
        _read_back(storage, manifest, error)
    mark_success(storage, manifest)


def _read_back(storage: Storage, manifest: Manifest, error: NameTaken | StorageError) -> None:
    """After an error the store may or may not have the manifest: look, and raise unless it is this run's."""
    path = manifest_path(manifest.day, manifest.generation)
    try:
        there = Manifest.from_json(storage.read(path), storage.locate(path))
    except FileNotFoundError:
        if isinstance(error, StorageError):
            raise error from None
        raise _unknown(storage, manifest, "the store refused it as existing, then did not find it") from error
    except (StorageError, DamagedFile) as unreadable:
        raise _unknown(storage, manifest, str(unreadable)) from error
    if there.run_id != manifest.run_id:
        raise PublishConflict(
            f"Run {there.run_id} published generation {manifest.generation} of {manifest.run_date} first; "
            f"this run ({manifest.run_id}) published nothing. Run it again if its input is newer."
        ) from None


def _unknown(storage: Storage, manifest: Manifest, reason: str) -> PublishUnknown:
    place = storage.locate(manifest_path(manifest.day, manifest.generation))
    return PublishUnknown(
        f"It is not known whether {place} was written ({reason.rstrip('.')}). "
        f"If its run_id is {manifest.run_id}, this run is published; if it is absent, run the day again."
    )


def mark_success(storage: Storage, manifest: Manifest) -> None:
    """``_SUCCESS`` only tells schedulers that some generation exists; the manifest is the truth."""
    try:
        storage.put_new(f"{day_directory(manifest.day)}/_SUCCESS", b"")
    except NameTaken:
        pass
    except StorageError as error:
        raise StorageError(
            f"Generation {manifest.generation} of {manifest.run_date} is published and can be read, but not marked "
            f"with _SUCCESS, for which schedulers wait. {error}"
        ) from error
