"""Lists of a history, built by a compiled kernel in one pass over sorted rows. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.codec.layout import ACTION, FIRST_OF_KEY
from ctr_samples.codec.machine_code import kernels

KEY, TIME, ITEM, REQUEST, TIE, ALONE = "_key", "_time", "_item", "_request", "_tie", "_alone"
"""Internal columns of history rows. No configured column name begins with an underscore."""
SHOWN = "_shown"
"""Column with an impression as a struct. It is null for an action."""


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


def with_lists(batches: Iterable[pa.RecordBatch], plan: HistoryPlan) -> Iterator[pa.RecordBatch]:
    """Yield the impressions among the rows, with their columns and a struct of the history's lists.

    Rows are sorted by ``_key`` and, within a key, by the moment an action becomes visible. Each row has a time and
    either an impression in ``_shown`` or an action in the other columns. Memory per key does not grow with its number
    of actions. An error fails the task; Spark retries it.
    """
    before = _Before()
    for batch in batches:
        if batch.num_rows:
            yield before.lists_of(batch, plan)


@dataclass(slots=True)
class _Before:
    """The state from earlier batches: the last key, and its actions that later impressions may need."""

    key: Any = None
    actions: pa.RecordBatch | None = None

    def lists_of(self, batch: pa.RecordBatch, plan: HistoryPlan) -> pa.RecordBatch:
        keys = batch.column(KEY)
        first = _first_of_keys(keys, self.key)
        rows = batch.select([TIME, ITEM, REQUEST, *plan.columns])
        remembered = 0 if self.actions is None or first[0] else self.actions.num_rows
        if remembered:
            (rows,) = pa.Table.from_batches([self.actions, rows]).combine_chunks().to_batches()
            first = np.concatenate([np.zeros(remembered, bool), first])
        shown = batch.column(SHOWN).is_valid()
        is_action = np.concatenate([np.ones(remembered, bool), ~_array(shown)])
        times = _array(rows.column(TIME).cast(pa.int64()))
        lengths, found, needed = _last_actions(rows, times, first, is_action, plan)
        self.key, self.actions = keys[-1], rows.take(needed)
        impressions = batch.column(SHOWN).filter(shown)
        ages = (times[np.repeat(np.flatnonzero(~is_action), lengths)] - times[found]) / 1e6
        lists = _lists(rows, ages, lengths, found, plan)
        names = [*(impressions.type.field(i).name for i in range(impressions.type.num_fields)), plan.name]
        return pa.RecordBatch.from_arrays([*impressions.flatten(), lists], names)


def _first_of_keys(keys: pa.Array, before: Any) -> npt.NDArray[np.bool_]:
    """Return whether each row is the first of its key. A row without a key counts as a key by itself."""
    codes = _codes(keys)
    first = np.ones(len(codes), bool)
    first[1:] = (codes[1:] != codes[:-1]) | (codes[1:] < 0)
    first[0] = before is None or codes[0] < 0 or not keys[0].equals(before)
    return first


def _codes(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return equal numbers for equal values and -1 for null."""
    return _array(pc.fill_null(values.dictionary_encode().indices, -1)).astype(np.int64)


def _last_actions(
    rows: pa.RecordBatch,
    times: npt.NDArray[np.int64],
    first: npt.NDArray[np.bool_],
    is_action: npt.NDArray[np.bool_],
    plan: HistoryPlan,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the number of actions per impression, their rows, and the last key's rows that later rows may need."""
    count, impressions = len(first), len(first) - int(is_action.sum())
    room = max(plan.room, 2 * plan.last + 1)
    flags = np.where(is_action, np.uint8(ACTION), np.uint8(0)) | np.where(first, np.uint8(FIRST_OF_KEY), np.uint8(0))
    items = _codes(rows.column(ITEM))
    requests = _codes(rows.column(REQUEST)) if plan.by_request else np.full(count, -1, np.int64)
    kept, marks, stamps, lengths, found = (
        np.zeros(size, np.int64)
        for size in (room + plan.last, room + 1, items.max(initial=0) + 1, impressions, impressions * plan.last)
    )
    within = -1 if plan.within is None else plan.within // timedelta(microseconds=1)
    addresses = [array.ctypes.data for array in (flags, items, requests, times)]
    work = [array.ctypes.data for array in (kept, marks, stamps, lengths, found)]
    total = kernels().last_actions(count, *addresses, plan.last, within, room, *work)
    return lengths, found[:total], kept[: marks[0]]


def _lists(
    rows: pa.RecordBatch,
    ages: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    found: npt.NDArray[np.int64],
    plan: HistoryPlan,
) -> pa.Array:
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())

    def listed(values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(ends, values)

    taken = {name: rows.column(name).take(pa.array(found)) for name in (ITEM, *plan.columns)}
    columns = {
        "items": listed(taken[ITEM]),
        "ages_s": listed(pa.array(ages)),
        **{name: listed(taken[name]) for name in plan.columns},
        "length": pa.array(lengths, pa.int32()),
        "matched": pa.array(lengths > 0),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _array(values: pa.Array) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array
