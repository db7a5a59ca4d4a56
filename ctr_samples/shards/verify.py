"""Check a shard byte for byte: its size and checksum, computed while it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from ctr_samples.crc32c import crc32c
from ctr_samples.shards.manifest import Shard

_PIECE = 4 * 2**20


class CheckedFile:
    """A binary file that tracks the size and CRC32C of the bytes read so far."""

    def __init__(self, file: BinaryIO, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self.size = 0
        self.crc32c = 0

    def read(self, size: int = -1, /) -> bytes:
        """Like ``read`` of a file."""
        piece = self._file.read(size)
        self.size += len(piece)
        self.crc32c = crc32c(piece, self.crc32c)
        self._on_bytes(len(piece))
        return piece

    def drain(self) -> None:
        """Read to the end."""
        while self.read(_PIECE):
            pass

    def difference(self, shard: Shard) -> str | None:
        """Describe how the bytes read differ from the manifest; None if they match."""
        if self.size != shard.bytes:
            return f"has {self.size} bytes, the manifest says {shard.bytes}"
        if self.crc32c != shard.crc32c:
            return f"has CRC32C {self.crc32c:08x}, the manifest says {shard.crc32c:08x}"
        return None
