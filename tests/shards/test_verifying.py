"""Shards against their manifest: a sentence for each that differs, by size or by one bit."""

from __future__ import annotations

import errno
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from ctr_samples.crc32c import crc32c
from ctr_samples.shards import Manifest, Storage, damage

CONTENTS = [b"five!", b"nine nine", b"seven.."]


@pytest.fixture
def intact(storage: Storage, manifest: Manifest) -> Manifest:
    """The manifest with shards that stand at their places."""
    shards = [
        replace(s, bytes=len(data), crc32c=crc32c(data)) for s, data in zip(manifest.shards, CONTENTS, strict=True)
    ]
    for shard, data in zip(shards, CONTENTS, strict=True):
        storage.put_new(shard.path, data)
    return replace(manifest, shards=tuple(shards))


def place(storage: Storage, manifest: Manifest, index: int) -> Path:
    return Path(storage.locate(manifest.shards[index].path))


def test_intact_shards_say_nothing_and_every_byte_is_counted(storage: Storage, intact: Manifest) -> None:
    counted: list[int] = []
    assert list(damage(storage, intact, counted.append)) == []
    assert sum(counted) == intact.bytes == 21


def test_each_damaged_shard_has_its_sentence(storage: Storage, intact: Manifest) -> None:
    first, second, third = (place(storage, intact, i) for i in range(3))
    first.unlink()
    second.write_bytes(b"nine nin")
    third.write_bytes(b"severe.")
    assert list(damage(storage, intact)) == [
        f"{first} is missing.",
        f"{second} has 8 bytes, the manifest says 9.",
        f"{third} has CRC32C {crc32c(b'severe.'):08x}, the manifest says {crc32c(b'seven..'):08x}.",
    ]


def test_appended_bytes_are_damage(storage: Storage, intact: Manifest) -> None:
    second = place(storage, intact, 1)
    second.write_bytes(CONTENTS[1] + b"\0")
    assert list(damage(storage, intact)) == [f"{second} has 10 bytes, the manifest says 9."]


def test_a_checksum_is_shown_with_all_its_digits(storage: Storage, intact: Manifest) -> None:
    shards = (replace(intact.shards[0], crc32c=0x1F),)
    (sentence,) = damage(storage, replace(intact, shards=shards))
    assert sentence.endswith("the manifest says 0000001f.")


def test_a_shard_in_a_bad_sector_is_damage_and_the_others_are_still_read(storage: Storage, intact: Manifest) -> None:
    class BadSector(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() >= 4:
                raise OSError(errno.EIO, "Input/output error")
            return super().read(4)

    class Scratched:
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def open(self, path: str) -> BinaryIO:
            return BadSector(CONTENTS[0]) if path == intact.shards[0].path else storage.open(path)

    place(storage, intact, 2).unlink()
    assert list(damage(Scratched(), intact)) == [
        f"{place(storage, intact, 0)} cannot be read beyond byte 4 (Input/output error).",
        f"{place(storage, intact, 2)} is missing.",
    ]
