"""Where shards and codec meet on the reading side: examples of a manifest as rows, and damage down to the record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ctr_samples.codec import EncodedBatch, ExampleDecoder, RecordReader
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile
from ctr_samples.shards import Manifest, Shard, Storage, shard_damage


def first_examples(storage: Storage, manifest: Manifest, split: str | None, count: int) -> list[dict[str, Any]]:
    """The first ``count`` examples of a split, or of all, in published order, as name -> value or list of values."""
    decoder = ExampleDecoder(ExampleContract.from_dict(dict(manifest.contract)))
    rows: list[dict[str, Any]] = []
    for shard in manifest.of_split(split):
        for chunk in _chunks(storage, manifest, shard):
            end = int(chunk.offsets[min(len(chunk), count - len(rows))])
            rows += decoder.decode(chunk.buffer[:end]).to_pylist()
            if len(rows) >= count:
                return rows
    return rows


def damage_of(storage: Storage, manifest: Manifest, on_bytes: Callable[[int], None] = lambda _: None) -> Iterator[str]:
    """A sentence for each shard that is not what its task wrote: size, checksum, or the records in it.

    Every shard is looked at, whatever is wrong with the others; its records only where the file as a whole is right.
    """
    for shard in manifest.shards:
        hurt = list(shard_damage(storage, shard, on_bytes))
        yield from hurt or _record_damage(storage, manifest, shard)


def _record_damage(storage: Storage, manifest: Manifest, shard: Shard) -> Iterator[str]:
    try:
        records = sum(len(chunk) for chunk in _chunks(storage, manifest, shard))
    except DamagedFile as error:
        yield str(error)
        return
    if records != shard.records:
        yield f"{storage.locate(shard.path)} holds {records} records, the manifest says {shard.records}."


def _chunks(storage: Storage, manifest: Manifest, shard: Shard) -> Iterator[EncodedBatch]:
    """Batches of framed records; DamagedFile, which names the shard, when it is missing or not as it should be."""
    place = storage.locate(shard.path)
    try:
        with storage.open(shard.path) as file:
            yield from RecordReader(file, manifest.compression)
    except FileNotFoundError:
        raise DamagedFile(
            f"{place} is missing, though the manifest names it; restore it, or run the day again."
        ) from None
    except DamagedFile as error:
        raise DamagedFile(f"{place}: {error}") from error
