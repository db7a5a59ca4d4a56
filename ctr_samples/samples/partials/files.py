"""Conversion of an executor's rows to partial files, and of the files of many partials to one frame."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ctr_samples.crc32c import crc32c
from ctr_samples.samples.columnar.columns import usual
from ctr_samples.samples.period import Span
from ctr_samples.shards import Storage
from ctr_samples.shards.partials import Partial, PartialFile, read_partial_file
from ctr_samples.sparksql.columns import micros_of
from ctr_samples.sparksql.workers import current_task
from ctr_samples.typed import typed

_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BYTES_OF_A_TASK = 32 * 2**20
_READ_AT_ONCE = 8
_FILE = "file string"


@dataclass(frozen=True, slots=True)
class PartialWriter:
    """The storage directory for the files of a partial, used by no other run, and the number of tasks that write them."""

    storage: Storage
    directory: str
    tasks: int

    def write(
        self, kind: Literal["steps", "totals", "actions", "rows"], table: pa.Table, days: np.ndarray
    ) -> PartialFile:
        """Write a file. ``days`` are the days of its rows. Files of failed attempts are not referenced anywhere."""
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        data = buffer.getvalue()
        path = f"{self.directory}/{kind}-{current_task().partitionId():05}-{uuid.uuid4().hex[:8]}.parquet"
        with self.storage.new_file(path) as file:
            file.write(data)
        facts = {"path": path, "kind": kind, "rows": table.num_rows, "bytes": len(data), "crc32c": int(crc32c(data))}
        return typed(PartialFile, {**facts, "first_day": int(days.min()), "last_day": int(days.max())})


def write_timed(
    place: PartialWriter, kind: Literal["actions", "rows"], batches: Iterable[pa.RecordBatch], time: str
) -> Iterator[PartialFile]:
    """Write rows with a ``time`` column to one file, or no file if there are no rows. Runs on an executor."""
    parts = [batch for batch in batches if batch.num_rows]
    if parts:
        table = pa.Table.from_batches(parts)
        micros = table.column(time).cast(pa.int64()).to_numpy()
        yield place.write(kind, table, np.floor_divide(micros, micros_of(_DAY)))


Write = Callable[[Iterator[pa.RecordBatch]], Iterable[PartialFile]]
"""Writes the rows of one partition. Runs on an executor, once per attempt."""


def write_files(rows: DataFrame, write: Write) -> tuple[PartialFile, ...]:
    """Write all partitions. Runs a Spark job."""

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = [json.dumps(asdict(file)) for file in write(usual(batches))]
        if files:
            yield pa.RecordBatch.from_pydict({"file": files})

    found = rows.mapInArrow(written, _FILE).collect()
    return tuple(sorted((typed(PartialFile, json.loads(row[0])) for row in found), key=lambda file: file.path))


Cut = Callable[[PartialFile, pa.Table], pa.Table]


def files_of(partials: Iterable[Partial]) -> list[PartialFile]:
    """Return all files of some partials."""
    return [file for partial in partials for file in partial.files]


def files_since(partials: Iterable[Partial], span: Span, age: timedelta | None) -> list[PartialFile]:
    """Return the files of :func:`write_timed` with rows not older than ``age`` at the start of a run. Without ``age``,
    returns all files.
    """
    files = files_of(partials)
    if age is None or span.start is None:
        return files
    oldest = (span.start - age - _EPOCH) // _DAY
    return [file for file in files if file.last_day >= oldest]


def read_files(
    spark: SparkSession,
    storage: Storage,
    files: Sequence[PartialFile],
    schema: StructType,
    cut: Cut = lambda _, table: table,
) -> DataFrame:
    """Return the rows of files, each reduced by ``cut``. Lazy; raises DamagedFile, when run, if a file has changed."""
    groups = _groups(files)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                group = groups[number]
                with ThreadPoolExecutor(_READ_AT_ONCE) as threads:  # storage latency is high, and groups are small
                    for file, data in zip(group, threads.map(partial(read_partial_file, storage), group), strict=True):
                        yield from cut(file, pq.read_table(io.BytesIO(data))).to_batches(max_chunksize=1 << 16)

    return spark.range(0, len(groups), 1, max(1, len(groups))).mapInArrow(read, schema)


def _groups(files: Sequence[PartialFile]) -> tuple[tuple[PartialFile, ...], ...]:
    """Group files of about equal total size in bytes, to be read together."""
    count = ceil(sum(file.bytes for file in files) / _BYTES_OF_A_TASK)
    groups: list[list[PartialFile]] = [[] for _ in range(min(count, len(files)))]
    for file in sorted(files, key=lambda file: (-file.bytes, file.path)):
        min(groups, key=lambda group: sum(one.bytes for one in group)).append(file)
    return tuple(tuple(group) for group in groups)
