"""From sources to samples in one lazy DataFrame, with watches that count its rows on the way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ctr_samples.config import RowLabel
from ctr_samples.config.references import inherited, measured_key
from ctr_samples.errors import InputError
from ctr_samples.samples.earlier import EarlierFeatures
from ctr_samples.samples.features import IMPRESSION, SampleColumns, in_final_order, with_place
from ctr_samples.samples.histories.join import actions_of_history, history_plan, history_type, join_history
from ctr_samples.samples.histories.lists import KEY, HistoryPlan
from ctr_samples.samples.impressions import DROPPED, cut_impressions, is_below, row_label, time_not_read
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.labels import (
    IS_ACTION,
    LabelPlan,
    actions_by_keys,
    attribute,
    attribute_rows,
    events_of,
    impression_reach,
    label_columns,
    of_shown,
    plan_labels,
    row_values,
    rows_among,
)
from ctr_samples.samples.labels.actions import key_of_action
from ctr_samples.samples.phases import phases_of
from ctr_samples.samples.sampling import split_column, weight_column
from ctr_samples.samples.views.as_of import JoinStep, views_of
from ctr_samples.samples.views.joiner import ViewJoiner, with_keys_of
from ctr_samples.samples.watches.all import Watches
from ctr_samples.samples.watches.times import Use
from ctr_samples.sparksql.columns import later, stable_hash
from ctr_samples.vocabulary import FittedState

ORIGIN = "_origin"
"""The column of :meth:`SampleBuilder.build_few` that says where the values come from."""

_SPARE = 20
"""How many times as many impressions as are wanted are chosen where some may be left out."""


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """The samples of a day in their final order, not yet computed, and the steps that join their views.

    ``samples`` has the columns of the contract, ``_split``, ``_shuffle``, ``_hour`` and ``_user``.
    """

    samples: DataFrame
    steps: Sequence[JoinStep]


@dataclass(frozen=True, slots=True)
class SampleBuilder:
    """Builds the samples of one day. All of it is planning on the driver; nothing runs until the sink does."""

    inputs: Inputs
    state: FittedState | None = None

    def build(self) -> SamplePlan:
        """Plan the samples. Whatever the schemas of the sources alone show to be wrong is refused before any data is read."""
        config, day, watches = self.inputs.config, self.inputs.span, self.inputs.watches
        rows = watches.canary.on(watches.sampling.on(self.labelled_impressions()))
        joins = _Joins.of(self.inputs, rows)
        columns = SampleColumns.of(joins.blank(rows), config, self.state)
        steps = joins.views.plan()
        phases = phases_of(config, steps, columns.together, columns.moving)
        first = watches.joins.on(joins.join(rows, phases.before), views_of(phases.before))
        placed = with_place(columns.make_some(first, phases.features), split_column(config, day))
        in_order = in_final_order(placed, config.output.partitions)
        joined = watches.joins.on(joins.views.join(in_order, phases.after), views_of(phases.after))
        return SamplePlan(columns.make(joined, weight_column(config, day), measured_key(config)), steps)

    def check(self) -> None:
        """Plan all that the schemas of the sources decide, and nothing more. Raises the errors of :meth:`build`."""
        rows = self.labelled_impressions()
        SampleColumns.of(_Joins.of(self.inputs, rows).blank(rows), self.inputs.config, self.state)

    def build_on(self, earlier: EarlierFeatures) -> SamplePlan:
        """Plan the samples of :meth:`build` with the features of an earlier generation: only labels are made."""
        config, day, watches = self.inputs.config, self.inputs.span, self.inputs.watches
        heavy = measured_key(config)
        placed = with_place(self.labelled_impressions(), split_column(config, day))
        # Only the types of views and histories are asked for; what nothing runs must not be counted.
        joins = _Joins.of(replace(self.inputs, watches=Watches.of(config, day, active=False)), placed)
        blank = joins.blank(placed)
        columns = SampleColumns.of(blank, config, self.state)
        kinds = placed.drop(IMPRESSION).schema
        none = [F.lit(None).cast(kind.dataType).alias(kind.name) for kind in kinds]
        types = columns.make(blank.select("*", *none), heavy=heavy).schema
        in_order = in_final_order(placed, config.output.partitions)
        samples = earlier.behind(columns.make_without_features(in_order, heavy), types)
        return SamplePlan(watches.joins.on(samples, ()), ())

    def build_few(self, limit: int) -> DataFrame:
        """At most ``limit`` samples, chosen by a hash: the same columns as those of :meth:`build`, and the same values.

        A last column, :data:`ORIGIN`, has the time and the keys of the impression, and for each view whether a row was found
        and how many seconds old it was. Runs a few small jobs that read the logs. Of all that is read, only what has the keys
        of the few is joined. InputError if the day has no impression that can be read.
        """
        config, day = self.inputs.config, self.inputs.span
        rows = self._few_labelled(limit).localCheckpoint()
        joins = _Joins.of(self.inputs, rows, few=rows)
        columns = SampleColumns.of(joins.blank(rows), config, self.state)
        joined = joins.join(with_place(rows, split_column(config, day)), joins.views.plan())
        return columns.make(joined, weight_column(config, day), measured_key(config), {ORIGIN: self._origin()})

    def _origin(self) -> Column:
        shown = self.inputs.config.impressions
        own = [F.col(f"{IMPRESSION}.{name}") for name in ("impression_time", *shown.entities)]
        views = [F.struct(f"{name}.matched", f"{name}.age_s").alias(name) for name in self.inputs.config.views]
        joined = [F.struct(*views).alias("views")] if views else []
        return F.struct(F.struct(*own).alias(IMPRESSION), *joined)

    def _few_labelled(self, limit: int) -> DataFrame:
        """A few of the day's labelled impressions that sampling keeps.

        Which impression has an action may depend on all impressions that share keys with it, so all are looked at that have a
        key of the few by which every action is matched; all of the day, where there is no such key or lists are cut.
        """
        config, day = self.inputs.config, self.inputs.span
        # Of those that are chosen some may be left out once their labels are known.
        spare = 1 if config.impressions.skip_above is None and config.sampling is None else _SPARE
        by_chance = stable_hash("preview", [F.col("impression_id")])
        kept = self._impressions().where(day.contains(F.col("impression_time")))
        key = _key_of_all(plan_labels(config)) if config.impressions.skip_above is None else None
        value = F.lit(None) if key is None else F.col(key)
        chosen = kept.select("impression_id", value.cast("string")).orderBy(by_chance).limit(limit * spare).collect()
        if not chosen:
            self._refuse_empty()
        ids, values = ([row[column] for row in chosen] for column in (0, 1))
        labelled = self.labelled_impressions(None if key is None else _Sharing(key, set(values)))
        mine = labelled.where(F.col(f"{IMPRESSION}.impression_id").isin(ids))
        return self.inputs.watches.sampling.on(mine).limit(limit)

    def _refuse_empty(self) -> NoReturn:
        """InputError for a day of which no impression can be read, as a run raises it."""
        shown = self.inputs.config.impressions
        why = time_not_read(self.inputs.plain(shown.source), "impressions", shown.where, "time", shown.time)
        raise InputError(
            f"sources.{shown.source} has no impression on the day that can be read; check the date, the time zone "
            f"({self.inputs.config.timezone}) and `impressions`.{why}"
        )

    def joined(self) -> DataFrame:
        """The labelled impressions that sampling keeps, with a struct for each view and each history."""
        rows = self.inputs.watches.sampling.on(self.labelled_impressions())
        joins = _Joins.of(self.inputs, rows)
        return joins.join(rows, joins.views.plan())

    def labelled_impressions(self, sharing: _Sharing | None = None) -> DataFrame:
        """The day's impressions as a struct ``impression``, with a column for each label; or only those that share a key."""
        config, day, watches = self.inputs.config, self.inputs.span, self.inputs.watches
        shown, plans = config.impressions, plan_labels(config)
        mine = watches.labels.on_rows(self._attributed(plans, sharing).where(day.contains(F.col("impression_time"))))
        own = [F.col(c) for c in shown.column_names]
        labels = [column for name in config.labels for column in self._label(name)]
        seen = self._looked_at(mine.select(*own, *labels))
        return seen.select(F.struct(*own).alias(IMPRESSION), *label_columns(config.labels))

    def _attributed(self, plans: Sequence[LabelPlan], sharing: _Sharing | None) -> DataFrame:
        """The impressions of :meth:`_impressions` with the labels that actions give them, where a label needs actions."""
        inputs = self.inputs
        if not plans:
            return _sharing(self._impressions(), sharing)
        if inputs.config.impressions.identity == "row":
            # What tells equal rows apart costs a shuffle of its own, before their keys matter.
            every = actions_by_keys(plans, inputs.span, lambda source: inputs.watched(source, "labels"))
            actions = {
                tried: [_sharing(frame, sharing, key_of_action) for frame in some] for tried, some in every.items()
            }
            attributed = attribute(_sharing(self._impressions(), sharing), actions, plans)
        else:
            events = events_of(self._events_in, inputs.config, plans, inputs.span)
            events = inputs.watches.impressions.on_rows(
                _sharing(events, sharing, key_of_action), ~F.col(IS_ACTION), of_shown("impression_time")
            )
            attributed = attribute_rows(events.where(F.col(DROPPED).isNull()).drop(DROPPED), plans)
        return inputs.watches.labels.on(attributed).where(~F.col(IS_ACTION))

    def _events_in(self, source: str) -> DataFrame:
        config = self.inputs.config
        sources: dict[Use, set[str]] = {
            "impressions": {config.impressions.source},
            "labels": {plan.label.source for plan in plan_labels(config)},
        }
        return self.inputs.watched(source, *[use for use, of in sources.items() if source in of])

    def _label(self, name: str) -> list[Column]:
        """The columns of a label; what the row says of it only if that was known."""
        label = self.inputs.config.labels[name]
        if isinstance(label, RowLabel):
            known = later(F.col("impression_time"), label.matures_after)
            return row_values(name, label, self.inputs.span.if_known(known, F.col(f"`{row_label(name)}`")))
        return [F.col(c) for c in label_columns({name: label})]

    def _impressions(self) -> DataFrame:
        """The impressions of the day and of those around it that labels reach, without those that are dropped."""
        shown, day, watches = self.inputs.config.impressions, self.inputs.span, self.inputs.watches
        log = self.inputs.watched(shown.source, "impressions")
        rows = rows_among(self.inputs.config.labels)
        reach = impression_reach(self.inputs.config)
        impressions = watches.impressions.on(cut_impressions(log, shown, day, reach, rows))
        return impressions.where(F.col(DROPPED).isNull()).drop(DROPPED)

    def _looked_at(self, labelled: DataFrame) -> DataFrame:
        """Drops impressions below the last click of their list, where the configuration says so."""
        label = self.inputs.config.impressions.skip_above
        if label is None:
            return labelled
        marked = labelled.withColumn(DROPPED, is_below(label, self.inputs.config.impressions))
        return self.inputs.watches.impressions.on_marked(marked).where(~F.col(DROPPED)).drop(DROPPED)


@dataclass(frozen=True, slots=True)
class _History:
    """A history that is ready to be joined."""

    plan: HistoryPlan
    actions: DataFrame


@dataclass(frozen=True, slots=True)
class _Joins:
    """All that is joined to the impressions of a day: first the histories, then the views."""

    views: ViewJoiner
    histories: Sequence[_History]

    @classmethod
    def of(cls, inputs: Inputs, rows: DataFrame, few: DataFrame | None = None) -> _Joins:
        """With ``few`` impressions, only what has their keys is joined."""
        histories = [_history(inputs, name, few) for name in inputs.config.histories]
        return cls(ViewJoiner(inputs, rows.sparkSession, few), histories)

    def join(self, rows: DataFrame, steps: Sequence[JoinStep]) -> DataFrame:
        # A history hands all columns over to Python and back, so they must be few: views, which may have wide rows, come later.
        for history in self.histories:
            rows = join_history(rows, history.actions, history.plan)
        return self.views.join(rows, steps)

    def blank(self, rows: DataFrame) -> DataFrame:
        """The columns that :meth:`join` returns, without labels and rows: Spark analyses an empty table faster than joins."""
        kinds = {IMPRESSION: rows.schema[IMPRESSION].dataType, **self.views.types()}
        kinds |= {history.plan.name: history_type(history.actions, history.plan) for history in self.histories}
        fields = [StructField(name, kind) for name, kind in kinds.items()]
        return rows.sparkSession.createDataFrame([], StructType(fields))


@dataclass(frozen=True, slots=True)
class _Sharing:
    """A key by its name, and some of its values as text; None among them for what has no such key."""

    key: str
    values: Collection[str | None]


def _sharing(rows: DataFrame, few: _Sharing | None, column: Callable[[str], str] = str) -> DataFrame:
    """The rows with one of some values of a key, which is in a ``column`` of its name; all rows where there are none."""
    if few is None:
        return rows
    text = F.col(column(few.key)).cast("string")
    own = text.isin([value for value in few.values if value is not None])
    return rows.where(own | text.isNull() if None in few.values else own)


def _key_of_all(plans: Sequence[LabelPlan]) -> str | None:
    """A key by which each action is matched, whichever set of keys finds its impression."""
    sets = [set(names) for plan in plans for names in plan.tried]
    return min(set.intersection(*sets), default=None) if sets else None


def _history(inputs: Inputs, name: str, few: DataFrame | None) -> _History:
    config = inputs.config
    history = inherited(config.histories[name], config.impressions)
    cut = partial(actions_of_history, name=name, history=history, span=inputs.span)
    actions = inputs.with_kept(name, history.source, "histories", cut)
    plan = history_plan(name, history, config.impressions)
    return _History(plan, with_keys_of(few, [history.on], actions, KEY))
