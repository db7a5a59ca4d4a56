"""The last actions of a user, or of another key, before each impression, newest first, as lists.

An action is visible to an impression iff ``time < impression_time``, ``time + available_after <= impression_time`` and
``time >= impression_time - within``, and if it is not of the impression's own request. Of the actions on one item only the
newest counts; the ``last`` newest of these remain. One row out for each impression in, always.

No list of all actions of a key is ever made. They are cut into chunks by number; an impression looks at the actions of its
chunk and at what is carried from the chunks before (``chunks.py``), however many there are.
"""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
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
from ctr_samples.samples.histories.chunks import (
    ALONE,
    CHUNK,
    ITEM,
    KEY,
    REQUEST,
    TIE,
    TIME,
    HistoryPlan,
    carries,
    newest,
)
from ctr_samples.samples.impressions import matching_rows
from ctr_samples.samples.period import Day
from ctr_samples.sparksql.columns import content_hash, key_column, later, same_key_type, time_column
from ctr_samples.sparksql.expressions import typed_expression

_CARRY, _ACTION, _IMPRESSION = -1, 0, 1
_MICROSECOND = timedelta(microseconds=1)


def actions_of_history(source: DataFrame, name: str, history: History, day: Day) -> DataFrame:
    """The actions that some impression of the day can see: ``_key``, ``time``, ``item``, ``request`` and the further columns.

    ``history`` has what it inherits from ``impressions`` filled in.
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
    return in_sight(rows.where(F.col(KEY).isNotNull() & F.col(ITEM).isNotNull()), history, day)


def in_sight(actions: DataFrame, history: History, day: Day) -> DataFrame:
    """Those of some actions that an impression of the day can see."""
    near = actions.where(day.knows(later(F.col(TIME), history.delay), day.is_before_end(F.col(TIME))))
    return near if history.within is None else near.where(day.goes_back(F.col(TIME), history.within))


def history_plan(name: str, history: History, shown: Impressions) -> HistoryPlan:
    """How a history is built; it has what it inherits filled in."""
    by_request = history.request is not None and shown.request is not None
    return HistoryPlan(
        name, history.last, history.within, history.delay, by_request, tuple(history.columns), on=history.on
    )


def moment(plan: HistoryPlan) -> Column:
    """The first instant at which an action is past and known: a microsecond is the resolution of a timestamp."""
    return later(F.col(TIME), max(plan.delay, _MICROSECOND))


def join_history(impressions: DataFrame, actions: DataFrame, plan: HistoryPlan, again: DataFrame) -> DataFrame:
    """Impressions with a struct of lists: ``items``, ``ages_s`` and the further columns; and ``length`` and ``matched``.

    ``impressions`` has a struct ``impression``; ``actions`` are those of :func:`actions_of_history`, and ``again`` the same
    once more, from a source that nobody counts. The impressions are shuffled once.
    """
    own_key, action_key = same_key_type(impressions, f"impression.{plan.on}", actions, KEY)
    first, second = (_entries(frame.withColumn(KEY, action_key), plan) for frame in (actions, again))
    rows = _stacked(impressions, own_key, first, carries(second, plan))
    of_key = Window.partitionBy(KEY, ALONE).orderBy("moment", "kind", ITEM, TIE)
    number = F.count("entry").over(of_key.rowsBetween(Window.unboundedPreceding, 0))
    chunk = F.coalesce(CHUNK, F.greatest(F.lit(0), F.floor((number - 1) / plan.chunk)))
    so_far = (
        Window.partitionBy(KEY, ALONE, "in_chunk")
        .orderBy("moment", "kind", ITEM, TIE)
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    seen = (
        rows.withColumn("in_chunk", chunk)
        .withColumns(
            {
                "recent": F.collect_list("entry").over(so_far),
                "older": F.first("carry", ignorenulls=True).over(so_far),
            }
        )
        .where(F.col("kind") == _IMPRESSION)
    )
    known = F.concat(F.reverse("recent"), F.coalesce("older", F.array().cast(rows.schema["carry"].dataType)))
    request = F.col("shown.impression.request").cast("string") if plan.by_request else None
    listed = seen.select("shown", known.alias("known")).withColumn("listed", newest("known", plan, request))
    return listed.select(
        *[F.col(f"shown.`{c}`") for c in impressions.columns],
        _history_struct(F.col("listed"), F.col("shown.impression.impression_time"), plan),
    )


def history_type(actions: DataFrame, plan: HistoryPlan) -> StructType:
    """The type of the struct that :func:`join_history` adds, known before anything is joined."""
    lists = {"items": actions.schema[ITEM].dataType, "ages_s": DoubleType()}
    lists |= {column: actions.schema[column].dataType for column in plan.columns}
    kind = StructType([StructField(name, ArrayType(item)) for name, item in lists.items()])
    return kind.add("length", IntegerType()).add("matched", BooleanType())


def _entries(actions: DataFrame, plan: HistoryPlan) -> DataFrame:
    """Actions with the columns that order them (``_key``, ``moment``, ``item``, ``tie``), and the rest of each as a struct."""
    kept = [ITEM, TIME, *([REQUEST] if plan.by_request else []), *plan.columns]
    return actions.select(
        KEY, moment(plan).alias("moment"), ITEM, content_hash(actions).alias(TIE), F.struct(*kept).alias("entry")
    )


def _stacked(impressions: DataFrame, key: Column, entries: DataFrame, carried: DataFrame) -> DataFrame:
    """Impressions, actions and carries of chunks, stacked in one frame; the columns of the other kinds are null."""
    shown = F.struct(*[F.col(f"`{c}`") for c in impressions.columns])
    kinds: dict[str, DataType | str] = {
        KEY: entries.schema[KEY].dataType,
        ALONE: "bigint",
        "moment": "timestamp",
        ITEM: entries.schema[ITEM].dataType,
        TIE: "bigint",
        "entry": entries.schema["entry"].dataType,
        CHUNK: "bigint",
        "carry": ArrayType(entries.schema["entry"].dataType),
        "shown": impressions.select(shown.alias("shown")).schema["shown"].dataType,
    }

    def rows(frame: DataFrame, kind: int, **own: Column) -> DataFrame:
        columns = [own.get(name, F.lit(None)).cast(type_).alias(name) for name, type_ in kinds.items()]
        return frame.select(F.lit(kind).alias("kind"), *columns)

    time, number = F.col("impression.impression_time"), F.col("impression.impression_id")
    # An impression without the key has no history; alone, it does not gather with the others on one task.
    alone = F.when(key.isNull(), number)
    entry = {name: F.col(name) for name in (KEY, "moment", ITEM, TIE, "entry")}
    return (
        rows(impressions, _IMPRESSION, _key=key, alone=alone, moment=time, tie=number, shown=shown)
        .unionByName(rows(entries, _ACTION, **entry))
        .unionByName(rows(carried, _CARRY, _key=F.col(KEY), chunk=F.col(CHUNK), carry=F.col("carry")))
    )


def _history_struct(listed: Column, time: Column, plan: HistoryPlan) -> Column:
    """The lists of one impression. Newest first, those too old are at the end, so none that is young enough is missing."""
    fresh = listed
    if plan.within is not None:
        oldest = later(time, -plan.within)
        fresh = F.filter(listed, lambda action: action[TIME] >= oldest)
    ages = F.transform(fresh, lambda action: (F.unix_micros(time) - F.unix_micros(action[TIME])) / F.lit(1e6))
    return F.struct(
        fresh[ITEM].alias("items"),
        ages.alias("ages_s"),
        *[fresh[column].alias(column) for column in plan.columns],
        F.size(fresh).alias("length"),
        (F.size(fresh) > 0).alias("matched"),
    ).alias(plan.name)


def _single(source: DataFrame, text: str, where: str) -> Column:
    column, kind = typed_expression(source, text, where)
    if isinstance(kind, ArrayType | MapType | StructType):
        raise InputError(f"{where}: {text} is {kind.simpleString()}, expected one value for each action.")
    return column
