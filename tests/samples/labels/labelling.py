"""Labels of literal impressions and actions, made as in a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row

from ctr_samples.samples.columnar.columns import integers, mixed, place_of_texts, there
from ctr_samples.samples.columnar.stages import Stage, TaskCounts
from ctr_samples.samples.labels.counts import label_counts
from ctr_samples.samples.labels.events import (
    AT,
    CONTENT,
    LABEL,
    TIE,
    VALUE,
    actions_of_logs,
    events_among,
    key_of_action,
    place_at,
    shown_as,
)
from ctr_samples.samples.labels.labelling import Labelling
from ctr_samples.samples.labels.plans import LabelPlan, keys_among, stops
from ctr_samples.samples.period import Span
from tests.support.stages import ran, stage_of

PARTITIONS = 3
Labels = tuple[list[Row], dict[str, dict[str, Any]]]
"""Labelled impressions, and what is counted of each label."""


def label(shown: pa.Table, actions: pa.Table, plans: Sequence[LabelPlan], span: Span) -> Labels:
    """Label impressions in this process. ``actions`` has ``label``, ``at``, ``value`` and a column for each key."""
    rows, counts = ran(stage_of_labels(shown, actions, Labelling(plans, span)))
    return rows, label_counts(plans, (), counts)


def stage_of_labels(shown: pa.Table, actions: pa.Table, labelling: Labelling, partitions: int = PARTITIONS) -> Stage:
    """The stage that labels impressions, given the columns of events that Spark computes in a run."""
    names = keys_among(labelling.plans)
    no_ties = pa.array([0] * actions.num_rows, pa.int64())
    of_actions = {AT: actions["at"].cast(pa.int64()), TIE: no_ties, LABEL: actions["label"], VALUE: actions["value"]}
    of_actions |= {key_of_action(name): actions[name] for name in names if name in actions.column_names}
    of_shown = {AT: shown["impression_time"].cast(pa.int64()), TIE: shown["impression_id"]}
    of_shown |= {shown_as(name): shown[name] for name in shown.column_names}
    of_shown |= {key_of_action(name): shown[name] for name in names}
    events = pa.concat_tables([pa.table(of_shown), pa.table(of_actions)], promote_options="default")
    events = events.append_column(CONTENT, pa.array([0] * events.num_rows, pa.int64()))
    own = np.where(there(events[LABEL]), mixed(integers(events[AT])), integers(events[TIE]))
    for number, stop in enumerate(stops(labelling.plans, labelling.by)):
        keys = [events[key_of_action(name)].cast(pa.string()) for name in stop.keys]
        known = np.logical_and.reduce([there(key) for key in keys])
        events = events.append_column(place_at(number), pa.array(np.where(known, place_of_texts(keys), own)))
    return labelling.through_stops(stage_of(events), stage_of(events).kind, partitions)


def label_in_spark(
    shown: DataFrame, plans: Sequence[LabelPlan], span: Span, source_of: Callable[[str], DataFrame]
) -> Labels:
    """Label impressions by Spark, given the logs of actions."""
    tasks = TaskCounts()
    events = events_among(shown, actions_of_logs(plans, span, source_of), plans)
    rows = Labelling(plans, span).stage(events, PARTITIONS).rows(tasks).collect()
    return rows, label_counts(plans, (), tasks.result())
