"""Write Arrow batches to shards of a target size, for any number of splits in one pass; verify shards byte by byte."""

from __future__ import annotations

import math
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.crc32c import crc32c
from ctr_samples.shards.manifest import Receipt, Shard
from ctr_samples.shards.naming import shard_name
from ctr_samples.shards.storage import Storage

_PIECE_ROWS = 4096
_PIECE_BYTES = 4 << 20
_PIECES_OF_A_SHARD = 32
"""Limits on the size of a piece to encode: few enough bytes to bound memory, enough rows to amortise the calls."""
_AHEAD = 2
"""Number of encoded pieces that may wait for the store."""


class FrameWriter(Protocol):
    """Writes batches of framed records to a file, compressed or not, and keeps counts.

    ``size`` and ``crc32c`` describe the bytes written so far. The codec's RecordWriter implements this protocol, so
    that shards do not depend on the codec. The bytes of a file do not depend on how its records come in batches.
    """

    records: int
    size: int
    crc32c: int

    def write(self, batch: Any) -> None:
        """Append whole records."""

    def room(self, size: int) -> int:
        """Return the number of further bytes of records before which the file is smaller than ``size``."""

    def close(self) -> None:
        """Flush the compressor; the underlying file stays open."""


class ShardWriter:
    """Writes the shards of one partition attempt below ``directory``. Runs in any process, with or without Spark.

    ``encode`` turns rows into framed records, and ``open_frames`` adds compression to a raw file;
    :func:`ctr_samples.records.write.shard_writer` binds both to the codec. Rows are encoded in the caller's thread
    while a second thread compresses, writes and syncs earlier rows. At most a few megabytes are buffered between the
    threads.

    Files appear when they are closed. After an error, including in ``write`` and ``close``, call ``abandon`` (leaving a
    ``with`` block does): open files are dropped, and shards closed earlier stay, listed in no manifest. A later
    ``write`` or ``close`` raises a store error of the second thread.
    """

    def __init__(
        self,
        storage: Storage,
        directory: str,
        *,
        encode: Callable[[pa.RecordBatch], Any],
        open_frames: Callable[[BinaryIO], FrameWriter],
        labels: Sequence[str] = (),
        partition: int = 0,
        attempt: int = 0,
        compression: str = "none",
        shard_size: int = 128 * 2**20,
    ) -> None:
        self._encode = encode
        self._labels = labels
        self._shard_size = shard_size
        self._files = _OpenShards(storage, directory, open_frames, partition, attempt, compression, shard_size)
        self._thread = ThreadPoolExecutor(1, "shards")
        self._pending: deque[Future[None]] = deque()
        self._receipt: Receipt | None = None

    def write(self, rows: pa.RecordBatch, split: str = "") -> None:
        """Append rows to the shard of a split. ``split`` names a subdirectory; if empty, the shard is in the directory
        itself.
        """
        for piece in _pieces(rows, min(_PIECE_BYTES, self._shard_size // _PIECES_OF_A_SHARD)):
            while len(self._pending) >= _AHEAD:
                self._pending.popleft().result()
            labels = piece.select(self._labels)
            self._pending.append(self._thread.submit(self._files.append, split, self._encode(piece), labels))

    def close(self) -> Receipt:
        """Close the open shards and return the receipt. Further calls return the same receipt."""
        if self._receipt is None:
            while self._pending:
                self._pending.popleft().result()
            self._receipt = self._thread.submit(self._files.close).result()
            self._thread.shutdown()
        return self._receipt

    def abandon(self, error: BaseException) -> None:
        """Drop the open files, which never appear in the store."""
        self._thread.shutdown(cancel_futures=True)
        self._files.abandon(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abandon(error)
            return
        try:
            self.close()
        except BaseException as failure:
            self.abandon(failure)
            raise


class _OpenShards:
    """The open shards of a writer, at most one per split. Used by one thread at a time."""

    def __init__(
        self,
        storage: Storage,
        directory: str,
        open_frames: Callable[[BinaryIO], FrameWriter],
        partition: int,
        attempt: int,
        compression: str,
        shard_size: int,
    ) -> None:
        self._storage = storage
        self._directory = directory
        self._open_frames = open_frames
        self._partition = partition
        self._attempt = attempt
        self._compression = compression
        self._shard_size = shard_size
        self._open: dict[str, _OpenShard] = {}
        self._closed: list[Shard] = []
        self._failed = False

    def append(self, split: str, batch: Any, labels: pa.RecordBatch) -> None:
        """Append framed records to the shard of a split, and close the shard with the record that makes it large enough.
        ``labels`` has the labels of the records.
        """
        if self._failed:
            return  # the error is on its way to the caller; nothing may follow the gap that it left
        try:
            done = 0
            while done < len(batch):
                if split not in self._open:
                    self._open[split] = self._start(split)
                shard = self._open[split]
                room = shard.room(self._shard_size)
                end = min(
                    len(batch), done + 1 + int(np.searchsorted(batch.offsets[done + 1 :], batch.offsets[done] + room))
                )
                shard.append(batch.slice(done, end), labels.slice(done, end - done))
                if shard.size >= self._shard_size:
                    self._close(split)
                done = end
        except BaseException:
            self._failed = True
            raise

    def close(self) -> Receipt:
        for split in sorted(self._open):
            self._close(split)
        return Receipt(self._partition, self._attempt, tuple(self._closed))

    def abandon(self, error: BaseException) -> None:
        while self._open:
            _, shard = self._open.popitem()
            shard.abandon(error)

    def _start(self, split: str) -> _OpenShard:
        name = shard_name(self._partition, self._attempt, uuid.uuid4().hex[:8], self._compression)
        path = "/".join(part for part in (self._directory, split, name) if part)
        return _OpenShard(self._storage, path, split, self._partition, self._open_frames)

    def _close(self, split: str) -> None:
        self._closed.append(self._open[split].close())
        del self._open[split]  # only now, since it can be abandoned until it is closed


class _OpenShard:
    """A shard being written, with the running sums of its labels."""

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
        self._label_sums: dict[str, list[float]] = {}

    @property
    def size(self) -> int:
        return self._frames.size

    def room(self, size: int) -> int:
        return self._frames.room(size)

    def append(self, batch: Any, labels: pa.RecordBatch) -> None:
        self._frames.write(batch)
        for name in labels.schema.names:
            self._label_sums[name] = _added(self._label_sums.get(name, []), labels.column(name))

    def close(self) -> Shard:
        self._frames.close()
        self._stack.close()
        frames, sums = self._frames, {name: sum(parts) for name, parts in self._label_sums.items()}
        return Shard(self._path, self._split, self._partition, frames.records, frames.size, frames.crc32c, sums)

    def abandon(self, error: BaseException) -> None:
        self._stack.__exit__(type(error), error, error.__traceback__)


def _pieces(rows: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield slices with bounded numbers of rows and bytes. Slicing copies no data."""
    if rows.num_rows == 0:
        return
    mean = max(1, rows.nbytes // rows.num_rows)
    step = max(1, min(_PIECE_ROWS, most_bytes // mean))
    for first in range(0, rows.num_rows, step):
        yield rows.slice(first, step)


def _added(parts: list[float], column: pa.Array) -> list[float]:
    """Return few numbers whose sum is exactly that of other ``parts`` and a column, the greatest first. So the sum does not
    depend on how records come in batches.
    """
    total = pc.sum(column).as_py() or 0
    if not (pa.types.is_floating(column.type) and math.isfinite(sum(parts) + total)):
        return [sum(parts) + total]
    numbers, exact = [*parts, *column.drop_null().to_pylist()], list[float]()
    while rest := math.fsum([*numbers, *[-part for part in exact]]):
        exact.append(rest)
    return exact


_PIECE = 4 * 2**20


class CheckedFile:
    """A binary file that tracks the size and CRC32C of the bytes read so far."""

    def __init__(self, file: BinaryIO, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self.size = 0
        self.crc32c = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read up to ``size`` bytes, like ``read`` of a file."""
        piece = self._file.read(size)
        self.size += len(piece)
        self.crc32c = crc32c(piece, self.crc32c)
        self._on_bytes(len(piece))
        return piece

    def drain(self) -> None:
        """Read to the end of the file."""
        while self.read(_PIECE):
            pass

    def difference(self, shard: Shard) -> str | None:
        """Describe a mismatch between the bytes read and the manifest entry, or return None if they match."""
        if self.size != shard.bytes:
            return f"has {self.size} bytes, the manifest says {shard.bytes}"
        if self.crc32c != shard.crc32c:
            return f"has CRC32C {self.crc32c:08x}, the manifest says {shard.crc32c:08x}"
        return None
