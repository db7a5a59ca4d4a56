"""Spark data source, which Spark runs in separate processes. Creates a schema, a reader or a writer from options."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ctr_samples.errors import CtrSamplesError, InputError, UsageError
from ctr_samples.shards import Table, open_storage
from ctr_samples.sparksql.releases import COUNTS_WITHOUT_COLUMNS
from ctr_samples.sparksql.workers import freeze_imports
from ctr_samples.tfrecord.catalog import find
from ctr_samples.tfrecord.inference import schema_for
from ctr_samples.tfrecord.options import Options, parse_options
from ctr_samples.tfrecord.reading import TfrecordReader
from ctr_samples.tfrecord.settings import Packing
from ctr_samples.tfrecord.write_plan import WritePlan, new_run_id, table_write
from ctr_samples.tfrecord.writing import ReceiptMessage, shards_of, write_partition


class TfrecordSource(DataSource):
    """Reads TFRecord files as DataFrames and writes them. :func:`ctr_samples.register` registers it as ``tfrecord``."""

    packing = Packing()

    @classmethod
    def name(cls) -> str:
        """Format name for ``format(...)``."""
        return "tfrecord"

    def schema(self) -> StructType:
        """Return the schema, unless the user sets a schema. Runs once, when ``load`` is called."""
        options = parse_options(self.options)
        return schema_for(find(options), options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Create the reader. Runs while the first query of a DataFrame is planned (Spark 4.0: every query)."""
        if not schema.fields and not COUNTS_WITHOUT_COLUMNS:
            raise InputError(
                "Spark 4.0 loses rows without columns; expected a schema with a column. Name at least one."
            )
        options = parse_options(self.options)
        return TfrecordReader(find(options), schema, options, self.packing)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Create the writer. Runs once per write, before any task."""
        from ctr_samples.tfrecord.write_plan import plan_writing
        from ctr_samples.tfrecord.writing import TfrecordWriter

        plan = plan_writing(parse_options(self.options), schema, "overwrite" if overwrite else "append")
        return TfrecordWriter(plan)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Create the stream reader. Runs once per start of a streaming query."""
        from ctr_samples.tfrecord.stream_reading import TfrecordStreamReader

        return TfrecordStreamReader(parse_options(self.options), schema, self.packing)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Create the stream writer. Runs twice per batch: before the tasks, and for the commit."""
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            raise UsageError("Streams to the format tfrecord need pyspark 4.1 or newer; batch writes do not.")
        from ctr_samples.tfrecord.write_plan import plan_writing

        options = parse_options(self.options)
        stream_id(options)  # a stream that cannot tell its batches apart must not start
        plan = plan_writing(options, schema, "overwrite" if overwrite else "append")
        return TfrecordStreamWriter(plan, options)


class TfrecordsSource(TfrecordSource):
    """Same source, under the name used by spark-tensorflow-connector."""

    @classmethod
    def name(cls) -> str:
        """Format name for ``format(...)``."""
        return "tfrecords"


freeze_imports()  # imports everything that tasks and planning need


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
        Table(self._plan.storage).commit(table_write(self._plan, new_run_id(), shards_of(messages), stream))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing, as for a batch write."""


def stream_id(options: Options) -> str:
    """Return the identity of this stream for the lifetime of its checkpoint.

    The identity is the option ``streamId``, or the query id that Spark stores in the checkpoint. A path is not enough:
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
