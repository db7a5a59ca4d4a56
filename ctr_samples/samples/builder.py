"""Plan the samples as one lazy DataFrame, with watches that count the rows passing through."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructField, StructType

from ctr_samples.config import Label, RowLabel
from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.aside import with_columns
from ctr_samples.samples.columnar.columns import Flags, Integers, integers
from ctr_samples.samples.columnar.stages import Fields, Stage
from ctr_samples.samples.earlier import EarlierFeatures
from ctr_samples.samples.features.complete import MakeSamples
from ctr_samples.samples.features.pairs import PAIRS
from ctr_samples.samples.features.row import (
    HOUR,
    IMPRESSION,
    NO_FEATURES,
    REQUEST,
    ROWS,
    SPLIT,
    SampleColumns,
    made,
    order_of,
)
from ctr_samples.samples.histories import KEY, HistoryPlan, actions_of_history, history_plan, history_type, join_history
from ctr_samples.samples.impressions import (
    DROPPED,
    SKIP_ABOVE,
    Repeats,
    cut_impressions,
    impressions_in,
    is_below,
    keys_of_repeats,
    row_label,
)
from ctr_samples.samples.inputs.clocks import readers
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.labels.attribution import row_values
from ctr_samples.samples.labels.counts import LabelMasks
from ctr_samples.samples.labels.events import (
    LABEL,
    actions_of_logs,
    events_among,
    events_of,
    key_of_action,
    of_shown,
    shown_as,
    shown_in,
)
from ctr_samples.samples.labels.labelling import Labelling
from ctr_samples.samples.labels.plans import (
    can_lie_by,
    impression_reach,
    label_columns,
    label_fields,
    plan_labels,
    rows_among,
)
from ctr_samples.samples.period import Span
from ctr_samples.samples.requests import RequestSizes, request_hash, request_sizes, with_beginning
from ctr_samples.samples.sampling import (
    SAMPLED_OUT,
    DropSampledOut,
    is_sampled_out,
    rules_of,
    sample_again,
    sampled,
    split_column,
)
from ctr_samples.samples.sink import in_final_order, with_shuffle
from ctr_samples.samples.views.as_of.planning import JoinStep, order_steps, views_of
from ctr_samples.samples.views.joiner import ViewJoiner, with_keys_of
from ctr_samples.sparksql.columns import micros_at, micros_of, quoted
from ctr_samples.vocabulary import FittedState

_IS_SAMPLE = "_is_sample"
"""Column of events: whether one is an impression of the day with what was shown. Repeats are found later."""


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """Samples of a day in final order, not yet computed, and the join steps of their views.

    ``samples`` has the columns of the contract, ``_split``, ``_request``, ``_shuffle``, ``_hour`` and ``_user``.
    ``order`` has the columns that order the samples of a split, none if they come in the order of an earlier generation.
    """

    samples: Stage
    steps: Sequence[JoinStep]
    order: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SampleBuilder:
    """Plans the samples of one day on the driver. Nothing runs until the sink does."""

    inputs: Inputs
    state: FittedState | None = None

    def build(self) -> SamplePlan:
        """Plan the samples. Raises errors that depend only on the source schemas before any data is read."""
        events, joins, columns = self._started()
        joins.views.compute(columns)
        steps = joins.views.plan()
        stage = self._labelled(events, columns, joins.first_key(steps), joins.unused(columns))
        stage = joins.add(self._kept(stage), columns, steps, joins.fields_after(steps))
        stage = in_final_order(stage, self.inputs.config.output.partitions, order_of(self.inputs.config))
        return SamplePlan(joins.completed(stage, columns, steps), steps, order_of(self.inputs.config))

    def check(self) -> None:
        """Plan only as much as the source schemas allow. Raises the same errors as :meth:`build`."""
        events, _, columns = self._started()
        self._labelled(events, columns)

    def build_beside(self, earlier: EarlierFeatures, others: Collection[str]) -> SamplePlan:
        """Plan the samples of :meth:`build` with features from an earlier generation. Computes only the ``others``, with
        the views and histories that they need, and the labels.
        """
        few = self.inputs.config.only(others)
        few = few.model_copy(update={"output": few.output.model_copy(update={"layout": "columns"})})
        made_now = replace(self, inputs=replace(self.inputs, config=few, whole=self.inputs.config)).build()
        return replace(made_now, samples=earlier.behind(made_now.samples))

    def build_again(self, earlier: EarlierFeatures) -> SamplePlan:
        """Plan the samples of an earlier generation, with the features that are taken from it. Reads no logs.

        If only a ``few`` of them stay, the configuration must sample by ``negatives``.
        """
        config, sampling = self.inputs.config, self.inputs.config.sampling
        samples = earlier.samples(self.inputs.spark, config.output.partitions)
        if earlier.few:
            assert sampling is not None
            assert sampling.negatives is not None
            again = partial(sample_again, tuple(config.labels), sampling.negatives, sampling.salt)
            samples = samples.counted(again, samples.kind)
        return SamplePlan(samples, (), ())

    def _started(self) -> tuple[DataFrame, _Joins, SampleColumns]:
        """Return impressions and actions, the joins, and the features."""
        events = self._events()
        every = shown_in(events.schema)
        shown = StructType([every[name] for name in self.inputs.config.impressions.column_names])
        joins = _Joins.of(self.inputs, shown)
        return events, joins, SampleColumns.of(joins.blank(), self.inputs.config, self.state)

    def _kept(self, stage: Stage) -> Stage:
        """Return the labelled impressions that sampling keeps."""
        watches = self.inputs.watches
        if self.inputs.config.sampling is not None:
            stage = stage.counted(DropSampledOut.of(self.inputs.config), stage.kind)
        return stage.counted(watches.canary.step(stage.kind), stage.kind)

    def build_of(self, rows: DataFrame) -> DataFrame:
        """Return the samples of a few impressions of :meth:`labelled_impressions`, with the values of :meth:`build`. Joins only
        rows that have a key of these impressions.

        Has columns of :func:`~ctr_samples.samples.features.complete.beside` with the impression and its row of each view.
        """
        joins = _Joins.of(self.inputs, rows.schema[IMPRESSION].dataType, few=rows)
        columns = SampleColumns.of(joins.blank(), self.inputs.config, self.state)
        joins.views.compute(columns)
        steps = joins.views.plan()
        stage = joins.add(with_shuffle(Stage.of(self._placed(rows, columns))), columns, steps, joins.added_again(steps))
        stage = joins.completed(stage, columns, steps, also=[IMPRESSION, *self.inputs.config.views])
        return stage.rows(self.inputs.watches.tasks)

    def _placed(self, rows: DataFrame, columns: SampleColumns) -> DataFrame:
        """Add what is computed from the struct of an impression: its places, and its features."""
        config = self.inputs.config
        hour = F.hour(f"{IMPRESSION}.impression_time").cast("tinyint")
        places = {SPLIT: split_column(config, self.inputs.span), REQUEST: request_hash(config), HOUR: hour}
        by_rate = config.sampling is not None and not config.sampling.has_rules
        dropped = {SAMPLED_OUT: is_sampled_out(config)} if by_rate else {}
        return columns.add(rows.withColumns(places | dropped), IMPRESSION)

    def request_sizes(self) -> RequestSizes | None:
        """Measure the requests of the day. See :func:`ctr_samples.samples.requests.request_sizes`."""
        mine = self.impressions().where(self.inputs.span.contains(F.col("impression_time")))
        return request_sizes(self.inputs.config, mine)

    def joined(self) -> DataFrame:
        """Return the labelled impressions that sampling keeps, with a struct per view and per history."""
        return self._joined(sampled(self.inputs.config, self.inputs.span, self.labelled_impressions()))[0]

    def joined_few(self, ids: Sequence[int]) -> tuple[DataFrame, ViewJoiner]:
        """Return the impressions with some ids, with a struct per view and per history but without labels, and the views
        with the rows that have their keys. Runs a job that finds the impressions.
        """
        wanted = self.inputs.spark.createDataFrame([(one,) for one in ids], "impression_id bigint")
        found = self.impressions().join(F.broadcast(wanted), "impression_id")
        names = self.inputs.config.impressions.column_names
        rows = found.select(F.struct(*map(quoted, names)).alias(IMPRESSION)).localCheckpoint()
        return self._joined(rows, few=rows)

    def _joined(self, rows: DataFrame, few: DataFrame | None = None) -> tuple[DataFrame, ViewJoiner]:
        joins = _Joins.of(self.inputs, rows.schema[IMPRESSION].dataType, few)
        joins.views.compute(None)
        stage = joins.views.add(joins.with_histories(Stage.of(rows)), joins.views.plan())
        return stage.rows(self.inputs.watches.tasks), joins.views

    def labelled_impressions(self, sharing: tuple[str, Collection[str | None]] | None = None) -> DataFrame:
        """Return the day's impressions as the struct column ``impression``, plus label columns.

        With ``sharing``, returns only impressions with one of the values of a key, as text. None is a missing key.
        """
        labels = label_columns(self.inputs.config.labels)
        stage = self._labelled(self._events() if sharing is None else _with_key(self._events(), *sharing))
        return stage.rows(self.inputs.watches.tasks).select(IMPRESSION, *labels)

    def _events(self) -> DataFrame:
        """Return impressions and actions of the day and of what it may need around it, each in a row."""
        inputs, plans = self.inputs, plan_labels(self.inputs.config)
        if inputs.config.impressions.identity != "row":
            return events_of(self._events_in, inputs.config, plans, inputs.span)
        # Numbering identical rows needs a separate shuffle, before the key filter.
        actions = actions_of_logs(plans, inputs.span, lambda source: inputs.watched(source, "labels"))
        return events_among(self.impressions(), actions, plans)

    def _labelled(
        self,
        events: DataFrame,
        columns: SampleColumns = NO_FEATURES,
        by: tuple[str, ...] = (),
        unused: Collection[str] = (),
    ) -> Stage:
        """Return the impressions among events, with what is computed from them, and with labels. They lie ``by`` a key, and
        lack the ``unused`` columns, if possible.
        """
        inputs, config = self.inputs, self.inputs.config
        shown, plans, rows = config.impressions, plan_labels(config), rows_among(config.labels)
        # These depend on other impressions of the day, or on labels, so they need Spark.
        has_rules = config.sampling is not None and config.sampling.has_rules
        is_late = shown.skip_above is not None or config.split.needs_beginnings or has_rules
        carried: tuple[str, ...] = ()
        if not is_late:
            there = F.col(LABEL).isNull()
            whole = F.struct(*[of_shown(name).alias(name) for name in shown_in(events.schema).names])
            has_item = F.lit(True) if shown.shown_key is None else of_shown(shown.shown_key).isNotNull()
            is_sample = there & has_item & inputs.span.contains(of_shown("impression_time"))
            told = events.withColumn(_IS_SAMPLE, is_sample).withColumn(IMPRESSION, whole)
            placed = self._placed(told, columns.where(F.col(_IS_SAMPLE)))
            carried = tuple(name for name in placed.columns if name not in (*told.columns, IMPRESSION))
            events = placed.select(*events.columns, *[F.when(there, F.col(quoted(n))).alias(n) for n in carried])
            events = events.drop(*map(shown_as, unused))
        by = by if not is_late and can_lie_by(plans, shown.entities, by) else ()
        labelling = Labelling(plans, inputs.span, Repeats.of(shown, config.timezone), tuple(rows.items()), carried, by)
        repeated = [] if shown.identity == "row" else keys_of_repeats(shown, of_shown)
        flat = labelling.stage(events, inputs.partitions(), repeated)
        own = tuple(name for name in shown.column_names if name in flat.kind.names)
        pack = _Pack(own, carried, tuple(config.labels.items()), inputs.span)
        stage = flat.each(pack, pack.kind(flat.kind))
        if not is_late:
            return stage
        looked_back = self._looked_back(stage.rows(inputs.watches.tasks))
        looked_back = looked_back if (rules := rules_of(config, inputs.span, looked_back)) is None else rules
        return Stage.of(self._placed(looked_back, columns))

    def _looked_back(self, labelled: DataFrame) -> DataFrame:
        """Return what depends on other impressions of the day: where requests begin, without impressions below the last click
        of their list if ``skip_above`` is set.
        """
        config, labels = self.inputs.config, label_columns(self.inputs.config.labels)
        flat = labelled.select(f"{IMPRESSION}.*", *labels)
        if config.impressions.skip_above is not None:
            marked = flat.withColumn(DROPPED, is_below(config.impressions.skip_above, config.impressions))
            flat = self.inputs.watches.observed.on(marked, {"impressions": {SKIP_ABOVE: F.count_if(DROPPED)}})
            flat = flat.where(~F.col(DROPPED)).drop(DROPPED)
        flat = with_beginning(config, flat)
        own = [name for name in flat.columns if name not in labels]
        return flat.select(F.struct(*map(quoted, own)).alias(IMPRESSION), *labels)

    def _events_in(self, source: str) -> DataFrame:
        mine = dict.fromkeys(one.use for one in readers(self.inputs.config) if one.source == source)
        return self.inputs.watched(source, *[use for use in mine if use in ("impressions", "labels")])

    def impressions(self) -> DataFrame:
        """Return the impressions of the day and of the label reach around it, repeats too if rows are impressions."""
        shown, span = self.inputs.config.impressions, self.inputs.span
        log = self.inputs.watched(shown.source, "impressions")
        rows = rows_among(self.inputs.config.labels)
        reach = impression_reach(self.inputs.config, span)
        if shown.identity == "row":
            return impressions_in(log, shown, span, reach, rows)
        impressions = cut_impressions(log, shown, span, self.inputs.partitions(), reach, rows)
        return impressions.where(F.col(DROPPED).isNull()).drop(DROPPED)


@dataclass(frozen=True, slots=True)
class _Pack:
    """Packs the columns of an impression into a struct, and completes the labels. Runs on executors."""

    own: tuple[str, ...]
    carried: tuple[str, ...]
    labels: tuple[tuple[str, Label], ...]
    span: Span

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the packed impressions of a batch."""
        shown = pa.StructArray.from_arrays([rows.column(name) for name in self.own], list(self.own))
        columns = {IMPRESSION: shown} | {name: rows.column(name) for name in self.carried}
        for name, label in self.labels:
            if isinstance(label, RowLabel):
                known = self._known(integers(rows.column("impression_time")) + micros_of(label.matures_after))
                columns |= row_values(name, label, rows.column(row_label(name)), known)
            else:
                columns |= {column: rows.column(column) for column in label_columns({name: label})}
        return pa.RecordBatch.from_pydict(columns)

    def _known(self, micros: Integers) -> Flags:
        known_by = self.span.known_by
        return np.ones(len(micros), np.bool_) if known_by is None else micros <= micros_at(known_by)

    def kind(self, flat: StructType) -> StructType:
        """Return the type of the packed impressions."""
        kind = StructType([StructField(IMPRESSION, StructType([flat[name] for name in self.own]), False)])
        return StructType([*kind, *[flat[name] for name in self.carried], *label_fields(dict(self.labels))])


@dataclass(frozen=True, slots=True)
class _Joins:
    """All joins to the impressions of a day: first histories, then views. ``shown`` is the type of an impression.

    ``histories`` has the plan and the actions of each.
    """

    inputs: Inputs
    shown: StructType
    views: ViewJoiner
    histories: Sequence[tuple[HistoryPlan, DataFrame]]

    @classmethod
    def of(cls, inputs: Inputs, shown: DataType, few: DataFrame | None = None) -> _Joins:
        """Plan the joins to impressions of a type. If ``few`` is given, joins only rows with the keys of these."""
        assert isinstance(shown, StructType)
        histories = [_history(inputs, name, few) for name in inputs.config.histories]
        return cls(inputs, shown, ViewJoiner(inputs, inputs.spark, few), histories)

    def first_key(self, steps: Sequence[JoinStep]) -> tuple[str, ...]:
        """Return the key of the first join that moves impressions, or () if there is none or one of its keys is hot."""
        if self.histories:
            return (self.histories[0][0].on,)
        moving = [step for step in steps if step.method == "shuffle"]
        return moving[0].on if moving and not self.views.hot_keys(moving[0]).keys else ()

    def with_histories(self, stage: Stage) -> Stage:
        """Add a struct for each history."""
        for plan, actions in self.histories:
            stage = join_history(stage, actions, plan, self.inputs.partitions())
        return stage

    def add(
        self, stage: Stage, columns: SampleColumns, steps: Sequence[JoinStep], kept: Mapping[str, Collection[str]]
    ) -> Stage:
        """Add histories and views, and the features that need them all, as far as they must be there before the
        impressions move to their final place. Only the ``kept`` fields of structs stay.
        """
        needed = {path[0] for name in columns.at(ROWS) for path in columns.paths[name]}
        early, _ = order_steps(steps, needed & {*self.inputs.config.views})
        stage = self.views.add(self.with_histories(stage), early, columns)
        if columns.at(ROWS):
            stage = self._with_features(stage, columns, kept)
        return stage.with_fields(kept)

    def _with_features(self, stage: Stage, columns: SampleColumns, kept: Mapping[str, Collection[str]]) -> Stage:
        stage, columns = columns.with_direct(stage), columns.but_direct()
        add, tasks, handed = partial(columns.add, home=ROWS), self.inputs.watches.tasks, columns.handed()
        stage = stage.with_fields(_either(handed, kept))  # what was needed only here ends here
        if not columns.at(ROWS):
            return stage
        if columns.moves(ROWS):
            return Stage.of(add(stage.rows(tasks)))
        fields = {name: handed[name] for name in stage.kind.names if name in handed}
        return with_columns(stage, fields, kept, add, [made(name) for name in columns.at(ROWS)], tasks)

    def unused(self, columns: SampleColumns) -> set[str]:
        """Return the further columns of impressions that nothing needs once the features of impressions are computed."""
        shown, needed = self.inputs.config.impressions, columns.fields_of(IMPRESSION)
        if needed is None:
            return set()
        return {name for name in shown.columns if name.lower() not in needed and name not in shown.rates_by}

    def fields_after(self, steps: Sequence[JoinStep]) -> dict[str, set[str]]:
        """Return the fields of structs that late joins and the samples need once :meth:`add` is done."""
        config, late = self.inputs.config, order_steps(steps)[1]
        measured = {config.measured_key or "", *config.impressions.rates_by}
        needed = {IMPRESSION: {"impression_id", "impression_time"} | measured}
        needed |= {name: {made(feature) for feature in config.features} for name in views_of(steps)}
        for part in [part if "." in part else f"{IMPRESSION}.{part}" for step in late for part in step.on]:
            struct, _, field = part.partition(".")
            needed[struct].add(field)
        return needed | self.added_again(steps)

    def added_again(self, steps: Sequence[JoinStep]) -> dict[str, set[str]]:
        """Return the structs that are needed no more, or that late joins add, without fields."""
        return {name: set() for name in (*views_of(order_steps(steps)[1]), *self.inputs.config.histories, PAIRS)}

    def completed(
        self, stage: Stage, columns: SampleColumns, steps: Sequence[JoinStep], also: Sequence[str] = ()
    ) -> Stage:
        """Add the other views, and complete the samples. ``also`` has further columns that stay."""
        stage = self.views.add(stage, order_steps(steps)[1])
        masks = LabelMasks.of(self.inputs.config, self.inputs.span, self.inputs.sources)
        samples = MakeSamples.of(columns, self.inputs.config, masks, also)
        _check_values(stage.kind[IMPRESSION].dataType, samples.by)
        return stage.counted(samples, samples.kind(columns.kinds, [stage.kind[name] for name in also]))

    def blank(self) -> DataFrame:
        """Return an empty frame with structs for the impression, each view and each history, but no labels. Spark
        analyses it faster than the joins.
        """
        kinds: dict[str, StructType] = {IMPRESSION: self.shown, **self.views.types()}
        kinds |= {plan.name: history_type(actions.schema, plan) for plan, actions in self.histories}
        fields = [StructField(name, kind) for name, kind in kinds.items()]
        return self.inputs.spark.createDataFrame([], StructType(fields))


def _either(some: Fields, others: Mapping[str, Collection[str]]) -> Fields:
    """Return the fields that are among some or others. Structs without an entry in ``others`` keep all."""
    found = {name: some.get(name, ()) for name in others}
    return {name: None if own is None else {*own, *others[name]} for name, own in found.items()}


def _with_key(events: DataFrame, key: str, values: Collection[str | None]) -> DataFrame:
    """Keep the events with one of the values of a key."""
    text = F.col(key_of_action(key)).cast("string")
    own = text.isin([value for value in values if value is not None])
    return events.where(own | text.isNull() if None in values else own)


def _check_values(shown: DataType, by: Iterable[str]) -> None:
    """Raise InputError if rates are wanted by a column that is neither text, a number, a boolean nor a time."""
    assert isinstance(shown, StructType)
    for name in by:
        if isinstance(kind := shown[name].dataType, ArrayType | BinaryType | MapType | StructType):
            raise InputError(
                f"impressions.rates_by: {name} is {kind.simpleString()}; expected a column of text, numbers or booleans."
            )


def _history(inputs: Inputs, name: str, few: DataFrame | None) -> tuple[HistoryPlan, DataFrame]:
    """Return the plan of a history, and its actions, of a few impressions if they are given."""
    config = inputs.config
    history = config.history(name)
    cut = partial(actions_of_history, name=name, history=history, span=inputs.span)
    actions = inputs.with_kept(name, history.source, "histories", cut)
    plan = history_plan(name, history, config.impressions)
    return plan, with_keys_of(few, [history.on], actions, KEY)
