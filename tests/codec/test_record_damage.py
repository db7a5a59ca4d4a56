"""Damage of every kind is found, by the readers and by ``verify``, and nothing is believed before it is checked."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import resource
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from ctr_samples.codec import ExampleDecoder, RecordReader, frame_offsets
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.crc32c import crc32c
from ctr_samples.errors import ContractError, DamagedFile
from ctr_samples.records.read import damage_of
from ctr_samples.shards import Shard, open_storage
from ctr_samples.shards.naming import SUFFIXES
from tests.codec.framing import frame, header
from tests.support.tensorflow_files import example

RECORDS = [
    example(a=[1, -1, 300], b=[0.5, 1.5], c=[b"one"]),
    b"",
    example(c=[b"x" * 40, b""]),
    example(a=[]),
    example(a=[2**40], b=[]),
]
FILE = b"".join(map(frame, RECORDS))
BORDERS = list(itertools.accumulate((len(frame(r)) for r in RECORDS), initial=0))
CONTRACT = ExampleContract(
    (FeatureSpec("a", "int64", None), FeatureSpec("b", "float32", None), FeatureSpec("c", "bytes", None))
)


def damage(folder: Path, content: bytes, compression: str = "none", *, records: int = 5) -> list[str]:
    """What ``verify`` says of a file of five records whose size and checksum are those in its manifest."""
    name = f"part-00000-0-0000000a{SUFFIXES[compression]}"
    (folder / name).write_bytes(content)
    shard = Shard(name, "", 0, records, len(content), crc32c(content))
    return [sentence.removeprefix(f"{folder / name} ") for sentence in damage_of(open_storage(folder), [shard])]


def test_the_sound_file_passes(tmp_path: Path) -> None:
    assert frame_offsets(FILE).tolist() == BORDERS
    assert damage(tmp_path, FILE) == []


def test_every_single_bit_flip_is_found() -> None:
    for position, bit in itertools.product(range(len(FILE)), range(8)):
        flipped = bytearray(FILE)
        flipped[position] ^= 1 << bit
        with pytest.raises(DamagedFile):
            frame_offsets(flipped)


def test_every_cut_is_found_by_the_reader_or_by_the_count(tmp_path: Path) -> None:
    for end in range(len(FILE)):
        (sentence,) = damage(tmp_path, FILE[:end])
        if end in BORDERS:
            assert sentence == f"holds {BORDERS.index(end)} records, the manifest says 5."
        else:
            assert sentence.startswith("is damaged: After ")
            with pytest.raises(DamagedFile):
                frame_offsets(FILE[:end])


def test_bytes_after_the_last_record_are_found() -> None:
    """TensorFlow reads up to eleven of them as the end of the file."""
    for stray in range(1, 12):
        with pytest.raises(DamagedFile, match=f"byte {len(FILE)}"):
            list(RecordReader(io.BytesIO(FILE + bytes(stray))))
    with pytest.raises(DamagedFile, match="length does not match its checksum"):
        frame_offsets(FILE + bytes(64))


def test_the_place_of_the_first_damage_is_named() -> None:
    flipped = bytearray(FILE)
    flipped[BORDERS[2] + 20] ^= 1
    flipped[BORDERS[3] + 1] ^= 1
    with pytest.raises(DamagedFile, match=rf"Record 2 at byte {BORDERS[2]} of {len(FILE)} is damaged"):
        frame_offsets(flipped)


@pytest.mark.parametrize("length", [3 << 30, 2**40, 2**60, 2**63, 2**64 - 1], ids=hex)
def test_a_giant_length_with_a_valid_checksum_is_damage(length: int) -> None:
    damaged = FILE + header(length) + b"abc"
    with pytest.raises(DamagedFile, match="the bytes end inside a record"):
        frame_offsets(damaged)
    with pytest.raises(DamagedFile):
        list(RecordReader(io.BytesIO(damaged)))


@pytest.mark.slow
def test_giant_lengths_allocate_nothing() -> None:
    """In a process that may use little more memory than it has when it starts."""
    program = """
import io, resource
from ctr_samples.codec import ExampleDecoder, RecordReader, frame_offsets
from ctr_samples.codec.machine_code import decoders, kernels
from ctr_samples.errors import DamagedFile
from tests.codec.test_record_damage import CONTRACT, FILE, frame, header
from tests.support.wire_messages import delimited, varint
kernels()
decoders()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), used + (64 << 20)))
decoder = ExampleDecoder(CONTRACT)
refused = 0
for length in (1 << 30, 1 << 40, 1 << 60, 1 << 63, (1 << 64) - 1):
    inner = b"\\x0a" + varint(length) + b"abc"
    messages = [inner, delimited(1, inner), delimited(1, delimited(1, delimited(1, b"a") + b"\\x12" + inner[1:]))]
    attempts = [lambda: frame_offsets(FILE + header(length)), lambda: list(RecordReader(io.BytesIO(header(length))))]
    attempts += [lambda m=m: decoder.decode(frame(m)) for m in messages]
    for attempt in attempts:
        try:
            attempt()
        except DamagedFile:
            refused += 1
print(refused)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["25"], run.stderr


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_every_cut_of_a_compressed_file_is_found(tmp_path: Path, compression: str) -> None:
    packed = gzip.compress(FILE) if compression == "gzip" else zlib.compress(FILE)
    assert damage(tmp_path, packed, compression) == []
    for end in range(len(packed)):
        assert len(damage(tmp_path, packed[:end], compression)) == 1


GZIPPED, ZLIBBED = gzip.compress(FILE), zlib.compress(FILE)


@pytest.mark.parametrize(
    ("content", "compression", "problem"),
    [
        *((GZIPPED[:-missing], "gzip", "ends before its trailer") for missing in range(1, 9)),
        (GZIPPED[:-8] + bytes([GZIPPED[-8] ^ 1]) + GZIPPED[-7:], "gzip", "gzip stream is corrupt"),  # its checksum
        (FILE, "gzip", "gzip stream is corrupt"),
        (ZLIBBED * 2, "zlib", "follow the end of the zlib stream"),  # TensorFlow passes over the second
    ],
    ids=range(11),
)
def test_a_compressed_file_whose_end_or_beginning_is_wrong_is_damage(
    content: bytes, compression: str, problem: str
) -> None:
    with pytest.raises(DamagedFile, match=problem):
        list(RecordReader(io.BytesIO(content), compression))  # type: ignore[arg-type]


def test_gzip_members_in_a_row_are_one_content(tmp_path: Path) -> None:
    packed = gzip.compress(FILE[:100]) + gzip.compress(FILE[100:])
    assert damage(tmp_path, packed, "gzip") == []
    six = packed + gzip.compress(frame(b"more"))
    assert damage(tmp_path, six, "gzip") == ["holds 6 records, the manifest says 5."]


@pytest.mark.thorough
def test_a_gzip_bomb_stops_at_the_cap() -> None:
    bomb = gzip.compress(frame(bytes(12 << 20)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedFile, match="over the limit of 1048576 bytes"):
        list(RecordReader(io.BytesIO(bomb), "gzip", largest_content=1 << 20))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10, "kibibytes"


def test_a_record_over_the_limit_is_refused_before_it_is_read() -> None:
    file = io.BytesIO(frame(bytes(3 << 20)))
    with pytest.raises(DamagedFile, match="claims 3145728 bytes; the limit is 1048576"):
        list(RecordReader(file, largest_record=1 << 20, chunk_size=1 << 10))


def test_random_bytes_with_valid_checksums_never_crash_the_decoder() -> None:
    choice = np.random.default_rng(7)
    decoder = ExampleDecoder(CONTRACT, strict=False)
    for _ in range(3000):
        message = bytearray(RECORDS[choice.integers(len(RECORDS))])
        for _ in range(choice.integers(1, 6)):
            if message:
                message[choice.integers(len(message))] = choice.integers(256)
        with contextlib.suppress(DamagedFile, ContractError):
            decoder.decode(frame(bytes(message))).validate(full=True)
