"""The published schema of a table's manifests: what tables write follows it, and what is none of ours does not."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from importlib import resources
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError, validate

from ctr_samples.shards import Shard, Storage
from ctr_samples.shards.table import Table, TableManifest, TableWrite
from tests.support.small_publish import append, create, overwrite, overwrite_partitions

SPARK_SCHEMA = {"type": "struct", "fields": [{"name": "row", "type": "long", "nullable": True, "metadata": {}}]}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    path = resources.files("ctr_samples.shards") / "table.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text())
    Draft202012Validator.check_schema(schema)
    return schema


def documents(storage: Storage) -> list[dict[str, Any]]:
    """The manifests of a table as their files say them."""
    names = [name for name in storage.names("_manifests") if name.endswith(".json")]
    return [json.loads(storage.read(f"_manifests/{name}")) for name in names]


def test_the_schema_has_each_field_of_a_table_manifest_and_no_other(schema: dict[str, Any]) -> None:
    for described, kind in ((schema, TableManifest), (schema["$defs"]["shard"], Shard)):
        names = [field.name for field in fields(kind)]
        assert list(described["properties"]) == names
        assert set(names) - set(described["required"]) == ({"checksum"} if kind is TableManifest else set())


def test_the_manifests_of_all_kinds_of_writes_follow_the_schema(schema: dict[str, Any], storage: Storage) -> None:
    for number, publish in enumerate([create, append, append, overwrite, append, overwrite_partitions], 1):
        publish(storage, number)
    written = documents(storage)
    assert [one["complete"] for one in written] == [True, False, False, True, False, True]
    for one in written:
        validate(one, schema)


def test_the_manifest_of_a_stream_with_partitions_follows_the_schema(schema: dict[str, Any], storage: Storage) -> None:
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
        validate(one, schema)


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
def test_what_is_no_manifest_of_a_table_breaks_the_schema(
    schema: dict[str, Any], storage: Storage, changes: dict[str, Any]
) -> None:
    append(storage, 1)
    (document,) = documents(storage)
    validate(document, schema)
    for key, value in changes.items():  # one with ``__`` is of the first shard
        place, name = (document["shards"][0], key[2:]) if key.startswith("__") else (document, key)
        place[name] = value
    with pytest.raises(ValidationError):
        validate(document, schema)
