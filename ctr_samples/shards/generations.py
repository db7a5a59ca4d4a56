"""Numbered manifests in a directory: the highest is the truth, and each is put once, by one run."""

from __future__ import annotations

import json

from ctr_samples.errors import PublishConflict, PublishUnknown, StorageError
from ctr_samples.shards.naming import generation_name, latest_generation
from ctr_samples.shards.storage import NameTaken, Storage


def latest(storage: Storage, directory: str) -> int:
    """The highest generation in a directory of manifests; 0 before the first."""
    return latest_generation(storage.names(directory))


def put(storage: Storage, directory: str, generation: int, data: bytes, run_id: str) -> None:
    """Put a manifest, which is JSON that names ``run_id``, with one create-only request. Runs on the driver.

    Raises PublishConflict when another run has this generation, PublishUnknown when the store gave no answer, and
    StorageError when the manifest is not there.
    """
    path = f"{directory}/{generation_name(generation)}"
    try:
        storage.put_new(path, data)
    except (NameTaken, StorageError) as error:
        _read_back(storage, path, run_id, error)


def _read_back(storage: Storage, path: str, run_id: str, error: NameTaken | StorageError) -> None:
    """After an error the store may or may not have the manifest: look, and raise unless it is this run's."""
    place = storage.locate(path)
    try:
        there = json.loads(storage.read(path))["run_id"]
    except FileNotFoundError:
        if isinstance(error, StorageError):
            raise error from None
        raise _unknown(place, run_id, "the store refused it as existing, then did not find it") from error
    except StorageError as unreadable:
        raise _unknown(place, run_id, str(unreadable)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as malformed:
        raise _unknown(place, run_id, f"what stands there is not a manifest: {malformed}") from error
    if there != run_id:
        raise PublishConflict(
            f"Run {there} published {place} first; this run ({run_id}) published nothing. "
            "Run it again if its input is newer."
        ) from None


def _unknown(place: str, run_id: str, reason: str) -> PublishUnknown:
    return PublishUnknown(
        f"It is not known whether {place} was written ({reason.rstrip('.')}). "
        f"If its run_id is {run_id}, this run is published; if it is absent, run it again."
    )
