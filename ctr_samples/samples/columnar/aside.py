"""Columns that Spark computes from some columns of a stage, while the other columns wait aside as one block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructType

from ctr_samples.samples.columnar.blocks import DamagedBlock, Item, bytes_of_rows, rows_of
from ctr_samples.samples.columnar.stages import Fields, Stage, TaskCounts, narrowed, with_fields

_REST = "_rest"
_ROWS, _BYTES = 1 << 14, 16 << 20
"""Rows that wait together, and their bytes."""


def with_columns(
    stage: Stage,
    needed: Fields,
    kept: Fields,
    add: Callable[[DataFrame], DataFrame],
    names: Sequence[str],
    counted: TaskCounts,
) -> Stage:
    """Return the rows with further columns, which ``add`` appends to a frame of the ``needed`` columns.

    The rows lose the fields of struct columns that are not ``kept``.
    ``add`` must keep the rows, and their order in each partition.
    """
    carried = narrowed(StructType([stage.kind[name] for name in needed]), needed).add(_REST, BinaryType())
    frame = add(stage.then(_SetAside(needed, kept), carried).rows(counted)).select(_REST, *names)
    kind = StructType([*stage.with_fields(kept).kind, *[frame.schema[name] for name in names]])
    return Stage(frame, kind, (_TakeUp(tuple(names)),))


@dataclass(frozen=True, slots=True)
class _SetAside:
    """Yields the needed columns, and all rows of a batch as a block beside its first row. Runs on executors."""

    needed: Fields
    kept: Fields

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if not isinstance(item, pa.RecordBatch):
                yield item
                continue
            most = max(1, min(_ROWS, _BYTES * item.num_rows // (item.nbytes + 1)))
            for start in range(0, item.num_rows, most):
                yield self._carrier(item.slice(start, most))

    def _carrier(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = with_fields(rows.select([*self.needed]), self.needed)
        block = bytes_of_rows(with_fields(rows, self.kept))
        ends = np.full(rows.num_rows + 1, block.size, np.int32)
        ends[0] = 0
        is_first = pa.array(np.arange(rows.num_rows) == 0).buffers()[1]  # the other rows are null
        rest = pa.BinaryArray.from_buffers(pa.binary(), rows.num_rows, [is_first, pa.py_buffer(ends), block])
        return columns.append_column(_REST, rest)


@dataclass(frozen=True, slots=True)
class _TakeUp:
    """Puts rows that waited and their new columns together. Runs on executors.

    Raises DamagedBlock unless as many rows come back as were set aside.
    """

    names: tuple[str, ...]

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        waiting: pa.RecordBatch | None = None
        new: list[pa.RecordBatch] = []
        for item in items:
            assert isinstance(item, pa.RecordBatch), "counts were collected before Spark computed the columns"
            carriers = set(pc.indices_nonzero(item.column(_REST).is_valid()).to_pylist())
            for start, end in pairwise(sorted({0, *carriers, item.num_rows})):
                if start in carriers:
                    if waiting is not None:
                        yield self._together(waiting, new)
                    waiting, new = rows_of(item.column(_REST)[start].as_buffer()), []
                new.append(item.select(self.names).slice(start, end - start))
        if waiting is not None:
            yield self._together(waiting, new)

    def _together(self, rows: pa.RecordBatch, new: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        columns = pa.Table.from_batches(new).combine_chunks()
        if columns.num_rows != rows.num_rows:
            raise DamagedBlock(f"Spark returned {columns.num_rows:,} rows, expected {rows.num_rows:,}.")
        added = [columns[name].chunk(0) for name in self.names]
        return pa.RecordBatch.from_arrays([*rows.columns, *added], [*rows.schema.names, *self.names])
