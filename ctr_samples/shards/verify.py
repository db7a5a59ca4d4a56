"""Checks that the shards of a manifest are, byte for byte, what their tasks wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ctr_samples.crc32c import crc32c
from ctr_samples.shards.manifest import Manifest, Shard
from ctr_samples.shards.storage import Storage

_PIECE = 4 * 2**20


def damage(storage: Storage, manifest: Manifest, on_bytes: Callable[[int], None] = lambda _: None) -> Iterator[str]:
    """A sentence for each shard that is missing, has another size or another CRC32C. Reads every byte once."""
    for shard in manifest.shards:
        yield from shard_damage(storage, shard, on_bytes)


def shard_damage(storage: Storage, shard: Shard, on_bytes: Callable[[int], None]) -> Iterator[str]:
    """As :func:`damage`, for one shard."""
    place = storage.locate(shard.path)
    size = crc = 0
    try:
        with storage.open(shard.path) as file:
            while piece := file.read(_PIECE):
                size += len(piece)
                crc = crc32c(piece, crc)
                on_bytes(len(piece))
    except FileNotFoundError:
        yield f"{place} is missing."
    except OSError as error:  # a bad sector; the other shards are still worth a look
        yield f"{place} cannot be read beyond byte {size} ({error.strerror})."
    else:
        if size != shard.bytes:
            yield f"{place} has {size} bytes, the manifest says {shard.bytes}."
        elif crc != shard.crc32c:
            yield f"{place} has CRC32C {crc:08x}, the manifest says {shard.crc32c:08x}."
