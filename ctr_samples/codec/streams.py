"""Read and write records in binary file objects, in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from ctr_samples.codec.deflate import PIECE, Compression, Compressor, Readable, before_damage, compressor, pieces
from ctr_samples.codec.encoder import EncodedBatch
from ctr_samples.codec.frames import PROBLEMS, as_bytes, scan
from ctr_samples.codec.layout import BAD_LENGTH, BAD_MESSAGE, FOOTER, HEADER, SOUND
from ctr_samples.crc32c import crc32c
from ctr_samples.errors import DamagedFile

CHUNK = 8 << 20
LARGEST_RECORD = 1 << 30
WRITE_PIECE = 4 << 20
COMPRESSED_PIECE = 64 << 10
"""Number of bytes that a compressor gets at a time. ISA-L compresses each call on its own, so that files would depend on
the sizes of batches.
"""


class RecordWriter:
    """Writes framed records to a binary file object, which the caller owns and must close.

    Runs on executors, once per shard. ``records``, ``size`` (bytes of the file) and ``crc32c`` (of the file) are final
    once :meth:`close` has returned. An exception inside ``with`` leaves the stream unfinished, so that a compressed
    file cannot look complete.
    """

    def __init__(self, file: BinaryIO, compression: Compression = "none", *, level: int = 1) -> None:
        self._file = file
        self._compressor = None if compression == "none" else compressor(compression, level)
        self._waiting = bytearray()
        self._closed = False
        self.records = 0
        self.size = 0
        self.crc32c = 0

    def write(self, batch: EncodedBatch) -> None:
        """Append every record of ``batch``."""
        data = batch.buffer.data
        for first in range(0, len(data), WRITE_PIECE):
            piece = data[first : first + WRITE_PIECE]
            if self._compressor is None:
                self._put(piece)
            else:
                self._compress(self._compressor, piece)
        self.records += len(batch)

    def room(self, size: int) -> int:
        """Return the number of further bytes of records before which :attr:`size` is below ``size``."""
        if self._compressor is None:
            return max(0, size - self.size)
        return COMPRESSED_PIECE - len(self._waiting)

    def close(self) -> None:
        """Flush the compressor. Repeated calls have no effect."""
        if not self._closed and self._compressor is not None:
            self._put(self._compressor.compress(self._waiting))
            self._put(self._compressor.flush())
        self._closed = True

    def _compress(self, compress: Compressor, data: memoryview) -> None:
        """Compress all whole pieces, and let the rest wait."""
        self._waiting += data
        ends = range(COMPRESSED_PIECE, len(self._waiting) + 1, COMPRESSED_PIECE)
        for end in ends:
            self._put(compress.compress(self._waiting[end - COMPRESSED_PIECE : end]))
        del self._waiting[: len(ends) * COMPRESSED_PIECE]

    def _put(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            # A raw file may accept only part of the data.
            written = self._file.write(view)
            done = len(view) if written is None else written
            self.crc32c = crc32c(view[:done], self.crc32c)
            self.size += done
            view = view[done:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()


class RecordReader:
    """Reads framed records from a binary file object as chunks of whole, checked records (``EncodedBatch``).

    Iterate once. A chunk holds about ``chunk_size`` bytes, or more for a single larger record. Memory depends on the
    bytes actually read, never on a length in a header. Raises DamagedFile for a record over ``largest_record`` bytes,
    content over ``largest_content`` bytes, and truncated or altered data. All valid records before the damage are
    returned first, and the error states their number; for a corrupt compressed stream this requires ``reopen``, which
    opens the file again.
    """

    def __init__(
        self,
        file: Readable,
        compression: Compression = "none",
        *,
        chunk_size: int = CHUNK,
        largest_record: int = LARGEST_RECORD,
        largest_content: int | None = None,
        reopen: Callable[[], AbstractContextManager[Readable]] | None = None,
    ) -> None:
        self._compression = compression
        self._reopen = reopen
        self._failure: DamagedFile | None = None
        self._pieces = pieces(file, compression, min(chunk_size, PIECE))
        self._chunk_size = chunk_size
        self._largest_record = largest_record
        self._largest_content = largest_content
        self.records = 0
        self.size = 0
        """Bytes of checked records returned so far, before compression."""

    def __iter__(self) -> Iterator[EncodedBatch]:
        rest = np.empty(0, np.uint8)
        wanted = self._chunk_size
        while True:
            data, ended = self._fill(rest, wanted)
            if not data.size and self._failure is None:
                return
            offsets, position, wrong = scan(data)
            if position:
                self.records += len(offsets) - 1
                self.size += position
                yield EncodedBatch(data[:position], offsets)
            if wrong in (BAD_LENGTH, BAD_MESSAGE):
                raise self._damaged(PROBLEMS[wrong])
            if self._failure is not None:
                raise self._damaged(str(self._failure)) from self._failure
            if wrong != SOUND and ended:
                raise self._damaged(PROBLEMS[wrong])
            rest = data[position:]
            wanted = self._next_size(rest)

    def messages(self) -> Iterator[memoryview]:
        """Yield each record's message without its frame."""
        for chunk in self:
            view = chunk.buffer.data
            for first, stop in zip(chunk.offsets[:-1].tolist(), chunk.offsets[1:].tolist(), strict=True):
                yield view[first + HEADER : stop - FOOTER]

    def _fill(self, rest: npt.NDArray[np.uint8], wanted: int) -> tuple[npt.NDArray[np.uint8], bool]:
        """Append to ``rest`` until it has ``wanted`` bytes or the content ends. Also return whether it has ended."""
        parts: list[Any] = [rest]
        size = rest.size
        while size < wanted:
            try:
                piece = next(self._pieces, None)
            except DamagedFile as error:
                self._failure = error
                return _joined([*parts, self._rescued(self.size + size)]), True
            if piece is None:
                return _joined(parts), True
            parts.append(as_bytes(piece))
            size += len(piece)
            if self._largest_content is not None and self.size + size > self._largest_content:
                raise self._damaged(f"the content is over the limit of {self._largest_content} bytes")
        return _joined(parts), False

    def _next_size(self, rest: npt.NDArray[np.uint8]) -> int:
        """Return the number of bytes to read next: one chunk, or the whole record if it is larger. The record length is
        already verified.
        """
        if rest.size < HEADER:
            return max(self._chunk_size, HEADER)
        length = int(rest[:8].view("<u8")[0])
        if length > self._largest_record:
            raise self._damaged(f"the record claims {length} bytes; the limit is {self._largest_record}")
        return max(self._chunk_size, length + HEADER + FOOTER)

    def _rescued(self, known: int) -> npt.NDArray[np.uint8]:
        """Return the remaining content of a corrupt compressed stream after the first ``known`` bytes."""
        if self._reopen is None or self._compression == "none":
            return np.empty(0, np.uint8)
        rest, position = [b""], 0
        with self._reopen() as file:
            for piece in before_damage(file, self._compression):
                if position + len(piece) > known:
                    rest.append(piece[max(0, known - position) :])
                position += len(piece)
        return as_bytes(b"".join(rest))

    def _damaged(self, problem: str) -> DamagedFile:
        """Build the error. Its count of returned records covers all valid records."""
        sentence = problem.rstrip(".").removesuffix("; write the file again")
        records = f"{self.records} record" if self.records == 1 else f"{self.records} records"
        return DamagedFile(f"After {records}, at byte {self.size} of the content: {sentence}. Write the file again.")


def _joined(parts: list[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8]:
    filled = [part for part in parts if part.size]
    return filled[0] if len(filled) == 1 else np.concatenate(parts)
