"""Read shard records in runs of a given length, each checked in contiguous memory."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ctr_samples.codec import EncodedBatch
from ctr_samples.codec.deflate import pieces
from ctr_samples.codec.frames import PROBLEMS, Walk
from ctr_samples.codec.layout import BAD_LENGTH, BAD_MESSAGE, SOUND
from ctr_samples.errors import DamagedFile
from ctr_samples.readers.order import Piece
from ctr_samples.shards import Shard, Storage
from ctr_samples.shards.naming import compression_of

Bytes = npt.NDArray[np.uint8]

_SKIPPED = 4096
"""Number of records to skip at a time."""
_STEP = 1 << 19
"""Number of bytes to read at a time, small enough to check while they are in the second-level cache."""


class Scratch:
    """A thread-safe pool of memory for records. Memory is reused, since fresh memory costs as much as reading into it."""

    def __init__(self) -> None:
        self._free: list[Bytes] = []

    def take(self, size: int) -> Bytes:
        """Return an array of ``size`` bytes."""
        with suppress(IndexError):
            room = self._free.pop()
            if room.size >= size:
                return room[:size]
        return np.empty(size + (size >> 3), np.uint8)[:size]

    def give(self, runs: Iterable[EncodedBatch]) -> None:
        """Reclaim the memory of runs that are no longer used."""
        self._free += [run.buffer.base for run in runs if run.buffer.base is not None]


class Lane:
    """Records of several pieces of shards, in sequence. Only one thread may read at a time."""

    def __init__(self, storage: Storage, shards: Sequence[Shard], lane: Sequence[Piece], scratch: Scratch) -> None:
        self._storage, self._shards, self._rest = storage, shards, list(reversed(lane))
        self._scratch = scratch
        self._shard: _ShardFrames | None = None

    def read(self, records: int) -> list[EncodedBatch]:
        """Read the next records, as one run per shard. Raises DamagedFile, naming the shard, if records are missing or
        damaged.
        """
        runs = []
        while records:
            if self._shard is None or not self._shard.left:
                self.close()
                self._shard = _ShardFrames(self._storage, self._shards, self._rest.pop(), self._scratch)
            runs.append(self._shard.read(min(records, self._shard.left)))
            records -= len(runs[-1])
        if self._shard is not None and not self._shard.left and not self._rest:
            self.close()
        return runs

    def close(self) -> None:
        """Close the open file, if any."""
        if self._shard is not None:
            self._shard.close()
            self._shard = None


class _ShardFrames:
    """A reader for a piece of one shard. Checks and skips the records before the piece."""

    def __init__(self, storage: Storage, shards: Sequence[Shard], piece: Piece, scratch: Scratch) -> None:
        self._scratch = scratch
        self._shard = shards[piece.shard]
        self._place = storage.locate(self._shard.path)
        self.left = piece.stop - piece.first
        self._to_the_end = piece.stop == self._shard.records
        self._rest: Bytes = np.empty(0, np.uint8)
        self._seen = 0
        self._ended = False
        try:
            self._file = storage.open(self._shard.path)
        except FileNotFoundError:
            raise DamagedFile(
                f"{self._place} is missing, though the manifest lists it; restore it, or run the day again."
            ) from None
        compression = compression_of(self._shard.path)
        self._content: Any = self._file if compression == "none" else _Inflated(self._file, compression)
        # For a compressed shard, the first run reveals how large records are.
        self._record = self._shard.bytes // self._shard.records + 1
        for passed in range(0, piece.first, _SKIPPED):
            scratch.give([self._take(min(_SKIPPED, piece.first - passed))])

    def read(self, records: int) -> EncodedBatch:
        run = self._take(records)
        self.left -= records
        if not self.left and self._to_the_end and (self._rest.size or self._fill(np.empty(1, np.uint8))):
            raise DamagedFile(
                f"{self._place} has data after its {self._shard.records} records, where the manifest says it ends; restore "
                "it, or run the day again."
            )
        return run

    def close(self) -> None:
        self._file.close()

    def _take(self, records: int) -> EncodedBatch:
        wanted = max(records * self._record + (records * self._record >> 5) + 4096, self._rest.size)
        while True:
            data = self._scratch.take(self._rest.size + wanted)
            data[: self._rest.size] = self._rest
            filled = self._rest.size
            walk = Walk(data)
            walk.to(filled)
            while walk.frames < records and filled < data.size and not self._ended:
                filled += self._fill(data[filled : filled + _STEP])
                walk.to(filled)
            offsets, position, wrong = walk.offsets, walk.position, walk.wrong
            if walk.frames >= records:
                break
            if wrong in (BAD_LENGTH, BAD_MESSAGE) or self._ended:
                raise self._damaged(walk.frames, wrong)
            self._record = max(self._record, position // max(1, walk.frames) + 1)
            self._rest, wanted = data[:filled], max(filled, records * self._record - filled)
        end = int(offsets[records])
        self._seen += records
        self._rest = data[end:filled].copy()
        return EncodedBatch(data, offsets[: records + 1])

    def _fill(self, target: Bytes) -> int:
        """Read until the target is full or the content ends. Return the number of bytes read."""
        view, done = target.data, 0
        while done < len(view) and not self._ended:
            try:
                count = self._content.readinto(view[done:])
            except DamagedFile as error:
                raise DamagedFile(f"{self._place}: {error}") from error
            self._ended = not count
            done += count or 0
        return done

    def _damaged(self, sound: int, wrong: int) -> DamagedFile:
        seen = self._seen + sound
        what = (
            PROBLEMS[wrong] if wrong != SOUND else f"it ends there, but the manifest says {self._shard.records} records"
        )
        return DamagedFile(f"{self._place} is damaged after {seen} records: {what}. Restore it, or run the day again.")


class _Inflated(io.RawIOBase):
    """The decompressed content of a file."""

    def __init__(self, file: BinaryIO, compression: Any) -> None:
        self._pieces: Iterator[bytes] = pieces(file, compression)
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        count = min(len(target), len(self._piece))
        target[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count
