"""Files of a store, as these tests make them, let them grow old and look at them."""

from __future__ import annotations

import os
from pathlib import Path

from ctr_samples.shards import Storage


def write(storage: Storage, path: str, data: bytes) -> None:
    with storage.new_file(path) as file:
        assert file.write(data) == len(data)


def write_in_vain(storage: Storage, path: str, data: bytes, error: BaseException) -> None:
    with storage.new_file(path) as file:
        file.write(data)
        raise error


def everything_below(storage: Storage) -> list[str]:
    """All files; of a directory the hidden ones too."""
    if "://" in storage.url:
        return [file.path for file in storage.files("")]
    root = Path(storage.url)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def grow_old(storage: Storage) -> None:
    """Let all files be of long ago, by the clock of their store."""
    for file in storage.files(""):
        os.utime(storage.locate(file.path), (0, 0))
