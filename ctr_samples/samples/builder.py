"""Plan the samples as one lazy DataFrame, with watches that count the rows passing through."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ctr_samples.config import RowLabel
from ctr_samples.config.references import inherited, measured_key
from ctr_samples.errors import InputError
from ctr_samples.samples.earlier import EarlierFeatures
from ctr_samples.samples.features import IMPRESSION, SampleColumns, in_final_order, order_of, with_place
from ctr_samples.samples.histories.join import actions_of_history, history_plan, history_type, join_history
from ctr_samples.samples.histories.lists import KEY, HistoryPlan
from ctr_samples.samples.impressions import DROPPED, Repeats, cut_impressions, is_below, row_label, time_not_read
from ctr_samples.samples.inputs.clocks import Use
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.labels import (
    Labelling,
    LabelPlan,
    actions_of_logs,
    events_among,
    events_of,
    impression_reach,
    key_of_action,
    label_columns,
    plan_labels,
    row_values,
    rows_among,
)
from ctr_samples.samples.phases import phases_of
from ctr_samples.samples.requests import BEGINNING, RequestSizes, request_hash, request_sizes, with_beginning
from ctr_samples.samples.sampling import split_column, weight_column
from ctr_samples.samples.views.as_of import JoinStep, views_of
from ctr_samples.samples.views.joiner import ViewJoiner, with_keys_of
from ctr_samples.sparksql.columns import later, stable_hash
from ctr_samples.vocabulary import FittedState

ORIGIN = "_origin"
"""Column of :meth:`SampleBuilder.build_few` that holds the origin of the values."""

_SPARE = 20
"""Oversampling factor for the chosen impressions, used if later steps may drop some of them."""


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """Samples of a day in final order, not yet computed, and the join steps of their views.

    ``samples`` has the columns of the contract, ``_split``, ``_request``, ``_shuffle``, ``_hour`` and ``_user``.
    ``order`` has the columns that order the samples of a split.
    """

    samples: DataFrame
    steps: Sequence[JoinStep]
    order: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SampleBuilder:
    """Plans the samples of one day on the driver. Nothing runs until the sink does."""

    inputs: Inputs
    state: FittedState | None = None

    def build(self) -> SamplePlan:
        """Plan the samples. Raises errors that depend only on the source schemas before any data is read."""
        config, span, watches = self.inputs.config, self.inputs.span, self.inputs.watches
        rows = watches.canary.on(watches.sampling.on(self.labelled_impressions()))
        joins = _Joins.of(self.inputs, rows)
        columns = SampleColumns.of(joins.blank(rows), config, self.state)
        steps = joins.views.plan()
        phases = phases_of(config, steps, columns.together, columns.moving)
        first = watches.joins.on(joins.join(rows, phases.before), views_of(phases.before))
        in_order = self._in_final_order(columns.make_some(first, phases.features))
        joined = watches.joins.on(joins.views.join(in_order, phases.after), views_of(phases.after))
        samples = columns.make(joined, weight_column(config, span), measured_key(config))
        return SamplePlan(samples, steps, order_of(config))

    def check(self) -> None:
        """Plan only as much as the source schemas allow. Raises the same errors as :meth:`build`."""
        rows = self.labelled_impressions()
        SampleColumns.of(_Joins.of(self.inputs, rows).blank(rows), self.inputs.config, self.state)

    def build_on(self, earlier: EarlierFeatures) -> SamplePlan:
        """Plan the samples of :meth:`build` with features from an earlier generation. Computes only labels."""
        config, watches = self.inputs.config, self.inputs.watches
        heavy = measured_key(config)
        rows = self.labelled_impressions()
        # Only the types of views and histories are needed; a plan that never runs must not be counted.
        joins = _Joins.of(self.inputs.uncounted(), rows)
        blank = joins.blank(rows)
        columns = SampleColumns.of(blank, config, self.state)
        placed = self._placed(rows)
        kinds = placed.drop(IMPRESSION).schema
        none = [F.lit(None).cast(kind.dataType).alias(kind.name) for kind in kinds]
        types = columns.make(blank.select("*", *none), heavy=heavy).schema
        in_order = self._in_final_order(rows)
        samples = earlier.behind(columns.make_without_features(in_order, heavy), types)
        return SamplePlan(watches.joins.on(samples, ()), (), order_of(config))

    def build_few(self, limit: int) -> DataFrame:
        """Return at most ``limit`` samples, chosen by hash, with the columns and values of :meth:`build`.

        The last column, :data:`ORIGIN`, holds the time and keys of the impression and, for each view, whether a row
        matched and its age in seconds. Runs a few small jobs that read the logs. Joins only rows that have a key of
        the chosen impressions. Raises InputError if the day has no readable impression.
        """
        config, span = self.inputs.config, self.inputs.span
        rows = self._few_labelled(limit).localCheckpoint()
        joins = _Joins.of(self.inputs, rows, few=rows)
        columns = SampleColumns.of(joins.blank(rows), config, self.state)
        joined = joins.join(self._placed(rows), joins.views.plan())
        return columns.make(joined, weight_column(config, span), measured_key(config), {ORIGIN: self._origin()})

    def _placed(self, rows: DataFrame) -> DataFrame:
        return with_place(rows, split_column(self.inputs.config, self.inputs.span), request_hash(self.inputs.config))

    def _in_final_order(self, rows: DataFrame) -> DataFrame:
        config = self.inputs.config
        return in_final_order(self._placed(rows), config.output.partitions, order_of(config))

    def _origin(self) -> Column:
        shown = self.inputs.config.impressions
        own = [F.col(f"{IMPRESSION}.{name}") for name in ("impression_time", *shown.entities)]
        views = [F.struct(f"{name}.matched", f"{name}.age_s").alias(name) for name in self.inputs.config.views]
        joined = [F.struct(*views).alias("views")] if views else []
        return F.struct(F.struct(*own).alias(IMPRESSION), *joined)

    def _few_labelled(self, limit: int) -> DataFrame:
        """Return a few of the day's labelled impressions that sampling keeps.

        The attribution of an action may depend on every impression with the same key. So this labels all impressions
        that share a matching key with the chosen impressions. It labels the whole day if no key is common to all
        matches, if ``skip_above`` is set, or if the beginnings of requests decide the split.
        """
        config, span = self.inputs.config, self.inputs.span
        # Sampling or `skip_above` may drop some of the chosen impressions once their labels are known.
        spare = 1 if config.impressions.skip_above is None and config.sampling is None else _SPARE
        by_chance = stable_hash("preview", [F.col("impression_id")])
        kept = self._impressions().where(span.contains(F.col("impression_time")))
        whole = config.impressions.skip_above is not None or config.split.needs_beginnings
        key = None if whole else _key_of_all(plan_labels(config))
        value = F.lit(None) if key is None else F.col(key)
        chosen = kept.select("impression_id", value.cast("string")).orderBy(by_chance).limit(limit * spare).collect()
        if not chosen:
            self._refuse_empty()
        ids, values = ([row[column] for row in chosen] for column in (0, 1))
        labelled = self.labelled_impressions(None if key is None else _Sharing(key, set(values)))
        mine = labelled.where(F.col(f"{IMPRESSION}.impression_id").isin(ids))
        return self.inputs.watches.sampling.on(mine).limit(limit)

    def request_sizes(self) -> RequestSizes | None:
        """Measure the requests of the day. See :func:`ctr_samples.samples.requests.request_sizes`."""
        mine = self._impressions().where(self.inputs.span.contains(F.col("impression_time")))
        return request_sizes(self.inputs.config, mine)

    def _refuse_empty(self) -> NoReturn:
        """Raise the InputError that a run raises if the day has no readable impression."""
        shown = self.inputs.config.impressions
        why = time_not_read(self.inputs.plain(shown.source), "impressions", shown.where, "time", shown.time)
        raise InputError(
            f"sources.{shown.source} has no impression on the day that can be read; check the date, the time zone "
            f"({self.inputs.config.timezone}) and `impressions`.{why}"
        )

    def joined(self) -> DataFrame:
        """Return the labelled impressions that sampling keeps, with a struct per view and per history."""
        rows = self.inputs.watches.sampling.on(self.labelled_impressions())
        joins = _Joins.of(self.inputs, rows)
        return joins.join(rows, joins.views.plan())

    def labelled_impressions(self, sharing: _Sharing | None = None) -> DataFrame:
        """Return the day's impressions as the struct column ``impression``, plus label columns.

        With ``sharing``, returns only impressions with one of its key values.
        """
        config = self.inputs.config
        shown, plans = config.impressions, plan_labels(config)
        mine = with_beginning(config, self._attributed(plans, sharing))
        own = [F.col(c) for c in (*shown.column_names, *({BEGINNING} & {*mine.columns}))]
        labels = [column for name in config.labels for column in self._label(name)]
        seen = self._looked_at(mine.select(*own, *labels))
        return seen.select(F.struct(*own).alias(IMPRESSION), *label_columns(config.labels))

    def _attributed(self, plans: Sequence[LabelPlan], sharing: _Sharing | None) -> DataFrame:
        """Return the day's impressions with the labels that are derived from actions."""
        inputs, config = self.inputs, self.inputs.config
        shown, rows = config.impressions, rows_among(config.labels)
        if shown.identity == "row":
            # Numbering identical rows needs a separate shuffle, before the key filter.
            actions = actions_of_logs(plans, inputs.span, lambda source: inputs.watched(source, "labels"))
            events = events_among(self._impressions(), actions, plans)
        else:
            events = events_of(self._events_in, config, plans, inputs.span)
        labelling = Labelling(plans, inputs.span, Repeats.of(shown), tuple(rows.items()))
        stage = labelling.stage(_sharing(events, sharing, key_of_action), inputs.partitions())
        return stage.rows(inputs.watches.tasks)

    def _events_in(self, source: str) -> DataFrame:
        config = self.inputs.config
        sources: dict[Use, set[str]] = {
            "impressions": {config.impressions.source},
            "labels": {plan.label.source for plan in plan_labels(config)},
        }
        return self.inputs.watched(source, *[use for use, of in sources.items() if source in of])

    def _label(self, name: str) -> list[Column]:
        """Return the columns of a label. A label stored in the impression row has a value only if it was known by
        ``known_by``.
        """
        label = self.inputs.config.labels[name]
        if isinstance(label, RowLabel):
            known = later(F.col("impression_time"), label.matures_after)
            return row_values(name, label, self.inputs.span.if_known(known, F.col(f"`{row_label(name)}`")))
        return [F.col(c) for c in label_columns({name: label})]

    def _impressions(self) -> DataFrame:
        """Return the impressions of the day and of the label reach around it, repeats too if rows are impressions."""
        shown, span = self.inputs.config.impressions, self.inputs.span
        log = self.inputs.watched(shown.source, "impressions")
        rows = rows_among(self.inputs.config.labels)
        reach = impression_reach(self.inputs.config)
        impressions = cut_impressions(log, shown, span, reach, rows)
        return (impressions if shown.identity == "row" else impressions.where(F.col(DROPPED).isNull())).drop(DROPPED)

    def _looked_at(self, labelled: DataFrame) -> DataFrame:
        """Drop impressions below the last click of their list if ``skip_above`` is set."""
        label = self.inputs.config.impressions.skip_above
        if label is None:
            return labelled
        marked = labelled.withColumn(DROPPED, is_below(label, self.inputs.config.impressions))
        return self.inputs.watches.impressions.on_marked(marked).where(~F.col(DROPPED)).drop(DROPPED)


@dataclass(frozen=True, slots=True)
class _History:
    """A history that is ready to join."""

    plan: HistoryPlan
    actions: DataFrame


@dataclass(frozen=True, slots=True)
class _Joins:
    """All joins to the impressions of a day: first histories, then views."""

    views: ViewJoiner
    histories: Sequence[_History]

    @classmethod
    def of(cls, inputs: Inputs, rows: DataFrame, few: DataFrame | None = None) -> _Joins:
        """Plan the joins. If ``few`` is given, joins only rows with the keys of these impressions."""
        histories = [_history(inputs, name, few) for name in inputs.config.histories]
        return cls(ViewJoiner(inputs, rows.sparkSession, few), histories)

    def join(self, rows: DataFrame, steps: Sequence[JoinStep]) -> DataFrame:
        # A history passes all columns through Python. Views may add wide rows, so they are joined later.
        for history in self.histories:
            rows = join_history(rows, history.actions, history.plan)
        return self.views.join(rows, steps)

    def blank(self, rows: DataFrame) -> DataFrame:
        """Return an empty frame with the columns of :meth:`join` but no labels. Spark analyses it faster than the
        joins.
        """
        kinds = {IMPRESSION: rows.schema[IMPRESSION].dataType, **self.views.types()}
        kinds |= {history.plan.name: history_type(history.actions, history.plan) for history in self.histories}
        fields = [StructField(name, kind) for name, kind in kinds.items()]
        return rows.sparkSession.createDataFrame([], StructType(fields))


@dataclass(frozen=True, slots=True)
class _Sharing:
    """The name of a key and some of its values as text. None stands for a missing key."""

    key: str
    values: Collection[str | None]


def _sharing(rows: DataFrame, few: _Sharing | None, column: Callable[[str], str] = str) -> DataFrame:
    """Keep rows with one of the key's values, or all rows if ``few`` is None. ``column`` maps the key to its column."""
    if few is None:
        return rows
    text = F.col(column(few.key)).cast("string")
    own = text.isin([value for value in few.values if value is not None])
    return rows.where(own | text.isNull() if None in few.values else own)


def _key_of_all(plans: Sequence[LabelPlan]) -> str | None:
    """Return a key that every key set of the labels contains, or None if no key is common to all."""
    sets = [set(names) for plan in plans for names in plan.tried]
    return min(set.intersection(*sets), default=None) if sets else None


def _history(inputs: Inputs, name: str, few: DataFrame | None) -> _History:
    config = inputs.config
    history = inherited(config.histories[name], config.impressions)
    cut = partial(actions_of_history, name=name, history=history, span=inputs.span)
    actions = inputs.with_kept(name, history.source, "histories", cut)
    plan = history_plan(name, history, config.impressions)
    return _History(plan, with_keys_of(few, [history.on], actions, KEY))
