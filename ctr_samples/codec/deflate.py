"""Compression of whole shards: none, gzip or zlib, using ISA-L if it is installed."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from typing import Any, Literal, Protocol, get_args

from ctr_samples.errors import ContractError, DamagedFile

try:
    fast_zlib: Any = importlib.import_module("isal.isal_zlib")
except ModuleNotFoundError:  # no wheel for this platform; the standard library writes the same format, but slower
    fast_zlib = zlib

Compression = Literal["none", "gzip", "zlib"]

FASTEST_LEVELS = 3
"""Highest level that uses ISA-L. Higher levels use zlib, several times slower but a few per cent smaller."""

WINDOW_BITS = {"gzip": 31, "zlib": 15}
_STEP = 4 << 10
PIECE = 1 << 20
"""Number of bytes to read from a file at a time, and the maximum that a decompressor returns per call."""


class Readable(Protocol):
    """The minimal binary file interface needed for reading."""

    def read(self, size: int = ..., /) -> bytes:
        """Read at most ``size`` bytes. Returns no bytes at the end."""


class Compressor(Protocol):
    """The interface common to zlib and ISA-L."""

    def compress(self, data: Any, /) -> bytes:
        """Compress data and return the output that is ready."""

    def flush(self) -> bytes:
        """Return the remaining output."""


def compressor(compression: Compression, level: int = 1) -> Compressor:
    """Return a new compressor for gzip or zlib. ``level`` is 1 (fast) to 9 (small). Raises ContractError for an unknown
    compression.
    """
    check_compression(compression)
    library = fast_zlib if level <= FASTEST_LEVELS else zlib
    made: Compressor = library.compressobj(level, zlib.DEFLATED, WINDOW_BITS[compression])
    return made


def check_compression(compression: str) -> None:
    """Raise ContractError unless ``compression`` is known."""
    if compression not in get_args(Compression):
        raise ContractError(f"Unknown compression {compression!r}; use one of {', '.join(get_args(Compression))}.")


def pieces(file: Readable, compression: Compression, size: int = PIECE) -> Iterator[bytes]:
    """Decompress ``file`` in pieces of at most ``size`` bytes, regardless of the compression ratio.

    Consecutive gzip members are concatenated, as the gzip specification requires. Raises DamagedFile for a stream that
    is corrupt, truncated or, with zlib, followed by more bytes (TensorFlow would silently ignore them).
    """
    check_compression(compression)
    if compression == "none":
        while piece := file.read(size):
            yield piece
        return
    try:
        yield from _inflated(file, compression, size)
    except (zlib.error, fast_zlib.error) as error:
        raise DamagedFile(f"The {compression} stream is corrupt ({error}); write the file again.") from error


def before_damage(file: Readable, compression: Compression) -> Iterator[bytes]:
    """Yield the content of a corrupt stream up to the first byte that cannot be decompressed.

    ISA-L drops the output of the failing call; zlib, fed one byte at a time, does not. Slow, so only used to locate
    damage.
    """
    stream = zlib.decompressobj(WINDOW_BITS[compression])
    while waiting := file.read(_STEP):
        while waiting:
            before = stream.copy()
            try:
                yield stream.decompress(waiting)
            except zlib.error:
                yield from _byte_by_byte(before, waiting)
                return
            waiting = stream.unused_data
            if stream.eof:
                stream = zlib.decompressobj(WINDOW_BITS[compression])


def _byte_by_byte(stream: Any, data: bytes) -> Iterator[bytes]:
    for position in range(len(data)):
        try:
            yield stream.decompress(data[position : position + 1])
        except zlib.error:
            return


def _inflated(file: Readable, compression: Compression, size: int) -> Iterator[bytes]:
    waiting = file.read(PIECE)
    while waiting:
        stream = fast_zlib.decompressobj(wbits=WINDOW_BITS[compression])
        while not stream.eof:
            yield stream.decompress(waiting, size)
            waiting = stream.unconsumed_tail or (b"" if stream.eof else file.read(PIECE))
            if not waiting and not stream.eof:
                # A decompressor may still hold output that did not fit into the last piece.
                yield from _rest(stream, compression, size)
                break
        waiting = stream.unused_data or file.read(PIECE)
        if waiting and compression == "zlib":
            raise DamagedFile(
                "Bytes follow the end of the zlib stream, but a file must be a single stream; write the file again."
            )


def _rest(stream: Any, compression: Compression, size: int) -> Iterator[bytes]:
    while piece := stream.decompress(b"", size):
        yield piece
    if not stream.eof:
        raise DamagedFile(
            f"The {compression} stream ends before its trailer, so the file was truncated; write the file again."
        )
