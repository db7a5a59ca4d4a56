"""Rows that end: a table with ``valid_to``, split so that only one row per key is visible at a time.

The best visible row may end before a row that it hid. So the best row so far may be wrong, and overlapping rows are
split at each instant at which the best row changes. Rows without an overlap pass unchanged; in a well-kept table, no
rows overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from ctr_samples.samples.views.as_of.ranked_rows import (
    AVAILABLE_TIME,
    EVENT_TIME,
    GONE,
    KEY,
    PAYLOAD,
    RANK,
    UNTIL,
    AsOf,
    by_rank,
    effective_from,
    effective_until,
    rank_of,
)
from ctr_samples.sparksql.workers import python_values

OVERLAPS = "overlaps"
"""Column of :func:`in_sight`: whether an earlier row of the same key was visible when the row became visible."""

_FROM, _TO, _MEETS, _NUMBER, _ROW = "_from", "_to", "_meets", "_number", "_row"
_FOREVER = 2**63 - 1
_BATCH = 10_000


def cut(features: DataFrame, how: AsOf) -> DataFrame:
    """Return the rows of a table with ends, ready to join."""
    return disjoint(in_sight(features, how))


def in_sight(features: DataFrame, how: AsOf) -> DataFrame:
    """Return the rows that are visible at some time, each with :data:`OVERLAPS`, for :func:`disjoint`."""
    end = F.coalesce(F.unix_micros(effective_until(how)), F.lit(_FOREVER))
    columns = [F.col(c) for c in (KEY, EVENT_TIME, GONE, PAYLOAD) if c in features.columns]
    placed = features.select(
        KEY,
        F.unix_micros(effective_from(how)).alias(_FROM),
        end.alias(_TO),
        # One column, so that both branches of `disjoint` read the same input, and Spark reads and shuffles the rows
        # once.
        F.struct(*columns, rank_of(features).alias(RANK)).alias(_ROW),
    ).where(F.col(_FROM) < F.col(_TO))
    by_time = Window.partitionBy(KEY).orderBy(_FROM, *by_rank(f"{_ROW}.{RANK}"))
    ended_before = F.max(_TO).over(by_time.rowsBetween(Window.unboundedPreceding, -1))
    overlaps = F.coalesce(ended_before > F.col(_FROM), F.lit(False))
    is_overlapped = F.coalesce(F.lead(_FROM).over(by_time) < F.col(_TO), F.lit(False))
    return placed.select("*", overlaps.alias(OVERLAPS), (overlaps | is_overlapped).alias(_MEETS))


def disjoint(rows: DataFrame) -> DataFrame:
    """Add ``until`` to rows of :func:`in_sight`, each visible from its ``available_time`` on.

    A row that is hidden and later visible again becomes two rows.
    """
    number = F.row_number().over(Window.partitionBy(KEY).orderBy(*by_rank(f"{_ROW}.{RANK}")))
    meeting = rows.where(_MEETS).select(KEY, _FROM, _TO, number.alias(_NUMBER), _ROW).sortWithinPartitions(KEY, _FROM)
    schema = StructType().add(_ROW, rows.schema[_ROW].dataType).add(_FROM, LongType()).add(_TO, LongType())
    alone = rows.where(~F.col(_MEETS)).select(_ROW, _FROM, _TO)
    pieces = alone.unionByName(meeting.mapInArrow(_pieces_of_batches, schema))
    seen_from, until = F.timestamp_micros(_FROM), F.when(F.col(_TO) < _FOREVER, F.timestamp_micros(_TO))
    return pieces.select(f"{_ROW}.*", seen_from.alias(AVAILABLE_TIME), until.alias(UNTIL)).drop(RANK)


def _pieces_of_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split the rows of a partition, sorted by key and start of visibility. Runs on executors, once per partition."""
    pieces = pieces_of(_rows_of(batches))
    while some := list(islice(pieces, _BATCH)):
        kept, starts, ends = zip(*some, strict=True)
        columns = [pa.concat_arrays(kept), pa.array(starts, pa.int64()), pa.array(ends, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, [_ROW, _FROM, _TO])


def _rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, int, int, int, pa.Array]]:
    for batch in batches:
        numbers = [python_values(batch.column(name)) for name in (KEY, _FROM, _TO, _NUMBER)]
        kept = batch.column(_ROW)
        for i, (key, start, end, number) in enumerate(zip(*numbers, strict=True)):
            yield key, start, end, number, kept.slice(i, 1)


def pieces_of(rows: Iterator[tuple[Any, int, int, int, Any]]) -> Iterator[tuple[Any, int, int]]:
    """Split rows (key, start, end, number, what), sorted by key and start, into disjoint pieces (what, start, end).

    At each instant, the row with the greatest ``number`` is chosen among the rows with ``start <= instant < end``.
    Memory holds the simultaneously visible rows of one key.
    """
    for _, of_key in groupby(rows, key=itemgetter(0)):
        visible: list[tuple[int, int, Any]] = []  # a heap: the greatest number first
        now = 0
        for _, start, end, number, what in chain(of_key, [(None, _FOREVER, _FOREVER, 0, None)]):
            while visible and now < start:
                _, until, best = visible[0]
                stop = min(until, start)
                if now < stop:
                    yield best, now, stop
                    now = stop
                if until <= start:
                    heappop(visible)
            now = start
            heappush(visible, (-number, end, what))
