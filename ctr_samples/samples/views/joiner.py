"""Joins all views to the impressions: reads the configuration, plans the joins, and adds the columns."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial, reduce

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ctr_samples.config import DailyCountView, JobConfig, SnapshotView, View, WindowView
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.features.row import IMPRESSION, NO_FEATURES, ROWS, SampleColumns, view_columns
from ctr_samples.samples.impressions import keys_shown
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.views.aggregates import Seen, counted_rows, in_reach, reach
from ctr_samples.samples.views.as_of.joining import SmallViews, join_by_shuffle
from ctr_samples.samples.views.as_of.matching import KEY, PAYLOAD
from ctr_samples.samples.views.as_of.planning import (
    VALID_TO,
    HotKeys,
    Join,
    JoinLimits,
    JoinStep,
    Method,
    ViewFacts,
    measure_hot_keys,
    plan_joins,
    views_of,
)
from ctr_samples.samples.views.counts import EMPTY
from ctr_samples.samples.views.features import ViewFeatures, absent_payloads, with_looked_up
from ctr_samples.samples.views.rows import as_of, is_empty, lasting, usable, view_rows, view_steps, within_reach
from ctr_samples.sparksql.columns import bytes_of, joint_key, key_column
from ctr_samples.sparksql.session import smallest_memory

_BYTES_OF_A_ROW = 100
"""Size in bytes of a row of a small view without its payload."""

_SURELY = 32
"""A view is small without being measured if so many times the size of its files can be broadcast."""

_SHARE_OF_MEMORY = 16
"""Divisor of the memory for broadcast views. On the driver, which collects them, they need up to four times their size."""


def declared_facts(config: JobConfig) -> list[ViewFacts]:
    """Return the facts about views that the configuration alone determines."""
    return [_declared(config, name) for name in config.views]


def _declared(config: JobConfig, name: str) -> ViewFacts:
    view = config.views[name]
    method: Method | None = None if view.method is None else "broadcast" if view.method == "intervals" else "shuffle"
    return ViewFacts(name, view.joined_on, method=method, level=level_of(config, name))


def level_of(config: JobConfig, name: str) -> int:
    """Return the length of the chain of views to join before this view."""
    return max((1 + level_of(config, other) for other in config.views[name].looked_up_in), default=0)


class ViewJoiner:
    """Views of a configuration, read and ready to join to the impressions of a day. Runs on the driver."""

    def __init__(self, inputs: Inputs, spark: SparkSession, few: DataFrame | None = None) -> None:
        """If ``few`` is given, join only these impressions, and only rows with their keys."""
        self._inputs, self._views, self._few = inputs, inputs.config.views, few
        self._needed = self._deciding = view_columns(spark, inputs.whole or inputs.config, inputs.columns_of)
        if inputs.whole is not None:
            needed = view_columns(spark, inputs.config, inputs.columns_of)
            lowered = {name: {column.lower() for column in some} for name, some in needed.items()}
            self._needed = {n: [one for one in self._deciding[n] if one.lower() in some] for n, some in lowered.items()}
        self._limits = JoinLimits(broadcast_bytes=smallest_memory(spark) // _SHARE_OF_MEMORY)
        self._joins = {name: self._cut(self._join(name)) for name in self._views}
        self._hot: dict[tuple[str, ...], HotKeys] = {}
        self._reading: Future[SmallViews] | None = None
        self._small: SmallViews | None = None
        self._check_given_keys(spark)

    def rows(self, name: str) -> DataFrame:
        """Return the rows of a view that impressions of the day may see, with their keys, times and payloads."""
        return self._joins[name].features

    def types(self) -> dict[str, StructType]:
        """Return the type of the struct of each view from which features are computed, without planning the join."""
        return {name: join.kind for name, join in self._joins.items()}

    def compute(self, columns: SampleColumns | None) -> None:
        """Let the rows of each view have the features that are computed over them, and the columns that other features
        or keys need. Without ``columns``, there are no features, and all columns stay. Call it once, before :meth:`add`.

        Runs a short Spark job or two for the features of impressions without a row.
        """
        kept = self._needed if columns is None else {name: self._kept(name, columns) for name in self._views}
        columns = columns or NO_FEATURES
        ready = {
            name: ViewFeatures(name, self._views[name], columns, join.kind, tuple(kept[name]))
            for name, join in self._joins.items()
        }
        absent = absent_payloads(self._inputs.spark, columns, list(ready.values()))
        for name, join in self._joins.items():
            how = replace(join.how, absent=absent[name])
            self._joins[name] = replace(join, how=how, made=ready[name].over, payload=ready[name].payload)

    def _kept(self, name: str, columns: SampleColumns) -> list[str]:
        """Return the columns of a view that its struct keeps: for features over joined rows, and as keys of other views."""
        fields = columns.fields_of(name)
        return [one for one in self._needed[name] if fields is None or one.lower() in fields | self._given(name)]

    def _given(self, name: str) -> set[str]:
        """Return the columns of a view that are keys of other views, in lower case."""
        parts = [part.split(".") for view in self._views.values() for part in view.joined_on]
        return {part[1].lower() for part in parts if len(part) > 1 and part[0] == name}

    def _check_given_keys(self, spark: SparkSession) -> None:
        """Raise InputError if a key that another view gives is neither text nor an integer."""
        given = [(name, part) for name, view in self._views.items() for part in view.joined_on if "." in part]
        if given:
            blank = spark.createDataFrame([], StructType([StructField(n, kind) for n, kind in self.types().items()]))
            for name, part in given:
                key_column(blank, part, f"views.{name}.on")

    def plan(self) -> Sequence[JoinStep]:
        """Plan the joins of the views, after :meth:`compute` and before :meth:`add`. Measures those that may be small, in one
        short Spark job, and begins to read those to broadcast, in a thread: planning the rest leaves the cores idle.
        """
        facts = self._measured_facts() if self._few is None else declared_facts(self._inputs.config)
        steps = plan_joins(facts, self._limits)
        small = [self._joins[name] for name in views_of(step for step in steps if step.method == "broadcast")]
        if small:
            of_this_run = inheritable_thread_target(self._inputs.spark)
            thread = ThreadPoolExecutor(1, "small-views")
            self._reading = thread.submit(of_this_run(copy_context().run), SmallViews.of, small)
            thread.shutdown(wait=False)
        return steps

    def _measured_facts(self) -> list[ViewFacts]:
        on_disk = self._maybe_small()
        tiny = {name: size for name, size in on_disk.items() if size * _SURELY <= self._limits.broadcast_bytes}
        others = {name: self._join(name, watched=False).features for name in on_disk if name not in tiny}
        measured = [size_of(name, features) for name, features in others.items()]
        sizes = tiny | (dict(map(tuple, reduce(DataFrame.unionAll, measured).collect())) if measured else {})
        return [self._facts(name, sizes.get(name)) for name in self._views]

    def add(self, stage: Stage, steps: Sequence[JoinStep], early: SampleColumns | None = None) -> Stage:
        """Add a struct for each view of the steps. Waits for the small views, and counts keys if the log is large.

        With ``early``, which are computed next over joined rows, broadcast views have only the columns that these need, and
        impressions share lists and maps if they stay in Python until then.
        """
        moving = [step for step in steps if step.method == "shuffle"]
        for step in steps:
            if step.method == "broadcast":
                for name in step.views:
                    stage = self._read().join(stage, name, None if early is None else self._kept(name, early))
                continue
            joins = [self._joins[name] for name in step.views]
            sharing = early if early and step == moving[-1] and not early.moves(ROWS) else NO_FEATURES
            wide = {join.how.name: sharing.wide_fields(join.how.name, join.kind) for join in joins}
            stage = join_by_shuffle(stage, joins, self._inputs.partitions(), self.hot_keys(step), wide)
        return stage

    def _read(self) -> SmallViews:
        """Wait for the rows of all broadcast views."""
        if self._small is None:
            assert self._reading is not None
            self._small = self._reading.result()
            self._inputs.watches.tasks.include(self._small.irregular())
        return self._small

    def _join(self, name: str, *, watched: bool = True) -> Join:
        """Prepare a view, with all columns that decide between its rows. Counts the rows of its source if ``watched``."""
        inputs, view, span = self._inputs, self._views[name], self._inputs.span
        if isinstance(view, WindowView | DailyCountView):
            cut = partial(self._steps_of, name, view)
            steps = inputs.with_kept(name, view.source, "views", cut, watched=watched)
            rows = self._counted(view, steps, self._needed[name])
        else:
            cut = partial(view_rows, name=name, view=view, columns=self._deciding[name])
            rows = inputs.with_kept(name, view.source, "views", cut, watched=watched)
        back = reach(view) if isinstance(view, WindowView) else view.max_age
        near = within_reach(usable(rows), span, back)
        return Join(as_of(name, view, view.joined_on), self._of_few(view, near))

    def _steps_of(self, name: str, view: WindowView | DailyCountView, source: DataFrame) -> DataFrame:
        return view_steps(with_looked_up(self._inputs, source, name, view), name, view)

    def _counted(self, view: WindowView | DailyCountView, steps: DataFrame, columns: Sequence[str]) -> DataFrame:
        span, zone = self._inputs.span, self._inputs.config.timezone
        return counted_rows(in_reach(steps, view, span, zone), view, columns, Seen.of(view, span, zone))

    def _of_few(self, view: View, rows: DataFrame) -> DataFrame:
        """Keep only the rows that the few impressions need, where possible.

        A key from another view is not known yet, and all rows of a snapshot view are needed to find its latest snapshot.
        """
        if self._few is None or view.looked_up_in or isinstance(view, SnapshotView):
            return rows
        return with_keys_of(self._few, view.joined_on, rows, KEY)

    def _cut(self, join: Join) -> Join:
        """Count the rows that end, and keep those that last."""
        if VALID_TO not in join.features.columns:
            return join
        empty = {f"{join.how.name}.{EMPTY}": F.count_if(is_empty())}
        rows = self._inputs.watches.observed.on(join.features, {"rows": empty})
        return replace(join, features=lasting(rows, self._inputs.span))

    def _maybe_small(self) -> dict[str, int]:
        """Return the sizes of the files of views that may turn out to have few rows, the candidates for broadcast."""
        views = {n: v for n, v in self._views.items() if not (v.method or v.counted)}
        sizes = {name: self._inputs.sources[view.source].bytes for name, view in views.items()}
        return {n: size for n, size in sizes.items() if size is not None and size <= self._limits.broadcast_bytes}

    def _facts(self, name: str, size: int | None) -> ViewFacts:
        view, declared = self._views[name], _declared(self._inputs.config, name)
        if view.counted is not None:
            return declared
        return replace(declared, bytes=self._inputs.sources[view.source].bytes, bytes_in_memory=size)

    def hot_keys(self, step: JoinStep) -> HotKeys:
        """Keys of a join with too many impressions for one task. Measured only in a large log, once for each key."""
        if step.on not in self._hot:
            self._hot[step.on] = self._measured(step)
        return self._hot[step.on]

    def _measured(self, step: JoinStep) -> HotKeys:
        shown, span, limits = self._inputs.config.impressions, self._inputs.span, self._limits
        size = self._inputs.shown().bytes
        if self._few is not None or (size is not None and size < limits.measured_bytes):
            return HotKeys()
        if any("." in part for part in step.on) or (shown.shown_key in step.on and len(step.on) > 1):
            return HotKeys()  # known only after another view is joined, or no user sees the same item that often
        named = keys_shown(self._inputs.sample_shown(limits.sample), shown, span, step.on)
        on = named.select(joint_key([F.col(name) for name in step.on]).alias(KEY))
        return HotKeys(measure_hot_keys(on, limits.sample, limits.rows_of_a_hot_key))


def size_of(name: str, features: DataFrame) -> DataFrame:
    """Return the name of a view, and the memory that its rows take, approximately."""
    payload = F.lit(_BYTES_OF_A_ROW) + bytes_of(F.col(PAYLOAD), features.schema[PAYLOAD].dataType)
    return features.agg(F.coalesce(F.sum(payload), F.lit(0))).select(F.lit(name), "*")


def with_keys_of(few: DataFrame | None, on: Sequence[str], rows: DataFrame, key: str) -> DataFrame:
    """Keep the rows with a key of the ``few`` impressions, which are collected. Keeps all rows if ``few`` is None."""
    if few is None:
        return rows
    own = joint_key([F.col(f"{IMPRESSION}.{name}") for name in on]).cast("string")
    keys = {row[0] for row in few.select(own).collect()}
    return rows.where(F.col(key).cast("string").isin([one for one in keys if one is not None]))
