"""The published schemas of manifests of days and tables: what is written follows them, and what is none of ours does not."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from importlib import resources
from typing import Any, get_args, get_type_hints

import pytest
from jsonschema import Draft202012Validator, ValidationError, validate

from ctr_samples.shards import Manifest, Shard, Storage
from ctr_samples.shards.manifest import FeaturesFrom, RequestOrder, Rollback
from ctr_samples.shards.table import Table, TableManifest, TableWrite
from tests.support.small_publish import append, create, overwrite, overwrite_partitions


def schema_in(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((resources.files("ctr_samples.shards") / name).read_text())
    Draft202012Validator.check_schema(schema)
    return schema


SCHEMA_OF_DAYS, SCHEMA_OF_TABLES = schema_in("manifest.schema.json"), schema_in("table.schema.json")
NEWER = {"features_from", "rollback", "checksum", "known_by", "order", "tied_repeats", "environment", "reads"}
"""Fields that manifests of older releases lack."""
SPARK_SCHEMA = {"type": "struct", "fields": [{"name": "row", "type": "long", "nullable": True, "metadata": {}}]}


def document(manifest: Manifest) -> dict[str, Any]:
    """The manifest of a day as its file says it."""
    document: dict[str, Any] = json.loads(manifest.to_json())
    document["contract"] = {
        "record": "example",
        "features": [{"name": "position", "dtype": "int64"}],
        "fingerprint": "f",
    }
    return {**document, "fingerprint": "0" * 64}


def documents(storage: Storage) -> list[dict[str, Any]]:
    """The manifests of a table as their files say them."""
    names = [name for name in storage.names("_manifests") if name.endswith(".json")]
    return [json.loads(storage.read(f"_manifests/{name}")) for name in names]


@pytest.mark.parametrize(
    ("described", "kind", "newer"),
    [
        (SCHEMA_OF_DAYS, Manifest, NEWER),
        (SCHEMA_OF_DAYS["$defs"]["shard"], Shard, set()),
        (SCHEMA_OF_TABLES, TableManifest, {"checksum"}),
        (SCHEMA_OF_TABLES["$defs"]["shard"], Shard, set()),
    ],
)
def test_a_schema_has_each_field_of_a_manifest_and_no_other(
    described: dict[str, Any], kind: type[Any], newer: set[str]
) -> None:
    names = [field.name for field in fields(kind)]
    assert list(described["properties"]) == names
    assert set(names) - set(described["required"]) == newer


PARTS = {
    "features_from": FeaturesFrom(2, features=("age",), labels=True, path="/other"),
    "rollback": Rollback(1, "20190606T020000-aaaaaaaa"),
    "order": RequestOrder(("request",), 4, 2.5, 5),
}
"""One of each dataclass that a manifest may hold."""


def test_the_schema_has_each_field_of_the_parts_of_a_manifest_and_no_other(
    manifest: Manifest,
) -> None:
    hints = get_type_hints(Manifest).items()
    assert {name for name, hint in hints if any(is_dataclass(one) for one in get_args(hint)) and name != "shards"} == {
        *PARTS
    }
    for name, part in PARTS.items():
        described = SCHEMA_OF_DAYS["properties"][name]
        described = described.get("anyOf", [described])[-1]
        assert (list(described["properties"]), described["additionalProperties"]) == (
            [one.name for one in fields(part)],
            False,
        )
    validate(document(replace(manifest, **PARTS)), SCHEMA_OF_DAYS)


def test_the_manifests_of_all_kinds_of_writes_follow_the_schema(storage: Storage) -> None:
    for number, publish in enumerate([create, append, append, overwrite, append, overwrite_partitions], 1):
        publish(storage, number)
    written = documents(storage)
    assert [one["complete"] for one in written] == [True, False, False, True, False, True]
    for one in written:
        validate(one, SCHEMA_OF_TABLES)


def test_the_manifest_of_a_stream_with_partitions_follows_the_schema(storage: Storage) -> None:
    path = "country=US/day=2019-06-05/part-00003-17-1a2b3c4d.tfrecord.gz"
    with storage.new_file(path) as file:
        file.write(b"record")
    shard = Shard(path, "country=US/day=2019-06-05", 3, 2, 6, 0xE3069283)
    batch = TableWrite(
        "20190606T020000-00000001",
        "append",
        "byte_array",
        (shard,),
        schema=SPARK_SCHEMA,
        partition_by=("country", "day"),
        stream=("3f6c", 0),
        versions={"ctr-samples": "0.1.0"},
    )
    Table(storage).commit(batch)
    Table(storage).commit(replace(batch, shards=(), stream=("3f6c", 1)))  # a batch without rows
    first, second = documents(storage)
    assert (first["streams"], second["streams"], second["shards"]) == ({"3f6c": 0}, {"3f6c": 1}, [])
    for one in (first, second):
        validate(one, SCHEMA_OF_TABLES)


def check_broken_by(changes: dict[str, Any], document: dict[str, Any], schema: dict[str, Any]) -> None:
    """The document follows the schema until it is changed; a key with ``__`` is one of the first shard."""
    validator = Draft202012Validator(schema)  # `validate` would check the schema itself each time
    validator.validate(document)
    broken = deepcopy(document)
    for key, value in changes.items():
        place, name = (broken["shards"][0], key[2:]) if key.startswith("__") else (broken, key)
        place[name] = value
    with pytest.raises(ValidationError):
        validator.validate(broken)


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
def test_what_is_no_manifest_of_ours_breaks_the_schema(manifest: Manifest, changes: dict[str, Any]) -> None:
    check_broken_by(changes, document(manifest), SCHEMA_OF_DAYS)


@pytest.mark.parametrize(
    "changes",
    [
        {"generation": 0},
        {"run_id": "../../etc"},
        {"record_type": "Example"},
        {"complete": None},
        {"partition_by": ["day", "day"]},
        {"schemas": [{"type": "long"}]},
        {"contracts": [{"record": "example"}]},
        {"streams": {"3f6c": -1}},
        {"streams": {"3f6c": "0"}},
        {"format": 1},
        {"format": "ctr-samples table 2"},
        {"more": 1},
        {"__path": "../part-00003-17-1a2b3c4d.tfrecord"},
        {"__path": "day=1/../../part-00003-17-1a2b3c4d.tfrecord"},
        {"__path": "/etc/part-00003-17-1a2b3c4d.tfrecord"},
        {"__path": "day=1/notes.txt"},
        {"__records": 0},
        {"__crc32c": 2**32},
        {"__more": 1},
    ],
)
def test_what_is_no_manifest_of_a_table_breaks_the_schema(storage: Storage, changes: dict[str, Any]) -> None:
    append(storage, 1)
    check_broken_by(changes, *documents(storage), SCHEMA_OF_TABLES)
