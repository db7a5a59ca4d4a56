"""Read shards with the codec: decode examples to rows, locate damage down to the record. Tell the compression of a foreign
file from its first bytes, since its name or the writer's options may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from ctr_samples.codec import Compression, EncodedBatch, ExampleDecoder, RecordReader
from ctr_samples.codec.deflate import Readable
from ctr_samples.codec.frames import scan
from ctr_samples.codec.layout import CUT_MESSAGE, HEADER, SOUND
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile, StorageError
from ctr_samples.shards import CheckedFile, Shard, Storage
from ctr_samples.shards.naming import compression_of

_THREADS = 8
"""Number of shards checked concurrently. Exceeds a laptop's core count, since checks mostly wait for the store."""


def first_examples(
    storage: Storage, shards: Sequence[Shard], contract: ExampleContract, count: int
) -> list[dict[str, Any]]:
    """Return the first ``count`` examples, in published order, as name -> value or list of values."""
    decoder = ExampleDecoder(contract)
    rows: list[dict[str, Any]] = []
    for shard in shards:
        for chunk in records_of(storage, shard):
            end = int(chunk.offsets[min(len(chunk), count - len(rows))])
            rows += decoder.decode(chunk.buffer[:end]).to_pylist()
            if len(rows) >= count:
                return rows
    return rows


def records_of(storage: Storage, shard: Shard) -> Iterator[EncodedBatch]:
    """Yield batches of framed records. Raises DamagedFile, naming the shard, if it is missing or damaged.

    The checksum is verified only after the last record has been read.
    """
    location = storage.locate(shard.path)
    try:
        with storage.open(shard.path) as raw:
            file = CheckedFile(raw)
            yield from RecordReader(file, compression_of(shard.path), reopen=lambda: storage.open(shard.path))
            file.drain()
            if wrong := file.difference(shard):
                raise DamagedFile(wrong)
    except FileNotFoundError:
        raise DamagedFile(f"{location} is missing, though the manifest lists it; restore it, or run again.") from None
    except DamagedFile as error:
        raise DamagedFile(f"{location}: {error}") from error


def damage_of(
    storage: Storage, shards: Sequence[Shard], on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[str]:
    """Yield a sentence for each shard whose size, checksum or records differ from the manifest entry.

    Checks every shard, even after finding damage. Reads each byte once, on several threads, which call ``on_bytes``.
    """
    with ThreadPoolExecutor(_THREADS) as threads:
        for wrong in threads.map(partial(_damage_of_one, storage, on_bytes), shards):
            if wrong:
                yield wrong


def _damage_of_one(storage: Storage, on_bytes: Callable[[int], None], shard: Shard) -> str | None:
    location = storage.locate(shard.path)
    try:
        with storage.open(shard.path) as raw:
            file = CheckedFile(raw, on_bytes)
            wrong = _wrong_records(storage, file, shard)
            file.drain()
    except FileNotFoundError:
        return f"{location} is missing."
    except StorageError as error:  # a bad sector, perhaps; the other shards are still worth checking
        return str(error)
    wrong = file.difference(shard) or wrong
    return f"{location} {wrong.rstrip('.')}." if wrong else None


def _wrong_records(storage: Storage, file: CheckedFile, shard: Shard) -> str | None:
    reader = RecordReader(file, compression_of(shard.path), reopen=lambda: storage.open(shard.path))
    try:
        records = sum(map(len, reader))
    except DamagedFile as error:
        return f"is damaged: {error}"
    return None if records == shard.records else f"holds {records} records, the manifest says {shard.records}"


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
