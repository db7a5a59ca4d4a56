"""Current time by a store's clock. File ages use this clock, since the clocks of drivers differ."""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import datetime

from ctr_samples.errors import StorageError
from ctr_samples.shards.storage import NameTaken, Storage


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
