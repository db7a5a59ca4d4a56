"""What a write will do, checked before its first row: where, which features, and whether the table takes them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa
import pyspark
from pyspark.sql.types import StructType

from ctr_samples import __version__
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError
from ctr_samples.shards import Shard, Storage, Table, TableWrite, open_storage
from ctr_samples.shards.naming import run_id
from ctr_samples.shards.table import refusal
from ctr_samples.spark.tfrecord.catalog import merged, schemas_of
from ctr_samples.spark.tfrecord.options import Options
from ctr_samples.spark.tfrecord.schema import contract_of, schema_as_stored

Mode = Literal["append", "overwrite"]


@dataclass(frozen=True)
class WritePlan:
    """All that tasks and the commit need to know; travels by pickle."""

    storage: Storage
    contract: ExampleContract
    schema: Mapping[str, Any]
    partition_by: tuple[str, ...]
    compression: Literal["none", "gzip", "zlib"]
    shard_size: int
    mode: Literal["append", "create", "overwrite"]


def plan_writing(options: Options, schema: StructType, mode: Mode) -> WritePlan:
    """Check everything that can be known before the first row. Runs where the query is planned.

    ContractError for columns that no record can hold, or that have another type in the table; InputError for a directory
    with files of others, or with records or partitions of another kind; StorageError for a store that keeps no promises.
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
        mode="create" if options.first_write else mode,
    )
    _check_table(plan, stored)
    return plan


def _check_table(plan: WritePlan, schema: StructType) -> None:
    table = Table(plan.storage)
    current = table.current()
    if current is None:
        table.check_writable(new_run_id())  # a store that has kept its promises once need not be tried again
        return
    table.check_absent(current, plan.mode)
    if plan.mode == "append":
        wrong = refusal(current, table_write(plan, new_run_id(), ()))
        if wrong:
            raise InputError(f"{plan.storage.url} {wrong}.")
        merged([*schemas_of(current, plan.storage.url), schema], plan.storage.url)


def new_run_id() -> str:
    """An id that no other write has."""
    return run_id(datetime.now(UTC), uuid.uuid4().hex[:8])


def table_write(
    plan: WritePlan, run: str, shards: tuple[Shard, ...], stream: tuple[str, int] | None = None
) -> TableWrite:
    """What a commit brings to the table."""
    versions = {"ctr-samples": __version__, "pyspark": pyspark.__version__, "pyarrow": pa.__version__}
    return TableWrite(
        run_id=run,
        mode=plan.mode,
        record_type=plan.contract.record,
        shards=shards,
        schema=plan.schema,
        contract=plan.contract.to_dict(),
        partition_by=plan.partition_by,
        stream=stream,
        versions=versions,
    )
