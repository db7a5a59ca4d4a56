"""Time at a store. Its clock distinguishes old files from new ones, since the clocks of drivers differ."""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import datetime

from ctr_samples.errors import StorageError
from ctr_samples.shards.storage import NameTaken, Storage


def time_of(storage: Storage, directory: str) -> datetime:
    """Modification time that the store assigns to an empty hidden file written to ``directory`` now.

    Leaves nothing behind unless it is killed or may not delete; cleanup then treats the file as never completed.
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
