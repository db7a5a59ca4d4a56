"""Lists of the last actions of a user, or of another key, before each impression, newest first.

An action is visible to an impression iff ``time < impression_time``, ``time + available_after <= impression_time``,
``time >= impression_time - within``, and its request differs from the impression's request. Only the newest action on
each item counts, and the list keeps the ``last`` newest. Each impression always yields one output row.

Impressions and actions are brought together by key once. A compiled kernel builds the lists in one pass over the rows of a
partition, on executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, IntegerType, MapType, StructField, StructType

from ctr_samples.codec.layout import ACTION, FIRST_OF_KEY
from ctr_samples.codec.machine_code import kernels
from ctr_samples.config import History, Impressions
from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.blocks import PLACE, Item, SideTables
from ctr_samples.samples.columnar.columns import (
    Integers,
    batches,
    begins,
    codes_of,
    comparable,
    in_order,
    integers,
    ranks,
    spread,
    whole,
)
from ctr_samples.samples.columnar.stages import Stage, place_of
from ctr_samples.samples.impressions import matching_rows
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.as_of.joining import placed_by
from ctr_samples.sparksql.columns import content_hash, key_column, later, micros_of, time_column
from ctr_samples.sparksql.expressions import typed_expression

IMPRESSION = "impression"
KEY, TIME, ITEM, REQUEST, TIE = "_key", "_time", "_item", "_request", "_tie"
"""Internal columns of actions. No configured column name begins with an underscore."""
KNOWN = "_known"
"""Column of actions with `available_time`: when an action was known."""

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """The plan of a history. ``on`` is the impressions' join key; ``by_request`` is set if both sides have a request."""

    name: str
    last: int
    within: timedelta | None = None
    delay: timedelta = timedelta()
    by_request: bool = False
    columns: tuple[str, ...] = ()
    on: str = "user"
    room: int = 256
    """Minimum number of actions remembered per key before the kernel drops actions that no impression can need."""

    @property
    def wait(self) -> timedelta:
        """Return how long after an action an impression sees it, since it is past and known by then."""
        return max(self.delay, _MICROSECOND)


@dataclass(frozen=True, slots=True)
class AddLists:
    """Adds the struct of a history to impressions, whose actions are the table of ``number`` beside them."""

    plan: HistoryPlan
    number: int

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the impressions with ``items``, ``ages_s``, the plan's columns, ``length`` and ``matched``."""
        shown: list[pa.RecordBatch] = []
        for item in items:
            if isinstance(item, SideTables) and item.number == self.number:
                (actions,) = item.tables
            elif isinstance(item, pa.RecordBatch):
                shown.append(item)
            else:
                yield item
        if shown:
            rows = pa.Table.from_batches(shown)
            del shown
            lists = lists_of(whole(rows[IMPRESSION]), actions, self.plan)
            yield from batches(rows.append_column(self.plan.name, lists))


def lists_of(shown: pa.StructArray, actions: pa.Table, plan: HistoryPlan) -> pa.StructArray:
    """Return the struct of each impression.

    An impression sees an action from its moment on. Actions of one time come in the order of their items. Memory does
    not grow with the number of actions of a key.
    """
    times = integers(pc.struct_field(shown, "impression_time"))
    lengths, found = _last_actions(shown, times, actions, plan)
    ages = (np.repeat(times, lengths) - integers(actions[TIME])[found]) / 1e6
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())

    def taken(name: str) -> pa.Array:
        return whole(actions[name]).take(pa.array(found))

    values = {"items": taken(ITEM), "ages_s": pa.array(ages), **{name: taken(name) for name in plan.columns}}
    columns = {name: pa.ListArray.from_arrays(ends, some) for name, some in values.items()}
    columns |= {"length": pa.array(lengths, pa.int32()), "matched": pa.array(lengths > 0)}
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _last_actions(
    impressions: pa.StructArray, times: Integers, actions: pa.Table, plan: HistoryPlan
) -> tuple[Integers, Integers]:
    """Return the number of actions of each impression, and the actions of one impression after the other."""
    shown, keys, of_actions = len(times), pc.struct_field(impressions, plan.on), whole(actions[KEY])
    if keys.type != of_actions.type:
        keys, of_actions = keys.cast(pa.string()), of_actions.cast(pa.string())
    code = np.concatenate(codes_of(keys, of_actions))
    of_actions_from = integers(actions[TIME]) + micros_of(plan.wait)
    if KNOWN in actions.column_names:
        of_actions_from = np.maximum(of_actions_from, integers(actions[KNOWN]))
    moments = np.concatenate([times, of_actions_from])
    is_action = np.arange(len(code)) >= shown
    item = np.concatenate([np.zeros(shown, np.int64), ranks(actions[ITEM])])
    tie = np.concatenate([np.zeros(shown, np.int64), integers(actions[TIE])])
    # An impression without a key has no history.
    rows = np.flatnonzero(code >= 0)
    order = rows[in_order([column[rows] for column in (code, moments, ~is_action, item, tie)])]
    flags = np.where(is_action[order], np.uint8(ACTION), np.uint8(0))
    flags |= np.where(begins(code[order]), np.uint8(FIRST_OF_KEY), np.uint8(0))
    request = np.full(len(code), -1)
    if plan.by_request:
        requests = pc.struct_field(impressions, "request").cast(pa.string())
        request = np.concatenate(codes_of(requests, actions[REQUEST]))
    own_times = np.concatenate([times, integers(actions[TIME])])
    rank = np.arange(len(order))
    if KNOWN in actions.column_names:
        rank[in_order([column[order] for column in (own_times, item, tie)])] = np.arange(len(order))
    lengths, found = _in_one_pass(flags, item[order], request[order], own_times[order], rank, plan)
    return _per_impression(lengths, order[found] - shown, order[~is_action[order]], shown)


def _in_one_pass(
    flags: Integers, items: Integers, requests: Integers, times: Integers, rank: Integers, plan: HistoryPlan
) -> tuple[Integers, Integers]:
    """Return the number of actions of each impression among sorted rows, and the rows of these actions."""
    impressions = int((flags & ACTION == 0).sum())
    room = max(plan.room, 2 * plan.last + 1)
    kept, marks, stamps, lengths, found = (
        np.zeros(size, np.int64)
        for size in (room + plan.last, room + 1, items.max(initial=0) + 1, impressions, impressions * plan.last)
    )
    within = -1 if plan.within is None else micros_of(plan.within)
    columns = [np.ascontiguousarray(column) for column in (flags, items, requests, times, rank)]
    work = [array.ctypes.data for array in (kept, marks, stamps, lengths, found)]
    total = kernels().last_actions(len(flags), *[c.ctypes.data for c in columns], plan.last, within, room, *work)
    return lengths, found[:total]


def _per_impression(
    lengths: Integers, actions: Integers, impressions: Integers, shown: int
) -> tuple[Integers, Integers]:
    """Bring lists of sorted impressions into the order of all impressions, of which some may be absent."""
    starts = np.zeros(shown, np.int64)
    every = np.zeros(shown, np.int64)
    starts[impressions], every[impressions] = np.cumsum(lengths) - lengths, lengths
    return every, actions[spread(starts, every)]


def actions_of_history(source: DataFrame, name: str, history: History, span: Span) -> DataFrame:
    """Return the actions visible to any impression of the day.

    The columns are ``_key``, ``_time``, ``_item``, ``_request``, with `available_time` also ``_known``, and the history's
    own columns. ``history`` already contains the values inherited from ``impressions``.
    """
    where = f"histories.{name}"
    key, time, item = history.key or history.user or "", history.time or "", history.item or ""
    request = F.lit(None) if history.request is None else key_column(source, history.request, f"{where}.request")
    clocks = [time_column(source, time, f"{where}.time").alias(TIME)]
    if history.available_time is not None:
        clocks.append(time_column(source, history.available_time, f"{where}.available_time").alias(KNOWN))
    rows = matching_rows(source, history.where, f"{where}.where").select(
        key_column(source, key, f"{where}.{'user' if history.user else 'key'}").alias(KEY),
        *clocks,
        key_column(source, item, f"{where}.item").alias(ITEM),
        request.cast("string").alias(REQUEST),
        *[_single(source, text, f"{where}.columns.{column}").alias(column) for column, text in history.columns.items()],
    )
    rows = rows.where(F.col(KEY).isNotNull() & F.col(ITEM).isNotNull())
    return in_sight(rows.where(F.col(KNOWN).isNotNull()) if KNOWN in rows.columns else rows, history, span)


def in_sight(actions: DataFrame, history: History, span: Span) -> DataFrame:
    """Keep the actions visible to any impression of the day."""
    known = F.col(KNOWN) if KNOWN in actions.columns else later(F.col(TIME), history.delay)
    near = actions.where(span.knows(known, span.is_before_end(F.col(TIME))))
    return near if history.within is None else near.where(span.goes_back(F.col(TIME), history.within))


def history_plan(name: str, history: History, shown: Impressions) -> HistoryPlan:
    """Return the plan for a history that already contains its inherited values."""
    by_request = history.request is not None and shown.request is not None
    return HistoryPlan(
        name, history.last, history.within, history.delay, by_request, tuple(history.columns), on=history.on
    )


def moment(actions: DataFrame, plan: HistoryPlan) -> Column:
    """Return the earliest instant at which an action is both past and known. Timestamps have microsecond resolution."""
    past = later(F.col(TIME), plan.wait)
    return F.greatest(past, F.col(KNOWN)) if KNOWN in actions.columns else past


def join_history(left: Stage, actions: DataFrame, plan: HistoryPlan, partitions: int) -> Stage:
    """Add a struct to impressions: lists ``items``, ``ages_s`` and the plan's columns, plus ``length`` and ``matched``. Lazy.

    ``left`` has a struct ``impression``. ``actions`` come from :func:`actions_of_history`. One shuffle of both.
    """
    ready = actions.withColumns({TIE: content_hash(actions), PLACE: place_of([F.col(KEY)])})
    return with_history(left, Stage.of(ready), plan, partitions)


def with_history(left: Stage, actions: Stage, plan: HistoryPlan, partitions: int) -> Stage:
    """Add the struct of :func:`join_history`, given actions with their hashes and places."""
    kind = StructType([*left.kind, StructField(plan.name, history_type(actions.kind, plan))])
    left = placed_by(left, (plan.on,), partitions, "histories")
    return left.then_with([actions], partial(AddLists, plan), kind)


def history_type(actions: StructType, plan: HistoryPlan) -> StructType:
    """Return the type of the struct that :func:`join_history` adds, without planning the join."""
    lists = {"items": actions[ITEM].dataType, "ages_s": DoubleType()}
    lists |= {column: actions[column].dataType for column in plan.columns}
    kind = StructType([StructField(name, ArrayType(item)) for name, item in lists.items()])
    return kind.add("length", IntegerType()).add("matched", BooleanType())


def _single(source: DataFrame, text: str, where: str) -> Column:
    column, kind = typed_expression(source, text, where)
    if isinstance(kind, ArrayType | MapType | StructType):
        raise InputError(f"{where}: {text} is {kind.simpleString()}, expected one value for each action.")
    return column


_UNKNOWN = "not known when the day ends"


def newest_first(actions: DataFrame, plan: HistoryPlan, end: datetime, partitions: int) -> DataFrame:
    """Sort a day's actions for :func:`needed_of`, each key within one partition. The day ends at ``end``."""
    known = moment(actions, plan)
    order = [F.col(TIME).desc(), F.col(ITEM).desc(), content_hash(actions).desc()]
    sorted_rows = actions.repartition(partitions, KEY).sortWithinPartitions(KEY, *order)
    return sorted_rows.withColumn(_UNKNOWN, known > F.lit(end))


def needed_of(batches: Iterable[pa.RecordBatch], plan: HistoryPlan) -> Iterator[pa.RecordBatch]:
    """Yield the needed actions of sorted batches. Memory per key does not grow with its number of actions."""
    key, seen = None, Seen(plan.last)
    for batch in batches:
        columns = [comparable(batch.column(name)).to_pylist() for name in (KEY, ITEM, REQUEST, _UNKNOWN)]
        needed = []
        for own, item, request, unknown in zip(*columns, strict=True):
            if own != key:
                key, seen = own, Seen(plan.last)
            needed.append(unknown or seen.needs(item, request if plan.by_request else None))
        yield batch.drop_columns([_UNKNOWN]).filter(pa.array(needed, pa.bool_()))


@dataclass(slots=True)
class Seen:
    """The actions of one key found to be needed so far, newest first, which decide whether the next action is needed."""

    last: int
    items: dict[Any, Any] = field(default_factory=dict)
    """Request shared by all actions of each item, or None."""
    short: dict[Any, int] = field(default_factory=dict)
    """Requests whose removal leaves fewer than ``last`` items, each with the number of items lost."""

    def needs(self, item: Any, request: Any) -> bool:
        """Return whether a later impression may need the next action."""
        if item in self.items:
            return self._substitutes(item, request)
        if len(self.items) >= self.last and all(other == request for other in self.short):
            return False
        self.items[item] = request
        if request is not None:
            self.short[request] = self.short.get(request, 0) + 1
        self._fill()
        return True

    def _substitutes(self, item: Any, request: Any) -> bool:
        """Return whether this older action restores an item that would be lost if its request were excluded."""
        own = self.items[item]
        if own == request or own not in self.short:
            return False
        self.items[item] = None
        self.short[own] -= 1
        self._fill()
        return True

    def _fill(self) -> None:
        """Drop requests whose removal leaves at least ``last`` items."""
        spare = len(self.items) - self.last
        if spare >= 0:
            self.short = {request: gone for request, gone in self.short.items() if gone > spare}
