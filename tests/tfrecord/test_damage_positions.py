"""Errors of damage say which record of which file it is, whatever the compression and the size of chunks and batches."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.errors import ContractError, DamagedFile
from ctr_samples.tfrecord.data_source import TfrecordSource
from tests.support.tensorflow_files import example, tensorflow_writes
from tests.tfrecord.schemas import Read

RECORDS = 25_000
"""More than two batches of rows, and of these bytes more than one chunk."""
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data, 1),
    ".zlib": lambda data: zlib.compress(data, 1),
}
PLACES = [0, 1, 12_345, RECORDS - 1]
DAMAGES = {
    "a record's length does not": lambda data, start: flipped(data, start + 3),
    "a record's data do not match": lambda data, start: flipped(data, start + 20),
    "the bytes end inside a record": lambda data, start: data[: start + 30],
}
PAIRS = [
    (suffix, record, list(DAMAGES)[(n + m) % 3]) for n, suffix in enumerate(COMPRESS) for m, record in enumerate(PLACES)
]
"""All pairs of a compression, a place and a kind of damage."""


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    """The content of a file, and where each of its records begins and the last one ends."""
    noise = random.Random(1)
    messages = [example(id=[number], text=[noise.randbytes(180).hex().encode()]) for number in range(RECORDS)]
    data = tensorflow_writes(tmp_path_factory.mktemp("whole") / "a", *messages).read_bytes()
    starts = [0]
    for message in messages:
        starts.append(starts[-1] + len(message) + 16)
    assert starts[-1] == len(data) > 9 << 20
    return data, starts


@pytest.mark.some(6)
@pytest.mark.parametrize(("suffix", "record", "problem"), PAIRS)
def test_damage_is_found_in_the_record_that_has_it(
    tmp_path: Path, read: Read, whole: tuple[bytes, list[int]], suffix: str, record: int, problem: str
) -> None:
    data, starts = whole
    path = tmp_path / f"a{suffix}"
    path.write_bytes(COMPRESS[suffix](DAMAGES[problem](data, starts[record])))
    after = f"After {record} record{'' if record == 1 else 's'}, at byte {starts[record]} of the content: {problem}"
    if (suffix, record) == ("", 0):  # nothing else says that the file has records
        after = "The first bytes are neither the header of a record nor gzip nor zlib"
    for schema in (None, "id bigint"):
        with pytest.raises(DamagedFile, match=f"^{path}: {after}"):
            read(path, schema)


@pytest.mark.parametrize(("suffix", "share"), [(".gz", 0.0), (".gz", 0.5), (".zlib", 0.001), (".zlib", 0.97)])
def test_of_a_corrupt_stream_every_record_counts_that_can_be_decompressed(
    tmp_path: Path, read: Read, whole: tuple[bytes, list[int]], suffix: str, share: float
) -> None:
    data, starts = whole[0][: whole[1][3000]], whole[1][:3001]
    compressed = bytearray(COMPRESS[suffix](data))
    place = 12 + int(share * (len(compressed) - 12))
    compressed[place : place + 64] = bytes(64)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(compressed)
    sound = decompressed_byte_by_byte(bytes(compressed), 31 if suffix == ".gz" else 15)
    expected = next(n for n, end in enumerate(starts[1:]) if sound[starts[n] : end] != data[starts[n] : end])
    after = f"After {expected} records?, at byte {starts[expected]} of the content: "
    with pytest.raises(DamagedFile, match=f"^{path}: {after}"):
        read(path, "id bigint")


def decompressed_byte_by_byte(compressed: bytes, window: int) -> bytes:
    """All that comes out before the stream breaks: no call can lose what it had made."""
    stream, out = zlib.decompressobj(window), bytearray()
    with suppress(zlib.error):
        for place in range(len(compressed)):
            out += stream.decompress(compressed[place : place + 1])
    return bytes(out)


def test_a_record_that_is_no_message_has_its_number_in_the_file(tmp_path: Path, read: Read) -> None:
    path = tensorflow_writes(tmp_path / "a", *[example(id=[1], text=[b"x" * 400])] * 12_345, b"\xff")
    for schema in (None, "id bigint"):
        with pytest.raises(
            DamagedFile, match=f"^{path}[:,] [Rr]ecord 12345 .*has valid checksums but is not a well-formed"
        ):
            read(path, schema)


def test_a_negative_row_length_is_found_in_the_record_that_has_it(tmp_path: Path, read: Read) -> None:
    sound = example(**{"x.values": [1, 2, 3], "x.row_lengths": [1, 2]})
    wrong = example(**{"x.values": [1, 2, 3], "x.row_lengths": [4, -1]})
    path = tensorflow_writes(tmp_path / "a", *[sound] * 5, wrong)
    with pytest.raises(ContractError, match=f"^{path}, record 5: 'x' has a negative row length"):
        read(path, "x array<array<int>>")


# What may be skipped


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A sound file, one that is cut in its third record, one whose only record is no message, and a sound one."""
    tensorflow_writes(tmp_path / "lake/a", *[example(id=[number]) for number in (1, 2)])
    cut = tensorflow_writes(tmp_path / "lake/b", *[example(id=[number]) for number in (3, 4, 5)])
    cut.write_bytes(cut.read_bytes()[:-3])
    tensorflow_writes(tmp_path / "lake/c", b"\xff")
    tensorflow_writes(tmp_path / "lake/d", example(id=[6]))
    return tmp_path / "lake"


def test_the_rest_of_corrupt_files_is_skipped_where_the_option_or_else_the_session_says_so(
    lake: Path, read: Read, task: dict[str, str]
) -> None:
    for schema in (None, "id bigint"):
        rows = read(lake, schema, ignoreCorruptFiles="true")
        assert [row["id"] for row in rows] == [1, 2, 3, 4, 6]
    with pytest.raises(DamagedFile, match=f"^{lake}/b: After 2 records"):
        read(lake, "id bigint", ignoreMissingFiles="true")
    task["spark.sql.files.ignoreCorruptFiles"] = "true"
    assert [row["id"] for row in read(lake, "id bigint")] == [1, 2, 3, 4, 6]
    with pytest.raises(DamagedFile, match=f"^{lake}/b: After 2 records"):
        read(lake, "id bigint", ignoreCorruptFiles="false")


@pytest.mark.parametrize(("option", "skipped"), [("ignoreMissingFiles", True), ("ignoreCorruptFiles", False)])
def test_files_that_go_after_planning_are_skipped_by_an_option_of_their_own(
    tmp_path: Path, ddl: Any, option: str, skipped: bool
) -> None:
    path = tensorflow_writes(tmp_path / "one", example(id=[1]))
    reader = TfrecordSource({"path": str(path), option: "true"}).reader(ddl("id bigint"))
    (task,) = reader.partitions()
    path.unlink()
    if skipped:
        assert list(reader.read(task)) == []
    else:
        with pytest.raises(DamagedFile, match="existed when the query was planned but is gone"):
            list(reader.read(task))
