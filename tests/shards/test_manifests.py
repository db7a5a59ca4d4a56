"""Receipts and manifests as values: what they say, and that they survive the way through JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest

from ctr_samples.errors import DamagedFile
from ctr_samples.shards import Manifest, Receipt, Shard, check_receipts

SHARD = Shard(
    "dt=2019-06-05/data/r/train/part-00003-17-1a2b3c4d.tfrecord", "train", 3, 10, 640, 0xE3069283, {"read_ms": 1.5}
)


def test_a_receipt_reads_back_from_its_line() -> None:
    receipt = Receipt(3, 17, (SHARD, replace(SHARD, split="eval", label_sums={})))
    line = receipt.to_json()
    assert "\n" not in line
    assert Receipt.from_json(line) == receipt


def test_the_receipt_of_an_empty_partition_reads_back_too() -> None:
    assert Receipt.from_json(Receipt(0, 5, ()).to_json()) == Receipt(0, 5, ())


def receipts(*partitions: int) -> list[Receipt]:
    return [Receipt(partition, 100 + i, ()) for i, partition in enumerate(partitions)]


def test_one_receipt_for_each_partition_is_right_in_any_order() -> None:
    check_receipts(receipts(2, 0, 1), 3)
    check_receipts([], 0)


@pytest.mark.parametrize(
    ("partitions", "expected", "problem"),
    [
        ([0, 2], 4, "each of 4 partitions; missing: [1, 3], repeated: [], unknown: []"),
        ([0, 1, 1, 0, 0], 2, "each of 2 partitions; missing: [], repeated: [0, 1], unknown: []"),
        ([0, 0], 2, "each of 2 partitions; missing: [1], repeated: [0], unknown: []"),
        ([0, 1, 2, -1], 2, "each of 2 partitions; missing: [], repeated: [], unknown: [-1, 2]"),
        ([], 1, "each of 1 partitions; missing: [0], repeated: [], unknown: []"),
    ],
)
def test_receipts_that_do_not_cover_the_partitions_once_are_refused(
    partitions: list[int], expected: int, problem: str
) -> None:
    with pytest.raises(DamagedFile) as caught:
        check_receipts(receipts(*partitions), expected)
    assert str(caught.value) == f"Expected one receipt for {problem}. Nothing was published; run the day again."


def test_a_manifest_adds_up_its_shards(manifest: Manifest) -> None:
    assert (manifest.records, manifest.bytes, manifest.day) == (16, 21, date(2019, 6, 5))
    assert manifest.splits == ["train", "eval"]
    assert [s.records for s in manifest.of_split("train")] == [8, 6]
    assert manifest.of_split(None) == manifest.shards
    assert manifest.of_split("test") == ()
    assert manifest.label_sum("clicked") == 4.5
    assert manifest.label_sum("clicked", "eval") == 1
    assert manifest.label_sum("collected") == 0


def test_a_manifest_reads_back_from_its_bytes_and_gives_the_same_bytes(manifest: Manifest) -> None:
    written = manifest.to_json()
    copy = Manifest.from_json(written, "m")
    assert copy == manifest
    assert copy.to_json() == written


def test_a_manifest_is_text_to_read_in_any_language(manifest: Manifest) -> None:
    written = manifest.to_json().decode()
    assert written.startswith('{\n "name": "toutiao_ctr",\n "run_date": "2019-06-05",\n "generation": 1,\n')
    assert '"title": "头条"' in written
    assert written.endswith("}\n")


def test_a_manifest_of_another_format_says_which_release_to_take(manifest: Manifest) -> None:
    with pytest.raises(DamagedFile) as caught:
        Manifest.from_json(replace(manifest, format=2).to_json(), "/out/00000001.json")
    assert str(caught.value) == (
        "/out/00000001.json has format 2; this release reads format 1. "
        "Install the ctr-samples release that wrote it, or a newer one."
    )


def without(manifest: Manifest, key: str) -> bytes:
    value = json.loads(manifest.to_json())
    del value[key]
    return json.dumps(value).encode()


def test_bytes_that_are_no_manifest_are_damage_and_name_the_place(manifest: Manifest) -> None:
    whole = manifest.to_json()
    cases = {
        "empty": b"",
        "truncated": whole[: len(whole) // 2],
        "cut by its last brace": whole[:-2],
        "garbage": b"\x00\xff\xfe garbage",
        "not an object": b"[]",
        "a number": b"7",
        "another object": b'{"format": 1}',
        "no shards": without(manifest, "shards"),
        "no run id": without(manifest, "run_id"),
        "a shard with nothing in it": whole.replace(b'"split": "eval",', b""),
        "an unknown key": whole.replace(b"{", b'{"colour": "red",', 1),
        "nested without end": b"[" * 100_000,
    }
    for what, data in cases.items():
        with pytest.raises(DamagedFile) as caught:
            Manifest.from_json(data, "/out/00000001.json")
        message = str(caught.value)
        assert (what, message[:38]) == (what, "/out/00000001.json is not a manifest (")
        assert message.endswith("; restore it, or move it away and run the day again.")
