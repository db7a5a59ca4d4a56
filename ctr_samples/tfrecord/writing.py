"""The writer of the data source. Each task writes shards; a single commit publishes all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ctr_samples.errors import DamagedFile
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import Receipt, Shard, ShardWriter, check_receipts
from ctr_samples.sparksql.workers import current_task
from ctr_samples.tfrecord.files import session_setting
from ctr_samples.tfrecord.partitions import directory_of
from ctr_samples.tfrecord.write_plan import WritePlan, check_deletes_no_partitions, commit, new_run_id


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
    task = current_task()
    if session_setting("spark.sql.sources.partitionOverwriteMode", "static").lower() == "dynamic":
        check_deletes_no_partitions(plan.storage.url, plan.deletes_partitions)
    partition, attempt = task.partitionId(), task.taskAttemptId()
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
                        open_writer, open_directory, written = _shard_writer(plan, partition, attempt), directory, 0
                    piece = rows.slice(0, limit - written)
                    open_writer.write(piece, directory)
                    written += piece.num_rows
                    rows = rows.slice(piece.num_rows)
        shards += _finished(open_writer)
    except BaseException as error:
        if open_writer is not None:
            open_writer.abandon(error)
        raise
    return Receipt(partition, attempt, tuple(shards))


def _most_records(plan: WritePlan) -> int:
    """Return the maximum records per file, from the plan or Spark's setting; zero in either means no limit."""
    setting = (
        int(session_setting("spark.sql.files.maxRecordsPerFile", "0")) if plan.max_records is None else plan.max_records
    )
    return setting if setting > 0 else sys.maxsize


def _finished(writer: ShardWriter | None) -> tuple[Shard, ...]:
    return writer.close().shards if writer is not None else ()


def _shard_writer(plan: WritePlan, partition: int, attempt: int) -> ShardWriter:
    return shard_writer(
        plan.storage,
        "",
        plan.contract,
        compression=plan.compression,
        shard_size=plan.shard_size,
        partition=partition,
        attempt=attempt,
    )


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
