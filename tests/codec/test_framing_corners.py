"""Framing where it is rarely used: many small records, the standard library's deflate, TensorFlow's own writer."""

from __future__ import annotations

import importlib
import importlib.util
import io
import sys
import zlib
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from ctr_samples.codec import RecordReader, deflate
from ctr_samples.codec.frames import Walk, frame_offsets
from ctr_samples.codec.layout import BAD_MESSAGE, CUT_HEADER, SOUND
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import open_storage
from tests.codec.framing import array, frame

CONTRACT = ExampleContract((FeatureSpec("n", "int64"), FeatureSpec("clicked", "int64", role="label", nulls="fail")))


@pytest.mark.parametrize("records", [1022, 1023, 1024, 5000])
def test_offsets_are_found_for_any_number_of_records(records: int) -> None:
    one = frame(b"12")
    assert frame_offsets(one * records).tolist() == [len(one) * i for i in range(records + 1)]


def test_frames_are_found_while_memory_fills() -> None:
    frames = frame(b"") + frame(b"12345") + frame(b"6" * 100)
    walk = Walk(array(frames))
    found = []
    for filled in range(len(frames) + 1):
        walk.to(filled)
        found.append(walk.frames)
    ends = [len(frame(b"")), len(frame(b"")) + len(frame(b"12345")), len(frames)]
    assert found == [sum(end <= filled for end in ends) for filled in range(len(frames) + 1)]
    assert (walk.offsets.tolist(), walk.wrong) == ([0, *ends], SOUND)


def test_damage_is_found_where_memory_has_been_filled() -> None:
    frames = frame(b"1") + frame(b"2")
    walk = Walk(array(frames[:-1] + bytes([frames[-1] ^ 1])))
    walk.to(len(frame(b"1")) + 3)
    assert (walk.frames, walk.wrong) == (1, CUT_HEADER)
    walk.to(len(frames))
    assert (walk.frames, walk.position, walk.wrong) == (1, len(frame(b"1")), BAD_MESSAGE)


def test_without_isa_l_the_standard_library_writes_what_isa_l_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    spec = importlib.util.spec_from_file_location("deflate_without_isa_l", deflate.__file__)
    assert spec is not None
    assert spec.loader is not None
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    assert plain.fast_zlib is zlib
    compressor = plain.compressor("gzip")
    content = compressor.compress(b"one " * 100) + compressor.flush()
    assert b"".join(deflate.pieces(io.BytesIO(content), "gzip")) == b"one " * 100
    assert b"".join(plain.pieces(io.BytesIO(content), "gzip")) == b"one " * 100


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_both_engines_write_the_same_records(tmp_path: Path, compression: deflate.Compression) -> None:
    rows = pa.RecordBatch.from_pydict({"n": [1, None, -3], "clicked": [0, 1, 1]})
    contents = []
    engines: list[Literal["native", "tensorflow"]] = ["native", "tensorflow"]
    for engine in engines:
        storage = open_storage(tmp_path / engine)
        with shard_writer(storage, "run", CONTRACT, compression=compression, engine=engine) as writer:
            writer.write(rows, "train")
        (shard,) = writer.close().shards
        with storage.open(shard.path) as file:
            contents.append([bytes(message) for message in RecordReader(file, compression).messages()])
        assert (shard.records, dict(shard.label_sums)) == (3, {"clicked": 2})
    assert contents[0] == contents[1]
    assert len(set(contents[0])) == 3
