"""Compression of whole shards: none, gzip or zlib, with ISA-L's deflate where it is installed."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from typing import Any, Literal, Protocol, get_args

from ctr_samples.errors import ContractError, DamagedFile

try:
    fast_zlib: Any = importlib.import_module("isal.isal_zlib")
except ModuleNotFoundError:  # no wheel for this platform; the standard library writes the same format, more slowly
    fast_zlib = zlib

Compression = Literal["none", "gzip", "zlib"]

FASTEST_LEVELS = 3
"""Levels up to this one are ISA-L's; those above are zlib's, several times slower and a few per cent smaller."""

WINDOW_BITS = {"gzip": 31, "zlib": 15}
_STEP = 4 << 10
PIECE = 1 << 20
"""Bytes read from a file at a time, and the most that a decompressor gives at once."""


class Readable(Protocol):
    """The part of a binary file that reading needs."""

    def read(self, size: int = ..., /) -> bytes:
        """At most ``size`` bytes; none at the end."""


class Compressor(Protocol):
    """What zlib and ISA-L both offer."""

    def compress(self, data: Any, /) -> bytes:
        """Compress data; return what is ready."""

    def flush(self) -> bytes:
        """Return the rest."""


class _Stored:
    """No compression."""

    def compress(self, data: Any, /) -> Any:
        return data

    def flush(self) -> bytes:
        return b""


def compressor(compression: Compression, level: int = 1) -> Compressor:
    """A fresh compressor; ``level`` is 1 (fast) to 9 (small). ContractError for an unknown compression."""
    check_compression(compression)
    if compression == "none":
        return _Stored()
    library = fast_zlib if level <= FASTEST_LEVELS else zlib
    made: Compressor = library.compressobj(level, zlib.DEFLATED, WINDOW_BITS[compression])
    return made


def check_compression(compression: str) -> None:
    """Raise ContractError unless ``compression`` is known."""
    if compression not in get_args(Compression):
        raise ContractError(f"Unknown compression {compression!r}; use one of {', '.join(get_args(Compression))}.")


def pieces(file: Readable, compression: Compression, size: int = PIECE) -> Iterator[bytes]:
    """The decompressed content of ``file`` in pieces of at most ``size`` bytes each, whatever the ratio.

    gzip members that follow each other count as one content, as gzip says. Raises DamagedFile for a stream that is
    corrupt, ends early or, with zlib, is followed by more bytes (TensorFlow would pass over them in silence).
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
    """The content of a corrupt stream up to the byte from which nothing can be decompressed.

    ISA-L drops what the failing call had decompressed; zlib, a byte at a time, does not. Slow: to say where damage is.
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
