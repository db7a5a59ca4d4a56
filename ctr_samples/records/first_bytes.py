"""Detect the compression of a file from its first bytes, since its name or the writer's options may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from ctr_samples.codec import Compression, RecordReader
from ctr_samples.codec.deflate import Readable
from ctr_samples.codec.frames import scan
from ctr_samples.codec.layout import CUT_MESSAGE, HEADER, SOUND
from ctr_samples.errors import DamagedFile
from ctr_samples.shards.naming import compression_of


def found_reader(
    file: Readable, path: str, option: Compression | None, reopen: Callable[[], AbstractContextManager[Readable]]
) -> RecordReader:
    """Return a reader for a file not listed in any manifest. ``option`` is the user's compression setting, if any.

    Raises DamagedFile if the first bytes contradict the option or do not start a TFRecord file. If the first bytes
    are inconclusive, the suffix of ``path`` decides.
    """
    start = file.read(HEADER)
    found = _compression(start)
    if option is not None and found is not None and start and found != option:
        raise DamagedFile(
            f"The first bytes are those of a file with the compression {found}, but the option compression says {option}; "
            "remove the option."
        )
    compression = option or found or compression_of(path)
    if found is None and compression == "none":
        raise DamagedFile(
            "The first bytes are neither the header of a record nor gzip nor zlib, so the file is no TFRecord file or its "
            "beginning is damaged; leave it out by a glob such as 'DIRECTORY/*.tfrecord', or write it again."
        )
    return RecordReader(_Begun(start, file), compression, reopen=reopen)


def _compression(start: bytes) -> Compression | None:
    if not start or scan(np.frombuffer(start, np.uint8))[2] in (SOUND, CUT_MESSAGE):
        return "none"
    if start[:2] == b"\x1f\x8b":
        return "gzip"
    if start[0] & 0x0F == 8 and int.from_bytes(start[:2], "big") % 31 == 0:
        return "zlib"
    return None


class _Begun:
    """A file whose first bytes have already been read."""

    def __init__(self, start: bytes, file: Readable) -> None:
        self._start, self._file = start, file

    def read(self, size: int = -1, /) -> bytes:
        """Read the first bytes once more, then continue after them."""
        start, self._start = self._start, b""
        return start or self._file.read(size)
