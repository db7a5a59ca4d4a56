"""Read shards with the codec: decode examples to rows, and locate damage down to the record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ctr_samples.codec import EncodedBatch, ExampleDecoder, RecordReader
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
