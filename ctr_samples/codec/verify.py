"""Checking a shard against what its receipt says: damage that readers, TensorFlow's among them, pass in silence."""

from __future__ import annotations

from typing import BinaryIO

from ctr_samples.codec.deflate import Compression
from ctr_samples.codec.streams import RecordReader
from ctr_samples.crc32c import crc32c as checksum
from ctr_samples.errors import DamagedFile


def verify(
    file: BinaryIO,
    compression: Compression = "none",
    *,
    records: int,
    size: int | None = None,
    crc32c: int | None = None,
    largest_content: int | None = None,
) -> None:
    """Read a whole shard and raise DamagedFile unless it is exactly what was written.

    ``records`` is the expected count, ``size`` the bytes of the file and ``crc32c`` their checksum. Finds altered
    bytes, a cut anywhere (at the border of two records by the count), stray bytes at the end, a compressed stream without its
    end or with another after it. Memory stays bounded whatever the file claims.
    """
    source = _Measured(file)
    reader = RecordReader(source, compression, largest_content=largest_content)
    for _ in reader:
        pass
    for what, found, expected in (
        ("records", reader.records, records),
        ("bytes", source.size, size),
        ("as CRC32C", source.crc32c, crc32c),
    ):
        if expected is not None and found != expected:
            raise DamagedFile(
                f"The file has {found} {what}, and its receipt says {expected}; it was cut or replaced, write it again."
            )


class _Measured:
    """A binary file that notes what is read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        self.crc32c = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self.size += len(data)
        self.crc32c = checksum(data, self.crc32c)
        return data
