"""Attributes actions to impressions and reduces them to labels.

An action belongs to the last impression of its key at or before its time, and counts if it came within the label's window.
So one action never labels two impressions. Labels look forward, features look backward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from ctr_samples.config import Impressions, Label
from ctr_samples.config.references import mask_of
from ctr_samples.spark.columns import boolean_column, key_column, number_column, same_key_type, time_column
from ctr_samples.spark.day import Day
from ctr_samples.spark.impressions import readable_rows

IS_ACTION = "_is_action"
ORPHAN = "_orphan"
ACTION = "_action"
"""Columns of :func:`attribute`; no name of a configuration begins with an underscore."""

_SHOWN = "_shown"


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """A label with the columns it inherits from ``impressions`` filled in. ``by`` is its key: request or user, and article."""

    name: str
    label: Label
    time: str
    article: str
    by: str
    by_key: str


def plan_label(name: str, label: Label, shown: Impressions) -> LabelPlan:
    """Fill in what a label inherits. A request id, where both logs have one, is better than a user and the clock."""
    inherits = label.source == shown.source
    request = label.request or (shown.request if inherits else None)
    user = label.user or (shown.user if inherits else None)
    by = "request" if request and shown.request else "user"
    key = request if by == "request" else user
    assert key is not None, "references.py refuses a label without a key"
    return LabelPlan(name, label, label.time or shown.time, label.article or shown.article, by, key)


def actions_of(frame: DataFrame, plans: Sequence[LabelPlan]) -> DataFrame:
    """The actions of the labels that share one source and key, in one pass over it.

    Columns: ``key``, ``article``, ``_action``: struct<label, time, value>. A row that counts for two labels gives two rows.
    """
    first = plans[0]
    where = f"labels.{first.name}"
    parts = [_one_label(frame, plan) for plan in plans]
    return readable_rows(frame).select(
        key_column(frame, first.by_key, f"{where}.{first.by}").alias("key"),
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


def attribute(impressions: DataFrame, actions: DataFrame, by: str, plans: Sequence[LabelPlan]) -> DataFrame:
    """Impressions with their labels, and the actions themselves as further rows (``_is_action``), to be counted.

    ``impressions`` must have ``by`` (user or request), ``article`` and ``impression_time``. Adds ``_is_action``, ``_orphan``,
    ``_action`` and, for each plan, its label column and for reduced values ``<label>__mask``. One shuffle.
    """
    rows = _together(impressions, actions, by)
    keys = ["key", "key_article", "alone"]
    in_order = Window.partitionBy(*keys).orderBy("moment", IS_ACTION, "tie").rowsBetween(Window.unboundedPreceding, 0)
    of_one = Window.partitionBy(*keys, "impression_number").rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    since = F.col("moment") - F.last("shown_at", ignorenulls=True).over(in_order)
    windows = reduce(
        lambda rest, plan: F.when(F.col(f"{ACTION}.label") == plan.name, F.lit(plan.label.window)).otherwise(rest),
        plans,
        F.lit(None).cast("interval day to second"),
    )
    placed = (
        rows.withColumn("impression_number", F.count("shown_at").over(in_order))
        .withColumn("since", since)
        .withColumn(ORPHAN, F.col(IS_ACTION) & ~F.coalesce(F.col("since") <= windows, F.lit(False)))
    )
    counts = F.col(IS_ACTION) & ~F.col(ORPHAN)
    labelled = [column for plan in plans for column in _reduced(plan, counts, of_one)]
    return placed.select(f"{_SHOWN}.*", IS_ACTION, ORPHAN, ACTION, *labelled)


def _together(impressions: DataFrame, actions: DataFrame, by: str) -> DataFrame:
    impression_key, action_key = same_key_type(impressions, by, actions, "key")
    impression_article, action_article = same_key_type(impressions, "article", actions, "article")
    shown = F.struct(*[F.col(c) for c in impressions.columns])
    shown_type = impressions.select(shown.alias(_SHOWN)).schema[_SHOWN].dataType
    action_type = actions.schema[ACTION].dataType
    shown_rows = impressions.select(
        impression_key.alias("key"),
        impression_article.alias("key_article"),
        _alone(impression_key, "impression", F.col("impression_id")),
        F.col("impression_time").alias("moment"),
        F.col("impression_time").alias("shown_at"),
        F.lit(False).alias(IS_ACTION),
        F.col("impression_id").alias("tie"),
        shown.alias(_SHOWN),
        F.lit(None).cast(action_type).alias(ACTION),
    )
    action_rows = actions.select(
        action_key.alias("key"),
        action_article.alias("key_article"),
        _alone(action_key, "action", F.unix_micros(f"{ACTION}.time")),
        F.col(f"{ACTION}.time").alias("moment"),
        F.lit(None).cast("timestamp").alias("shown_at"),
        F.lit(True).alias(IS_ACTION),
        F.lit(0).cast("bigint").alias("tie"),
        F.lit(None).cast(shown_type).alias(_SHOWN),
        F.col(ACTION),
    )
    return shown_rows.unionByName(action_rows)


def _alone(key: Column, kind: str, own: Column) -> Column:
    # Rows without a key match nothing; each gets a key of its own, or they would all gather on one task.
    return F.when(key.isNull(), F.concat(F.lit(kind), own.cast("string"))).alias("alone")


def _reduced(plan: LabelPlan, counts: Column, of_one: WindowSpec) -> list[Column]:
    """The label and, for a reduced value, its mask: an action whose value is no number says nothing about it."""
    value = F.when(counts & (F.col(f"{ACTION}.label") == plan.name), F.col(f"{ACTION}.value"))
    there = F.coalesce(F.max(F.when(value.isNotNull(), 1)).over(of_one), F.lit(0)).cast("bigint")
    if plan.label.reduce == "any":
        return [there.alias(plan.name)]
    reducer = F.sum if plan.label.reduce == "sum" else F.max
    number = F.coalesce(reducer(value).over(of_one), F.lit(0.0))
    return [number.cast("float").alias(plan.name), there.alias(mask_of(plan.name))]


def label_columns(labels: Mapping[str, Label]) -> list[str]:
    """The label columns of a sample: each label, and a mask for each reduced value (missing is not zero)."""
    columns = []
    for name, label in labels.items():
        columns.append(name)
        if label.reduce != "any":
            columns.append(mask_of(name))
    return columns


def actions_near(actions: DataFrame, day: Day, plans: Sequence[LabelPlan]) -> DataFrame:
    """The actions that can belong to an impression of the day, or that happened on it; those without a time, to be counted."""
    time = F.col(f"{ACTION}.time")
    return actions.where(day.reaches(time, timedelta(), longest_window(plans)) | time.isNull())


def action_on_day(day: Day) -> Column:
    """Whether a row of :func:`attribute` is an action of the day; one without a time counts, and is always an orphan."""
    time = F.col(f"{ACTION}.time")
    return F.col(IS_ACTION) & (day.contains(time) | time.isNull())


def longest_window(plans: Sequence[LabelPlan]) -> timedelta:
    """How far from the day impressions and actions still matter."""
    return max(plan.label.window for plan in plans)
