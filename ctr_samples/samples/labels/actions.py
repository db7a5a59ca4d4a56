"""The actions in a log that labels are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.samples.impressions import readable_rows
from ctr_samples.samples.labels.plans import LabelPlan, longest_skew, longest_window
from ctr_samples.samples.period import Day
from ctr_samples.sparksql.columns import boolean_column, key_column, number_column, time_column

ACTION = "_action"
"""Column of an action: struct<label, time, value>; no name of a configuration begins with an underscore."""


def actions_by_key(
    plans: Sequence[LabelPlan], day: Day, source_of: Callable[[str], DataFrame]
) -> dict[str, list[DataFrame]]:
    """The actions that matter for a day, by the kind of key that is tried first; labels of one log share a pass over it."""
    tables: dict[tuple[str, tuple[tuple[str, str], ...], str], list[LabelPlan]] = {}
    for plan in plans:
        tables.setdefault((plan.label.source, plan.keys, plan.article), []).append(plan)
    by_key: dict[str, list[DataFrame]] = {}
    for (source, _, _), alike in tables.items():
        actions = actions_near(actions_of(source_of(source), alike), day, plans)
        by_key.setdefault(alike[0].by, []).append(actions)
    return by_key


def actions_of(frame: DataFrame, plans: Sequence[LabelPlan]) -> DataFrame:
    """The actions of the labels that share one source and its keys, in one pass over it.

    Columns: ``key``, ``fallback`` (the key that is tried next, of no type where there is none), ``article``, ``_action``:
    struct<label, time, value>. A row that counts for two labels gives two rows.
    """
    first = plans[0]
    where = f"labels.{first.name}"
    keys = [key_column(frame, text, f"{where}.{kind}") for kind, text in first.keys]
    parts = [_one_label(frame, plan) for plan in plans]
    return readable_rows(frame).select(
        keys[0].alias("key"),
        (keys[1] if len(keys) > 1 else F.lit(None)).alias("fallback"),
        key_column(frame, first.article, f"{where}.article").alias("article"),
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
