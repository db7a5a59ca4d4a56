"""The whole way from sources to samples, as one lazy DataFrame with its witnesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from itertools import groupby

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.contract import ExampleContract
from ctr_samples.spark.as_of import JoinStep
from ctr_samples.spark.day import Day
from ctr_samples.spark.features import IMPRESSION, make_samples
from ctr_samples.spark.impressions import DROPPED, cut_impressions, drop_counts, impression_columns
from ctr_samples.spark.joining import ViewJoiner
from ctr_samples.spark.labels import (
    ACTION,
    IS_ACTION,
    ORPHAN,
    LabelPlan,
    action_on_day,
    actions_near,
    actions_of,
    attribute,
    label_columns,
    longest_window,
    plan_label,
)
from ctr_samples.spark.sources import MALFORMED, SourceFrame
from ctr_samples.spark.witnesses import Witnesses


@dataclass(frozen=True, slots=True)
class SampleBuilder:
    """Builds the samples of one day. All of it is planning on the driver; nothing runs until the sink does."""

    config: JobConfig
    sources: Mapping[str, SourceFrame]
    day: Day
    witnesses: Witnesses

    def build(self, contract: ExampleContract, steps: Sequence[JoinStep]) -> DataFrame:
        """Samples with the columns of the contract, ``_split`` and ``_shuffle``; ``steps`` joins the views."""
        labelled = self.labelled_impressions()
        joined = ViewJoiner(self.config, self.sources, self.day).join(labelled, steps, self._source)
        counted = self.witnesses.watch(joined, "joined", {"rows": F.count(F.lit(1)), **self._matches()})
        return make_samples(counted, self.config, contract)

    def labelled_impressions(self) -> DataFrame:
        """The day's impressions as a struct ``impression``, with a column for each label."""
        shown = self.config.impressions
        plans = [plan_label(name, label, shown) for name, label in self.config.labels.items()]
        reach = max(longest_window(plans), shown.dedup or timedelta())
        impressions = cut_impressions(self._source(shown.source), shown, self.day, reach)
        counted = self.witnesses.watch(impressions, "impressions", drop_counts(self.day))
        rows = counted.where(F.col(DROPPED).isNull()).drop(DROPPED)
        for by, of_key in groupby(sorted(plans, key=lambda p: p.by), key=lambda p: p.by):
            rows = self._attributed(rows, by, list(of_key))
        own = [F.col(c) for c in impression_columns(shown)]
        labels = [F.col(c) for c in label_columns(self.config.labels)]
        mine = rows.where(self.day.contains(F.col("impression_time")))
        return mine.select(F.struct(*own).alias(IMPRESSION), *labels)

    def _attributed(self, impressions: DataFrame, by: str, plans: list[LabelPlan]) -> DataFrame:
        """Impressions with the labels whose actions are matched by one kind of key."""
        tables: dict[tuple[str, str, str], list[LabelPlan]] = {}
        for plan in plans:
            tables.setdefault((plan.label.source, plan.by_key, plan.article), []).append(plan)
        frames = [actions_of(self._source(source), group) for (source, _, _), group in tables.items()]
        actions = actions_near(_stacked(frames), self.day, plans)
        both = attribute(impressions, actions, by, plans)
        counts = {}
        for plan in plans:
            this = action_on_day(self.day) & (F.col(f"{ACTION}.label") == plan.name)
            counts[f"{plan.name}.actions"] = F.count_if(this)
            counts[f"{plan.name}.orphans"] = F.count_if(this & F.col(ORPHAN))
            counts[f"{plan.name}.without_value"] = F.count_if(this & F.col(f"{ACTION}.value").isNull())
        counted = self.witnesses.watch(both, "labels", counts)
        return counted.where(~F.col(IS_ACTION)).drop(IS_ACTION, ORPHAN, ACTION)

    def _matches(self) -> dict[str, Column]:
        return {f"{name}.matched": F.count_if(F.col(f"{name}.matched")) for name in self.config.views}

    def _source(self, name: str) -> DataFrame:
        """A source; of text, the lines and the malformed ones are counted as they are read."""
        frame = self.sources[name].frame
        if MALFORMED not in frame.columns:
            return frame
        counts = {"lines": F.count(F.lit(1)), "malformed": F.count(MALFORMED)}
        return self.witnesses.watch(frame, f"source {name}", counts)


def _stacked(frames: list[DataFrame]) -> DataFrame:
    """Actions of several logs in one frame; keys of different types become text."""
    if len({tuple(f.schema[c].dataType.simpleString() for c in ("key", "article")) for f in frames}) > 1:
        frames = [
            f.withColumn("key", F.col("key").cast("string")).withColumn("article", F.col("article").cast("string"))
            for f in frames
        ]
    return reduce(DataFrame.unionByName, frames)
