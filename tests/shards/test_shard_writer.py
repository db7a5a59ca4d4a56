"""The shards of one attempt: when they roll, what their receipt says, and that an error leaves nothing to be seen."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from threading import Semaphore
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.codec import EncodedBatch
from ctr_samples.crc32c import crc32c
from ctr_samples.errors import StorageError
from ctr_samples.shards import Receipt, Shard, ShardWriter, Storage
from tests.shards.files import everything_below

DIRECTORY = "dt=2019-06-05/data/20190606T020000-aaaaaaaa"


class Lines:
    """Frames as short as they get, which are lines; a compressor's held-back bytes are a closing line."""

    def __init__(self, file: BinaryIO, end: bytes = b"") -> None:
        self._file = file
        self._end = end
        self.records = self.size = self.crc32c = 0

    def write(self, batch: EncodedBatch) -> None:
        self._put(batch.buffer.tobytes())
        self.records += len(batch)

    def room(self, size: int) -> int:
        return max(0, size - self.size)

    def close(self) -> None:
        self._put(self._end)

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)
        self.crc32c = crc32c(data, self.crc32c)


def rows(*lines: bytes, **labels: float) -> pa.RecordBatch:
    """A row for each line; the labels are those of the first row."""
    rest = max(0, len(lines) - 1)
    columns = {name: pa.array([value, *[0] * rest][: len(lines)], pa.float64()) for name, value in labels.items()}
    return pa.RecordBatch.from_pydict({"line": pa.array(lines, pa.binary()), **columns})


def encoded(piece: pa.RecordBatch) -> EncodedBatch:
    lines = piece.column("line").to_pylist()
    offsets = np.cumsum([0, *map(len, lines)]).astype(np.int64)
    return EncodedBatch(np.frombuffer(b"".join(lines), np.uint8), offsets)


def writer_of(storage: Storage, **options: Any) -> ShardWriter:
    settings: dict[str, Any] = {
        "encode": encoded,
        "open_frames": Lines,
        "partition": 3,
        "attempt": 17,
        "shard_size": 10,
    } | options
    return ShardWriter(storage, DIRECTORY, **settings)


class Watched:
    """Opens frames as ``Lines`` does, and lets a test wait until so many batches are written by the writer's thread."""

    def __init__(self) -> None:
        self._written = Semaphore(0)

    def __call__(self, file: BinaryIO) -> Lines:
        written = self._written

        class Announced(Lines):
            def write(self, batch: Any) -> None:
                try:
                    super().write(batch)
                finally:
                    written.release()

        return Announced(file)

    def wait_for(self, batches: int) -> None:
        for _ in range(batches):
            self._written.acquire()


def summary(receipt: Receipt) -> list[tuple[str, int, int, dict[str, float]]]:
    return [(s.split, s.records, s.bytes, dict(s.label_sums)) for s in receipt.shards]


@pytest.mark.parametrize("at_a_time", [1, 2, 3, 20])
def test_shards_roll_at_the_same_records_however_these_come_in_batches(storage: Storage, at_a_time: int) -> None:
    lines = [b"%d" % 10**n for n in (3, 5, 1, 8, 0, 2, 2, 29, 4, 6)]
    writer = writer_of(storage)
    for first in range(0, len(lines), at_a_time):
        writer.write(rows(*lines[first : first + at_a_time]), "train")
    shards = writer.close().shards
    assert [(s.records, s.bytes) for s in shards] == [(2, 10), (2, 11), (4, 37), (2, 12)]
    assert b"".join(storage.read(s.path) for s in shards) == b"".join(lines)


@pytest.mark.parametrize("at_a_time", [1, 2, 7])
def test_the_sums_of_labels_do_not_depend_on_how_records_come_in_batches(storage: Storage, at_a_time: int) -> None:
    numbers = [0.1, 1e17, 0.2, -1e17, 0.3, 2.0, 1e-9]
    writer = writer_of(storage, shard_size=100, labels=["watched", "clicked", "skipped"])
    for first in range(0, len(numbers), at_a_time):
        some = numbers[first : first + at_a_time]
        columns = {
            "line": [b"x\n" for _ in some],
            "watched": some,
            "clicked": [1 for _ in some],
            "skipped": [0.0 for _ in some],
        }
        writer.write(pa.RecordBatch.from_pydict(columns), "train")
    [shard] = writer.close().shards
    assert json.dumps(shard.label_sums) == f'{{"watched": {math.fsum(numbers)!r}, "clicked": 7, "skipped": 0}}'


@pytest.mark.parametrize(
    ("numbers", "total"), [([1.0, math.inf], "inf"), ([math.inf, -math.inf], "nan"), ([math.nan], "nan")]
)
def test_a_sum_of_labels_that_are_not_finite_is_none(storage: Storage, numbers: list[float], total: str) -> None:
    writer = writer_of(storage, shard_size=100, labels=["watched"])
    writer.write(pa.RecordBatch.from_pydict({"line": [b"x\n" for _ in numbers], "watched": numbers}), "train")
    assert str(writer.close().shards[0].label_sums["watched"]) == total


def test_no_shard_and_no_file_is_empty(storage: Storage) -> None:
    writer = writer_of(storage)
    writer.write(rows(clicked=0), "train")
    assert writer.close() == writer_of(storage).close() == Receipt(3, 17, ())
    assert everything_below(storage) == []
    writer = writer_of(storage)
    writer.write(rows(b"0123456789"), "train")  # rolls at the very end
    writer.write(rows(), "train")
    receipt = writer.close()
    assert summary(receipt) == [("train", 1, 10, {})]
    assert everything_below(storage) == [receipt.shards[0].path]


def test_two_splits_are_written_in_one_pass_each_to_its_own_directory(storage: Storage) -> None:
    writer = writer_of(storage, shard_size=100, labels=["clicked"])
    writer.write(rows(b"t1\n", b"t2\n", clicked=1), "train")
    writer.write(rows(b"e1\n", clicked=1), "eval")
    writer.write(rows(b"t3\n", clicked=0), "train")
    receipt = writer.close()
    assert summary(receipt) == [("eval", 1, 3, {"clicked": 1}), ("train", 3, 9, {"clicked": 1})]
    evaluation, train = receipt.shards
    assert storage.read(evaluation.path) == b"e1\n"
    assert storage.read(train.path) == b"t1\nt2\nt3\n"
    assert evaluation.path.startswith(f"{DIRECTORY}/eval/part-00003-17-")
    assert train.path.startswith(f"{DIRECTORY}/train/part-00003-17-")


def test_labels_are_added_up_for_each_shard_alone(storage: Storage) -> None:
    writer = writer_of(storage, labels=["clicked", "read_ms"])
    writer.write(rows(b"0123", clicked=1, read_ms=0.5), "train")
    writer.write(rows(b"456789", clicked=2, read_ms=0.25), "train")
    writer.write(rows(b"x", clicked=4, read_ms=0), "train")
    assert summary(writer.close()) == [
        ("train", 2, 10, {"clicked": 3, "read_ms": 0.75}),
        ("train", 1, 1, {"clicked": 4, "read_ms": 0}),
    ]


def test_the_receipt_has_size_and_checksum_of_the_closed_file(storage: Storage) -> None:
    writer = writer_of(storage, open_frames=lambda file: Lines(file, end=b"held back"))
    writer.write(rows(b"line\n"), "train")
    (shard,) = writer.close().shards
    content = b"line\nheld back"
    assert storage.read(shard.path) == content
    assert shard == Shard(shard.path, "train", 3, 1, 14, crc32c(content), {})


@pytest.mark.parametrize(
    ("compression", "suffix"), [("none", "tfrecord"), ("gzip", r"tfrecord\.gz"), ("zlib", r"tfrecord\.zlib")]
)
def test_no_two_attempts_share_a_name_even_with_one_number(storage: Storage, compression: str, suffix: str) -> None:
    paths = []
    for _ in range(2):  # two runs of Spark count their attempts alike
        writer = writer_of(storage, compression=compression)
        writer.write(rows(b"x"), "train")
        paths += [s.path for s in writer.close().shards]
    assert len(set(paths)) == 2
    for path in paths:
        assert re.fullmatch(rf"{DIRECTORY}/train/part-00003-17-[0-9a-f]{{8}}\.{suffix}", path)


def test_abandoned_shards_never_appear_and_rolled_ones_stay(store: Storage) -> None:
    writer_of(store).abandon(ValueError("nothing is open"))
    frames = Watched()
    writer = writer_of(store, open_frames=frames)
    writer.write(rows(b"0123456789"), "train")
    writer.write(rows(b"open"), "train")
    writer.write(rows(b"open"), "eval")
    frames.wait_for(3)
    writer.abandon(KeyboardInterrupt())
    writer.abandon(ValueError("once more"))
    (rolled,) = everything_below(store)
    assert store.read(rolled) == b"0123456789"


def test_abandoning_keeps_the_error_even_when_the_store_fails_too(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = Watched()
    writer = writer_of(storage, open_frames=frames)
    writer.write(rows(b"open"), "train")
    writer.write(rows(b"open"), "eval")
    frames.wait_for(2)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        writer.abandon(OSError("the socket of the task is gone"))
    assert everything_below(storage) == []


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_an_error_while_closing_one_shard_leaves_none_of_the_open_ones(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    writer = writer_of(storage)
    writer.write(rows(b"open"), "train")
    writer.write(rows(b"open"), "eval")

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, no_space)
    with pytest.raises(StorageError, match="No space left on device") as caught:
        writer.close()
    writer.abandon(caught.value)
    assert everything_below(storage) == []


@pytest.mark.parametrize("last", [b"open", b"0123456789"], ids=["open", "rolled"])
def test_an_error_in_what_compression_held_back_leaves_nothing_of_any_split(storage: Storage, last: bytes) -> None:
    class Full(Lines):
        def close(self) -> None:
            raise StorageError("Cannot write: No space left on device.")

    writer = writer_of(storage, open_frames=Full)
    writer.write(rows(b"open"), "eval")
    writer.write(rows(last), "train")
    with pytest.raises(StorageError, match="No space left"), writer:
        pass  # close() is what fails
    assert everything_below(storage) == []


def test_nothing_is_written_after_a_gap(storage: Storage) -> None:
    class OnceFull(Lines):
        def write(self, batch: Any) -> None:
            if batch.buffer.tobytes() == b"lost":
                raise StorageError("Cannot write: No space left on device.")
            super().write(batch)

    writer = writer_of(storage, open_frames=OnceFull)
    for line in (b"lost", b"0123456789"):
        writer.write(rows(line), "train")
    with pytest.raises(StorageError) as caught:
        writer.close()
    writer.abandon(caught.value)
    assert everything_below(storage) == []


def test_a_store_that_fails_stops_a_writer_that_has_far_to_go(storage: Storage) -> None:
    class Full(Lines):
        def write(self, batch: Any) -> None:
            raise StorageError("Cannot write: No space left on device.")

    pieces: list[int] = []

    def encode(piece: pa.RecordBatch) -> EncodedBatch:
        pieces.append(piece.num_rows)
        return encoded(piece)

    with pytest.raises(StorageError), writer_of(storage, encode=encode, open_frames=Full) as writer:
        writer.write(rows(*[b"x"] * 512 * 1000), "train")
    assert len(pieces) < 1000
    assert everything_below(storage) == []


def test_a_block_closes_its_shards_and_abandons_them_after_an_error(storage: Storage) -> None:
    with writer_of(storage) as writer:
        writer.write(rows(b"whole"), "train")
    assert [storage.read(shard.path) for shard in writer.close().shards] == [b"whole"]
    with pytest.raises(KeyError), writer_of(storage, labels=["clicked"]) as writer:
        writer.write(rows(b"without a label"), "train")
    assert len(everything_below(storage)) == 1


def test_large_rows_are_encoded_a_few_at_a_time(storage: Storage) -> None:
    pieces: list[int] = []

    def encode(piece: pa.RecordBatch) -> EncodedBatch:
        pieces.append(piece.num_rows)
        return encoded(piece)

    with writer_of(storage, encode=encode, shard_size=2**30) as writer:
        writer.write(rows(*[b"i" * 2**20] * 10), "train")
        writer.write(rows(*[b"short"] * 5000), "train")
    assert pieces == [3, 3, 3, 1, 4096, 904]
