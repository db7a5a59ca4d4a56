"""Stages of literal rows in this process: the tasks, blocks and steps of a run, without Spark.

``ran(stage_of(table("id bigint, at timestamp", [(1, "2019-06-05 10:00:00")])))`` returns the rows and what was counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema

from ctr_samples.samples.columnar.blocks import KEY, Counts, Item, Scatter, keys_of
from ctr_samples.samples.columnar.columns import Integers, place_of_texts
from ctr_samples.samples.columnar.stages import Shuffle, Stage, Step

TIME = pa.timestamp("us", "UTC")
KINDS = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "timestamp": TIME,
}


def table(schema: str, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Literal rows, as in ``table("user string, at timestamp", [("u1", "2019-06-05 10:00:00")])``: times in UTC, as text."""
    names, kinds = zip(*(field.split() for field in schema.split(",")), strict=True)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return pa.table([_column(list(of), kind) for of, kind in zip(columns, kinds, strict=True)], names)


def _column(values: list[Any], kind: str) -> pa.Array:
    if kind == "timestamp" and any(isinstance(value, str) for value in values):
        return pa.array(values, pa.string()).cast(pa.timestamp("us")).cast(TIME)
    return pa.array(values, KINDS[kind])


def hashed(*columns: pa.ChunkedArray) -> Integers:
    """A number for equal values, for what Spark's hash of a row decides."""
    return place_of_texts([pa.array([repr(value) for value in column.to_pylist()]) for column in columns])


def stage_of(rows: pa.Table) -> Stage:
    """The rows of a table, which two tasks read."""
    return Stage(rows, from_arrow_schema(rows.schema))


def ran(stage: Stage) -> tuple[list[Row], Counts]:
    """The rows of a stage, and what all its tasks counted."""
    counts, rows = Counts(), []
    for item in chain.from_iterable(_tasks(stage, iter)):
        if isinstance(item, Counts):
            counts.include(item)
        else:
            rows += [_in_python(row, pa.struct(item.schema)) for row in item.to_pylist()]
    return rows, counts


def parts(stage: Stage) -> list[list[Row]]:
    """The rows of each partition of a stage."""
    every = [[item for item in items if isinstance(item, pa.RecordBatch)] for items in _tasks(stage, iter)]
    return [[_in_python(row, pa.struct(item.schema)) for item in some for row in item.to_pylist()] for some in every]


def _tasks(stage: Stage, last: Step) -> list[list[Item]]:
    """What each task of a stage yields after its last step."""
    run = stage.task(last)
    if not isinstance(stage.source, Shuffle):
        half = (stage.source.num_rows + 1) // 2
        read = stage.source.slice(0, half), stage.source.slice(half)
        return [list(run(iter(part.combine_chunks().to_batches()))) for part in read]
    shuffle, blocks = stage.source, defaultdict(list)
    for number, (of, place) in enumerate(zip(shuffle.stages, shuffle.places, strict=True)):
        for batch in chain.from_iterable(_tasks(of, Scatter(number, shuffle.partitions, place))):
            for row, key in enumerate(batch.column(KEY).to_pylist()):
                blocks[key].append(batch.slice(row, 1))
    return [list(run(iter(blocks[key]))) for key in keys_of(shuffle.partitions)]


def _in_python(value: Any, kind: pa.DataType) -> Any:
    """A value as Spark's ``collect`` returns it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return Row(**{field.name: _in_python(value[field.name], field.type) for field in kind})
    if pa.types.is_list(kind):
        return [_in_python(one, kind.value_type) for one in value]
    return dict(value) if pa.types.is_map(kind) else value
