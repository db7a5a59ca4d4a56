"""From the files of many partials to one frame of steps."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ctr_samples.samples.views.aggregates import STEP
from ctr_samples.shards import Storage
from ctr_samples.shards.partials import Partial, PartialFile, read_partial_file

_BYTES_OF_A_TASK = 32 * 2**20


def needed_files(partials: Sequence[Partial], in_full: Set[int], per_day: int) -> list[PartialFile]:
    """The files that have rows a run needs: the steps of some days, and the totals of the others."""
    files = [file for partial in partials for file in partial.files]
    if per_day == 1:
        return files
    needed = []
    for file in files:
        days = set(range(file.first_day, file.last_day + 1))
        if days & in_full if file.kind == "steps" else days - in_full:
            needed.append(file)
    return needed


def read_steps(
    spark: SparkSession,
    storage: Storage,
    files: Sequence[PartialFile],
    in_full: Set[int],
    per_day: int,
    schema: StructType,
) -> DataFrame:
    """The rows of files of :func:`needed_files`. Lazy; DamagedFile, when it runs, for a file that was changed."""
    groups = _groups(files)
    reader = _Reader(storage, groups, frozenset(in_full), per_day)
    return spark.range(0, len(groups), 1, max(1, len(groups))).mapInArrow(reader, schema)


def _groups(files: Sequence[PartialFile]) -> tuple[tuple[PartialFile, ...], ...]:
    """Files to be read together, about as many bytes in each group."""
    count = ceil(sum(file.bytes for file in files) / _BYTES_OF_A_TASK)
    groups: list[list[PartialFile]] = [[] for _ in range(min(count, len(files)))]
    for file in sorted(files, key=lambda file: (-file.bytes, file.path)):
        min(groups, key=lambda group: sum(one.bytes for one in group)).append(file)
    return tuple(tuple(group) for group in groups)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads groups of files by their numbers. Runs on an executor; a file that is damaged fails the run with its name."""

    storage: Storage
    groups: tuple[tuple[PartialFile, ...], ...]
    in_full: frozenset[int]
    per_day: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file in self.groups[number]:
                    yield from self._rows(file).to_batches(max_chunksize=1 << 16)

    def _rows(self, file: PartialFile) -> pa.Table:
        table = pq.read_table(io.BytesIO(read_partial_file(self.storage, file)))
        if self.per_day == 1:
            return table
        days = np.floor_divide(table.column(STEP).to_numpy(), self.per_day)
        full = np.isin(days, list(self.in_full))
        return table.filter(pa.array(full if file.kind == "steps" else ~full))
