"""What time it is at a store. Files are told old from young by its clock, since those of drivers differ."""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import datetime

from ctr_samples.errors import StorageError
from ctr_samples.shards.storage import NameTaken, Storage


def time_of(storage: Storage, directory: str) -> datetime:
    """The time that the store gives to an empty file which is put now, below ``directory``, under a hidden name.

    Leaves nothing, unless it is killed or may delete nothing; clean-up then takes the file for one that was never completed.
    """
    probe = f"{directory}/.clock.{uuid.uuid4().hex}".lstrip("/")
    with suppress(NameTaken):  # its own first try, whose answer was lost
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
