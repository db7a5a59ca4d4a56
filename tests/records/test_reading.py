"""Published examples as rows, and damage down to the record, with real records from encoder to disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from ctr_samples.codec import ExampleEncoder
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.crc32c import crc32c
from ctr_samples.errors import DamagedFile, StorageError
from ctr_samples.records.read import damage_of, first_examples
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import Manifest, Shard, Storage, open_storage
from ctr_samples.shards.naming import Compression
from tests.support.manifests import manifest as small_manifest

CONTRACT = ExampleContract(
    (
        FeatureSpec("position", "int64"),
        FeatureSpec("weights", "float32", (2,)),
        FeatureSpec("channel", "bytes", None),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
    )
)


def example(i: int) -> dict[str, object]:
    return {"position": i, "weights": [i + 0.5, -1.0], "channel": [b"news", b"c%d" % i], "clicked": i % 2}


def rows(first: int, stop: int) -> pa.RecordBatch:
    types = [("position", pa.int64()), ("weights", pa.list_(pa.float32(), 2))]
    types += [("channel", pa.list_(pa.binary())), ("clicked", pa.int64())]
    return pa.RecordBatch.from_pylist([example(i) for i in range(first, stop)], pa.schema(types))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "out")


def written(storage: Storage, compression: Compression = "none") -> Manifest:
    """Examples 0 to 3 and 4 to 7 in two shards of train, 8 to 10 in eval."""
    shards: list[Shard] = []
    for partition, (split, first, stop) in enumerate([("train", 0, 4), ("train", 4, 8), ("eval", 8, 11)]):
        writer = shard_writer(
            storage,
            "dt=2019-06-05/data/20190606T020000-aaaaaaaa",
            CONTRACT,
            compression=compression,
            partition=partition,
            attempt=7,
        )
        with writer:
            writer.write(rows(first, stop), split)
        shards += writer.close().shards
    return small_manifest(CONTRACT, compression=compression, shards=tuple(shards))


COMPRESSIONS = pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])


def place(storage: Storage, manifest: Manifest, index: int) -> Path:
    return Path(storage.locate(manifest.shards[index].path))


def sentences(storage: Storage, manifest: Manifest) -> list[str]:
    """What is said, with each shard's place shortened to #0, #1, #2."""
    texts = list(damage_of(storage, manifest.shards))
    for i in range(len(manifest.shards)):
        texts = [sentence.replace(str(place(storage, manifest, i)), f"#{i}") for sentence in texts]
    return texts


# First examples.


def first(storage: Storage, manifest: Manifest, split: str | None, count: int) -> list[dict[str, object]]:
    return first_examples(storage, manifest.of_split(split), CONTRACT, count)


@COMPRESSIONS
def test_the_first_examples_come_in_published_order_over_shards(storage: Storage, compression: Compression) -> None:
    manifest = written(storage, compression)
    assert [s.records for s in manifest.shards] == [4, 4, 3]
    assert first(storage, manifest, "train", 6) == [example(i) for i in range(6)]
    assert first(storage, manifest, "eval", 1) == [example(8)]


def test_without_a_split_they_come_from_all_and_there_are_no_more_than_there_are(storage: Storage) -> None:
    manifest = written(storage)
    assert first(storage, manifest, None, 1000) == [example(i) for i in range(11)]


def test_none_are_asked_for_or_there_is_no_such_split(storage: Storage) -> None:
    manifest = written(storage)
    assert first(storage, manifest, None, 0) == []
    assert first(storage, manifest, "test", 5) == []


def test_only_the_shards_that_are_needed_are_opened(storage: Storage) -> None:
    manifest = written(storage)
    place(storage, manifest, 1).unlink()
    assert first(storage, manifest, "train", 4) == [example(i) for i in range(4)]


def test_a_missing_or_cut_shard_is_damage_that_names_it(storage: Storage) -> None:
    manifest = written(storage)
    place(storage, manifest, 0).write_bytes(bytes(5))
    with pytest.raises(DamagedFile, match=rf"^{place(storage, manifest, 0)}: After 0 records"):
        first(storage, manifest, "train", 1)
    place(storage, manifest, 0).unlink()
    with pytest.raises(DamagedFile) as caught:
        first(storage, manifest, "train", 1)
    assert str(caught.value) == (
        f"{place(storage, manifest, 0)} is missing, though the manifest lists it; restore it, or run again."
    )


# Damage.


@COMPRESSIONS
def test_intact_shards_say_nothing(storage: Storage, compression: Compression) -> None:
    manifest = written(storage, compression)
    counted: list[int] = []
    assert list(damage_of(storage, manifest.shards, counted.append)) == []
    assert sum(counted) == manifest.bytes


def test_a_missing_shard_does_not_hide_what_is_wrong_with_the_others(storage: Storage) -> None:
    manifest = written(storage)
    place(storage, manifest, 0).unlink()
    first, second, third = manifest.shards
    hurt = replace(manifest, shards=(first, replace(second, records=3), third))
    assert sentences(storage, hurt) == ["#0 is missing.", "#1 holds 4 records, the manifest says 3."]


@pytest.mark.some(1)
@COMPRESSIONS
def test_every_flipped_bit_of_a_shard_is_found(storage: Storage, compression: Compression) -> None:
    manifest = written(storage, compression)
    one = replace(manifest, shards=manifest.shards[2:])
    file = place(storage, one, 0)
    data = bytearray(file.read_bytes())
    for position in range(len(data)):
        data[position] ^= 1 << position % 8
        file.write_bytes(data)
        assert sentences(storage, one) == [
            f"#0 has CRC32C {crc32c(bytes(data)):08x}, the manifest says {one.shards[0].crc32c:08x}."
        ]
        data[position] ^= 1 << position % 8


def test_truncation_and_appended_bytes_are_found_by_size(storage: Storage) -> None:
    manifest = written(storage)
    size = manifest.shards[0].bytes
    place(storage, manifest, 0).write_bytes(place(storage, manifest, 0).read_bytes()[:-1])
    place(storage, manifest, 1).write_bytes(place(storage, manifest, 1).read_bytes() + b"\0")
    assert sentences(storage, manifest) == [
        f"#0 has {size - 1} bytes, the manifest says {size}.",
        f"#1 has {size + 1} bytes, the manifest says {size}.",
    ]


def record_boundaries() -> Iterator[int]:
    yield from ExampleEncoder(CONTRACT).encode(rows(0, 4)).offsets.tolist()[:-1]


@pytest.mark.parametrize("records", [0, 1, 3])
def test_truncation_at_a_record_boundary_is_found(storage: Storage, records: int) -> None:
    manifest = written(storage)
    end = list(record_boundaries())[records]
    place(storage, manifest, 0).write_bytes(place(storage, manifest, 0).read_bytes()[:end])
    assert sentences(storage, manifest) == [f"#0 has {end} bytes, the manifest says {manifest.shards[0].bytes}."]


# What only the records can tell: the manifest agrees with the file, and both are wrong.


def agreeing(manifest: Manifest, index: int, data: bytes) -> Manifest:
    """The manifest of a task that counted size and checksum of ``data``."""
    shards = list(manifest.shards)
    shards[index] = replace(shards[index], bytes=len(data), crc32c=crc32c(data))
    return replace(manifest, shards=tuple(shards))


def test_fewer_records_than_the_task_counted_are_found(storage: Storage) -> None:
    manifest = written(storage)
    data = place(storage, manifest, 0).read_bytes()[: list(record_boundaries())[3]]
    place(storage, manifest, 0).write_bytes(data)
    assert sentences(storage, agreeing(manifest, 0, data)) == ["#0 holds 3 records, the manifest says 4."]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_record_with_a_wrong_checksum_is_found_and_the_next_shard_is_looked_at(
    storage: Storage, compression: str
) -> None:
    manifest = written(storage, compression)
    data = bytearray(place(storage, manifest, 0).read_bytes())
    data[-6] ^= 1
    place(storage, manifest, 0).write_bytes(data)
    last = manifest.shards[2]
    wrong = agreeing(replace(manifest, shards=(*manifest.shards[:2], replace(last, records=4))), 0, bytes(data))
    broken, miscounted = sentences(storage, wrong)
    assert broken.startswith("#0 is damaged: ")
    assert miscounted == "#2 holds 3 records, the manifest says 4."


def test_a_checksum_is_shown_with_all_its_digits(storage: Storage) -> None:
    manifest = written(storage)
    (sentence,) = damage_of(storage, [replace(manifest.shards[0], crc32c=0x1F)])
    assert sentence.endswith("the manifest says 0000001f.")


def test_a_store_that_fails_has_its_sentence_for_each_shard(storage: Storage) -> None:
    manifest = written(storage)

    class Gone:
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def open(self, path: str) -> BinaryIO:
            raise StorageError(f"Cannot read {path}: no answer.")

    assert list(damage_of(Gone(), manifest.shards)) == [f"Cannot read {s.path}: no answer." for s in manifest.shards]
