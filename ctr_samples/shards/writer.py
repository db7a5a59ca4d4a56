"""Writes framed records into shards that roll at a target size, for any number of splits in one pass."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO, Protocol, cast

from ctr_samples.shards.manifest import Receipt, Shard
from ctr_samples.shards.naming import shard_name
from ctr_samples.shards.storage import Storage


class FrameWriter(Protocol):
    """Writes batches of framed records, compressed or not, to the file that it was opened on, and counts what it wrote.

    ``size`` and ``crc32c`` are those of the file so far. The codec's RecordWriter is one; shards do not know the codec.
    """

    records: int
    size: int
    crc32c: int

    def write(self, batch: Any) -> None:
        """Append whole records."""

    def close(self) -> None:
        """Write what compression still holds back; the file below stays open."""


class ShardWriter:
    """Writes the shards of one attempt of one partition below ``directory``.

    Runs in any process. Files appear when they are closed. After an error, in ``write`` and ``close`` too, call
    ``abandon``: it leaves no open file behind, and what earlier rolls have closed stays, named in no manifest.
    ``open_frames`` wraps the raw file with the compression.
    """

    def __init__(
        self,
        storage: Storage,
        directory: str,
        *,
        partition: int,
        attempt: int,
        open_frames: Callable[[BinaryIO], FrameWriter],
        compression: str = "none",
        shard_size: int = 128 * 2**20,
    ) -> None:
        self._storage = storage
        self._directory = directory
        self._partition = partition
        self._attempt = attempt
        self._open_frames = open_frames
        self._compression = compression
        self._shard_size = shard_size
        self._open: dict[str, _OpenShard] = {}
        self._closed: list[Shard] = []

    def write(self, split: str, batch: Any, label_sums: Mapping[str, float]) -> None:
        """Append framed records to the shard of a split and close it once it is large enough."""
        if len(batch) == 0:
            return
        if split not in self._open:
            self._open[split] = self._start(split)
        shard = self._open[split]
        shard.append(batch, label_sums)
        if shard.size >= self._shard_size:
            self._close(split)

    def close(self) -> Receipt:
        """Close what is open and return the receipt."""
        for split in sorted(self._open):
            self._close(split)
        return Receipt(self._partition, self._attempt, tuple(self._closed))

    def abandon(self, error: BaseException) -> None:
        """Leave what is open without letting it appear."""
        while self._open:
            _, shard = self._open.popitem()
            shard.abandon(error)

    def _start(self, split: str) -> _OpenShard:
        name = shard_name(self._partition, self._attempt, uuid.uuid4().hex[:8], self._compression)
        path = f"{self._directory}/{split}/{name}"
        return _OpenShard(self._storage, path, split, self._partition, self._open_frames)

    def _close(self, split: str) -> None:
        self._closed.append(self._open[split].close())
        del self._open[split]  # only now: until it is closed, it can be abandoned


class _OpenShard:
    """One file being written, and the sums of its labels."""

    def __init__(
        self,
        storage: Storage,
        path: str,
        split: str,
        partition: int,
        open_frames: Callable[[BinaryIO], FrameWriter],
    ) -> None:
        self._path, self._split, self._partition = path, split, partition
        self._stack = ExitStack()
        file = self._stack.enter_context(storage.new_file(path))
        self._frames = open_frames(cast(BinaryIO, file))
        self._label_sums: dict[str, float] = {}

    @property
    def size(self) -> int:
        return self._frames.size

    def append(self, batch: Any, label_sums: Mapping[str, float]) -> None:
        self._frames.write(batch)
        for name, value in label_sums.items():
            self._label_sums[name] = self._label_sums.get(name, 0) + value

    def close(self) -> Shard:
        self._frames.close()
        self._stack.close()
        frames = self._frames
        return Shard(
            self._path, self._split, self._partition, frames.records, frames.size, frames.crc32c, dict(self._label_sums)
        )

    def abandon(self, error: BaseException) -> None:
        self._stack.__exit__(type(error), error, error.__traceback__)
