"""Whether a shard is, byte for byte, what its task wrote: its size and checksum, taken while it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from ctr_samples.crc32c import crc32c
from ctr_samples.shards.manifest import Shard

_PIECE = 4 * 2**20


class CheckedFile:
    """A binary file that knows size and CRC32C of what was read from it so far."""

    def __init__(self, file: BinaryIO, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self.size = 0
        self.crc32c = 0

    def read(self, size: int = -1, /) -> bytes:
        """As a file's."""
        piece = self._file.read(size)
        self.size += len(piece)
        self.crc32c = crc32c(piece, self.crc32c)
        self._on_bytes(len(piece))
        return piece

    def drain(self) -> None:
        """Read what is left."""
        while self.read(_PIECE):
            pass

    def difference(self, shard: Shard) -> str | None:
        """How what was read differs from what the manifest says; None if it does not."""
        if self.size != shard.bytes:
            return f"has {self.size} bytes, the manifest says {shard.bytes}"
        if self.crc32c != shard.crc32c:
            return f"has CRC32C {self.crc32c:08x}, the manifest says {shard.crc32c:08x}"
        return None
