"""The Spark data source, which runs in processes of its own. Creates a schema, a reader or a writer from options."""

from __future__ import annotations

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ctr_samples.errors import InputError, UsageError
from ctr_samples.sparksql.releases import COUNTS_WITHOUT_COLUMNS
from ctr_samples.sparksql.workers import freeze_imports
from ctr_samples.tfrecord.catalog import find
from ctr_samples.tfrecord.files import Packing
from ctr_samples.tfrecord.inference import schema_for
from ctr_samples.tfrecord.options import parse_options
from ctr_samples.tfrecord.reading import TfrecordReader


class TfrecordSource(DataSource):
    """Reads TFRecord files as DataFrames and writes them. :func:`ctr_samples.register` registers it as ``tfrecord``."""

    packing = Packing()

    @classmethod
    def name(cls) -> str:
        """Return the format name for ``format(...)``."""
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
        from ctr_samples.tfrecord.writing import TfrecordWriter, plan_writing

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
        from ctr_samples.tfrecord.stream_reading import TfrecordStreamWriter, stream_id
        from ctr_samples.tfrecord.writing import plan_writing

        options = parse_options(self.options)
        stream_id(options)  # a stream that cannot tell its batches apart must not start
        plan = plan_writing(options, schema, "overwrite" if overwrite else "append")
        return TfrecordStreamWriter(plan, options)


class TfrecordsSource(TfrecordSource):
    """The same source, under the name used by spark-tensorflow-connector."""

    @classmethod
    def name(cls) -> str:
        """Return the format name for ``format(...)``."""
        return "tfrecords"


freeze_imports()  # imports everything that tasks and planning need
