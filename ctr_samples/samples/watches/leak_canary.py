"""Canary for data leaks: rows from the future, joined in every run like the views, that must never match.

The canary uses the few impressions of the day with the greatest hashes. The counting job returns them, so the
logs are not read twice. Each impression gets four rows under its own key in a canary table. The first is valid: its
event precedes the impression and it became available at the impression time. The other three must not match: an event
at the impression time, an event a microsecond later, and an earlier event that became available a microsecond later.
If rows can expire, a fifth row has already expired. The joins run with the settings of each view and must find the
first row only. The check detects a join that sees the future and a join that finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ctr_samples.config import EventView, JobConfig, StaticView, View
from ctr_samples.errors import AccountingError
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.columnar.columns import greatest, integers, mixed, texts, whole
from ctr_samples.samples.columnar.stages import TaskCounts
from ctr_samples.samples.features.row import IMPRESSION
from ctr_samples.samples.views.as_of.joining import Matches, key_among, with_views
from ctr_samples.samples.views.as_of.matching import CLOSED, CONTENT, END, EVENT, GONE, KEY, KNOWN, PAYLOAD, ViewRows
from ctr_samples.samples.views.as_of.planning import JoinStep
from ctr_samples.samples.views.rows import as_of
from ctr_samples.sparksql.releases import arrow_schema

MOST = 256
"""Number of impressions checked, regardless of the size of the day."""

_APART = 1_000
"""Minimum microseconds between two impressions, so that no impression sees a canary snapshot of its neighbour."""
_SAMPLE = "canary"


@dataclass(frozen=True, slots=True)
class Canary:
    """A sampled impression of the day: its id, its time in microseconds and its keys by name."""

    id: int
    micros: int
    keys: Mapping[str, Any]

    def key(self, on: Sequence[str]) -> tuple[Any, ...] | None:
        """Return the key for a join, or None if a part is missing. A unique key replaces a key from another view."""
        parts = tuple(self.id if "." in part else self.keys[part] for part in on)
        return None if None in parts else parts


class LeakCanary:
    """Samples the day's impressions in the tasks, and joins canaries to the sample afterwards. Lives on the driver."""

    def __init__(self, keys: Sequence[str], tasks: TaskCounts) -> None:
        self._keys, self._tasks = tuple(keys), tasks
        self._types: dict[str, pa.DataType] = {}

    def step(self, kind: StructType) -> Callable[[pa.RecordBatch, Counts], Iterator[pa.RecordBatch]]:
        """Return a step that samples rows of this type."""
        shown = kind[IMPRESSION].dataType
        assert isinstance(shown, StructType)
        self._types = {field.name: field.type for field in arrow_schema(StructType([shown[key] for key in self._keys]))}
        return partial(_take_sample, self._keys)

    def sample(self) -> tuple[list[Canary], Mapping[str, pa.DataType]]:
        """Return the sample and the types of the keys. Call it after the action."""
        rows = self._tasks.result().samples.get(_SAMPLE, [])
        return [Canary(own, at, dict(zip(self._keys, keys, strict=True))) for _, (own, at, *keys) in rows], self._types


def _take_sample(keys: Sequence[str], rows: pa.RecordBatch, counts: Counts) -> Iterator[pa.RecordBatch]:
    """Sample impressions by hash, and yield them as they are. Runs on executors."""
    shown = rows.column(IMPRESSION)
    ids = integers(pc.struct_field(shown, "impression_id"))
    ranks = mixed(ids)
    best = greatest(ranks, MOST)
    times = integers(pc.struct_field(shown, "impression_time"))[best]
    values = [_values(pc.struct_field(shown, key).take(pa.array(best))) for key in keys]
    chosen = zip(map(int, ids[best]), map(int, times), *values, strict=True)
    counts.sample(_SAMPLE, zip(map(int, ranks[best]), chosen, strict=True), MOST)
    yield rows


def _values(column: pa.Array) -> list[Any]:
    return texts(column) if pa.types.is_string(column.type) else column.to_pylist()


def apart(sample: Sequence[Canary], joins: Collection[tuple[str, ...]]) -> list[Canary]:
    """Keep impressions that share no key or moment with an earlier impression, so that each sees only its own canaries."""
    chosen: list[Canary] = []
    taken: set[tuple[tuple[str, ...], Any]] = set()
    for one in sorted(sample, key=lambda c: (c.micros, c.id)):
        keys = {(on, key) for on in joins if (key := one.key(on)) is not None}
        if not keys & taken and (not chosen or one.micros - chosen[-1].micros >= _APART):
            chosen.append(one)
            taken |= keys
    return chosen


def check_canaries(config: JobConfig, steps: Sequence[JoinStep], canary: LeakCanary) -> dict[str, dict[str, int]]:
    """Return the number of canaries checked for each view (``canaries``). Raises AccountingError if a wrong row matched.

    Runs on the driver. Tables without timestamps give no guarantee and have no canary.
    """
    sample, types = canary.sample()
    timed = [(step, name) for step in steps for name in step.views if not isinstance(config.views[name], StaticView)]
    chosen = apart(sample, {step.on for step, _ in timed})
    if not chosen or not timed:
        return {}
    joined = shown = _impressions(chosen, types)
    for _, name in timed:  # a view may have its key from the one before
        joined = pa.Table.from_batches(with_views(joined, [Matches.among(joined, _canaries(shown, config, name))]))
    if joined.num_rows != len(chosen):
        raise AccountingError(
            f"{len(chosen)} impressions were joined to canaries and {joined.num_rows} came out, so the joins lose or duplicate "
            "rows. Nothing was published; report it."
        )
    return {name: {"canaries": _checked(name, config.views[name], joined, chosen)} for _, name in timed}


def _impressions(chosen: Sequence[Canary], types: Mapping[str, pa.DataType]) -> pa.Table:
    columns = {
        "impression_id": pa.array([one.id for one in chosen], pa.int64()),
        "impression_time": pa.array([one.micros for one in chosen], pa.int64()),
        **{key: pa.array([one.keys[key] for one in chosen], kind) for key, kind in types.items()},
    }
    return pa.table({IMPRESSION: pa.StructArray.from_arrays(list(columns.values()), list(columns))})


_Offsets = tuple[int, int, bool, int | None, int | None]
"""Microseconds after the impression of a canary row: its event and available time, whether it is from the future, and for a row
that ends its end and the time at which this is known.
"""


def _canaries(shown: pa.Table, config: JobConfig, name: str) -> ViewRows:
    """Return the canary rows of impressions as rows of a view."""
    view = config.views[name]
    # A key that another view gives is not known here; the id stands for it.
    how = as_of(name, view, ["impression_id" if "." in part else part for part in view.joined_on])
    keys, times = key_among(shown, how.on), pc.struct_field(whole(shown[IMPRESSION]), "impression_time")
    ends = isinstance(view, EventView) and view.valid_to is not None
    rows = pa.concat_tables([_canary(keys, times, offset, ends=ends) for offset in _offsets(view, ends=ends)])
    return ViewRows.of(how, rows.filter(pc.is_valid(rows[KEY])))


def _canary(keys: pa.Array, times: pa.Array, offset: _Offsets, *, ends: bool) -> pa.Table:
    """Return one row for each impression, at an offset from it."""
    event, known, future, end, closed = offset
    size = len(keys)
    clocks = {EVENT: event, KNOWN: known} | ({END: end, CLOSED: closed} if ends else {})
    at = {name: pa.nulls(size, pa.int64()) if one is None else pc.add(times, one) for name, one in clocks.items()}
    payload = pa.StructArray.from_arrays([pa.array([future] * size)], ["future"])
    return pa.table({KEY: keys, **at, GONE: [False] * size, CONTENT: [event] * size, PAYLOAD: payload})


def _offsets(view: View, *, ends: bool) -> list[_Offsets]:
    """Return the canary rows of an impression: the valid one, and those that must not match.

    Rows with later events rank higher, so a wrongly visible row would match. Rows of one snapshot become known together, so
    the row with the late available time has a separate event time. With ``ends``, a better row has ended, and if ends
    become known later, the valid row has ended, too, which is not known yet.
    """
    closes = isinstance(view, EventView) and view.closed_available is not None
    valid: _Offsets = (-3, 0, False, -1, 1) if ends and closes else (-3, 0, False, None, None)
    ended: list[_Offsets] = [(-2, -2, True, -1, None)] if ends else []
    future = [(-1, 1), (1, 1) if view.inclusive else (0, 0), (1, 1)]
    return [valid, *ended, *[(event, known, True, None, None) for event, known in future]]


def _checked(name: str, view: View, joined: pa.Table, chosen: Sequence[Canary]) -> int:
    """Return the number of impressions that saw the valid row of a view. Raises AccountingError for any other number."""
    expected = sum(one.key(view.joined_on) is not None for one in chosen)
    if view.max_age is not None and view.max_age < timedelta(microseconds=3):
        expected = 0
    future = pc.struct_field(whole(joined[name]), "future")
    leaked = pc.sum(future).as_py() or 0
    seen = len(future) - future.null_count - leaked
    if leaked:
        raise AccountingError(
            f"views.{name}: {leaked:,} of {expected:,} impressions saw a row from the future, so features may "
            "contain what happened after the impression. Nothing was published; report it."
        )
    if seen != expected:
        raise AccountingError(
            f"views.{name}: {seen:,} of {expected:,} impressions saw the row that was true before them and known by then, "
            "so the join misses rows. Nothing was published; report it."
        )
    return expected
