"""The actions in a log that labels are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.samples.impressions import readable_rows
from ctr_samples.samples.labels.plans import LabelPlan, longest_skew, longest_window
from ctr_samples.samples.period import Day
from ctr_samples.sparksql.columns import boolean_column, key_column, number_column, time_column

ACTION = "_action"
"""Column of an action: struct<label, time, value>; no name of a configuration begins with an underscore."""


def key_of_action(name: str) -> str:
    """The column with a key of an action."""
    return f"_key_{name}"


def actions_by_keys(
    plans: Sequence[LabelPlan], day: Day, source_of: Callable[[str], DataFrame]
) -> dict[tuple[str, ...], list[DataFrame]]:
    """The actions that matter for a day, by the keys that are tried first; labels of one log share a pass over it."""
    tables: dict[Any, list[LabelPlan]] = {}
    for plan in plans:
        tables.setdefault((plan.label.source, tuple(plan.keys.items()), plan.tried), []).append(plan)
    by_keys: dict[tuple[str, ...], list[DataFrame]] = {}
    for (source, *_), alike in tables.items():
        actions = actions_near(actions_of(source_of(source), alike), day, plans)
        by_keys.setdefault(alike[0].first, []).append(actions)
    return by_keys


def actions_of(frame: DataFrame, plans: Sequence[LabelPlan]) -> DataFrame:
    """The actions of the labels that share one source and its keys, in one pass over it.

    Columns: those of :func:`key_of_action` for each key, and ``_action``: struct<label, time, value>. A row that counts for two
    labels gives two rows.
    """
    first = plans[0]
    parts = [_one_label(frame, plan) for plan in plans]
    return readable_rows(frame).select(
        *[
            key_column(frame, text, f"labels.{first.name}.{key}").alias(key_of_action(key))
            for key, text in first.keys.items()
        ],
        F.explode(F.array_compact(F.array(*parts))).alias(ACTION),
    )


def _one_label(frame: DataFrame, plan: LabelPlan) -> Column:
    where = f"labels.{plan.name}"
    value = plan.label.value
    number = F.lit(1.0) if value is None else number_column(frame, value, f"{where}.value")
    action = F.struct(
        F.lit(plan.name).alias("label"),
        time_column(frame, plan.time, f"{where}.time").alias("time"),
        number.alias("value"),
    )
    condition = plan.label.where
    return action if condition is None else F.when(boolean_column(frame, condition, f"{where}.where"), action)


def actions_near(actions: DataFrame, day: Day, plans: Sequence[LabelPlan]) -> DataFrame:
    """The actions that can belong to an impression of the day, or that happened on it; those without a time, to be counted."""
    time = F.col(f"{ACTION}.time")
    return actions.where(day.reaches(time, longest_skew(plans), longest_window(plans)) | time.isNull())
