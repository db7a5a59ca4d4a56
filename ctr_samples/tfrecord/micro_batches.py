"""The writer for streaming queries. Commits each micro-batch exactly once, however often Spark retries it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ctr_samples.errors import CtrSamplesError, InputError, UsageError
from ctr_samples.shards import open_storage
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.write_plan import WritePlan, commit, new_run_id
from ctr_samples.tfrecord.writing import ReceiptMessage, shards_of, write_partition


class TfrecordStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches. Spark creates two instances per batch: one for the tasks, one in its own process for the
    commit.
    """

    def __init__(self, plan: WritePlan, options: Options) -> None:
        self._plan = plan
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition of a batch. Runs on an executor, once per attempt."""
        return ReceiptMessage(write_partition(self._plan, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a batch. A restarted query repeats its last batch; if already published, does nothing."""
        stream = (stream_id(self._options), batchId)
        commit(self._plan, new_run_id(), shards_of(messages), stream)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing, as for a batch write."""


def stream_id(options: Options) -> str:
    """Return the identity of this stream for the lifetime of its checkpoint.

    The identity is the option ``streamId``, or the query id that Spark stores in the checkpoint. A path would not do:
    after its checkpoint is deleted, a stream restarts at batch 0, which would look like a batch already published.
    """
    if options.stream_id:
        return options.stream_id
    if not options.checkpoint:
        raise UsageError(
            "A stream to the format tfrecord needs the option checkpointLocation on the writer itself, or streamId with a "
            "name of its own: by it a batch that Spark runs twice is known."
        )
    try:
        return str(json.loads(open_storage(options.checkpoint).read("metadata"))["id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError, CtrSamplesError) as error:
        raise InputError(
            f"The id of the query cannot be read from {options.checkpoint}/metadata ({error}); set the option streamId to a "
            "name that no other stream to this directory has."
        ) from None
