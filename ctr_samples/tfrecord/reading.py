"""The reader of the data source. Planned once, then run in tasks that each read files in sequence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructType

from ctr_samples.codec import ExampleDecoder
from ctr_samples.codec.encoder import EncodedBatch
from ctr_samples.contract import RecordType
from ctr_samples.errors import ContractError, DamagedFile
from ctr_samples.sparksql.releases import arrow_schema
from ctr_samples.tfrecord.catalog import Catalog
from ctr_samples.tfrecord.files import DataFile, Packing, Tolerance, chunks_of, tolerance_of, tolerated
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.partitions import typed
from ctr_samples.tfrecord.schema import contract_for
from ctr_samples.tfrecord.spark_columns import ColumnError, ReadPlan, plan_reading

_ROWS = 10_000
"""Rows per batch passed to Spark, the same as in Spark's own batches."""

_BYTES = 8 << 20
"""Maximum total bytes of small batches combined into one batch."""

_RECORD_OF_BUFFER = re.compile(r"^Record (\d+) of the buffer, at byte (\d+),")
_RECORD_OF_CHUNK = re.compile(r"^Record (\d+) at byte (\d+)")


@dataclass
class FilePartition(InputPartition):
    """The files that one task reads."""

    files: tuple[DataFile, ...]


class TfrecordReader(DataSourceReader):
    """Reads files with a given schema. Created while the query is planned; each task gets a copy without the file list.

    Accepts no filters: since 4.1 Spark caches the reader's plan, so a later query of the same DataFrame would lack rows
    that an earlier query filtered out.
    """

    def __init__(self, catalog: Catalog, schema: StructType, options: Options, packing: Packing) -> None:
        """Check the schema. Raises ContractError, naming the first column that records cannot provide."""
        self._schema = schema
        self._options = options
        self._packing = replace(
            packing,
            max_bytes=options.max_bytes or packing.max_bytes,
            open_cost=options.open_cost or packing.open_cost,
        )
        self._record: RecordType = catalog.record_type or "example"
        self._contract = contract_for(schema, catalog.contracts)
        asked = {field.name.lower(): field for field in schema}
        # Spark's column names are case-insensitive: `Day` means the directories named day=...
        self._partitions = {field.name: asked.get(field.name.lower(), field) for field in catalog.partitions}
        self._file_column = _file_column(schema, options)
        self._plan()
        # Partition values are checked here, so that a value that does not fit fails before any task runs.
        for file in catalog.files:
            self._typed_values(file)
        self.files = list(catalog.files)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "files": []}

    def partitions(self) -> list[InputPartition]:
        """Pack files by size. Runs while the first query of a DataFrame is planned (Spark 4.0: every query)."""
        return self.tasks_of(self.files)

    def tasks_of(self, files: list[DataFile]) -> list[InputPartition]:
        """Pack the given files into tasks."""
        return [FilePartition(packed) for packed in self._packing.packed(files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode the files of a task. Runs on an executor, once per attempt. Reads a few megabytes at a time.

        Raises DamagedFile and ContractError, naming the file and the record.
        """
        if not isinstance(partition, FilePartition):
            return  # what Spark plans if there is no partition
        plan = self._plan()
        decoder = ExampleDecoder(plan.contract)
        target = arrow_schema(self._schema)
        tolerance = tolerance_of(self._options)
        yield from _gathered(
            batch for file in partition.files for batch in self._read(file, plan, decoder, target, tolerance)
        )

    def _read(
        self, file: DataFile, plan: ReadPlan, decoder: ExampleDecoder, target: pa.Schema, tolerance: Tolerance
    ) -> Iterator[pa.RecordBatch]:
        constants = self._typed_values(file)
        first = 0
        with tolerated(file, tolerance):
            for rows in (rows for chunk in chunks_of(file) for rows in _slices(chunk)):
                arrays = _decoded(file, plan, decoder, rows, first)
                columns = dict(zip(plan.schema.names, arrays, strict=True))
                for name in constants.keys() & set(target.names):
                    columns[name] = pa.repeat(pa.scalar(constants[name], target.field(name).type), len(rows))
                yield _batch([columns[name] for name in target.names], target, len(rows))
                first += len(rows)

    def _plan(self) -> ReadPlan:
        constant = {field.name for field in self._partitions.values()} | {self._file_column}
        inside = StructType([field for field in self._schema if field.name not in constant])
        return plan_reading(inside, self._record, self._contract)

    def _typed_values(self, file: DataFile) -> dict[str, Any]:
        """Return the values of partition columns and of the file column, under their names in the schema."""
        values: dict[str, Any] = {self._file_column: file.location} if self._file_column else {}
        for name, field in self._partitions.items():
            values[field.name] = typed(name, file.values.get(name), field.dataType)
            if values[field.name] is None and not field.nullable:
                raise ContractError(
                    f"{file.location}: the directory makes {name!r} null, but the schema says NOT NULL."
                )
        return values


def _file_column(schema: StructType, options: Options) -> str | None:
    """Return the name of the file column, or None if the schema lacks it."""
    for field in schema:
        if field.name == options.file_column:
            if not isinstance(field.dataType, StringType):
                raise ContractError(
                    f"Column {field.name!r} is the fileColumn, which holds paths; declare it as string."
                )
            return field.name
    return None


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine small batches into batches of up to ``_ROWS`` rows.

    Files may be small, and Spark's overhead per batch equals the cost of hundreds of rows.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > _ROWS or size + batch.nbytes > _BYTES):
            yield from _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2 or not batches[0].num_columns:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _slices(chunk: EncodedBatch) -> Iterator[EncodedBatch]:
    for start in range(0, len(chunk), _ROWS):
        yield EncodedBatch(chunk.buffer, chunk.offsets[start : start + _ROWS + 1])


def _decoded(file: DataFile, plan: ReadPlan, decoder: ExampleDecoder, rows: EncodedBatch, first: int) -> list[pa.Array]:
    """Decode a run of records to columns. ``first`` is the number of its first record in the file."""
    try:
        return plan.columns(decoder.decode_frames(rows.buffer, rows.offsets))
    except ColumnError as error:
        raise ContractError(f"{file.location}, record {first + error.row}: {error}. Change the schema.") from None
    except ContractError as error:
        message = str(error).partition(". Read with the contract")[0]
        raise ContractError(
            f"{file.location}, {_numbered(message, first)}. Declare the column with the type of its data, an ARRAY where a "
            "record has several values."
        ) from None
    except DamagedFile as error:
        raise DamagedFile(f"{file.location}, {_numbered(str(error), first)}") from None


def _numbered(message: str, first: int) -> str:
    """Replace the record number in the codec's message with the record's number in the file."""
    match = _RECORD_OF_BUFFER.match(message) or _RECORD_OF_CHUNK.match(message)
    return f"record {first + int(match[1])}{message[match.end() :]}" if match else message


def _batch(arrays: list[pa.Array], target: pa.Schema, rows: int) -> pa.RecordBatch:
    if not arrays:  # a count needs rows, but no columns
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))
    return pa.RecordBatch.from_arrays(arrays, schema=target)
