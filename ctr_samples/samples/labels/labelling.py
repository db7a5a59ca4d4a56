"""Labels of impressions: impressions and actions meet by key, in one shuffle for each set of keys that needs its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import BooleanType, DoubleType, LongType, StructField, StructType

from ctr_samples.config import RowLabel
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.columnar.columns import BATCH, Integers, batches, codes_of, in_order, integers, there, whole
from ctr_samples.samples.columnar.stages import Shuffle, Stage
from ctr_samples.samples.impressions import IMPRESSIONS, TIED_REPEATS, Repeats, row_label
from ctr_samples.samples.labels.attribution import NEVER, Events, LabelState, state_columns
from ctr_samples.samples.labels.counts import count_actions, count_row_labels
from ctr_samples.samples.labels.events import (
    AT,
    CONTENT,
    LABEL,
    TIE,
    VALUE,
    key_of_action,
    placed,
    places_of,
    shown_as,
    shown_in,
)
from ctr_samples.samples.labels.plans import LabelPlan, Stop, keys_among, label_fields, stops
from ctr_samples.samples.period import Span

_TIME = pa.timestamp("us", "UTC")
_UNTIL = "_until"
"""Column of actions between stops: see ``until`` in :class:`Events`."""


@dataclass(frozen=True, slots=True)
class Labelling:
    """The labels of impressions: which impressions count, and how actions label them. Pickled for executors.

    ``repeats`` says which impressions are repeats, unless None. ``rows`` are the labels that impressions have already.
    """

    plans: Sequence[LabelPlan]
    span: Span
    repeats: Repeats | None = None
    rows: tuple[tuple[str, RowLabel], ...] = ()
    carried: tuple[str, ...] = ()
    """Further columns of events that impressions keep."""
    by: tuple[str, ...] = ()
    """The key by which impressions lie once they have labels, if a later step needs one. They are sorted by it and time."""

    def stage(self, events: DataFrame, partitions: int, repeated: Sequence[Column] = ()) -> Stage:
        """Return the impressions of the period among the events of :func:`~ctr_samples.samples.labels.events.events_of`,
        with their labels. ``repeated`` has the columns that are equal for an impression and its repeats.

        Has the columns of an impression, those carried along, then a column for each label, and its mask if values are reduced.
        """
        events = placed(events, stops(self.plans, self.by), repeated)
        own = _own_columns(events.schema, keys_among(self.plans))
        narrow = events.drop(*[shown_as(name) for name, column in own.items() if column != shown_as(name)])
        return self.through_stops(Stage.of(narrow), events.schema, partitions)

    def through_stops(self, stage: Stage, events: StructType, partitions: int) -> Stage:
        """Return the impressions of :meth:`stage`, given events with their places, and the type that they had before columns
        with equal values were dropped.
        """
        some, own = stops(self.plans, self.by), _own_columns(events, keys_among(self.plans))
        between = StructType([*stage.kind, *_states(self.plans), StructField(_UNTIL, LongType())])
        labels = label_fields({plan.name: plan.label for plan in self.plans})
        labelled = StructType([*shown_in(events), *[events[n] for n in self.carried], *labels])
        for number, stop in enumerate(some):
            last = number == len(some) - 1
            kind = labelled if last else between
            task = _Stop(self, own, stop, is_first=number == 0, is_last=last)
            by = self.by if last else ()
            place = places_of(events, number, stop)
            stage = Stage(Shuffle((stage,), (place,), partitions, task, "labels", by), kind)
        return stage


def _own_columns(events: StructType, keys: Sequence[str]) -> dict[str, str]:
    """Return the column of events with each column of their impressions. No value is handed over twice."""
    own = {field.name: shown_as(field.name) for field in shown_in(events)}
    alike = {"impression_id": TIE, "impression_time": AT}
    for name in keys:
        if name in own and events[own[name]].dataType == events[key_of_action(name)].dataType:
            alike[name] = key_of_action(name)
    return own | {name: column for name, column in alike.items() if name in own}


def _states(plans: Sequence[LabelPlan]) -> list[StructField]:
    kinds = (BooleanType(), DoubleType(), LongType())
    return [StructField(*column) for plan in plans for column in zip(state_columns(plan), kinds, strict=True)]


@dataclass(frozen=True, slots=True)
class _Stop:
    """Attributes the actions of one partition by the sets of keys that meet here. Runs on an executor."""

    labelling: Labelling
    own: Mapping[str, str]
    stop: Stop
    is_first: bool
    is_last: bool

    def __call__(self, tables: list[pa.Table], counts: Counts) -> Iterator[pa.RecordBatch]:
        rows = tables.pop().combine_chunks()
        is_shown = ~there(rows[LABEL])
        shown_at = np.flatnonzero(is_shown)
        if self.is_first:
            shown_at = self._kept(rows, shown_at, counts)
        # Impressions are wide, so they are copied only once it is known which of them stay.
        wide = {shown_as(name) for name in self.own} & {*rows.column_names}
        narrow = rows.drop_columns([*wide, *self.labelling.carried])
        shown, actions = narrow.take(pa.array(shown_at)), narrow.filter(pa.array(~is_shown))
        plans = self.labelling.plans
        if self.is_first:
            states = {plan.name: LabelState.of(plan, shown.num_rows) for plan in plans}
        else:
            states = {plan.name: LabelState.from_columns(plan, shown) for plan in plans}
        events = _as_numbers(shown, actions, plans)
        del narrow, shown
        for tried, trying in self.stop.rounds:
            events.attribute(tried, trying, states)
        self._count(events, actions, counts)
        if self.is_last:
            yield from self._labelled(rows, shown_at, states, counts)
        else:
            is_waiting = ~events.found[events.shown :]
            waiting = rows.filter(pa.array(~is_shown)).filter(pa.array(is_waiting))
            until = pa.array(events.until[events.shown :][is_waiting])
            yield from self._onward(rows.take(pa.array(shown_at)), waiting, until, states)

    def _of_shown(self, rows: pa.Table, name: str) -> pa.Array:
        """Return a column of the impressions among rows."""
        column = self.own[name]
        return whole(rows[column]).cast(_TIME) if column == AT else whole(rows[column])

    def _kept(self, rows: pa.Table, shown_at: Integers, counts: Counts) -> Integers:
        """Count the impressions of the period, and return the places of those that are samples."""
        repeats, span = self.labelling.repeats, self.labelling.span
        if repeats is None:
            return shown_at
        at = pa.array(shown_at)
        columns = {name: self._of_shown(rows, name).take(at) for name in repeats.columns}
        reasons, tied = repeats.reasons(columns, integers(rows[CONTENT])[shown_at])
        timed = there(columns["impression_time"])
        mine = ~timed | span.has(integers(columns["impression_time"]), timed)
        counts.add(IMPRESSIONS, mine.sum())
        counts.add(TIED_REPEATS, (mine & tied).sum())
        dropped = np.zeros(len(shown_at), np.bool_)
        for reason, of_reason in reasons.items():
            counts.add(reason, (mine & of_reason & ~dropped).sum())
            dropped |= of_reason
        return shown_at[~dropped]

    def _count(self, events: Events, actions: pa.Table, counts: Counts) -> None:
        """Count the actions that are decided here: all that an impression claimed, and at the last stop the others."""
        plans, span, first = self.labelling.plans, self.labelling.span, events.shown
        if not plans:
            return
        found = events.found[first:]
        decided = np.ones(len(found), np.bool_) if self.is_last else found
        mine = decided & (~events.timed[first:] | span.has(events.at[first:], events.timed[first:]))
        keys = {name: actions[key_of_action(name)] for name in keys_among(plans)}
        count_actions(events, mine, keys, counts)

    def _labelled(
        self, rows: pa.Table, shown_at: Integers, states: Mapping[str, LabelState], counts: Counts
    ) -> Iterator[pa.RecordBatch]:
        time = self._of_shown(rows, "impression_time").take(pa.array(shown_at))
        mine = np.ones(len(shown_at), np.bool_)
        if self.labelling.repeats is not None:
            mine = self.labelling.span.has(integers(time), there(time))
        own = np.flatnonzero(mine)
        if self.labelling.by:
            keys = [codes_of(self._of_shown(rows, n).take(pa.array(shown_at[own])))[0] for n in self.labelling.by]
            own = own[in_order([*keys, integers(time)[own]])]
        at, of_rows = shown_at[own], dict(self.labelling.rows)
        count_row_labels({n: self._of_shown(rows, row_label(n)).take(pa.array(at)) for n in of_rows}, of_rows, counts)
        labels = pa.table(
            {name: column.take(pa.array(own)) for state in states.values() for name, column in state.columns().items()}
        )
        impressions = pa.table(
            {name: self._of_shown(rows, name) for name in self.own}
            | {name: rows[name] for name in self.labelling.carried}
        )
        for start in range(0, len(at), BATCH):
            some = impressions.take(pa.array(at[start : start + BATCH]))
            for name in labels.column_names:
                some = some.append_column(name, labels[name].slice(start, BATCH))
            yield from some.combine_chunks().to_batches()

    def _onward(
        self, shown: pa.Table, waiting: pa.Table, until: pa.Array, states: Mapping[str, LabelState]
    ) -> Iterator[pa.RecordBatch]:
        """Yield impressions with their states, and the actions that still have no impression."""
        of_shown = {name: column for state in states.values() for name, column in state.to_columns().items()}
        for name, column in of_shown.items():
            shown = _with_column(shown, name, column)
            waiting = _with_column(waiting, name, pa.nulls(waiting.num_rows, column.type))
        shown = _with_column(shown, _UNTIL, pa.nulls(shown.num_rows, pa.int64()))
        waiting = _with_column(waiting, _UNTIL, until)
        for table in (shown, waiting):
            yield from batches(table)


def _with_column(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.append_column(name, column) if place < 0 else table.set_column(place, name, column)


def _as_numbers(shown: pa.Table, actions: pa.Table, plans: Sequence[LabelPlan]) -> Events:
    """Return impressions and actions as columns of numbers."""
    names = [plan.name for plan in plans]
    both = pa.concat_tables([shown, actions]) if actions.num_rows else shown
    until = integers(pc.fill_null(both[_UNTIL], NEVER)).copy() if _UNTIL in both.column_names else None
    labels = pc.index_in(whole(both[LABEL]), value_set=pa.array(names, pa.string()))
    return Events(
        plans,
        shown.num_rows,
        integers(both[AT]),
        there(both[AT]),
        integers(both[TIE]),
        integers(pc.fill_null(labels, 0)),
        whole(pc.fill_null(both[VALUE], 0.0)).to_numpy(zero_copy_only=False),
        there(both[VALUE]),
        {name: codes_of(both[key_of_action(name)])[0] for name in keys_among(plans)},
        np.full(both.num_rows, NEVER) if until is None else until,
    )
