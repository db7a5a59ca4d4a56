"""Labels of literal impressions and actions, made as in a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row

from ctr_samples.samples.columnar.stages import TaskCounts
from ctr_samples.samples.labels.counts import label_counts
from ctr_samples.samples.labels.events import actions_of_logs, events_among
from ctr_samples.samples.labels.labelling import Labelling
from ctr_samples.samples.labels.plans import LabelPlan
from ctr_samples.samples.period import Span

PARTITIONS = 3


def label(
    shown: DataFrame, plans: Sequence[LabelPlan], span: Span, source_of: Callable[[str], DataFrame]
) -> tuple[list[Row], dict[str, dict[str, Any]]]:
    """Return the labelled impressions, and what is counted of each label."""
    tasks = TaskCounts()
    events = events_among(shown, actions_of_logs(plans, span, source_of), plans)
    rows = Labelling(plans, span).stage(events, PARTITIONS).rows(tasks).collect()
    return rows, label_counts(plans, (), tasks.result())
