"""Counts of actions, orphans and delays, collected as rows pass.

Each row gets one small number, and an observation counts these numbers. Comparing integers for every count is cheap;
comparing names, days and delays is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from ctr_samples.config import RowLabel
from ctr_samples.config.units import format_duration
from ctr_samples.errors import InputError
from ctr_samples.samples.impressions import row_label
from ctr_samples.samples.labels.actions import ACTION
from ctr_samples.samples.labels.attribution import ACTION_KEYS, DELAY, IS_ACTION
from ctr_samples.samples.labels.plans import LabelPlan
from ctr_samples.samples.period import Span
from ctr_samples.sparksql.columns import micros_of
from ctr_samples.sparksql.observations import Observations
from ctr_samples.sparksql.releases import sample_by

_MICROSECOND = timedelta(microseconds=1)
_EDGES = tuple(timedelta(seconds=s) for s in (1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600))
_COUNTED = "_counted"
_ROW, _RANK = "_orphan_row", "_orphan_rank"
_WITHOUT_VALUE, _NO_FLAG = "without_value", "no_flag"
_PREFIX = "row."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_SAMPLED = 100
"""Maximum number of orphans per label listed in the manifest. Lower before Spark 4.2."""


def delay_ends(plan: LabelPlan) -> dict[str, timedelta]:
    """Return the upper end of each delay range up to the window, by name. Includes ``before`` if clocks may differ."""
    early = {"before": -_MICROSECOND} if plan.label.skew else {}
    edges = [edge for edge in _EDGES if edge < plan.label.window]
    return early | {format_duration(edge): edge for edge in (*edges, plan.label.window)}


def action_on_day(span: Span) -> Column:
    """Whether a row of ``attribute`` is an action of the day. An action without a time counts, and is always an
    orphan.
    """
    time = F.col(f"{ACTION}.time")
    return F.col(IS_ACTION) & (span.contains(time) | time.isNull())


class LabelsWatch:
    """Counts the actions of a day as they pass, and the values of row labels. Lives on the driver."""

    def __init__(
        self,
        plans: Sequence[LabelPlan],
        span: Span,
        rows: Mapping[str, RowLabel] = MappingProxyType({}),
        *,
        active: bool = True,
    ) -> None:
        self._plans, self._span, self._rows = plans, span, rows
        self._observations, self._of_rows = Observations(active=active), Observations(active=active)

    def on(self, attributed: DataFrame) -> DataFrame:
        """Count the actions among rows of :func:`ctr_samples.samples.labels.attribute`."""
        return self._observations.on(with_numbers(attributed, self._span, self._plans), action_counts(self._plans))

    def on_rows(self, impressions: DataFrame) -> DataFrame:
        """Count the row labels of the day's impressions."""
        counts = {}
        for name, label in self._rows.items():
            value = F.col(f"`{row_label(name)}`")
            counts[f"{name}.{_WITHOUT_VALUE}"] = F.count_if(value.isNull())
            if label.is_flag:
                counts[f"{name}.{_NO_FLAG}"] = F.count_if(~value.isin(0, 1))
        return self._of_rows.on(impressions, counts) if counts else impressions

    def result(self) -> dict[str, dict[str, Any]]:
        """Return the manifest entry of each label (:func:`labels_counted`). Call it after the action."""
        counts = self._of_rows.counts()
        rows = {name: {_WITHOUT_VALUE: counts.get(f"{name}.{_WITHOUT_VALUE}", 0)} for name in self._rows}
        return labels_counted(self._plans, self._observations.counts(), self._observations.lists()) | rows

    def check(self) -> None:
        """Raise InputError if a row label that must be 0 or 1 has any other value. Call it after the action."""
        counts = self._of_rows.counts()
        for name, label in self._rows.items():
            if others := counts.get(f"{name}.{_NO_FLAG}", 0):
                raise InputError(
                    f"labels.{name}.expr: {label.expr} is neither 0 nor 1 for {others:,} impressions; write a condition, such "
                    f"as `{label.expr} > 0`, or say `dtype: float32` for the number itself."
                )


def with_numbers(rows: DataFrame, span: Span, plans: Sequence[LabelPlan]) -> DataFrame:
    """Add the number that :func:`action_counts` counts. It encodes label and delay, and is null except for actions of
    the day.

    For labels that list their orphans, also adds orphan rows and ranks. Spark would interpret expressions inside an
    observation row by row.
    """
    number = F.lit(None).cast("int")
    for first, plan in _first_numbers(plans):
        which = F.lit(first)  # an orphan
        for from_last, end in enumerate(reversed(delay_ends(plan).values())):
            last = first + len(delay_ends(plan))
            which = F.when(F.col(DELAY) <= micros_of(end), F.lit(last - from_last)).otherwise(which)
        number = F.when(F.col(f"{ACTION}.label") == plan.name, which).otherwise(number)
    numbered = rows.withColumn(_COUNTED, F.when(action_on_day(span), number))
    named = [first for first, plan in _first_numbers(plans) if plan.label.orphans == "quarantine"]
    if not named:
        return numbered
    orphan = F.col(_COUNTED).isin(*named)
    row = F.struct(F.unix_micros(f"{ACTION}.time").alias("micros"), f"{ACTION_KEYS}.*")
    # Ranked by hash, so every run lists the same orphans, regardless of log order.
    rank = F.xxhash64(F.to_json(row), f"{ACTION}.value")
    return numbered.withColumns({_ROW: F.when(orphan, row), _RANK: F.when(orphan, rank)})


def action_counts(plans: Sequence[LabelPlan]) -> dict[str, Column]:
    """Return the aggregates over rows of :func:`with_numbers`."""
    counts = {}
    for first, plan in _first_numbers(plans):
        for number in range(first, first + 1 + len(delay_ends(plan))):
            counts[f"{_PREFIX}{number}"] = F.count_if(F.col(_COUNTED) == number)
        if plan.label.value is not None:
            mine = F.col(_COUNTED).between(first, first + len(delay_ends(plan)))
            counts[f"{plan.name}.without_value"] = F.count_if(mine & F.col(f"{ACTION}.value").isNull())
        if plan.label.orphans == "quarantine":
            rank = F.when(F.col(_COUNTED) == first, F.col(_RANK))
            counts[f"{plan.name}.sample"] = sample_by(F.col(_ROW), rank, MOST_SAMPLED)
    return counts


def labels_counted(
    plans: Sequence[LabelPlan], counts: Mapping[str, int], lists: Mapping[str, Sequence[Row]]
) -> dict[str, dict[str, Any]]:
    """Return the manifest entry of each label: the day's ``actions``, ``orphans``, ``without_value`` and ``delays``.

    ``orphan_sample`` lists some orphans with their keys, unless the configuration drops orphans. ``delays`` maps the
    end of each range (``"10s"``: more than a second, at most ten) to the number of actions in it.
    """
    labels = {}
    for first, plan in _first_numbers(plans):
        orphans, *placed = (counts.get(f"{_PREFIX}{n}", 0) for n in range(first, first + 1 + len(delay_ends(plan))))
        delays = dict(zip(delay_ends(plan), placed, strict=True))
        without = counts.get(f"{plan.name}.without_value", 0)
        labels[plan.name] = {
            "actions": orphans + sum(placed),
            "orphans": orphans,
            "without_value": without,
            "delays": delays,
        }
        if plan.label.orphans == "quarantine":
            labels[plan.name]["orphan_sample"] = sorted(
                map(_orphan, lists.get(f"{plan.name}.sample", ())), key=_in_order
            )
    return labels


def _orphan(row: Row) -> dict[str, str | None]:
    keys = row.asDict()
    micros = keys.pop("micros")
    return {"time": None if micros is None else (_EPOCH + micros * _MICROSECOND).isoformat(), **keys}


def _in_order(orphan: Mapping[str, str | None]) -> list[str]:
    return [value or "" for value in orphan.values()]


def _first_numbers(plans: Sequence[LabelPlan]) -> Iterator[tuple[int, LabelPlan]]:
    """Yield the first number of each label, which counts its orphans. The numbers of its delays follow."""
    first = 0
    for plan in plans:
        yield first, plan
        first += 1 + len(delay_ends(plan))
