"""Joins all views to the impressions: from the configuration to a plan, and from the plan to columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.config import SnapshotView, StaticView, View, WindowView
from ctr_samples.samples.features import IMPRESSION, view_columns
from ctr_samples.samples.impressions import keys_shown
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.views.aggregates import filled, in_reach, reach
from ctr_samples.samples.views.as_of import KEY, Join, JoinLimits, JoinStep, ViewFacts, join_by, plan_joins, view_type
from ctr_samples.samples.views.as_of.hot_keys import HotKeys, measure_hot_keys
from ctr_samples.samples.views.as_of.intervals import most_rows_of_a_key
from ctr_samples.samples.views.rows import as_of, usable, view_rows, within_reach
from ctr_samples.sparksql.columns import pair_key

LIMITS = JoinLimits()

_PAIR = "_pair"
"""The key of user and article together, while views are joined."""


def declared_facts(name: str, view: View) -> ViewFacts:
    """What the configuration alone tells about a view."""
    kind: Literal["static", "snapshot", "rows"]
    kind = "static" if isinstance(view, StaticView) else "snapshot" if isinstance(view, SnapshotView) else "rows"
    return ViewFacts(name, view.entity, kind, method=view.method)


class ViewJoiner:
    """The views of a configuration, read and ready to be joined to the impressions of a day. Runs on the driver."""

    def __init__(self, inputs: Inputs, spark: SparkSession) -> None:
        self._inputs, self._views = inputs, inputs.config.views
        needed = view_columns(spark, inputs.config)
        self._joins = {
            name: self._join(name, needed[name], inputs.watched(view.source, "views"))
            for name, view in self._views.items()
        }

    def types(self) -> dict[str, StructType]:
        """For each view the type of the struct that :meth:`join` adds, known before anything is joined."""
        return {name: view_type(join) for name, join in self._joins.items()}

    def plan(self) -> tuple[JoinStep, ...]:
        """How the views will be joined. Looks at the keys of small views, with a short Spark job for each."""
        return plan_joins([self._facts(name) for name in self._views])

    def join(self, impressions: DataFrame, steps: Sequence[JoinStep]) -> DataFrame:
        """Impressions with a struct for each view. Lazy, but for a count of keys where the log is large."""
        rows = impressions
        if any(view.article_key for view in self._views.values()):
            pair = pair_key(F.col(f"{IMPRESSION}.user"), F.col(f"{IMPRESSION}.article"))
            rows = rows.withColumn(_PAIR, pair)
        for step in steps:
            hot = self._hot_keys(step) if step.method == "union" else None
            rows = join_by(step.method, rows, [self._joins[name] for name in step.views], hot)
        for name, view in self._views.items():
            if isinstance(view, WindowView):
                rows = rows.withColumn(name, filled(rows, name, view.aggregates))
        return rows.drop(_PAIR)

    def _join(self, name: str, columns: Sequence[str], source: DataFrame) -> Join:
        view, day = self._views[name], self._inputs.day
        back = view.max_age
        if isinstance(view, WindowView):
            source, back = in_reach(source, view, day, f"views.{name}"), reach(view)
        near = within_reach(usable(view_rows(source, name, view, columns)), day, back)
        on = _PAIR if view.article_key else f"{IMPRESSION}.{view.entity}"
        return Join(as_of(name, view, on), near)

    def _keys(self, name: str) -> DataFrame:
        """The rows of a view without its columns, from a source whose rows are not counted."""
        return self._join(name, [], self._inputs.plain(self._views[name].source)).features

    def _facts(self, name: str) -> ViewFacts:
        view = self._views[name]
        size = None if view.counted is not None else self._inputs.sources[view.source].bytes
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
        shown, day = self._inputs.config.impressions, self._inputs.day
        log = self._inputs.sources[shown.source]
        if log.bytes is not None and log.bytes < LIMITS.measured_bytes:
            return None
        if step.entity == "user_article":
            return None  # no user sees one article so often
        views = [(self._keys(name), KEY) for name in step.views]
        counted = [(keys_shown(log.frame, shown, day, step.entity), step.entity), *views]
        keys = measure_hot_keys(counted, LIMITS.rows_of_a_hot_key)
        return HotKeys(keys, day.start, (day.end - day.start) / LIMITS.slices, LIMITS.slices)
