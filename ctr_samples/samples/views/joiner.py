"""Joins all views to the impressions: reads the configuration, plans the joins, and adds the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.config import DailyCountView, JobConfig, SnapshotView, StaticView, View, WindowView
from ctr_samples.samples.features import IMPRESSION, view_columns
from ctr_samples.samples.impressions import keys_shown
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.views.aggregates import Seen, counted_rows, filled, in_reach, reach
from ctr_samples.samples.views.as_of import (
    KEY,
    VALID_TO,
    Join,
    JoinLimits,
    JoinStep,
    ViewFacts,
    join_by,
    one_each,
    plan_joins,
    view_type,
    views_of,
)
from ctr_samples.samples.views.as_of.hot_keys import HotKeys, measure_hot_keys
from ctr_samples.samples.views.as_of.intervals import ViewSize, sizes_of_views
from ctr_samples.samples.views.as_of.validity import disjoint, in_sight
from ctr_samples.samples.views.counts import has_one_row
from ctr_samples.samples.views.keys import level_of, made_column, made_key, on_column
from ctr_samples.samples.views.rows import as_of, lasting, usable, view_rows, view_steps, within_reach
from ctr_samples.sparksql.columns import joint_key
from ctr_samples.sparksql.session import smallest_memory

_SHARE_OF_MEMORY = 16
"""Divisor of the memory available for broadcast views. On the driver, which collects them, they need up to four times
their size.
"""


def declared_facts(config: JobConfig) -> list[ViewFacts]:
    """Return the facts about views that the configuration alone determines."""
    return [_declared(config, name) for name in config.views]


def _declared(config: JobConfig, name: str) -> ViewFacts:
    view = config.views[name]
    kind: Literal["static", "snapshot", "rows"]
    kind = "static" if isinstance(view, StaticView) else "snapshot" if isinstance(view, SnapshotView) else "rows"
    return ViewFacts(name, view.joined_on, kind, method=view.method, level=level_of(config, name))


class ViewJoiner:
    """Views of a configuration, read and ready to join to the impressions of a day. Runs on the driver."""

    def __init__(self, inputs: Inputs, spark: SparkSession, few: DataFrame | None = None) -> None:
        """If ``few`` is given, join only these impressions, and only rows with their keys."""
        self._inputs, self._views, self._few = inputs, inputs.config.views, few
        self._needed = view_columns(spark, inputs.config)
        self._limits = JoinLimits(broadcast_bytes=smallest_memory(spark) // _SHARE_OF_MEMORY)
        self._joins = {name: self._cut(self._join(name, self._needed[name])) for name in self._views}

    def types(self) -> dict[str, StructType]:
        """Return the type of the struct that :meth:`join` adds for each view, without planning the join."""
        return {name: view_type(join) for name, join in self._joins.items()}

    def plan(self) -> tuple[JoinStep, ...]:
        """Plan the joins of the views. Measures the keys of small views, with one short Spark job for all of them."""
        if self._few is not None:
            return plan_joins(declared_facts(self._inputs.config))
        small = {name: self._join(name, self._needed[name], watched=False).features for name in self._small()}
        sizes = sizes_of_views(small) if small else {}
        return plan_joins([self._facts(name, sizes.get(name)) for name in self._views], self._limits)

    def join(self, impressions: DataFrame, steps: Sequence[JoinStep]) -> DataFrame:
        """Add a struct for each view of the steps. Lazy, except for a count of keys if the log is large."""
        rows = impressions
        for step in steps:
            hot = self._hot_keys(step) if step.method == "union" and self._few is None else None
            made = made_column(step.on)
            if made is not None and made not in rows.columns:
                rows = rows.withColumn(made, made_key(rows, step.on, f"views.{step.views[0]}.on"))
            rows = join_by(step.method, rows, [self._joins[name] for name in step.views], hot)
            for name in step.views:
                view = self._views[name]
                if isinstance(view, WindowView):
                    rows = rows.withColumn(name, filled(rows, name, view.aggregates))
        joined = views_of(steps)
        return rows.select(*impressions.columns, *[name for name in self._views if name in joined])

    def _join(self, name: str, columns: Sequence[str], *, watched: bool = True) -> Join:
        """Prepare a view with some of its columns. Unless ``watched``, does not count the rows of its source."""
        inputs, view, span = self._inputs, self._views[name], self._inputs.span
        if isinstance(view, WindowView | DailyCountView):
            cut = partial(view_steps, name=name, view=view)
            rows = self._counted(view, inputs.with_kept(name, view.source, "views", cut, watched=watched), columns)
        else:
            columns = self._needed[name] if name in inputs.kept else columns  # kept rows have all columns
            cut = partial(view_rows, name=name, view=view, columns=columns)
            rows = inputs.with_kept(name, view.source, "views", cut, watched=watched)
        back = reach(view) if isinstance(view, WindowView) else view.max_age
        near = within_reach(usable(rows), span, back)
        return Join(as_of(name, view, on_column(view.joined_on)), self._of_few(view, near))

    def _counted(self, view: WindowView | DailyCountView, steps: DataFrame, columns: Sequence[str]) -> DataFrame:
        span, zone = self._inputs.span, self._inputs.config.timezone
        return counted_rows(in_reach(steps, view, span, zone), view, columns, Seen.of(view, span, zone))

    def _of_few(self, view: View, rows: DataFrame) -> DataFrame:
        """Keep only the rows that the few impressions need, where possible.

        A key from another view is not known yet, and all rows of a snapshot view are needed to find its latest
        snapshot.
        """
        if self._few is None or view.looked_up_in or isinstance(view, SnapshotView):
            return rows
        return with_keys_of(self._few, view.joined_on, rows, KEY)

    def _cut(self, join: Join) -> Join:
        """Split rows that end, and reduce each key to one row if the view should have one row per key."""
        name, watch = join.how.name, self._inputs.watches.rows
        if has_one_row(self._views[name]):
            return Join(join.how, watch.on_keys(name, one_each(join.features)), join.features)
        if VALID_TO not in join.features.columns:
            return join
        rows = in_sight(lasting(watch.on_rows(name, join.features), self._inputs.span), join.how)
        return Join(join.how, disjoint(watch.on_sight(name, rows)))

    def _keys(self, name: str) -> DataFrame:
        """Rows of a view without its columns, from an uncounted source."""
        return self._join(name, [], watched=False).features

    def _small(self) -> list[str]:
        """Candidates for broadcast: views that may turn out to have few rows."""
        views = {n: v for n, v in self._views.items() if not (isinstance(v, StaticView) or v.method or v.counted)}
        sizes = {name: self._inputs.sources[view.source].bytes for name, view in views.items()}
        return [name for name, size in sizes.items() if size is not None and size <= self._limits.broadcast_bytes]

    def _facts(self, name: str, size: ViewSize | None) -> ViewFacts:
        view, declared = self._views[name], _declared(self._inputs.config, name)
        if view.counted is not None:
            return declared
        facts = replace(declared, bytes=self._inputs.sources[view.source].bytes)
        if size is None:
            return facts
        return replace(facts, bytes_in_memory=size.bytes_in_memory, rows_of_a_key=size.rows_of_a_key)

    def _hot_keys(self, step: JoinStep) -> HotKeys | None:
        """Keys of a join with too many rows for one task. Measured only if the log is large."""
        shown, span = self._inputs.config.impressions, self._inputs.span
        size = self._inputs.shown().bytes
        if span.slices(self._limits.slices) is None or (size is not None and size < self._limits.measured_bytes):
            return None
        views = [(self._keys(name), KEY, 1.0) for name in step.views]
        if any("." in part for part in step.on):
            # The impressions' keys are known only after another view is joined, so all keys of the view count as hot.
            return self._sliced(measure_hot_keys(views, 1))
        if shown.shown_key in step.on and len(step.on) > 1:
            return None  # no user sees the same item that often
        named = keys_shown(self._inputs.sample_shown(self._limits.sample), shown, span, step.on)
        on = named.select(joint_key([F.col(name) for name in step.on]).alias(KEY))
        return self._sliced(measure_hot_keys([(on, KEY, self._limits.sample), *views], self._limits.rows_of_a_hot_key))

    def _sliced(self, keys: tuple[str, ...]) -> HotKeys | None:
        cut = self._inputs.span.slices(self._limits.slices)
        return None if cut is None else HotKeys(keys, *cut, self._limits.slices)


def with_keys_of(few: DataFrame | None, on: Sequence[str], rows: DataFrame, key: str) -> DataFrame:
    """Keep the rows with a key of the ``few`` impressions, which are collected. Keeps all rows if ``few`` is None."""
    if few is None:
        return rows
    own = joint_key([F.col(f"{IMPRESSION}.{name}") for name in on]).cast("string")
    keys = {row[0] for row in few.select(own).collect()}
    return rows.where(F.col(key).cast("string").isin([one for one in keys if one is not None]))
