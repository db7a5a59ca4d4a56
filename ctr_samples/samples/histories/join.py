"""Lists of the last actions of a user, or of another key, before each impression, newest first.

An action is visible to an impression iff ``time < impression_time``, ``time + available_after <= impression_time``,
``time >= impression_time - within``, and its request differs from the impression's request. Only the newest action on
each item counts, and the list keeps the ``last`` newest. Each impression always yields one output row.

Impressions and actions are shuffled by key and sorted by time once. ``lists.py`` builds the lists in that pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    MapType,
    StructField,
    StructType,
)

from ctr_samples.config import History, Impressions
from ctr_samples.errors import InputError
from ctr_samples.samples.histories.lists import ALONE, ITEM, KEY, REQUEST, SHOWN, TIE, TIME, HistoryPlan, with_lists
from ctr_samples.samples.impressions import matching_rows
from ctr_samples.samples.period import Span
from ctr_samples.sparksql.columns import content_hash, key_column, later, same_key_type, time_column
from ctr_samples.sparksql.expressions import typed_expression
from ctr_samples.sparksql.releases import arrow_schema

_ACTION, _IMPRESSION = 0, 1
_MOMENT, _KIND = "_moment", "_kind"
_ORDER = (_MOMENT, _KIND, ITEM, TIE)
_MICROSECOND = timedelta(microseconds=1)


def actions_of_history(source: DataFrame, name: str, history: History, span: Span) -> DataFrame:
    """Return the actions visible to any impression of the day.

    The columns are ``_key``, ``_time``, ``_item``, ``_request`` and the history's own columns. ``history`` already
    contains the values inherited from ``impressions``.
    """
    where = f"histories.{name}"
    key, time, item = history.key or history.user or "", history.time or "", history.item or ""
    request = F.lit(None) if history.request is None else key_column(source, history.request, f"{where}.request")
    rows = matching_rows(source, history.where, f"{where}.where").select(
        key_column(source, key, f"{where}.{'user' if history.user else 'key'}").alias(KEY),
        time_column(source, time, f"{where}.time").alias(TIME),
        key_column(source, item, f"{where}.item").alias(ITEM),
        request.cast("string").alias(REQUEST),
        *[_single(source, text, f"{where}.columns.{column}").alias(column) for column, text in history.columns.items()],
    )
    return in_sight(rows.where(F.col(KEY).isNotNull() & F.col(ITEM).isNotNull()), history, span)


def in_sight(actions: DataFrame, history: History, span: Span) -> DataFrame:
    """Keep the actions visible to any impression of the day."""
    near = actions.where(span.knows(later(F.col(TIME), history.delay), span.is_before_end(F.col(TIME))))
    return near if history.within is None else near.where(span.goes_back(F.col(TIME), history.within))


def history_plan(name: str, history: History, shown: Impressions) -> HistoryPlan:
    """Return the plan for a history that already contains its inherited values."""
    by_request = history.request is not None and shown.request is not None
    return HistoryPlan(
        name, history.last, history.within, history.delay, by_request, tuple(history.columns), on=history.on
    )


def moment(plan: HistoryPlan) -> Column:
    """Return the earliest instant at which an action is both past and known. Timestamps have microsecond resolution."""
    return later(F.col(TIME), max(plan.delay, _MICROSECOND))


def join_history(impressions: DataFrame, actions: DataFrame, plan: HistoryPlan) -> DataFrame:
    """Add a struct to impressions: lists ``items``, ``ages_s`` and the plan's columns, plus ``length`` and
    ``matched``.

    ``impressions`` has a struct ``impression``. ``actions`` come from :func:`actions_of_history`. Both are shuffled
    once.
    """
    _refuse_intervals(impressions, plan.name)
    own_key, action_key = same_key_type(impressions, f"impression.{plan.on}", actions, KEY)
    rows = _stacked(impressions, own_key, actions.withColumn(KEY, action_key), plan)
    in_order = rows.repartition(KEY, ALONE).sortWithinPartitions(KEY, ALONE, *_ORDER).drop(ALONE, _MOMENT, _KIND, TIE)
    kind = StructType([*impressions.schema, StructField(plan.name, history_type(actions, plan))])
    return in_order.mapInArrow(partial(with_lists, plan=plan), kind)


def _refuse_intervals(impressions: DataFrame, name: str) -> None:
    """Raise InputError for a column, or a field of a struct column, that Spark cannot pass to Python."""
    for column in impressions.schema:
        for field in column.dataType if isinstance(column.dataType, StructType) else [column]:
            try:
                arrow_schema(StructType([field]))
            except PySparkTypeError:
                kind = field.dataType.simpleString()
                raise InputError(
                    f"histories.{name}: the impressions' column {field.name} is {kind}, which Spark cannot hand over to "
                    "Python; leave it out, or cast it, for example to text."
                ) from None


def history_type(actions: DataFrame, plan: HistoryPlan) -> StructType:
    """Return the type of the struct that :func:`join_history` adds, without planning the join."""
    lists = {"items": actions.schema[ITEM].dataType, "ages_s": DoubleType()}
    lists |= {column: actions.schema[column].dataType for column in plan.columns}
    kind = StructType([StructField(name, ArrayType(item)) for name, item in lists.items()])
    return kind.add("length", IntegerType()).add("matched", BooleanType())


def _stacked(impressions: DataFrame, key: Column, actions: DataFrame, plan: HistoryPlan) -> DataFrame:
    """Stack impressions and actions in one frame. Impression columns are null for actions, and vice versa."""
    shown = F.struct(*[F.col(f"`{c}`") for c in impressions.columns])
    kinds: dict[str, DataType | str] = {
        KEY: actions.schema[KEY].dataType,
        ALONE: "bigint",
        _MOMENT: "timestamp",
        _KIND: "int",
        TIE: "bigint",
        TIME: "timestamp",
        ITEM: actions.schema[ITEM].dataType,
        REQUEST: "string",
        **{column: actions.schema[column].dataType for column in plan.columns},
        SHOWN: impressions.select(shown.alias(SHOWN)).schema[SHOWN].dataType,
    }

    def rows(frame: DataFrame, own: Mapping[str, Column]) -> DataFrame:
        return frame.select([own.get(name, F.lit(None)).cast(type_).alias(name) for name, type_ in kinds.items()])

    time, number = F.col("impression.impression_time"), F.col("impression.impression_id")
    request = {REQUEST: F.col("impression.request")} if plan.by_request else {}
    # An impression without the key has no history. Its id spreads such impressions over many tasks.
    alone = F.when(key.isNull(), number)
    placed = {KEY: key, ALONE: alone, _MOMENT: time, _KIND: F.lit(_IMPRESSION), TIE: number, TIME: time, SHOWN: shown}
    known = {_MOMENT: moment(plan), _KIND: F.lit(_ACTION), TIE: content_hash(actions)}
    own = {name: F.col(name) for name in (KEY, TIME, ITEM, REQUEST, *plan.columns)}
    return rows(impressions, {**placed, **request}).unionByName(rows(actions, {**known, **own}))


def _single(source: DataFrame, text: str, where: str) -> Column:
    column, kind = typed_expression(source, text, where)
    if isinstance(kind, ArrayType | MapType | StructType):
        raise InputError(f"{where}: {text} is {kind.simpleString()}, expected one value for each action.")
    return column
