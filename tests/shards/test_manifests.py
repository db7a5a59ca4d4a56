"""Receipts and manifests as values: what they say, and that they survive the way through JSON."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from datetime import date
from importlib import resources
from typing import Any, get_args, get_type_hints

import pytest
from jsonschema import Draft202012Validator, ValidationError, validate

from ctr_samples.errors import DamagedFile
from ctr_samples.shards import Manifest, Receipt, Shard, check_receipts
from ctr_samples.shards.manifest import FeaturesFrom, RequestOrder, Rollback

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


# The published schema.

NEWER = {"features_from", "rollback", "checksum", "known_by", "order", "tied_repeats", "environment", "reads"}
"""Fields that manifests of older releases lack."""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    path = resources.files("ctr_samples.shards") / "manifest.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text())
    Draft202012Validator.check_schema(schema)
    return schema


def document(manifest: Manifest, **changes: Any) -> dict[str, Any]:
    """The manifest as its file says it; a key with ``__`` changes the first shard."""
    document: dict[str, Any] = json.loads(manifest.to_json())
    document["contract"] = {
        "record": "example",
        "features": [{"name": "position", "dtype": "int64"}],
        "fingerprint": "f",
    }
    document["fingerprint"] = "0" * 64
    for key, value in changes.items():
        place, name = (document["shards"][0], key[2:]) if key.startswith("__") else (document, key)
        place[name] = value
    return document


def test_the_schema_has_each_field_of_a_manifest_and_no_other(schema: dict[str, Any]) -> None:
    for described, kind in ((schema, Manifest), (schema["$defs"]["shard"], Shard)):
        names = [field.name for field in fields(kind)]
        assert list(described["properties"]) == names
        assert set(names) - set(described["required"]) == (NEWER if kind is Manifest else set())


PARTS = {
    "features_from": FeaturesFrom(2, features=("age",), labels=True, path="/other"),
    "rollback": Rollback(1, "20190606T020000-aaaaaaaa"),
    "order": RequestOrder(("request",), 4, 2.5, 5),
}
"""One of each dataclass that a manifest may hold."""


def test_the_schema_has_each_field_of_the_parts_of_a_manifest_and_no_other(
    schema: dict[str, Any], manifest: Manifest
) -> None:
    hints = get_type_hints(Manifest).items()
    assert {name for name, hint in hints if any(is_dataclass(one) for one in get_args(hint)) and name != "shards"} == {
        *PARTS
    }
    for name, part in PARTS.items():
        described = schema["properties"][name]
        described = described.get("anyOf", [described])[-1]
        assert (list(described["properties"]), described["additionalProperties"]) == (
            [one.name for one in fields(part)],
            False,
        )
    validate(document(replace(manifest, **PARTS)), schema)


def test_a_manifest_follows_the_schema(schema: dict[str, Any], manifest: Manifest) -> None:
    validate(document(manifest), schema)


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": 0},
        {"run_id": "../../etc"},
        {"run_id": "20190606T020000-aaaaaaaa/.."},
        {"name": "Toutiao CTR"},
        {"format": 2},
        {"accounting": {"impressions": 1, "samples": 1, "lost": -1}},
        {"accounting": {"samples": 1}},
        {"fingerprint": "abc"},
        {"more": 1},
        {"__path": "../x.tfrecord"},
        {"__path": "dt=2019-06-05/../../x.tfrecord"},
        {"__path": "/etc/x.tfrecord"},
        {"__path": "x.parquet"},
        {"__records": 0},
        {"__crc32c": 2**32},
        {"__more": 1},
    ],
)
def test_what_is_no_manifest_of_ours_breaks_the_schema(
    schema: dict[str, Any], manifest: Manifest, changes: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        validate(document(manifest, **changes), schema)
