"""Columns that Spark computes from some columns of a stage, while the other columns wait aside as one block.

Of a run of rows that share fields, such as those of a user, these fields are handed to Spark once, beside a list with the
other fields of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, StructField, StructType

from ctr_samples.samples.columnar.blocks import DamagedBlock, Item, bytes_of_rows, rows_of
from ctr_samples.samples.columnar.columns import Flags, Integers, begins, bytes_of_lists, integers, plain
from ctr_samples.samples.columnar.stages import Fields, Stage, TaskCounts, narrowed, with_fields
from ctr_samples.sparksql.columns import quoted

_REST, _EACH, _ONCE = "_rest", "_each", "_once "
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
    every = narrowed(StructType([stage.kind[name] for name in needed]), needed)
    own = {one.name: [n for n in _fields(one) if n not in stage.shared.get(one.name, ())] for one in every}
    carried = narrowed(every, own).add(_REST, BinaryType())
    if stage.shared:
        each = StructField(_EACH, ArrayType(carried, False), False)
        carried = StructType([*narrowed(StructType([every[name] for name in stage.shared]), stage.shared), each])
    handed = replace(stage, shared={}).then(_SetAside(own, kept, stage.shared), carried).rows(counted)
    frame = add(_rows_of_runs(handed, every, stage.shared) if stage.shared else handed).select(_REST, *names)
    kind = StructType([*stage.with_fields(kept).kind, *[frame.schema[name] for name in names]])
    return Stage(frame, kind, (_TakeUp(tuple(names)),))


def _fields(column: StructField) -> list[str]:
    assert isinstance(column.dataType, StructType)
    return column.dataType.names


def _rows_of_runs(runs: DataFrame, kinds: StructType, shared: Mapping[str, Collection[str]]) -> DataFrame:
    """Return a row for each row of the runs, with structs of the types ``kinds``. Lazy."""
    once = [F.col(quoted(name)).alias(f"{_ONCE}{name}") for name in shared]
    rows = runs.select(*once, F.inline(_EACH))

    def whole(column: StructField) -> Column:
        name, of_run = column.name, shared.get(column.name, ())
        if not of_run:
            return F.col(quoted(name))
        places = {one: f"{_ONCE}{name}" if one in of_run else name for one in _fields(column)}
        return F.struct(*[F.col(quoted(place))[one].alias(one) for one, place in places.items()]).alias(name)

    return rows.select(*[whole(column) for column in kinds], _REST)


@dataclass(frozen=True, slots=True)
class _SetAside:
    """Yields the needed columns, and all rows of a batch as a block beside its first row. Runs on executors.

    ``own`` has the needed fields that are not ``shared``. With shared fields, yields a row for each run of rows.
    """

    own: Fields
    kept: Fields
    shared: Mapping[str, Collection[str]] = field(default_factory=dict)

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if not isinstance(item, pa.RecordBatch):
                yield item
                continue
            for rows in self._pieces(item):
                yield self._runs(rows) if self.shared else self._carrier(rows)

    def _pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Cut rows by the size of what is handed over."""
        shared = self._numbers(rows)
        own = rows.nbytes - sum(column.dictionary.nbytes for column in shared)
        sizes = np.full(rows.num_rows, own / max(1, rows.num_rows))
        starts = self._starts(rows)
        for column in shared:
            sizes[starts] += bytes_of_lists(column.dictionary)[integers(column.indices)[starts]]
        ends, start = np.cumsum(sizes), 0
        while start < rows.num_rows:
            fits = int(np.searchsorted(ends, ends[start] - sizes[start] + _BYTES, side="right")) - start
            count = max(1, min(fits, _ROWS))
            yield rows.slice(start, count)
            start += count

    def _numbers(self, rows: pa.RecordBatch) -> list[pa.DictionaryArray]:
        """Return the shared fields."""
        return [pc.struct_field(rows.column(name), [one]) for name, fields in self.shared.items() for one in fields]

    def _starts(self, rows: pa.RecordBatch) -> Integers:
        """Return where the runs of rows that share all shared fields begin."""
        first: Flags = np.zeros(rows.num_rows, np.bool_)
        for column in self._numbers(rows):
            first |= begins(integers(column.indices))
        return np.flatnonzero(first)

    def _runs(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the shared fields of each run of rows, and the list of what its rows have of their own."""
        starts = self._starts(rows)
        once = plain(with_fields(rows.select([*self.shared]), self.shared).take(pa.array(starts)))
        each = self._carrier(rows).to_struct_array()
        ends = pa.array(np.append(starts, rows.num_rows).astype(np.int32))
        return once.append_column(_EACH, pa.ListArray.from_arrays(ends, each))

    def _carrier(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = with_fields(rows.select([*self.own]), self.own)
        block = bytes_of_rows(plain(with_fields(rows, self.kept)))
        ends = np.full(rows.num_rows + 1, block.size, np.int32)
        ends[0] = 0
        is_first = pa.array(np.arange(rows.num_rows) == 0).buffers()[1]  # the other rows are null
        rest = pa.BinaryArray.from_buffers(pa.binary(), rows.num_rows, [is_first, pa.py_buffer(ends), block])
        # Rows that share all that is needed have no column of their own.
        return pa.RecordBatch.from_arrays([*columns.columns, rest], [*columns.schema.names, _REST])


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
