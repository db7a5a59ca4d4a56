"""Reduce the actions of an impression to its label.

The *state* of a label is its result after one key set, or null if no action counted. The states of several key sets can
be merged, so each key set is evaluated without the rows of the other key sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F

from ctr_samples.config import RowLabel
from ctr_samples.config.base import mask_of
from ctr_samples.samples.labels.actions import ACTION
from ctr_samples.samples.labels.plans import LabelPlan


def state_of(plan: LabelPlan, counts: Column, of_one: WindowSpec) -> Column:
    """Return a label's state over the counted actions in a window. An action without a numeric value does not count."""
    value = F.when(counts & (F.col(f"{ACTION}.label") == plan.name), F.col(f"{ACTION}.value"))
    match plan.label.reduce:
        case "any":
            return F.max(F.when(value.isNotNull(), 1)).over(of_one)
        case "sum":
            return F.sum(value).over(of_one)
        case "max":
            return F.max(value).over(of_one)
        case "first":  # the smallest value at that time, so that log order does not matter
            timed = F.struct(F.col(f"{ACTION}.time").alias("time"), value.alias("value"))
            return F.min(F.when(value.isNotNull(), timed)).over(of_one)


def merged(plan: LabelPlan, states: Sequence[Column]) -> Column:
    """Merge the states of several key sets."""
    if len(states) == 1:
        return states[0]
    if plan.label.reduce == "sum":
        return reduce(lambda one, other: F.coalesce(one + other, one, other), states)
    return F.least(*states) if plan.label.reduce == "first" else F.greatest(*states)


def row_values(name: str, label: RowLabel, value: Column) -> list[Column]:
    """Return a row label and, for a number, its mask, which is 0 if the row has no value."""
    if label.is_flag:
        return [F.coalesce(value, F.lit(0)).cast("bigint").alias(name)]
    there = value.isNotNull() & ~F.isnan(value)
    return [F.when(there, value).otherwise(0.0).cast("float").alias(name), there.cast("bigint").alias(mask_of(name))]


def label_values(plan: LabelPlan, state: Column) -> list[Column]:
    """Return the label and, if its values are reduced, a mask. The mask distinguishes a missing action (mask 0) from a
    label value of 0 (mask 1).
    """
    there = state.isNotNull().cast("bigint")
    if plan.label.reduce == "any":
        return [there.alias(plan.name)]
    number = state["value"] if plan.label.reduce == "first" else state
    return [F.coalesce(number, F.lit(0.0)).cast("float").alias(plan.name), there.alias(mask_of(plan.name))]
