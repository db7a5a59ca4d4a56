"""Carries actions from one chunk of a key's actions to the next, so that a history never lists all of them.

Of all actions before a chunk the history of an impression can hold only the newest ``last`` items; and, since it leaves out
its own request, whichever that is, the newest ``last`` items without any one request. Together these are at most twice as many
actions. They are found level by level: within a chunk, within a block of chunks, over the blocks. So a row never holds more
than ``chunk`` lists of them, but for the last level: a key with a hundred million actions has six thousand blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.sparksql.releases import all_by

KEY, TIME, ITEM, REQUEST, TIE, ALONE, CHUNK = "_key", "time", "item", "request", "tie", "alone", "chunk"


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """A history as it is built: of the impressions' key ``on``, ``by_request`` if actions and impressions both have a request,
    ``chunk`` actions at a time.
    """

    name: str
    last: int
    within: timedelta | None = None
    delay: timedelta = timedelta()
    by_request: bool = False
    columns: tuple[str, ...] = ()
    chunk: int = 128
    on: str = "user"


def carries(entries: DataFrame, plan: HistoryPlan) -> DataFrame:
    """For each chunk of a key but the first the actions to remember from before it: ``_key``, ``chunk``, ``carry``.

    For keys with one chunk only the number of their actions is computed.
    """
    counts = entries.groupBy(KEY).count()
    many = counts.where(F.col("count") > plan.chunk).select(KEY)
    in_order = Window.partitionBy(KEY).orderBy("moment", ITEM, TIE)
    numbered = entries.join(many, on=KEY, how="left_semi").withColumn(
        "number", (F.row_number().over(in_order) - 1).cast("bigint")
    )
    chunks = _grouped(numbered, F.array("entry"), plan)
    blocks = _grouped(chunks, F.col("kept"), plan)
    of_block = blocks.select(KEY, F.col("number").alias("block"), _kept(_earlier(KEY), plan).alias("older"))
    placed = chunks.withColumn("block", F.floor(F.col("number") / plan.chunk)).withColumn(
        "before", _earlier(KEY, "block")
    )
    both = placed.join(of_block, on=[KEY, "block"], how="inner").where(F.col("number") > 0)
    carry = _kept(F.concat("before", "older"), plan)
    return both.select(KEY, F.col("number").alias(CHUNK), carry.alias("carry"))


def newest(entries: str, plan: HistoryPlan, request: Column | None) -> Column:
    """Of a column with actions, newest first: the newest of each item, and the ``last`` of these; a request's own left out."""
    actions = F.col(entries)
    return _let(_positions(actions, plan, request), lambda positions: _at(actions, positions))


def _grouped(rows: DataFrame, kept: Column, plan: HistoryPlan) -> DataFrame:
    """``_key``, ``number`` and ``kept``: what remains of each ``chunk`` rows with consecutive numbers."""
    group = F.floor(F.col("number") / plan.chunk).alias("group")
    # The greatest numbers first, that is, newest first.
    lists = rows.groupBy(KEY, group).agg(all_by(kept, F.col("number"), plan.chunk).alias("lists"))
    return lists.select(KEY, F.col("group").alias("number"), _kept(F.flatten("lists"), plan).alias("kept"))


def _earlier(*group: str) -> Column:
    """The lists of the rows before this one in its group, as one list, newest first."""
    before = Window.partitionBy(*group).orderBy("number").rowsBetween(Window.unboundedPreceding, -1)
    return F.flatten(F.reverse(F.collect_list("kept").over(before)))


def _kept(actions: Column, plan: HistoryPlan) -> Column:
    """What any later impression can need of actions that are listed newest first."""

    def needed(listed: Column) -> Column:
        if not plan.by_request:
            return _at(listed, _positions(listed, plan, None))
        return _let(_positions(listed, plan, None), lambda positions: _at(listed, with_substitutes(listed, positions)))

    def with_substitutes(listed: Column, positions: Column) -> Column:
        # To leave out a request changes something only if one of the actions found is of it.
        requests = F.array_compact(F.array_distinct(_at(listed, positions)[REQUEST]))
        others = F.transform(requests, lambda request: _positions(listed, plan, request))
        return F.sort_array(F.array_distinct(F.concat(positions, F.flatten(others))))

    return _let(actions, needed)


def _positions(listed: Column, plan: HistoryPlan, request: Column | None) -> Column:
    """Where, from 1 on, the newest action of each of the ``last`` newest items stands; a request's own do not count."""

    def item(action: Column) -> Column:
        if request is None:
            return action[ITEM]
        return F.when(~action[REQUEST].eqNullSafe(request) | request.isNull(), action[ITEM])

    def first_of_each(items: Column) -> Column:
        chosen = F.slice(F.array_distinct(F.array_compact(items)), 1, plan.last)
        return F.transform(chosen, lambda action: F.array_position(items, action).cast("int"))

    return _let(F.transform(listed, item), first_of_each)


def _at(listed: Column, positions: Column) -> Column:
    return F.transform(positions, lambda position: F.element_at(listed, position))


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """``body`` of a value that is computed once."""
    return F.get(F.transform(F.array(value), body), 0)
