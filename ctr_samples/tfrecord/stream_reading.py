"""The reader for streaming queries. Reads each file, and each shard added to a table, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ctr_samples.errors import CtrSamplesError, InputError, UsageError
from ctr_samples.shards import open_storage
from ctr_samples.tfrecord.catalog import find
from ctr_samples.tfrecord.files import DataFile, Packing
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.reading import TfrecordReader
from ctr_samples.tfrecord.writing import ReceiptMessage, WritePlan, commit, new_run_id, shards_of, write_partition


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


class TfrecordStreamReader(DataSourceStreamReader):
    """Reads new files at the paths. Lives in a separate process as long as the query; copies of it read in tasks.

    An offset lists every file returned so far, so that a query restarted from its checkpoint continues where it
    stopped. As with Spark's own file sources, a file replaced under the same name is not read again.
    """

    def __init__(self, options: Options, schema: StructType, packing: Packing) -> None:
        """Check the schema. Raises ContractError, naming the first column that records cannot provide."""
        self._options = options
        self._schema = schema
        self._packing = packing
        self._reader = self._look()
        self._last: frozenset[str] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before the first file."""
        return {"files": []}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the option ``maxFilesPerTrigger`` as a limit. Called by Spark since 4.2."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

        most = self._options.max_files
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return the offset with all existing files. Before 4.2, Spark passes neither the batch's start offset nor a
        limit.
        """
        given = list(start["files"]) if start else []
        known = set(given)
        new = [place for place in self._there() if place not in known and (self._last is None or place in self._last)]
        return {"files": given + new[: getattr(limit, "max_files", None)]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit a query with the trigger AvailableNow to the files that exist now."""
        self._last = frozenset(self._there())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan tasks for the files between two offsets. Raises InputError if a file is gone."""
        known = set(start["files"])
        there = self._there()
        wanted = [place for place in end["files"] if place not in known]
        gone = [place for place in wanted if place not in there]
        if gone:
            raise InputError(
                f"{len(gone)} file(s) that the stream planned to read are gone, such as {gone[0]}; restore them, or start the "
                "stream with a new checkpoint."
            )
        return self._reader.tasks_of([there[place] for place in wanted])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode the files of a task. Runs on an executor, once per attempt."""
        return self._reader.read(partition)

    def _there(self) -> dict[str, DataFile]:
        return {file.location: file for file in self._look().files}

    def _look(self) -> TfrecordReader:
        return TfrecordReader(find(self._options), self._schema, self._options, self._packing)


with suppress(ImportError):  # Spark 4.2
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    SupportsTriggerAvailableNow.register(TfrecordStreamReader)
