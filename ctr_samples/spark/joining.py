"""Joins all views to the impressions: from the configuration to a plan, and from the plan to columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, SnapshotView, StaticView, View, WindowView
from ctr_samples.spark.aggregates import filled, in_reach, reach
from ctr_samples.spark.as_of import KEY, AsOf, Join, JoinStep, Limits, ViewFacts, join_by, plan_joins
from ctr_samples.spark.as_of.hot_keys import HotKeys, measure_hot_keys
from ctr_samples.spark.as_of.intervals import most_rows_of_a_key
from ctr_samples.spark.columns import pair_key
from ctr_samples.spark.day import Day
from ctr_samples.spark.features import IMPRESSION, view_columns
from ctr_samples.spark.impressions import keys_shown
from ctr_samples.spark.sources import SourceFrame
from ctr_samples.spark.views import usable, view_rows, within_reach

LIMITS = Limits()

_PAIR = "_pair"
"""The key of user and article together, while views are joined."""


def as_of(name: str, view: View, on: str) -> AsOf:
    """How a view is joined on a column of the impressions."""
    snapshot = isinstance(view, SnapshotView)
    return AsOf(name, on, view.max_age, view.inclusive, snapshot, in_order=view.known_in_order)


def declared_facts(name: str, view: View) -> ViewFacts:
    """What the configuration alone says of a view."""
    kind: Literal["static", "snapshot", "rows"]
    kind = "static" if isinstance(view, StaticView) else "snapshot" if isinstance(view, SnapshotView) else "rows"
    return ViewFacts(name, view.entity, kind, method=view.method)


@dataclass(frozen=True, slots=True)
class ViewJoiner:
    """The views of a configuration on one day. Runs on the driver."""

    config: JobConfig
    sources: Mapping[str, SourceFrame]
    day: Day
    measures: bool = True
    """Whether it may look at data to find the keys that are too large for a task."""

    def declared_plan(self) -> tuple[JoinStep, ...]:
        """The steps as far as the configuration tells; looks at no data."""
        return plan_joins([declared_facts(name, view) for name, view in self.config.views.items()])

    def plan(self) -> tuple[JoinStep, ...]:
        """How the views will be joined. Looks at the keys of small views, with a short Spark job for each."""
        return plan_joins([self._facts(name) for name in self.config.views])

    def join(self, impressions: DataFrame, steps: Sequence[JoinStep], read: Callable[[str], DataFrame]) -> DataFrame:
        """Impressions with a struct for each view. Lazy, but for a count of keys where the log is large.

        ``read`` gives the rows of a source, and may count them as they pass.
        """
        needed = view_columns(impressions.sparkSession, self.config)
        rows = impressions
        if any(view.article_key for view in self.config.views.values()):
            pair = pair_key(F.col(f"{IMPRESSION}.user"), F.col(f"{IMPRESSION}.article"))
            rows = rows.withColumn(_PAIR, pair)
        for step in steps:
            joins = [self._view(name, needed[name], read(self.config.views[name].source)) for name in step.views]
            hot = self._hot_keys(step) if step.method == "union" and self.measures else None
            rows = join_by(step.method, rows, joins, hot)
        for name, view in self.config.views.items():
            if isinstance(view, WindowView):
                rows = rows.withColumn(name, filled(rows, name, view.aggregates))
        return rows.drop(_PAIR)

    def _view(self, name: str, columns: Sequence[str], source: DataFrame) -> Join:
        view = self.config.views[name]
        if isinstance(view, WindowView):
            source = in_reach(source, view, self.day, f"views.{name}")
        back = reach(view) if isinstance(view, WindowView) else view.max_age
        near = within_reach(usable(view_rows(source, name, view, columns)), self.day, back)
        on = _PAIR if view.article_key else f"{IMPRESSION}.{view.entity}"
        return Join(as_of(name, view, on), near)

    def _keys(self, name: str) -> DataFrame:
        """The rows of a view without any column, from a source that nobody counts."""
        return self._view(name, [], self.sources[self.config.views[name].source].frame).features

    def _facts(self, name: str) -> ViewFacts:
        view = self.config.views[name]
        size = None if view.counted is not None else self.sources[view.source].bytes
        rows = None
        if (
            size is not None
            and size <= LIMITS.broadcast_bytes
            and not isinstance(view, StaticView)
            and view.method is None
        ):
            rows = most_rows_of_a_key(self._keys(name))
        return replace(declared_facts(name, view), bytes=size, rows_of_a_key=rows)

    def _hot_keys(self, step: JoinStep) -> HotKeys | None:
        """The keys of a join that have too many rows for one task; measured where the log is large."""
        source = self.sources[self.config.impressions.source]
        if source.bytes is not None and source.bytes < LIMITS.measured_bytes:
            return None
        if step.entity == "user_article":
            return None  # no user sees one article so often
        shown = keys_shown(source.frame, self.config.impressions, self.day, step.entity)
        views = [(self._keys(name), KEY) for name in step.views]
        keys = measure_hot_keys([(shown, step.entity), *views], LIMITS.rows_of_a_hot_key)
        return HotKeys(keys, self.day.start, (self.day.end - self.day.start) / LIMITS.slices, LIMITS.slices)
