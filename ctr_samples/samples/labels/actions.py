"""Actions in a log, the input of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.samples.impressions import does_match
from ctr_samples.samples.labels.plans import LabelPlan, longest_skew, longest_window
from ctr_samples.samples.period import Span
from ctr_samples.sparksql.columns import key_column, number_column, time_column

ACTION = "_action"
"""Column of an action: struct<label, time, value>. Configured names never begin with an underscore."""

ACTION_TYPE = "struct<label: string, time: timestamp, value: double>"


def key_of_action(name: str) -> str:
    """Return the column name for a key of an action."""
    return f"_key_{name}"


def actions_of_logs(plans: Sequence[LabelPlan], span: Span, source_of: Callable[[str], DataFrame]) -> list[DataFrame]:
    """Return the relevant actions of a day. Labels of one log with the same keys share a pass over it."""
    near = is_near_action(F.col(f"{ACTION}.time"), span, plans)
    return [actions_of(source_of(alike[0].label.source), alike).where(near) for alike in of_one_log(plans)]


def of_one_log(plans: Sequence[LabelPlan]) -> list[list[LabelPlan]]:
    """Group the labels that share a log, its keys and the order of their key sets."""
    tables: dict[Any, list[LabelPlan]] = {}
    for plan in plans:
        tables.setdefault((plan.label.source, tuple(plan.keys.items()), plan.tried), []).append(plan)
    return list(tables.values())


def actions_of(frame: DataFrame, plans: Sequence[LabelPlan]) -> DataFrame:
    """Return the actions of labels that share a source and its keys, in one pass over the source.

    Columns: one per key (:func:`key_of_action`), and ``_action``: struct<label, time, value>. A row that counts for
    two labels gives two rows.
    """
    keys = [column.alias(key_of_action(key)) for key, column in action_keys(frame, plans[0]).items()]
    parts = [F.when(does_match(frame, plan.label.where, where_of(plan)), action_of(frame, plan)) for plan in plans]
    return frame.select(*keys, F.explode(F.array_compact(F.array(*parts))).alias(ACTION))


def action_keys(frame: DataFrame, plan: LabelPlan) -> dict[str, Column]:
    """Return the keys of an action, by name."""
    return {key: key_column(frame, text, f"labels.{plan.name}.{key}") for key, text in plan.keys.items()}


def where_of(plan: LabelPlan) -> str:
    """Return the configuration key of a label's condition."""
    return f"labels.{plan.name}.where"


def action_of(frame: DataFrame, plan: LabelPlan) -> Column:
    """Return a row as an action of a label: struct<label, time, value>."""
    where = f"labels.{plan.name}"
    value = plan.label.value
    number = F.lit(1.0) if value is None else number_column(frame, value, f"{where}.value")
    return F.struct(
        F.lit(plan.name).alias("label"),
        time_column(frame, plan.time, f"{where}.time").alias("time"),
        number.alias("value"),
    )


def is_near_action(time: Column, span: Span, plans: Sequence[LabelPlan]) -> Column:
    """Whether an action may belong to an impression of the day, or happened that day.

    True if the action has no time.
    """
    return span.reaches(time, longest_skew(plans), longest_window(plans)) | time.isNull()
