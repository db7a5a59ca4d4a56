"""Numbered manifests in a directory. The highest number is authoritative; each is written once, by a single run."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from datetime import datetime

from ctr_samples.errors import DamagedFile, InputError, PublishConflict, PublishUnknown, StorageError
from ctr_samples.periods import Period
from ctr_samples.shards.naming import (
    MOST_GENERATIONS,
    forgotten_among,
    forgotten_path,
    generation_name,
    generations_among,
    manifests_directory,
)
from ctr_samples.shards.storage import NameTaken, Storage


def latest(storage: Storage, directory: str) -> int:
    """Return the highest generation in a manifest directory, or 0 before the first."""
    return max(numbers(storage, directory), default=0)


def numbers(storage: Storage, directory: str) -> list[int]:
    """Return the sorted generations in a manifest directory, parsed from the file names. Gaps are possible."""
    return generations_among(storage.names(directory))


def following(number: int, location: str) -> int:
    """Return the next generation number. Raises InputError, naming ``location``, if it exceeds eight digits."""
    if number >= MOST_GENERATIONS:
        raise InputError(
            f"{location} holds {generation_name(number)}, the last name a manifest can have, so there is no next generation. "
            "If somebody put it there by hand, move it away; otherwise write to a new directory."
        )
    return number + 1


def misplaced(location: str, content: str, remedy: str) -> DamagedFile:
    """Build the error for a manifest whose ``content`` (a generation or version) contradicts its name."""
    return DamagedFile(f"{location} says it is {content}, so it was copied or renamed; move it away. {remedy}")


def put(storage: Storage, directory: str, generation: int, data: bytes, run_id: str) -> None:
    """Put a manifest, which is JSON that contains ``run_id``, with one create-only request. Runs on the driver.

    Raises PublishConflict if another run already has this generation, PublishUnknown if the outcome is unknown, and
    StorageError if the manifest was not written.
    """
    path = f"{directory}/{generation_name(generation)}"
    try:
        storage.put_new(path, data)
    except (NameTaken, StorageError) as error:
        _read_back(storage, path, run_id, error)


def _read_back(storage: Storage, path: str, run_id: str, error: NameTaken | StorageError) -> None:
    """After a failed put, read the manifest back and raise unless this run wrote it."""
    location = storage.locate(path)
    try:
        there = json.loads(storage.read(path))["run_id"]
    except FileNotFoundError:
        if isinstance(error, StorageError):
            raise error from None
        raise _unknown(location, run_id, "the store rejected it as existing, then could not find it") from error
    except StorageError as unreadable:
        raise _unknown(location, run_id, str(unreadable)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as malformed:
        raise _unknown(location, run_id, f"the file there is not a manifest: {malformed}") from error
    if there != run_id:
        raise PublishConflict(
            f"Run {there} published {location} first; this run ({run_id}) published nothing. "
            "Run it again if its input is newer."
        ) from None


def _unknown(location: str, run_id: str, reason: str) -> PublishUnknown:
    return PublishUnknown(
        f"It is unknown whether {location} was written ({reason.rstrip('.')}). "
        f"If its run_id is {run_id}, this run is published; if it does not exist, run again."
    )


def mark_forgotten(storage: Storage, day: Period, generation: int) -> None:
    """Record that generations before ``generation`` may contain samples of forgotten users."""
    with suppress(NameTaken):
        storage.put_new(forgotten_path(day, generation), b"")


def last_forgotten(storage: Storage, day: Period) -> int:
    """Return the last generation that removed users from the day, or 0."""
    return max(forgotten_among(storage.names(manifests_directory(day))), default=0)


def time_of(storage: Storage, directory: str) -> datetime:
    """Return the store's current time: the modification time of an empty hidden file just written to ``directory``.

    Leaves no file behind unless the process is killed or lacks permission to delete; cleanup then treats the file as
    incomplete.
    """
    probe = f"{directory}/.clock.{uuid.uuid4().hex}".lstrip("/")
    with suppress(NameTaken):  # its own first attempt, whose answer was lost
        storage.put_new(probe, b"")
    try:
        return storage.modified(probe)
    except FileNotFoundError:
        raise StorageError(
            f"{storage.locate(probe)} was written but cannot be found; expected a store that keeps what it accepts. Run again."
        ) from None
    finally:
        with suppress(StorageError):
            storage.delete(probe)
