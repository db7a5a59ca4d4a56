"""Plan a write and check it before its first row: location, features, and compatibility with an existing table."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from pyspark.sql.types import StructType

from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError
from ctr_samples.shards import Shard, Storage, Table, TableWrite, open_storage
from ctr_samples.shards.naming import run_id
from ctr_samples.shards.table import TableManifest, WriteMode
from ctr_samples.sparksql.releases import versions
from ctr_samples.tfrecord.options import Options, PartitionOverwrite
from ctr_samples.tfrecord.schema import contract_of, schema_as_stored
from ctr_samples.tfrecord.table_columns import check_added, check_names

Mode = Literal["append", "overwrite"]


@dataclass(frozen=True)
class WritePlan:
    """The parameters of a write, for the tasks and the commit. Pickled.

    ``deletes_partitions`` names the partition columns of a table that this overwrite would replace with unpartitioned
    rows. It is empty if the option ``partitionOverwriteMode`` is set; otherwise tasks check the session's setting.
    Tasks also use the session's setting if ``max_records``, the maximum per file, is None.
    """

    storage: Storage
    contract: ExampleContract
    schema: Mapping[str, Any]
    partition_by: tuple[str, ...]
    compression: Literal["none", "gzip", "zlib"]
    shard_size: int
    mode: WriteMode
    deletes_partitions: tuple[str, ...] = ()
    max_records: int | None = None


def plan_writing(options: Options, schema: StructType, mode: Mode) -> WritePlan:
    """Check the write as far as possible before the first row. Runs while the query is planned.

    Raises ContractError for columns that records cannot hold or that have another type in the table, InputError for a
    directory with foreign files or with other record types or partitions, and StorageError for a store that cannot keep
    our guarantees.
    """
    partitions = options.partition_columns or StructType()
    inside = StructType([field for field in schema if field.name not in partitions.names])
    stored = StructType([*schema_as_stored(inside), *partitions])
    plan = WritePlan(
        storage=open_storage(options.path),
        contract=contract_of(inside, options.record_type or "example"),
        schema=stored.jsonValue(),
        partition_by=tuple(partitions.names),
        compression=options.compression or "none",
        shard_size=options.shard_size,
        max_records=options.max_records,
        mode="create" if options.first_write else _mode(mode, options),
    )
    table = Table(plan.storage)
    current = table.current()
    if current is None or plan.mode == "overwrite":
        check_names(stored.names, (), plan.storage.url)
    if current is None:
        table.check_writable(new_run_id())  # a store that has proved reliable once need not be tested again
    else:
        table.check(current, _table_write(plan, new_run_id(), ()), partial(_check_columns, plan))
    return replace(plan, deletes_partitions=_deletes_partitions(plan, current, options.partition_overwrite))


def _mode(mode: Mode, options: Options) -> WriteMode:
    """Return the mode of a write. As in Spark's own sources, ``dynamic`` has no effect on rows without partitions."""
    dynamic = options.partition_overwrite == "dynamic" and bool(options.partition_columns)
    return "overwrite_partitions" if mode == "overwrite" and dynamic else mode


def _deletes_partitions(
    plan: WritePlan, current: TableManifest | None, asked: PartitionOverwrite | None
) -> tuple[str, ...]:
    if plan.mode != "overwrite" or plan.partition_by or current is None or asked == "static":
        return ()
    if asked == "dynamic":
        check_deletes_no_partitions(plan.storage.url, current.partition_by)
    return current.partition_by


def check_deletes_no_partitions(url: str, partition_by: tuple[str, ...]) -> None:
    """Raise InputError for a dynamic overwrite of a partitioned table, since Spark passes no partitions to Python
    sources.
    """
    if partition_by:
        raise InputError(
            f"partitionOverwriteMode is dynamic and {url} is partitioned by {', '.join(partition_by)}, but these rows have no "
            "partitions, so the overwrite would delete every partition. Use ctr_samples.write_tfrecord(df, path, "
            f'partition_by={list(partition_by)}, mode="overwrite"), or set the option partitionOverwriteMode to static.'
        )


def new_run_id() -> str:
    """Return a unique id for a write."""
    return run_id(datetime.now(UTC), uuid.uuid4().hex[:8])


def commit(
    plan: WritePlan, run: str, shards: tuple[Shard, ...], stream: tuple[str, int] | None = None
) -> TableManifest:
    """Publish a write. Its columns are compared once more with the table, since another writer may have been faster."""
    return Table(plan.storage).commit(_table_write(plan, run, shards, stream), partial(_check_columns, plan))


def _check_columns(plan: WritePlan, current: TableManifest) -> None:
    check_added(StructType.fromJson(dict(plan.schema)), current, plan.storage.url)


def _table_write(
    plan: WritePlan, run: str, shards: tuple[Shard, ...], stream: tuple[str, int] | None = None
) -> TableWrite:
    return TableWrite(
        run_id=run,
        mode=plan.mode,
        record_type=plan.contract.record,
        shards=shards,
        schema=plan.schema,
        contract=plan.contract.to_dict(),
        partition_by=plan.partition_by,
        stream=stream,
        versions=versions(),
    )
