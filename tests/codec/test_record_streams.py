"""Records through files: chunk by chunk, compressed or not, and what a receipt needs to know of them."""

from __future__ import annotations

import contextlib
import io
import itertools
from pathlib import Path

import pyarrow as pa
import pytest
import tensorflow as tf

from ctr_samples.codec import Compression, ExampleDecoder, ExampleEncoder, RecordReader, RecordWriter
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.crc32c import crc32c
from ctr_samples.errors import ContractError, DamagedFile
from tests.codec.framing import frame

CONTRACT = ExampleContract((FeatureSpec("n", "int64"), FeatureSpec("text", "bytes")))
BATCH = pa.RecordBatch.from_pydict({"n": list(range(1000)), "text": ["x" * (i % 90) for i in range(1000)]})
ENCODED = ExampleEncoder(CONTRACT).encode(BATCH)
TENSORFLOW_NAMES = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}

every_compression = pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])


def written(compression: Compression, *, level: int = 1) -> bytes:
    file = io.BytesIO()
    with RecordWriter(file, compression, level=level) as writer:
        writer.write(ENCODED)
    return file.getvalue()


@every_compression
@pytest.mark.parametrize("level", [1, 3, 6])
def test_tensorflow_reads_what_was_written(tmp_path: Path, compression: Compression, level: int) -> None:
    path = tmp_path / "shard"
    path.write_bytes(written(compression, level=level))
    records = tf.data.TFRecordDataset(str(path), compression_type=TENSORFLOW_NAMES[compression])
    assert [r.numpy() for r in records] == [bytes(m) for m in RecordReader(io.BytesIO(ENCODED.buffer)).messages()]


@every_compression
@pytest.mark.parametrize("at_a_time", [1, 7, 400])
def test_bytes_do_not_depend_on_how_records_come_in_batches(compression: Compression, at_a_time: int) -> None:
    file, whole = io.BytesIO(), io.BytesIO()
    with RecordWriter(file, compression) as writer, RecordWriter(whole, compression) as at_once:
        for _ in range(3):  # more than a compressor gets at a time
            at_once.write(ENCODED)
            for first in range(0, len(ENCODED), at_a_time):
                writer.write(ENCODED.slice(first, min(len(ENCODED), first + at_a_time)))
    assert file.getvalue() == whole.getvalue()


@every_compression
def test_what_tensorflow_wrote_is_read(tmp_path: Path, compression: Compression) -> None:
    path = tmp_path / "shard"
    with tf.io.TFRecordWriter(str(path), TENSORFLOW_NAMES[compression]) as writer:
        for i in range(200):
            writer.write(bytes([i]) * i)
    with path.open("rb") as file:
        assert [bytes(m) for m in RecordReader(file, compression).messages()] == [bytes([i]) * i for i in range(200)]


@every_compression
@pytest.mark.parametrize("chunk_size", [1, 100, 4096, 1 << 20])
def test_chunks_of_any_size_hold_whole_records(compression: Compression, chunk_size: int) -> None:
    reader = RecordReader(io.BytesIO(written(compression)), compression, chunk_size=chunk_size)
    decoder = ExampleDecoder(CONTRACT)
    batches = [decoder.decode_frames(chunk.buffer, chunk.offsets) for chunk in reader]
    assert pa.Table.from_batches(batches).combine_chunks().to_batches()[0].to_pydict()["n"] == list(range(1000))
    assert reader.records == 1000
    assert reader.size == ENCODED.buffer.size


@every_compression
def test_the_writer_knows_what_the_file_has(compression: Compression) -> None:
    file = io.BytesIO()
    with RecordWriter(file, compression) as writer:
        writer.write(ENCODED)
        writer.write(ENCODED)
    assert (writer.records, writer.size, writer.crc32c) == (2000, len(file.getvalue()), crc32c(file.getvalue()))
    assert not file.closed


@every_compression
def test_a_file_without_records_is_a_file(compression: Compression) -> None:
    file = io.BytesIO()
    with RecordWriter(file, compression):
        pass
    assert list(RecordReader(io.BytesIO(file.getvalue()), compression)) == []


def test_closing_twice_writes_once() -> None:
    file = io.BytesIO()
    writer = RecordWriter(file, "gzip")
    writer.write(ENCODED)
    writer.close()
    size = file.tell()
    writer.close()
    assert file.tell() == size


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_an_exception_leaves_a_file_that_cannot_pass_for_a_whole_one(compression: Compression) -> None:
    file = io.BytesIO()
    with contextlib.suppress(KeyError), RecordWriter(file, compression) as writer:
        writer.write(ENCODED)
        raise KeyError
    with pytest.raises(DamagedFile):
        list(RecordReader(io.BytesIO(file.getvalue() or b"\x1f"), compression))


class Reluctant(io.RawIOBase):
    """A raw file that takes and gives only a little at a time."""

    def __init__(self, data: bytes = b"") -> None:
        self.data, self.position, self.steps = bytearray(data), 0, itertools.cycle([1, 7, 300])

    def write(self, data: bytes) -> int:  # type: ignore[override]
        taken = bytes(data[: next(self.steps)])
        self.data += taken
        return len(taken)

    def read(self, size: int = -1) -> bytes:
        given = bytes(self.data[self.position : self.position + min(size, next(self.steps))])
        self.position += len(given)
        return given


@every_compression
def test_files_that_take_and_give_little_at_a_time_are_served(compression: Compression) -> None:
    file = Reluctant()
    with RecordWriter(file, compression) as writer:  # type: ignore[arg-type]
        writer.write(ENCODED)
    assert writer.crc32c == crc32c(file.data)
    reader = RecordReader(Reluctant(bytes(file.data)), compression)  # type: ignore[arg-type]
    assert sum(len(chunk) for chunk in reader) == 1000


def test_one_record_larger_than_a_chunk_is_read() -> None:
    big = frame(b"z" * 3000)
    chunks = list(RecordReader(io.BytesIO(frame(b"a") + big + frame(b"b")), chunk_size=64))
    assert [c.buffer.tobytes() for c in chunks] == [frame(b"a"), big + frame(b"b")]


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ContractError, match="Unknown compression 'snappy'; use one of none, gzip, zlib"):
        RecordWriter(io.BytesIO(), "snappy")  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="Unknown compression 'snappy'"):
        list(RecordReader(io.BytesIO(), "snappy"))  # type: ignore[arg-type]
