"""Gathers everything that a run would look at for one impression, as plain values, for the command that explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, SnapshotView, StaticView
from ctr_samples.config.references import inherited
from ctr_samples.errors import InputError
from ctr_samples.explain.rules import Action, FeatureRow, HistoryRules, Impression, LabelRules, PastAction, ViewRules
from ctr_samples.job.reporting import Reporter, Silent
from ctr_samples.job.run import read_inputs
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.features import IMPRESSION, view_columns
from ctr_samples.samples.histories.chunks import ITEM, REQUEST, TIE, TIME, USER
from ctr_samples.samples.histories.join import actions_of_history
from ctr_samples.samples.impressions import DROPPED, SKIP_ABOVE, cut_impressions, on_day
from ctr_samples.samples.inputs.databases import errors_of_sources
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.labels import ACTION, LabelPlan, actions_of, longest_window, plan_label
from ctr_samples.samples.period import Day
from ctr_samples.samples.sampling import DOWN_SAMPLED
from ctr_samples.samples.views.as_of import AVAILABLE_TIME, EVENT_TIME, GONE, KEY, PAYLOAD, SEQUENCE
from ctr_samples.samples.views.rows import usable, view_rows
from ctr_samples.sparksql.columns import content_hash, pair_key

MOST = 1000
"""The most rows of one kind that are collected: the newest, or for a history those just before the impression."""


@dataclass(frozen=True, slots=True)
class LabelEvidence:
    """What a label looks at: impressions of the same article, and the actions that share a key with the impression."""

    others: Sequence[Impression]
    actions: Sequence[Action]
    rules: LabelRules


@dataclass(frozen=True, slots=True)
class ViewEvidence:
    """What a view looks at: its rows with the impression's key (None for a view without times), and the rules."""

    key: Any
    rows: Sequence[FeatureRow]
    rules: ViewRules | None


@dataclass(frozen=True, slots=True)
class HistoryEvidence:
    """What a history looks at: the actions of the impression's user up to the end of its day, of any age."""

    actions: Sequence[PastAction]
    rules: HistoryRules


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it; ``dropped`` is the reason why the impression becomes no sample."""

    impression: Impression
    dropped: str | None
    labels: Mapping[str, LabelEvidence]
    views: Mapping[str, ViewEvidence]
    histories: Mapping[str, HistoryEvidence]


@dataclass(frozen=True, slots=True)
class Sought:
    """Which impression is to be explained: that with an ``id``, or that of a user and an article nearest to a time."""

    id: int | None = None
    user: str | None = None
    article: str | None = None
    at: datetime | None = None

    def of(self, impressions: DataFrame, day: Day, zone: ZoneInfo) -> Row:
        """The impression's row; if it was logged twice, the one that counts. InputError if there is none, or several."""
        if self.id is not None:
            mine = F.col("impression_id") == self.id
        else:
            named = (("user", self.user), ("article", self.article))
            mine = reduce(Column.__and__, [_same(F.col(key), value) for key, value in named if value is not None])
        rows = impressions.where(mine & on_day(day)).orderBy("impression_time").limit(MOST).collect()
        if not rows:
            begin, end = (when.astimezone(zone) for when in (day.start, day.end))
            raise InputError(
                f"There is no impression {self} between {begin} and {end}; use an `impression_id` that "
                "`ctr-samples show` prints for that day, or check the keys and the date."
            )
        times = {_utc(row.impression_time) for row in rows}
        if self.at is not None:
            at = self.at
            nearest = min(times, key=lambda time: abs((time or datetime.max.replace(tzinfo=UTC)) - at))
            rows = [row for row in rows if _utc(row.impression_time) == nearest]
        elif len(times) > 1:
            some = ", ".join(str(time.astimezone(zone)) if time else "without a time" for time in list(times)[:_NAMED])
            raise InputError(f"There are {len(times)} impressions {self} on the day ({some}); choose one with `--at`.")
        return min(rows, key=lambda row: row[DROPPED] is not None)

    def __str__(self) -> str:
        if self.id is not None:
            return str(self.id)
        named = (("user", self.user), ("article", self.article))
        return "of " + " and ".join(f"{key} {value!r}" for key, value in named if value is not None)


_NAMED = 5
"""Times that an error lists."""


@dataclass(frozen=True, slots=True)
class Gatherer:
    """Gathers the evidence. Runs on the driver; a few Spark jobs, each of which collects the rows of one key."""

    inputs: Inputs

    @property
    def config(self) -> JobConfig:
        """The configuration that the impression is explained by."""
        return self.inputs.config

    @property
    def day(self) -> Day:
        """The day of the impression."""
        return self.inputs.day

    def gather(self, sought: Sought) -> Evidence:
        """InputError if the day has no such impression, or several."""
        plans = [plan_label(name, label, self.config.impressions) for name, label in self.config.labels.items()]
        impressions = cut_impressions(
            self.inputs.plain(self.config.impressions.source),
            self.config.impressions,
            self.day,
            max(longest_window(plans), self.config.impressions.dedup or timedelta()),
        ).persist()
        try:
            row = sought.of(impressions, self.day, self._zone)
            impression = _impression(row)
            labels = {plan.name: self._label(plan, impression, impressions) for plan in plans}
        finally:
            impressions.unpersist()
        histories = {name: self._history(name, impression) for name in self.config.histories}
        dropped = row[DROPPED] or self._left_out(impression.id)
        return Evidence(impression, dropped, labels, self._views(impression, impressions.sparkSession), histories)

    @property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.config.timezone)

    def _left_out(self, impression_id: int) -> str | None:
        """Why an impression that the log shows becomes no sample, once its labels are known."""
        if self.config.impressions.skip_above is None and self.config.sampling is None:
            return None
        mine = F.col(f"{IMPRESSION}.impression_id") == impression_id
        labelled = SampleBuilder(self.inputs).labelled_impressions()
        if labelled.where(mine).isEmpty():
            return SKIP_ABOVE
        kept = self.inputs.watches.sampling.on(labelled)
        return DOWN_SAMPLED if kept.where(mine).isEmpty() else None

    def _label(self, plan: LabelPlan, impression: Impression, impressions: DataFrame) -> LabelEvidence:
        rules = LabelRules(plan.label.window, plan.label.skew, plan.tried, self._zone)
        article = impression.values["article"]
        mine = {kind: impression.values[kind] for kind in plan.tried if impression.values[kind] is not None}
        columns = dict(zip(plan.tried, ("key", "fallback"), strict=False))
        same_key = [_same(F.col(columns[kind]), key) for kind, key in mine.items()]
        if article is None or not same_key:
            return LabelEvidence((), (), rules)
        source = actions_of(self.inputs.plain(plan.label.source), [plan])
        time = F.col(f"{ACTION}.time")
        near = self.day.reaches(time, plan.label.window, plan.label.window) | time.isNull()
        rows = (
            source.where(_same(F.col("article"), article) & reduce(Column.__or__, same_key) & near)
            .select(*[F.col(column).alias(f"by_{kind}") for kind, column in columns.items()], f"{ACTION}.*")
            .limit(MOST)
            .collect()
        )
        actions = [Action(_utc(r.time), r.value, {kind: r[f"by_{kind}"] for kind in columns}) for r in rows]
        return LabelEvidence(self._others(impression, impressions, mine, actions), actions, rules)

    def _others(
        self, impression: Impression, impressions: DataFrame, mine: Mapping[str, Any], actions: Sequence[Action]
    ) -> list[Impression]:
        """Impressions of the same article that one of the actions may belong to."""
        wanted = {kind: {str(key)} for kind, key in mine.items()}
        for action in actions:
            for kind, key in action.keys.items():
                wanted.setdefault(kind, set()).update({str(key)} if key is not None else ())
        some_key = [F.col(kind).cast("string").isin(*sorted(keys)) for kind, keys in wanted.items() if keys]
        article = _same(F.col("article"), impression.values["article"])
        rows = impressions.where(article & reduce(Column.__or__, some_key) & F.col(DROPPED).isNull()).limit(MOST)
        return [_impression(row) for row in rows.collect() if row.impression_id != impression.id]

    def _views(self, impression: Impression, spark: Any) -> dict[str, ViewEvidence]:
        needed = view_columns(spark, self.config)
        return {name: self._view(name, needed[name], impression) for name in self.config.views}

    def _view(self, name: str, columns: Sequence[str], impression: Impression) -> ViewEvidence:
        view = self.config.views[name]
        key, same = _key_of(impression, view.entity)
        rows = usable(view_rows(self.inputs.plain(view.source), name, view, columns))
        mine = rows.where(same)
        if isinstance(view, StaticView):
            payloads = [row[PAYLOAD].asDict() for row in mine.limit(MOST).collect()]
            untimed = [FeatureRow(impression.time, impression.time, payload) for payload in payloads]
            return ViewEvidence(key, untimed, None)
        newest = mine.orderBy(F.col(EVENT_TIME).desc()).limit(MOST).collect()
        snapshots = None
        if isinstance(view, SnapshotView):
            times = rows.select(EVENT_TIME, AVAILABLE_TIME).distinct().collect()
            snapshots = sorted((_known(r[0]), _known(r[1])) for r in times)
        return ViewEvidence(
            key, [_feature_row(r) for r in newest], ViewRules(view.max_age, view.inclusive, snapshots, self._zone)
        )

    def _history(self, name: str, impression: Impression) -> HistoryEvidence:
        history = inherited(self.config.histories[name], self.config.impressions)
        request = impression.values["request"] if history.request is not None else None
        rules = HistoryRules(history.last, history.within, history.delay, request)
        user = impression.values["user"]
        if user is None:
            return HistoryEvidence((), rules)
        of_any_age = history.model_copy(update={"within": None})
        actions = actions_of_history(self.inputs.plain(history.source), name, of_any_age, self.day)
        if isinstance(user, str):  # as the job compares them, and hashes what is compared
            actions = actions.withColumn(USER, F.col(USER).cast("string"))
        before = F.col(TIME) < F.lit(impression.time)
        mine = actions.where(_same(F.col(USER), user)).withColumn(TIE, content_hash(actions))
        nearest = mine.orderBy(before.desc(), F.when(before, F.col(TIME)).desc(), TIME).limit(MOST)
        return HistoryEvidence([_past_action(r, list(history.columns)) for r in nearest.collect()], rules)


def evidence_of(
    spark: SparkSession, config: JobConfig, run_date: date, sought: Sought, *, reporter: Reporter | None = None
) -> Evidence:
    """All that a run of the day would look at for one impression. Runs on the driver; writes nothing."""
    reporter = reporter or Silent()
    reporter.stage("checking the inputs")
    inputs = read_inputs(spark, config, run_date, reporter, watched=False)
    reporter.stage("finding the impression")
    with errors_of_sources(config.sources):
        return Gatherer(inputs).gather(sought)


def _key_of(impression: Impression, entity: str) -> tuple[Any, Column]:
    """The impression's key of an entity, and whether a row of a view has it."""
    if entity != "user_article":
        key = impression.values[entity]
        return key, _same(F.col(KEY), key) if key is not None else F.lit(False)
    pair = (impression.values["user"], impression.values["article"])
    return pair, F.col(KEY) == pair_key(*map(F.lit, pair))


def _same(column: Column, value: Any) -> Column:
    return column.cast("string") == F.lit(str(value))


def _impression(row: Any) -> Impression:
    values = row.asDict()
    time = _utc(values["impression_time"]) or datetime.max.replace(tzinfo=UTC)
    return Impression(values["impression_id"], time, values)


def _feature_row(row: Any) -> FeatureRow:
    values = row.asDict()
    return FeatureRow(
        _known(values[EVENT_TIME]),
        _known(values[AVAILABLE_TIME]),
        values[PAYLOAD].asDict(),
        values.get(SEQUENCE),
        bool(values.get(GONE)),
    )


def _past_action(row: Any, columns: Sequence[str]) -> PastAction:
    return PastAction(_known(row[TIME]), row[ITEM], row[REQUEST], {c: row[c] for c in columns}, row[TIE])


def _utc(time: datetime | None) -> datetime | None:
    """PySpark gives local times of the machine without a zone."""
    return None if time is None else time.astimezone(UTC)


def _known(time: datetime) -> datetime:
    return time.astimezone(UTC)
