"""Tables and nightly outputs, published without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.periods import parse_period
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import Shard, Table, TableWrite, open_storage, publish
from ctr_samples.shards.naming import run_directory
from ctr_samples.tfrecord.schema import contract_of
from tests.support.manifests import manifest

SAMPLES = ExampleContract(
    (
        FeatureSpec("id", "int64", nulls="fail"),
        FeatureSpec("vector", "float32", (2,), nulls="fail"),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
    )
)


def publish_day(root: Path, day: str, generation: int = 1, *, train: list[int], evaluation: list[int]) -> None:
    """One generation of a day, an hour or a whole log, with samples of these ids in two splits."""
    storage = open_storage(root)
    run = f"20190606T020000-0000000{generation}"
    with shard_writer(storage, run_directory(parse_period(day), run), SAMPLES) as writer:
        for split, ids in (("train", train), ("eval", evaluation)):
            columns = {
                "id": pa.array(ids, pa.int64()),
                "vector": pa.array([[i + 0.5, -1.0] for i in ids], pa.list_(pa.float32(), 2)),
                "clicked": pa.array([i % 2 for i in ids], pa.int64()),
            }
            writer.write(pa.RecordBatch.from_pydict(columns), split)
    publish(storage, manifest(SAMPLES, run_date=day, generation=generation, run_id=run, shards=writer.close().shards))


def publish_table(
    root: Path, columns: StructType, parts: dict[str, list[Any]], partition_by: tuple[str, ...] = (), **write: Any
) -> tuple[Shard, ...]:
    """One write to a table: ``parts`` has the values of its first column for each directory."""
    inside = StructType([field for field in columns if field.name not in partition_by])
    contract = contract_of(inside, "example")
    storage = open_storage(root)
    with shard_writer(storage, "", contract) as writer:
        for directory, values in parts.items():
            writer.write(pa.RecordBatch.from_pydict({inside.names[0]: pa.array(values)}), directory)
    settings = {"run_id": "20190606T020000-aaaaaaaa", "mode": "append", "record_type": "example", **write}
    settings.setdefault("schema", columns.jsonValue())
    settings.setdefault("contract", contract.to_dict())
    shards = writer.close().shards
    Table(storage).commit(TableWrite(**settings, shards=shards, partition_by=partition_by))
    return shards
