"""Join of several views of one entity by one union and one window: one shuffle, and no fan-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.samples.views.as_of.hot_keys import HotKeys, carried, slice_of
from ctr_samples.samples.views.as_of.ranked_rows import (
    KEY,
    MOMENT,
    RANK,
    ROW,
    Join,
    by_rank,
    placed,
    view_struct,
    with_latest_snapshot,
)
from ctr_samples.sparksql.columns import same_key_type

ALONE, SLICE, IS_IMPRESSION, LEFT = "alone", "slice", "is_impression", "left"


def join_by_union(impressions: DataFrame, joins: Sequence[Join], hot: HotKeys | None = None) -> DataFrame:
    """Add a column per view to the impressions. All views are joined on the same key of the impressions.

    A row takes effect when both its clocks have passed. A running maximum then keeps the best row so far, so a late
    correction of an old fact never hides a newer fact. Spark buffers the rows of one key at a time, and spills to disk.
    The rows of a hot key are split into time slices, each of which begins with the best earlier row.
    """
    joins, left_key = _of_one_type(impressions, joins)
    how = joins[0].how
    snapshots = {i: f"_latest{i}" for i, join in enumerate(joins) if join.how.snapshot}
    left = impressions
    for i, name in snapshots.items():
        left = with_latest_snapshot(left, joins[i], name)
    both = _stacked(left, joins, left_key, hot)
    # If a view's rows are in order, the last row is the best; the rank decides among rows of one moment.
    ranks = [part for i, join in enumerate(joins) if join.how.in_order for part in by_rank(f"{RANK}{i}")]
    so_far = (
        Window.partitionBy(KEY, SLICE, ALONE)
        .orderBy(MOMENT, IS_IMPRESSION, *ranks)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    best = {f"best{i}": _best(i, join).over(so_far) for i, join in enumerate(joins)}
    joined = both.withColumns(best).where(IS_IMPRESSION)
    time = F.col(f"{LEFT}.{how.time}")
    views = [
        view_struct(join, f"best{i}", time, F.col(f"{LEFT}.{snapshots[i]}") if i in snapshots else None)
        for i, join in enumerate(joins)
    ]
    return joined.select(*[F.col(f"{LEFT}.`{c}`") for c in impressions.columns], *views)


def _best(i: int, join: Join) -> Column:
    return F.last(f"{ROW}{i}", ignorenulls=True) if join.how.in_order else F.max_by(f"{ROW}{i}", f"{RANK}{i}")


def _stacked(left: DataFrame, joins: Sequence[Join], left_key: Column, hot: HotKeys | None) -> DataFrame:
    """Stack impressions and the rows of all views in one frame. Columns that do not apply to a row are null."""
    how = joins[0].how
    struct = F.struct(*[F.col(f"`{c}`") for c in left.columns])
    left_type = left.select(struct.alias(LEFT)).schema[LEFT].dataType
    rows = [placed(join, F.col(KEY)) for join in joins]
    types = [(frame.schema[ROW].dataType, frame.schema[RANK].dataType) for frame in rows]

    def of_view(own: int) -> list[Column]:
        columns = []
        for i, (row, rank) in enumerate(types):
            columns += [
                (F.col(ROW) if i == own else F.lit(None).cast(row)).alias(f"{ROW}{i}"),
                (F.col(RANK) if i == own else F.lit(None).cast(rank)).alias(f"{RANK}{i}"),
            ]
        return columns

    frames = [
        left.select(
            left_key.alias(KEY),
            slice_of(hot, left_key, F.col(how.time)).alias(SLICE),
            # An impression without a key has no match. Its id spreads such impressions over many tasks.
            F.when(left_key.isNull(), F.col(how.id)).alias(ALONE),
            F.col(how.time).alias(MOMENT),
            F.lit(True).alias(IS_IMPRESSION),
            struct.alias(LEFT),
            *of_view(-1),
        )
    ]
    id_type = frames[0].schema[ALONE].dataType
    for i, frame in enumerate(rows):
        own = frame.withColumn(SLICE, slice_of(hot, F.col(KEY), F.col(MOMENT)))
        if hot is not None:
            own = own.unionByName(carried(frame, hot))
        frames.append(
            own.select(
                KEY,
                SLICE,
                F.lit(None).cast(id_type).alias(ALONE),
                MOMENT,
                F.lit(False).alias(IS_IMPRESSION),
                F.lit(None).cast(left_type).alias(LEFT),
                *of_view(i),
            )
        )
    return reduce(DataFrame.unionByName, frames)


def _of_one_type(impressions: DataFrame, joins: Sequence[Join]) -> tuple[list[Join], Column]:
    """Views with keys of one type, and the impressions' key in that type. Uses text if the types differ."""
    on = joins[0].how.on
    assert all(join.how.on == on for join in joins), "views of one union have one key"
    pairs = [same_key_type(impressions, on, join.features, KEY) for join in joins]
    kinds = {impressions.select(left).schema[0].dataType.simpleString() for left, _ in pairs}
    if len(kinds) == 1:
        return [_with_key(join, right) for join, (_, right) in zip(joins, pairs, strict=True)], pairs[0][0]
    as_text = [_with_key(join, F.col(KEY).cast("string")) for join in joins]
    return as_text, F.col(on).cast("string")


def _with_key(join: Join, key: Column) -> Join:
    return replace(join, features=join.features.withColumn(KEY, key))
