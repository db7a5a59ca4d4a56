"""Write tables: a plan that is checked before the first row, tasks that write shards, and one commit of all shards."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile, InputError
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import Receipt, Shard, ShardWriter, Storage, Table, TableWrite, check_receipts, open_storage
from ctr_samples.shards.naming import run_id
from ctr_samples.shards.table import TableManifest, WriteMode
from ctr_samples.sparksql.releases import versions
from ctr_samples.sparksql.workers import current_task
from ctr_samples.tfrecord.files import session_setting
from ctr_samples.tfrecord.options import Options, PartitionOverwrite
from ctr_samples.tfrecord.partitions import directory_of
from ctr_samples.tfrecord.schema import check_added, check_names, contract_of, schema_as_stored

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

    def writer(self) -> ShardWriter:
        """Open a writer of shards for the task that runs here."""
        task = current_task()
        return shard_writer(
            self.storage,
            "",
            self.contract,
            compression=self.compression,
            shard_size=self.shard_size,
            partition=task.partitionId(),
            attempt=task.taskAttemptId(),
        )


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


@dataclass(frozen=True)
class ReceiptMessage(WriterCommitMessage):
    """The result of a task, for the driver. Spark passes on the result of one attempt per partition."""

    receipt: Receipt


class TfrecordWriter(DataSourceArrowWriter):
    """Writes a DataFrame. Created while the query is planned; copies write on executors and commit elsewhere."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan
        self._run_id = new_run_id()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition. Runs on an executor, once per attempt; see :func:`write_partition`."""
        return ReceiptMessage(write_partition(self._plan, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the table. Runs once, when every partition has returned a receipt. Readers see all shards or none."""
        commit(self._plan, self._run_id, shards_of(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: after a failed commit, Spark calls this with files that a manifest may list.

        Written files stay invisible; ``ctr-samples clean`` removes them.
        """


def write_partition(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Receipt:
    """Write the rows of one task as shards, one directory at a time.

    Any error fails the attempt and leaves its open file invisible. The iterator also ends, without an error, if the JVM
    side of the task fails: only a receipt that reaches the driver proves success.
    """
    if session_setting("spark.sql.sources.partitionOverwriteMode", "static").lower() == "dynamic":
        check_deletes_no_partitions(plan.storage.url, plan.deletes_partitions)
    limit = _most_records(plan)
    shards: list[Shard] = []
    open_writer: ShardWriter | None = None
    open_directory, written = "", 0
    try:
        for batch in batches:
            for directory, run in by_directory(batch, plan.partition_by):
                rows = run
                while rows.num_rows:
                    if open_writer is None or directory != open_directory or written >= limit:
                        # Rows are sorted by directory, so a finished directory never returns: only one file is open
                        # at a time.
                        shards += _finished(open_writer)
                        open_writer, open_directory, written = plan.writer(), directory, 0
                    piece = rows.slice(0, limit - written)
                    open_writer.write(piece, directory)
                    written += piece.num_rows
                    rows = rows.slice(piece.num_rows)
        shards += _finished(open_writer)
    except BaseException as error:
        if open_writer is not None:
            open_writer.abandon(error)
        raise
    task = current_task()
    return Receipt(task.partitionId(), task.taskAttemptId(), tuple(shards))


def _most_records(plan: WritePlan) -> int:
    """Return the maximum records per file, from the plan or Spark's setting; zero in either means no limit."""
    setting = (
        int(session_setting("spark.sql.files.maxRecordsPerFile", "0")) if plan.max_records is None else plan.max_records
    )
    return setting if setting > 0 else sys.maxsize


def _finished(writer: ShardWriter | None) -> tuple[Shard, ...]:
    return writer.close().shards if writer is not None else ()


def by_directory(batch: pa.RecordBatch, partition_by: tuple[str, ...]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split a batch into runs of rows per directory, without the partition columns. Slicing copies no data."""
    if batch.num_rows == 0:
        return
    rows = batch.drop_columns(list(partition_by))
    if not partition_by:
        yield "", rows
        return
    columns = [batch.column(name) for name in partition_by]
    ends = sorted({end for column in columns for end in pc.run_end_encode(column).run_ends.to_pylist()})
    start = 0
    for end in ends:
        yield directory_of(partition_by, [column[start].as_py() for column in columns]), rows.slice(start, end - start)
        start = end


def shards_of(messages: list[WriterCommitMessage | None]) -> tuple[Shard, ...]:
    """Return the shards of all partitions. Raises DamagedFile unless there is exactly one receipt per partition."""
    if any(not isinstance(message, ReceiptMessage) for message in messages):
        raise DamagedFile("A task ended without a receipt; nothing was published. Run the write again.")
    receipts = [cast(ReceiptMessage, message).receipt for message in messages]
    check_receipts(receipts, len(receipts))
    return tuple(shard for receipt in sorted(receipts, key=lambda r: r.partition) for shard in receipt.shards)
