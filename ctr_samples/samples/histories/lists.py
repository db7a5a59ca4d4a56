"""Lists of a history, built by a compiled kernel in one pass over the rows of a partition. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.codec.layout import ACTION, FIRST_OF_KEY
from ctr_samples.codec.machine_code import kernels
from ctr_samples.samples.columnar.blocks import Item, SideTables
from ctr_samples.samples.columnar.columns import Integers, batches, begins, codes_of, in_order, integers, ranks, whole
from ctr_samples.sparksql.columns import micros_of

IMPRESSION = "impression"
KEY, TIME, ITEM, REQUEST, TIE = "_key", "_time", "_item", "_request", "_tie"
"""Internal columns of actions. No configured column name begins with an underscore."""
KNOWN = "_known"
"""Column of actions with `available_time`: when an action was known."""

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """The plan for building a history. ``on`` is the impressions' join key; ``by_request`` is set if both sides have a
    request.
    """

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
    places = np.arange(every.sum()) + np.repeat(starts - (np.cumsum(every) - every), every)
    return every, actions[places]
