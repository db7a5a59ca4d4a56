"""Collect all data that a run considers for one impression, as plain values, to explain it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.config import JobConfig, SnapshotView, StaticView
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.errors import InputError
from ctr_samples.explain.rules import (
    Action,
    FeatureRow,
    HistoryRules,
    Impression,
    LabelRules,
    PastAction,
    RowEvidence,
    ViewRules,
    judge_rows,
)
from ctr_samples.job.planning import read_inputs
from ctr_samples.periods import WHOLE, Period, in_zone
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.features.row import IMPRESSION, view_columns
from ctr_samples.samples.histories import ITEM, KNOWN, REQUEST, TIE, TIME, actions_of_history
from ctr_samples.samples.histories import KEY as OF
from ctr_samples.samples.impressions import DROPPED, SKIP_ABOVE, cut_impressions, row_label
from ctr_samples.samples.inputs.databases import errors_of_sources
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.labels.events import ACTION, actions_of, key_of_action
from ctr_samples.samples.labels.plans import LabelPlan, impression_reach, plan_labels, rows_among
from ctr_samples.samples.partials import where_kept
from ctr_samples.samples.period import Span
from ctr_samples.samples.sampling import DOWN_SAMPLED, sampled
from ctr_samples.samples.views.as_of.matching import KEY, PAYLOAD
from ctr_samples.samples.views.as_of.planning import (
    AVAILABLE_TIME,
    CLOSED,
    EVENT_TIME,
    GONE,
    SEQUENCE,
    VALID_TO,
    content_of,
)
from ctr_samples.samples.views.features import with_looked_up
from ctr_samples.samples.views.joiner import level_of
from ctr_samples.samples.views.rows import usable, view_rows
from ctr_samples.sparksql.columns import content_hash, joint_key, quoted
from ctr_samples.sparksql.expressions import as_type
from ctr_samples.sparksql.observations import Reporter, Silent

_VARIANT = re.compile(r'("(?:type|elementType|valueType)":)"variant"')
"""The type of a column, field or element in the JSON of a schema."""

MOST = 1000
"""Maximum number of rows collected of each kind: the newest rows, or for a history the actions just before the
impression.
"""


@dataclass(frozen=True, slots=True)
class LabelEvidence:
    """The inputs of an action label: actions that share keys with the impression, and other impressions that may claim
    them.
    """

    others: Sequence[Impression]
    actions: Sequence[Action]
    rules: LabelRules


@dataclass(frozen=True, slots=True)
class ViewEvidence:
    """The inputs of a view: its rows with the impression's key, and the rules (None for a view without times).

    ``on`` names the parts of the key: keys, or columns of other views. ``kept`` describes the origin of the counts,
    unless a run reads them from the log alone.
    """

    on: Sequence[str]
    key: Any
    rows: Sequence[FeatureRow]
    rules: ViewRules | None
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryEvidence:
    """The inputs of a history: actions with the impression's ``key`` up to the end of its day, of any age.

    ``kept`` describes the origin of the actions, unless a run reads them from the log alone.
    """

    on: str
    key: Any
    actions: Sequence[PastAction]
    rules: HistoryRules
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The complete evidence for an impression. ``dropped`` is the reason why it does not become a sample, if any."""

    impression: Impression
    dropped: str | None
    labels: Mapping[str, LabelEvidence | RowEvidence]
    views: Mapping[str, ViewEvidence]
    histories: Mapping[str, HistoryEvidence]


@dataclass(frozen=True, slots=True)
class Sought:
    """The impression to explain, identified by ``id``, or by ``keys`` and the time to which it is nearest."""

    id: int | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    at: datetime | None = None

    def of(self, impressions: DataFrame, span: Span, zone: str) -> Mapping[str, Any]:
        """Return the impression's row. If log entries repeat, returns the entry that counts.

        Raises InputError if there is no such impression, or several.
        """
        if self.id is not None:
            mine = F.col("impression_id") == self.id
        else:
            for name in self.keys:
                if name not in impressions.columns:
                    raise InputError(
                        end_sentence(f"Impressions have no key {name!r}{nearest(name, impressions.columns)}")
                    )
            mine = reduce(Column.__and__, [_same(F.col(name), value) for name, value in self.keys.items()])
        time = F.col("impression_time")
        found = impressions.where(mine & (span.contains(time) | time.isNull()))
        rows = _rows(found.orderBy("impression_time").limit(MOST))
        if not rows:
            within = (
                "in the log"
                if span.start is None or span.end is None
                else f"between {in_zone(span.start, zone)} and {in_zone(span.end, zone)}"
            )
            raise InputError(
                f"There is no impression {self} {within}; use an `impression_id` that "
                "`ctr-samples show` prints for that day, or check the keys and the date."
            )
        times = {_utc(row["impression_time"]) for row in rows}
        if self.at is not None:
            at = self.at
            nearest_time = min(times, key=lambda time: abs((time or datetime.max.replace(tzinfo=UTC)) - at))
            rows = [row for row in rows if _utc(row["impression_time"]) == nearest_time]
        elif len(times) > 1:
            some = ", ".join(in_zone(time, zone) if time else "without a time" for time in list(times)[:_NAMED])
            raise InputError(f"There are {len(times)} impressions {self} on the day ({some}); choose one with `--at`.")
        return min(rows, key=lambda row: row[DROPPED] is not None)

    def __str__(self) -> str:
        if self.id is not None:
            return str(self.id)
        return "of " + " and ".join(f"{name} {value!r}" for name, value in self.keys.items())


_NAMED = 5
"""Maximum number of times listed in an error."""


@dataclass(frozen=True, slots=True)
class Gatherer:
    """Collects the evidence. Runs on the driver, with a few Spark jobs, each of which collects the rows of one key."""

    inputs: Inputs
    period: Period = WHOLE

    @property
    def config(self) -> JobConfig:
        """The configuration used to explain the impression."""
        return self.inputs.config

    @property
    def span(self) -> Span:
        """The day of the impression."""
        return self.inputs.span

    def gather(self, sought: Sought) -> Evidence:
        """Collect the evidence. Raises InputError if the day has no such impression, or several."""
        shown = self.config.impressions
        plans, rows = plan_labels(self.config), rows_among(self.config.labels)
        reach = impression_reach(self.config, self.span)
        impressions = cut_impressions(
            self.inputs.uncounted(shown.source), shown, self.span, self.inputs.partitions(), reach, rows
        ).persist()
        try:
            row = sought.of(impressions, self.span, self.config.timezone)
            impression = _impression(row, shown.column_names)
            labels: dict[str, LabelEvidence | RowEvidence] = {
                name: RowEvidence(label.expr, row[row_label(name)]) for name, label in rows.items()
            }
            labels |= {plan.name: self._label(plan, impression, impressions) for plan in plans}
        finally:
            impressions.unpersist()
        histories = {name: self._history(name, impression) for name in self.config.histories}
        dropped = row[DROPPED] or self._left_out(impression.id)
        in_order = {name: labels[name] for name in self.config.labels}
        return Evidence(impression, dropped, in_order, self._views(impression, impressions.sparkSession), histories)

    @property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.config.timezone)

    def _left_out(self, impression_id: int) -> str | None:
        """Return the reason for dropping the impression once its labels are known, or None if it becomes a sample."""
        if self.config.impressions.skip_above is None and self.config.sampling is None:
            return None
        mine = F.col(f"{IMPRESSION}.impression_id") == impression_id
        labelled = SampleBuilder(self.inputs).labelled_impressions()
        if labelled.where(mine).isEmpty():
            return SKIP_ABOVE
        kept = sampled(self.config, self.inputs.span, labelled)
        return DOWN_SAMPLED if kept.where(mine).isEmpty() else None

    def _label(self, plan: LabelPlan, impression: Impression, impressions: DataFrame) -> LabelEvidence:
        rules = LabelRules(plan.label.window, plan.label.skew, plan.tried, self._zone)
        mine = {name: impression.values[name] for name in plan.keys}
        usable_sets = [names for names in plan.tried if all(mine[name] is not None for name in names)]
        if not usable_sets:
            return LabelEvidence((), (), rules)
        source = actions_of(self.inputs.uncounted(plan.label.source), [plan])
        same = [_all([_same(F.col(key_of_action(name)), mine[name]) for name in names]) for names in usable_sets]
        time = F.col(f"{ACTION}.time")
        near = self.span.reaches(time, plan.label.window, plan.label.window) | time.isNull()
        columns = [F.col(key_of_action(name)) for name in plan.keys]
        rows = _rows(source.where(reduce(Column.__or__, same) & near).select(*columns, f"{ACTION}.*").limit(MOST))
        actions = [
            Action(_utc(r["time"]), r["value"], {name: r[key_of_action(name)] for name in plan.keys}) for r in rows
        ]
        return LabelEvidence(self._others(impression, impressions, plan, actions), actions, rules)

    def _others(
        self, impression: Impression, impressions: DataFrame, plan: LabelPlan, actions: Sequence[Action]
    ) -> list[Impression]:
        """Return other impressions that may claim any of the actions."""
        keys = [impression.values, *[action.keys for action in actions]]
        wanted = {name: sorted({str(one[name]) for one in keys if one[name] is not None}) for name in plan.keys}
        sets = [names for names in plan.tried if all(wanted[name] for name in names)]
        some = [_all([F.col(name).cast("string").isin(*wanted[name]) for name in names]) for names in sets]
        rows = impressions.where(reduce(Column.__or__, some) & F.col(DROPPED).isNull()).limit(MOST)
        others = [_impression(row, self.config.impressions.column_names) for row in _rows(rows)]
        return [other for other in others if other.id != impression.id]

    def _views(self, impression: Impression, spark: Any) -> dict[str, ViewEvidence]:
        """Return the evidence of each view. Processes views that supply the key of another view first."""
        needed = view_columns(spark, self.config, self.inputs.columns_of)
        found: dict[str, ViewEvidence] = {}
        for name in sorted(self.config.views, key=partial(level_of, self.config)):
            found[name] = self._view(name, needed[name], impression, found)
        return {name: found[name] for name in self.config.views}

    def _view(
        self, name: str, columns: Sequence[str], impression: Impression, found: Mapping[str, ViewEvidence]
    ) -> ViewEvidence:
        view = self.config.views[name]
        parts = [_key_part(part, impression, found) for part in view.joined_on]
        key = parts[0] if len(parts) == 1 else tuple(parts)
        source = with_looked_up(self.inputs, self.inputs.uncounted(view.source), name, view)
        rows = usable(view_rows(source, name, view, columns))
        rows = rows.withColumn(TIE, content_of(rows.schema[PAYLOAD].dataType))
        mine = rows.where(F.lit(False) if None in parts else _same_key(F.col(KEY), parts))
        if isinstance(view, StaticView):
            payloads = [row[PAYLOAD] for row in _rows(mine.orderBy(F.col(TIE).desc()).limit(MOST))]
            untimed = [FeatureRow(impression.time, impression.time, payload) for payload in payloads]
            return ViewEvidence(view.joined_on, key, untimed, None)
        newest = _rows(mine.orderBy(F.col(EVENT_TIME).desc()).limit(MOST))
        snapshots = None
        if isinstance(view, SnapshotView):
            times = _rows(rows.select(EVENT_TIME, AVAILABLE_TIME).distinct())
            snapshots = sorted((_known(r[EVENT_TIME]), _known(r[AVAILABLE_TIME])) for r in times)
        rules = ViewRules(view.max_age, view.inclusive, snapshots, self._zone)
        kept = where_kept(self.inputs, name, self.period)
        return ViewEvidence(view.joined_on, key, [_feature_row(r) for r in newest], rules, kept)

    def _history(self, name: str, impression: Impression) -> HistoryEvidence:
        history = self.config.history(name)
        request = impression.values["request"] if history.request is not None else None
        rules = HistoryRules(history.last, history.within, history.delay, request)
        key, kept = impression.values[history.on], where_kept(self.inputs, name, self.period)
        if key is None:
            return HistoryEvidence(history.on, key, (), rules, kept)
        of_any_age = history.model_copy(update={"within": None})
        actions = actions_of_history(self.inputs.uncounted(history.source), name, of_any_age, self.span)
        if isinstance(key, str):  # like the job, which compares and hashes text
            actions = actions.withColumn(OF, F.col(OF).cast("string"))
        before = F.col(TIME) < F.lit(impression.time)
        mine = actions.where(_same(F.col(OF), key)).withColumn(TIE, content_hash(actions))
        nearest = mine.orderBy(before.desc(), F.when(before, F.col(TIME)).desc(), TIME).limit(MOST)
        past = [_past_action(r, list(history.columns)) for r in _rows(nearest)]
        return HistoryEvidence(history.on, key, past, rules, kept)


def evidence_of(
    spark: SparkSession, config: JobConfig, period: Period, sought: Sought, *, reporter: Reporter | None = None
) -> Evidence:
    """Collect all data that a run of the day would consider for one impression. Runs on the driver and
    writes nothing.
    """
    reporter = reporter or Silent()
    reporter.stage("checking the inputs")
    inputs = read_inputs(spark, config, period, reporter, watched=False)
    reporter.stage("finding the impression")
    with errors_of_sources(config.sources):
        return Gatherer(inputs, period).gather(sought)


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Collect rows. Instants have a zone, at any depth; timestamps without a zone are local times and remain
    unchanged. A VARIANT becomes text, since PySpark cannot collect one that is null.
    """
    kinds = StructType.fromJson(json.loads(_VARIANT.sub(r'\1"string"', frame.schema.json())))
    plain = frame.select(*[as_type(F.col(quoted(f.name)), f.dataType, kinds[f.name].dataType) for f in frame.schema])
    rows: list[dict[str, Any]] = plain.toArrow().to_pylist()
    return rows


def _key_part(part: str, impression: Impression, found: Mapping[str, ViewEvidence]) -> Any:
    """Return a key of the impression, or a field of the row that the impression matches in another view."""
    name, *path = part.split(".")
    if not path:
        return impression.values[name]
    evidence = found[name]
    if evidence.rules is None:
        chosen = list(evidence.rows)
    else:
        chosen = [v.what for v in judge_rows(impression.time, evidence.rows, evidence.rules) if v.taken]
    value = chosen[0].values if chosen else None
    for field_name in path:
        named = {} if value is None else {one.lower(): of for one, of in value.items()}
        value = named.get(field_name.lower())
    return value


def _same_key(column: Column, parts: Sequence[Any]) -> Column:
    return _same(column, parts[0]) if len(parts) == 1 else column == joint_key([F.lit(part) for part in parts])


def _all(conditions: Sequence[Column]) -> Column:
    return reduce(Column.__and__, conditions)


def _same(column: Column, value: Any) -> Column:
    return column.cast("string") == F.lit(str(value))


def _impression(row: Mapping[str, Any], columns: Sequence[str]) -> Impression:
    values = {name: row[name] for name in columns}
    time = _utc(values["impression_time"]) or datetime.max.replace(tzinfo=UTC)
    return Impression(values["impression_id"], time, values)


def _feature_row(row: Mapping[str, Any]) -> FeatureRow:
    return FeatureRow(
        _known(row[EVENT_TIME]),
        _known(row[AVAILABLE_TIME]),
        row[PAYLOAD],
        row.get(SEQUENCE),
        bool(row.get(GONE)),
        _utc(row.get(VALID_TO)),
        _utc(row.get(CLOSED)),
        row[TIE],
    )


def _past_action(row: Mapping[str, Any], columns: Sequence[str]) -> PastAction:
    values = {column: row[column] for column in columns}
    return PastAction(_known(row[TIME]), row[ITEM], row[REQUEST], values, row[TIE], _utc(row.get(KNOWN)))


def _utc(time: datetime | None) -> datetime | None:
    """Convert to UTC, since Python subtracts times of the same zone by wall clock."""
    return None if time is None else time.astimezone(UTC)


def _known(time: datetime) -> datetime:
    return time.astimezone(UTC)
