"""From sources to samples in one lazy DataFrame, with watches that count its rows on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ctr_samples.config import RowLabel
from ctr_samples.config.references import inherited, measured_key
from ctr_samples.samples.features import IMPRESSION, SampleColumns
from ctr_samples.samples.histories.chunks import HistoryPlan
from ctr_samples.samples.histories.join import actions_of_history, history_type, join_history
from ctr_samples.samples.impressions import DROPPED, cut_impressions, is_below, row_label
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.labels import (
    IS_ACTION,
    LabelPlan,
    actions_by_keys,
    attribute,
    label_columns,
    label_reach,
    plan_labels,
    row_values,
    rows_among,
)
from ctr_samples.samples.sampling import split_column, weight_column
from ctr_samples.samples.views.as_of import JoinStep
from ctr_samples.samples.views.joiner import ViewJoiner
from ctr_samples.vocabulary import FittedState


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """The samples of a day, not yet computed, and the steps that join their views.

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
        config, day, watches = self.inputs.config, self.inputs.day, self.inputs.watches
        rows = watches.canary.on(watches.sampling.on(self.labelled_impressions()))
        joins = _Joins.of(self.inputs, rows)
        columns = SampleColumns.of(joins.blank(rows), config, self.state)
        steps = joins.views.plan()
        joined = watches.joins.on(joins.join(rows, steps))
        samples = columns.make(joined, split_column(config, day), weight_column(config, day), measured_key(config))
        return SamplePlan(samples, steps)

    def joined(self) -> DataFrame:
        """The labelled impressions that sampling keeps, with a struct for each view and each history."""
        rows = self.inputs.watches.sampling.on(self.labelled_impressions())
        joins = _Joins.of(self.inputs, rows)
        return joins.join(rows, joins.views.plan())

    def labelled_impressions(self) -> DataFrame:
        """The day's impressions as a struct ``impression``, with a column for each label."""
        config, day, watches = self.inputs.config, self.inputs.day, self.inputs.watches
        shown, plans, rows = config.impressions, plan_labels(config), rows_among(config.labels)
        reach = max(label_reach(plans), shown.dedup or timedelta())
        log = self.inputs.watched(shown.source, "impressions")
        impressions = watches.impressions.on(cut_impressions(log, shown, day, reach, rows))
        kept = impressions.where(F.col(DROPPED).isNull()).drop(DROPPED)
        mine = watches.labels.on_rows(self._attributed(kept, plans).where(day.contains(F.col("impression_time"))))
        own = [F.col(c) for c in shown.column_names]
        labels = [column for name in config.labels for column in self._label(name)]
        seen = self._looked_at(mine.select(*own, *labels))
        return seen.select(F.struct(*own).alias(IMPRESSION), *label_columns(config.labels))

    def _attributed(self, impressions: DataFrame, plans: Sequence[LabelPlan]) -> DataFrame:
        """Impressions with the labels that actions give them; costs nothing where no label needs actions."""
        if not plans:
            return impressions
        actions = actions_by_keys(plans, self.inputs.day, partial(self.inputs.watched, use="labels"))
        attributed = self.inputs.watches.labels.on(attribute(impressions, actions, plans))
        return attributed.where(~F.col(IS_ACTION))

    def _label(self, name: str) -> list[Column]:
        """The columns of a label."""
        label = self.inputs.config.labels[name]
        if isinstance(label, RowLabel):
            return row_values(name, label, F.col(f"`{row_label(name)}`"))
        return [F.col(c) for c in label_columns({name: label})]

    def _looked_at(self, labelled: DataFrame) -> DataFrame:
        """Drops impressions below the last click of their list, where the configuration says so."""
        label = self.inputs.config.impressions.skip_above
        if label is None:
            return labelled
        marked = labelled.withColumn(DROPPED, is_below(label, self.inputs.config.impressions))
        return self.inputs.watches.impressions.on_marked(marked).where(~F.col(DROPPED)).drop(DROPPED)


@dataclass(frozen=True, slots=True)
class _History:
    """A history that is ready to be joined: its actions, and the same actions from a source whose rows are not counted."""

    plan: HistoryPlan
    actions: DataFrame
    again: DataFrame


@dataclass(frozen=True, slots=True)
class _Joins:
    """All that is joined to the impressions of a day: first the views, then the histories."""

    views: ViewJoiner
    histories: Sequence[_History]

    @classmethod
    def of(cls, inputs: Inputs, rows: DataFrame) -> _Joins:
        histories = [_history(inputs, name) for name in inputs.config.histories]
        return cls(ViewJoiner(inputs, rows.sparkSession), histories)

    def join(self, rows: DataFrame, steps: Sequence[JoinStep]) -> DataFrame:
        rows = self.views.join(rows, steps)
        for history in self.histories:
            rows = join_history(rows, history.actions, history.plan, history.again)
        return rows

    def blank(self, rows: DataFrame) -> DataFrame:
        """The columns that :meth:`join` returns, without labels and rows: Spark analyses an empty table faster than joins."""
        kinds = {IMPRESSION: rows.schema[IMPRESSION].dataType, **self.views.types()}
        kinds |= {history.plan.name: history_type(history.actions, history.plan) for history in self.histories}
        fields = [StructField(name, kind) for name, kind in kinds.items()]
        return rows.sparkSession.createDataFrame([], StructType(fields))


def _history(inputs: Inputs, name: str) -> _History:
    config = inputs.config
    history = inherited(config.histories[name], config.impressions)
    actions, again = (
        actions_of_history(source, name, history, inputs.day)
        for source in (inputs.watched(history.source, "histories"), inputs.plain(history.source))
    )
    by_request = history.request is not None and config.impressions.request is not None
    plan = HistoryPlan(
        name, history.last, history.within, history.delay, by_request, tuple(history.columns), on=history.on
    )
    return _History(plan, actions, again)
