"""The whole way from sources to samples, as one lazy DataFrame with its witnesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import History, JobConfig, StaticView
from ctr_samples.config.references import inherited
from ctr_samples.spark.as_of import JoinStep
from ctr_samples.spark.canary import CanaryWitness
from ctr_samples.spark.carry import HistoryPlan
from ctr_samples.spark.clocks import Use, clock_counts, clocks_of, of_interest
from ctr_samples.spark.day import Day
from ctr_samples.spark.features import IMPRESSION, make_samples
from ctr_samples.spark.history import actions_of_history, join_history
from ctr_samples.spark.impressions import (
    DROPPED,
    SKIP_ABOVE,
    cut_impressions,
    drop_counts,
    impression_columns,
    is_below,
)
from ctr_samples.spark.joining import ViewJoiner
from ctr_samples.spark.labels import (
    IS_ACTION,
    action_counts,
    actions_by_key,
    attribute,
    label_columns,
    label_reach,
    plan_labels,
    with_numbers,
)
from ctr_samples.spark.sampling import sampled, split_column, weight_column
from ctr_samples.spark.sources import MALFORMED, SourceFrame
from ctr_samples.spark.witnesses import Unwatched, Witnesses
from ctr_samples.vocabulary import FittedState


@dataclass(frozen=True, slots=True)
class SampleBuilder:
    """Builds the samples of one day. All of it is planning on the driver; nothing runs until the sink does."""

    config: JobConfig
    sources: Mapping[str, SourceFrame]
    day: Day
    witnesses: Witnesses
    canaries: CanaryWitness | None = None
    state: FittedState | None = None
    measures: bool = True
    """Whether joins may look at data while they are planned."""

    def check(self) -> None:
        """Raise what the schemas of the sources alone can show to be wrong, before any data is read."""
        unseen = replace(self, witnesses=Unwatched(), canaries=None, measures=False)
        unseen.build(ViewJoiner(self.config, self.sources, self.day).declared_plan())

    def build(self, steps: Sequence[JoinStep]) -> DataFrame:
        """Samples with the columns of their contract, ``_split`` and ``_shuffle``; ``steps`` joins the views."""
        joined = self.joined(steps)
        counted = self.witnesses.watch(joined, "joined", {"rows": F.count(F.lit(1)), **self._matches()})
        split, weight = split_column(self.config, self.day), weight_column(self.config, self.day)
        return make_samples(counted, self.config, split, weight, self.state)

    def joined(self, steps: Sequence[JoinStep]) -> DataFrame:
        """The labelled impressions that stay, with a struct for each view and each history."""
        labelled = sampled(self.labelled_impressions(), self.config, self.day, self.witnesses)
        if self.canaries is not None:
            labelled = self.canaries.watch(labelled)
        joined = ViewJoiner(self.config, self.sources, self.day, self.measures).join(
            labelled, steps, partial(self._source, "views")
        )
        for name, history in self.config.histories.items():
            joined = self._with_history(joined, name, inherited(history, self.config.impressions))
        return joined

    def labelled_impressions(self) -> DataFrame:
        """The day's impressions as a struct ``impression``, with a column for each label."""
        shown = self.config.impressions
        plans = plan_labels(self.config)
        reach = max(label_reach(plans), shown.dedup or timedelta())
        impressions = cut_impressions(self._source("impressions", shown.source), shown, self.day, reach)
        counted = self.witnesses.watch(impressions, "impressions", drop_counts(self.day))
        kept = counted.where(F.col(DROPPED).isNull()).drop(DROPPED)
        both = attribute(kept, actions_by_key(plans, self.day, partial(self._source, "labels")), plans)
        watched = self.witnesses.watch(with_numbers(both, self.day, plans), "labels", action_counts(plans))
        own = [F.col(c) for c in impression_columns(shown)]
        labels = [F.col(c) for c in label_columns(self.config.labels)]
        mine = watched.where(~F.col(IS_ACTION) & self.day.contains(F.col("impression_time")))
        return self._looked_at(mine).select(F.struct(*own).alias(IMPRESSION), *labels)

    def _looked_at(self, labelled: DataFrame) -> DataFrame:
        """Without what stands below the last click of its list, where the configuration says so."""
        label = self.config.impressions.skip_above
        if label is None:
            return labelled
        marked = labelled.withColumn(DROPPED, is_below(label))
        counts = {SKIP_ABOVE: F.count_if(DROPPED)}
        return self.witnesses.watch(marked, SKIP_ABOVE, counts).where(~F.col(DROPPED)).drop(DROPPED)

    def _with_history(self, rows: DataFrame, name: str, history: History) -> DataFrame:
        actions, again = (
            actions_of_history(source, name, history, self.day)
            for source in (self._source("histories", history.source), self.sources[history.source].frame)
        )
        by_request = history.request is not None and self.config.impressions.request is not None
        plan = HistoryPlan(name, history.last, history.within, history.delay, by_request, tuple(history.columns))
        return join_history(rows, actions, plan, again)

    def _matches(self) -> dict[str, Column]:
        """For each view how many samples found a row, and how old those rows were, in whole seconds."""
        counts = {}
        for name, view in self.config.views.items():
            counts[f"{name}.matched"] = F.count_if(F.col(f"{name}.matched"))
            if not isinstance(view, StaticView):
                age = F.col(f"{name}.age_s")
                counts[f"{name}.age_s_min"] = F.min(age)
                if view.max_age is not None:  # others are no older for being from yesterday
                    counts[f"{name}.age_s_p10"] = F.percentile_approx(age, 0.1, 100)
                counts[f"{name}.age_s_median"] = F.percentile_approx(age, 0.5, 100)
                counts[f"{name}.age_s_p90"] = F.percentile_approx(age, 0.9, 100)
                counts[f"{name}.age_s_max"] = F.max(age)
        return counts

    def _source(self, use: Use, name: str) -> DataFrame:
        """A source as it is read for one use: its malformed lines and its times that cannot be right are counted."""
        frame = self.sources[name].frame
        clocks = clocks_of(self.config, self.day, name, use, frame)
        frame = self._lines(name, frame) if MALFORMED in frame.columns else frame.where(of_interest(clocks))
        return self.witnesses.watch(frame, "clocks", clock_counts(clocks))

    def _lines(self, name: str, frame: DataFrame) -> DataFrame:
        """A source of text with its lines and its malformed lines counted."""
        if MALFORMED not in frame.columns:
            return frame
        counts = {"lines": F.count(F.lit(1)), "malformed": F.count(MALFORMED)}
        return self.witnesses.watch(frame, f"source {name}", counts)
