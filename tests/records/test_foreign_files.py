"""TFRecord files that other programs made, as the commands show, check and describe them."""

from __future__ import annotations

import gzip
import json
import re
import struct
import zlib
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from ctr_samples.crc32c import crc32c
from tests.support.command_line import invoke

# tf.train.Example with the one feature x, an Int64List of a single value: packed, and as old writers have it, unpacked.
PACKED = bytes.fromhex("0a0c 0a0a 0a0178 1205 1a03 0a01") + b"\x07"
UNPACKED = bytes.fromhex("0a0b 0a09 0a0178 1204 1a02 08") + b"\x08"
# x as a FloatList with 1.0.
FLOAT = bytes.fromhex("0a0f 0a0d 0a0178 1208 1206 0a04 0000803f")
# The two features x = [1, 2] and y = [b"a"]; x = [3, 4] alone.
BOTH = bytes.fromhex("0a19 0a0b 0a0178 1206 1a04 0a02 0102 0a0a 0a0179 1205 0a03 0a01 61")
X_ALONE = bytes.fromhex("0a0d 0a0b 0a0178 1206 1a04 0a02 0304")
# A SequenceExample with the list s of two steps, 5 and 6.
STEPS = bytes.fromhex("0a00 1217 0a15 0a0173 1210 0a06 1a04 0a02 0501 0a06 1a04 0a02 0601")


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(*messages: bytes) -> bytes:
    headers = [struct.pack("<Q", len(message)) for message in messages]
    return b"".join(h + masked(h) + m + masked(m) for h, m in zip(headers, messages, strict=True))


def run(*arguments: object) -> Result:
    return invoke(*arguments)


def words(result: Result) -> str:
    return " ".join(result.stderr.split())


def text_of(page: Path) -> str:
    """What a page says, without its style and script."""
    html = re.sub(r"<(style|script)>.*?</\1>", "", page.read_text(), flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def test_files_of_any_name_and_compression_are_verified_as_one(tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    (tmp_path / "part-r-00000").write_bytes(framed(PACKED, UNPACKED))
    (tmp_path / "k=1" / "b.tfrecords").write_bytes(gzip.compress(framed(PACKED)))
    (tmp_path / "k=1" / "c.gz").write_bytes(zlib.compress(framed(PACKED)))
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "_SUCCESS").write_bytes(b"no record")
    result = run("verify", tmp_path)
    assert result.exit_code == 0
    assert "4 file(s), 4 records" in words(result)


def test_a_glob_means_the_files_that_it_matches(tmp_path: Path) -> None:
    for name in ("a.tfrecord", "b.tfrecord", "c.csv"):
        (tmp_path / name).write_bytes(framed(PACKED) if name != "c.csv" else b"a,b\n1,2\n")
    assert "2 file(s), 2 records" in words(run("verify", tmp_path / "*.tfrecord"))
    assert run("paths", tmp_path / "*.tfrecord").stdout.split() == [
        str(tmp_path / "a.tfrecord"),
        str(tmp_path / "b.tfrecord"),
    ]


def test_of_each_damaged_file_the_first_damage_is_named_with_its_place(tmp_path: Path) -> None:
    whole = framed(PACKED, PACKED, PACKED)
    one = len(whole) // 3
    (tmp_path / "altered").write_bytes(whole[: one + 14] + b"\xff" + whole[one + 15 :])
    (tmp_path / "cut").write_bytes(whole[:-1])
    (tmp_path / "sound").write_bytes(whole)
    result = run("verify", tmp_path)
    assert result.exit_code == 3
    assert f"{tmp_path}/altered: After 1 record, at byte {one} of the content" in words(result)
    assert f"{tmp_path}/cut: After 2 records, at byte {2 * one} of the content" in words(result)
    assert "sound" not in words(result)


@pytest.mark.parametrize("command", ["verify", "show", "infer"])
def test_a_text_file_is_called_no_tfrecord_file(tmp_path: Path, command: str) -> None:
    (tmp_path / "log.csv").write_text("user,item\n1,2\n3,4\n")
    result = run(command, tmp_path / "log.csv")
    assert result.exit_code == 3
    assert "log.csv: The first bytes are neither the header of a record nor gzip nor zlib" in words(result)


def test_packed_and_unpacked_values_are_shown_alike(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(PACKED, UNPACKED, PACKED))
    lines = run("show", tmp_path, "-n", 2).stdout.splitlines()
    assert next(line for line in lines if "x" in line).split()[1::2] == ["x", "7", "8"]


def test_the_steps_of_a_sequence_example_are_shown(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(STEPS))
    assert "[[5, 1], [6, 1]]" in run("show", tmp_path).stdout


@pytest.mark.parametrize("command", ["show", "infer"])
def test_a_feature_of_two_kinds_is_refused_in_one_sentence(tmp_path: Path, command: str) -> None:
    (tmp_path / "part-0").write_bytes(framed(PACKED, FLOAT))
    result = run(command, tmp_path)
    assert result.exit_code == 3
    assert "Values of several kinds are stored under 'x' (float32 and int64)" in words(result)


def test_what_some_records_lack_gets_a_default_and_what_all_have_a_shape(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(BOTH, X_ALONE))
    parse = json.loads(run("infer", tmp_path).stdout)["parse"]
    assert parse == {
        "x": {"kind": "FixedLenFeature", "shape": [2], "dtype": "int64"},
        "y": {"kind": "FixedLenFeature", "shape": [], "dtype": "string", "default_value": ""},
    }


def test_a_list_of_two_lengths_is_ragged(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(PACKED, X_ALONE))
    assert json.loads(run("infer", tmp_path).stdout)["parse"] == {"x": {"kind": "RaggedFeature", "dtype": "int64"}}


def test_a_schema_says_in_how_many_records_a_feature_is_at_least(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(BOTH, X_ALONE))
    schema = run("infer", tmp_path, "--schema").stdout
    assert 'name: "x"\n  type: INT\n  presence { min_fraction: 1.0 }\n  shape { dim { size: 2 } }' in schema
    assert 'name: "y"\n  type: BYTES\n  presence { min_fraction: 0.0 }' in schema


def test_statistics_count_the_records_and_what_they_lack(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(BOTH, X_ALONE))
    statistics = run("infer", tmp_path, "--statistics").stdout
    assert "num_examples: 2" in statistics
    assert "num_missing: 1" in statistics


def test_files_without_records_have_no_contract(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(b"")
    result = run("infer", tmp_path)
    assert result.exit_code == 3
    assert "has no record with a feature" in words(result)


def test_files_of_a_run_that_was_not_published_are_not_read(tmp_path: Path) -> None:
    directory = tmp_path / "dt=2019-06-05" / "data" / "20190606T020000-aaaaaaaa" / "train"
    directory.mkdir(parents=True)
    (directory / "part-00000-7-aaaaaaaa.tfrecord").write_bytes(framed(PACKED))
    result = run("verify", tmp_path)
    assert result.exit_code == 3
    assert "holds no published samples" in words(result)


def test_a_report_is_written_only_where_it_is_asked_for(tmp_path: Path) -> None:
    data, page = tmp_path / "data", tmp_path / "page.html"
    data.mkdir()
    (data / "part-0").write_bytes(framed(BOTH, X_ALONE))
    refused = run("report", data)
    assert refused.exit_code == 3
    assert "where to write a report of them, as in --output report.html" in words(refused)
    assert run("report", data, "--output", page).stdout.strip() == str(page)
    assert [file.name for file in data.iterdir()] == ["part-0"]


def test_a_report_has_the_features_with_what_is_missing_and_the_files(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(BOTH, X_ALONE))
    run("report", tmp_path / "part-0", "--output", tmp_path / "page.html")
    said = text_of(tmp_path / "page.html")
    assert "Intact The checksums of 2 records were compared." in said
    assert "Measured of 2 records in sound files." in said
    assert re.search(r" x id, int64, 2 .* nulls 0% zeros 0% distinct 4 y ", said)
    assert re.search(r" y text, bytes .* a 100% .* nulls 50.0% ", said)
    assert f"file records size part-0 2 {(tmp_path / 'part-0').stat().st_size} B" in said


def test_a_report_names_damage_and_measures_the_sound_files(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(framed(X_ALONE, X_ALONE)[:-1])
    (tmp_path / "sound").write_bytes(framed(PACKED))
    result = run("report", tmp_path, "--output", tmp_path.parent / "page.html")
    assert result.exit_code == 0
    assert "1 of 2 file(s) are damaged; the report names them." in words(result)
    said = text_of(tmp_path.parent / "page.html")
    assert (
        f"Damaged 1 of 2 files cannot be read to the end. The checksums of 2 records were compared. {tmp_path}/cut:"
        in said
    )
    assert "cut 1 before the damage" in said
    assert "Measured of 1 record in sound files." in said


def test_a_report_says_why_records_have_no_features(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(PACKED, FLOAT))
    run("report", tmp_path / "part-0", "--output", tmp_path / "page.html")
    assert "Values of several kinds are stored under 'x' (float32 and int64)" in text_of(tmp_path / "page.html")


def test_a_report_of_empty_files_has_no_features(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(b"")
    run("report", tmp_path / "part-0", "--output", tmp_path / "page.html")
    assert "There are no features." in text_of(tmp_path / "page.html")


def test_a_report_says_of_how_many_records_it_is(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(*[PACKED] * 10_001))
    arguments = ["report", tmp_path / "part-0", "--output", tmp_path / "page.html"]
    run(*arguments)
    assert "Measured of 10,000 of 10,001 records in sound files: the first ones" in text_of(tmp_path / "page.html")
    run(*arguments, "--all")
    assert "Measured of 10,001 records in sound files." in text_of(tmp_path / "page.html")


def test_the_distribution_is_of_the_beginnings_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(framed(*[PACKED] * 5000))
    (tmp_path / "b").write_bytes(framed(*[UNPACKED] * 5000))
    statistics = run("infer", tmp_path, "--statistics").stdout
    sevens = re.search(r"high_value: 7.0 sample_count: ([0-9.]+)", statistics)
    assert sevens
    assert 4500 < float(sevens[1]) < 5500


@pytest.mark.thorough
def test_records_in_a_bucket_are_read_as_on_a_disk(s3: Any, tmp_path: Path) -> None:
    s3.put_object(Bucket="lake", Key="old/a.tfrecord", Body=framed(PACKED))
    s3.put_object(Bucket="lake", Key="old/k=1/b.gz", Body=gzip.compress(framed(PACKED, UNPACKED)))
    assert "2 file(s), 3 records" in words(run("verify", "s3://lake/old"))
    assert "1 file(s), 2 records" in words(run("verify", "s3://lake/old/*/*.gz"))
    assert run("paths", "s3://lake/old").stdout.split() == ["s3://lake/old/a.tfrecord", "s3://lake/old/k=1/b.gz"]
    assert " 8 " in run("show", "s3://lake/old/k=1/b.gz").stdout
    assert json.loads(run("infer", "s3://lake/old").stdout)["parse"]["x"]["shape"] == []
    run("report", "s3://lake/old", "--output", tmp_path / "page.html")
    assert "Measured of 3 records in sound files." in text_of(tmp_path / "page.html")


def test_a_url_of_a_file_is_read_as_its_path(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(framed(PACKED))
    assert "1 file(s), 1 records" in words(run("verify", tmp_path.as_uri()))
    assert "1 file(s), 1 records" in words(run("verify", (tmp_path / "part-0").as_uri()))


def test_files_without_records_are_told_instead_of_shown(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_bytes(b"")
    result = run("show", tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert words(result) == f"{tmp_path} has no records."


STRANGE_NAMES = ["a*b", "a[1].tfrecord", "[", "q?", "{x,y}", "a\nb", "a\u202eb", "\x1b[2J", "a b", "%41", "#1"]


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_a_path_means_the_file_that_has_this_very_name(tmp_path: Path, name: str) -> None:
    for other in ("axb", "a1.tfrecord", "qq", "x"):
        (tmp_path / other).write_bytes(b"no records")
    (tmp_path / name).write_bytes(framed(PACKED))
    for command in ("verify", "show", "infer"):
        result = run(command, tmp_path / name)
        assert (result.exit_code, result.stderr if result.exit_code else "") == (0, "")
    assert "1 file(s), 1 records" in words(run("verify", tmp_path / name))


def test_strange_names_are_read_with_their_directory_and_shown_visibly(tmp_path: Path) -> None:
    for name in STRANGE_NAMES:
        (tmp_path / name).write_bytes(framed(PACKED))
    assert f"{len(STRANGE_NAMES)} file(s), {len(STRANGE_NAMES)} records" in words(run("verify", tmp_path))
    for name in STRANGE_NAMES:
        (tmp_path / name).write_bytes(framed(PACKED)[:-1])
    damaged = run("verify", tmp_path)
    assert damaged.exit_code == 3
    assert f"{tmp_path}/a\\nb: After 0 records" in damaged.stderr
    assert len(damaged.stderr.splitlines()) == len(STRANGE_NAMES)


def test_a_directory_may_have_such_a_name_too(tmp_path: Path) -> None:
    (tmp_path / "run[1]").mkdir()
    (tmp_path / "run[1]" / "part-0").write_bytes(framed(PACKED))
    assert run("verify", tmp_path / "run[1]").exit_code == 0
    assert run("verify", tmp_path / "run[1]" / "part-0").exit_code == 0


NO_NAME = bytes.fromhex("0a0b 0a09 0a00 1205 1a03 0a01 07")
"""An Example with the one feature "": an Int64List of 7."""


@pytest.mark.parametrize("command", ["show", "infer"])
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [(b"\xff\xff", "is not a well-formed message"), (NO_NAME, "A record has a feature with an empty key")],
)
def test_a_record_that_cannot_be_read_is_told_with_its_file(
    tmp_path: Path, command: str, wrong: bytes, sentence: str
) -> None:
    (tmp_path / "a").write_bytes(framed(PACKED))
    (tmp_path / "b").write_bytes(framed(wrong, PACKED))
    result = run(command, tmp_path)
    assert result.exit_code == 3
    assert f"{tmp_path}/b: " in words(result)
    assert sentence in words(result)


@pytest.mark.parametrize("empty", [b"", bytes.fromhex("0a00")])
def test_records_without_features_are_shown_as_such(tmp_path: Path, empty: bytes) -> None:
    (tmp_path / "part-0").write_bytes(framed(empty, empty))
    result = run("show", tmp_path)
    assert (result.exit_code, result.stdout) == (0, "2 record(s) without a feature.\n")
