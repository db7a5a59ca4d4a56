"""Find the offset of action times, such as a wrong time zone: the shift that matches most actions to impressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.samples.labels.actions import ACTION, key_of_action
from ctr_samples.samples.labels.events import AT, IS_ACTION, all_events
from ctr_samples.samples.labels.plans import LabelPlan
from ctr_samples.samples.period import Span
from ctr_samples.sparksql.columns import micros_of

_STEP = timedelta(minutes=15)
"""Time zones differ by multiples of this step."""
_FURTHEST = timedelta(hours=14)
_LOOKED_AT = 2000
_MOST = 0.5


@dataclass(frozen=True, slots=True)
class Shift:
    """Seconds to add to action times, and the share of actions that would then match."""

    seconds: int
    share: float


def best_shift(source_of: Callable[[str], DataFrame], config: JobConfig, plan: LabelPlan, span: Span) -> Shift | None:
    """Find the shift with which most actions of a label on a day would match. Runs a Spark job over the logs.

    Among equally good shifts, returns the shift with the shortest delays. Returns None if no shift lets more than half
    of the actions match.
    """
    events, time = all_events(source_of, config, [plan]), F.timestamp_micros(AT)
    for tried in plan.tried:
        keys = [key_of_action(name) for name in tried]
        own = F.col(IS_ACTION) & (F.col(f"{ACTION}.label") == plan.name) & span.contains(time)
        actions = events.where(own).select(*keys, F.col(AT).alias("_done")).orderBy(F.xxhash64(*keys, "_done"))
        few = actions.limit(_LOOKED_AT).withColumn("_number", F.monotonically_increasing_id())
        near = ~F.col(IS_ACTION) & span.reaches(time, _FURTHEST + plan.label.window, _FURTHEST)
        shown = events.where(near).select(*keys, F.col(AT).alias("_at")).distinct()
        matching = few.join(shown, keys).select("_number", _steps(plan).alias("_steps"))
        counted = matching.select("_number", F.explode("_steps").alias("_step")).distinct().groupBy("_step").count()
        counts = {row[0]: row[1] for row in counted.collect()}
        if counts and (best := max(counts, key=lambda step: (counts[step], -step))) != 0:
            share = counts[best] / few.count()
            if share > _MOST:
                return Shift(best * round(_STEP.total_seconds()), share)
    return None


def _steps(plan: LabelPlan) -> Column:
    """Return the shifts, in steps, at which an action matches an impression."""
    step, most = micros_of(_STEP), micros_of(_FURTHEST) // micros_of(_STEP)
    apart = F.col("_at") - F.col("_done")
    first = F.greatest(F.ceil((apart - micros_of(plan.label.skew)) / step), F.lit(-most))
    last = F.least(F.floor((apart + micros_of(plan.label.window)) / step), F.lit(most))
    return F.when(first <= last, F.sequence(first, last))
