"""Labels with inherited values filled in, and values derived from these labels. Needs no session of Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pyspark.sql.types import FloatType, LongType, StructField

from ctr_samples.config import ActionLabel, Impressions, JobConfig, Label, RowLabel
from ctr_samples.config.base import mask_of
from ctr_samples.config.label import actions_among
from ctr_samples.periods import local_midnight
from ctr_samples.samples.period import Reach, Span


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """An action label with the values inherited from ``impressions`` filled in.

    ``keys`` maps names to the expressions of an action's keys. ``tried`` lists the key sets for matching its
    impression, in order: ``(("request", "article"), ("user", "article"))``.
    """

    name: str
    label: ActionLabel
    time: str
    keys: Mapping[str, str]
    tried: tuple[tuple[str, ...], ...]

    @property
    def first(self) -> tuple[str, ...]:
        """First key set to try."""
        return self.tried[0]

    @property
    def is_bound_to_its_request(self) -> bool:
        """Whether an action with a request id belongs to that request or to none."""
        return self.label.match is None and "request" in self.first


def plan_label(name: str, label: ActionLabel, impressions: Impressions) -> LabelPlan:
    """Fill in the inherited values of a label. A request id in both logs takes precedence over user and time."""
    tried = label.matches(impressions)
    assert tried, "references.py refuses a label without a key"
    keys = label.keys_with(impressions)
    used = {name: text for name, text in keys.items() if any(name in names for names in tried)}
    return LabelPlan(name, label, label.time or impressions.time, used, tried)


def plan_labels(config: JobConfig) -> list[LabelPlan]:
    """Return the plans of all action labels, in configuration order."""
    labels = actions_among(config.labels)
    return [plan_label(name, label, config.impressions) for name, label in labels.items()]


def rows_among(labels: Mapping[str, Label]) -> dict[str, RowLabel]:
    """Return the labels stored in the impression row."""
    return {name: label for name, label in labels.items() if isinstance(label, RowLabel)}


def rounds(plans: Sequence[LabelPlan]) -> list[tuple[tuple[str, ...], list[LabelPlan]]]:
    """Order the key sets, with their labels, so that every label can try its sets in order, in few rounds (greedily)."""
    waiting = {plan.name: list(plan.tried) for plan in plans}
    order = []
    while any(waiting.values()):
        heads = [sets[0] for sets in waiting.values() if sets]
        # A key set that some label tries later waits for that label, if another set can go first.
        free = [names for names in heads if not any(names in sets[1:] for sets in waiting.values())]
        names = (free or heads)[0]
        trying = [plan for plan in plans if waiting[plan.name][:1] == [names]]
        for plan in trying:
            waiting[plan.name].pop(0)
        order.append((names, trying))
    return order


@dataclass(frozen=True, slots=True)
class Stop:
    """Sets of keys that impressions and actions can try in one place, because rows with equal ``keys`` meet there."""

    keys: tuple[str, ...]
    rounds: tuple[tuple[tuple[str, ...], tuple[LabelPlan, ...]], ...] = ()


def stops(plans: Sequence[LabelPlan], by: Sequence[str] = ()) -> list[Stop]:
    """Return the stops of impressions and actions on their way through the :func:`rounds`, at least one.

    At the last one, impressions lie ``by`` a key that a later step needs, see :func:`can_lie_by`.
    """
    found: list[Stop] = []
    for names, trying in rounds(plans):
        if found and set(found[-1].keys) <= set(names):
            keys, before = found[-1].keys, found.pop().rounds
        else:
            keys, before = tuple(names), ()
        found.append(Stop(keys, (*before, (tuple(names), tuple(trying)))))
    *others, last = found or [Stop(())]
    return [*others, replace(last, keys=tuple(by) or last.keys)]


def can_lie_by(plans: Sequence[LabelPlan], entities: Collection[str], key: Sequence[str]) -> bool:
    """Whether impressions can lie by a key when they have their labels: it must be part of all keys that meet there."""
    last = stops(plans)[-1]
    meeting = [set(entities), *[set(names) for names, _ in last.rounds]]
    return len(key) == 1 and all(set(key) <= names for names in meeting)


def label_fields(labels: Mapping[str, Label]) -> list[StructField]:
    """Return the label columns of a sample: each label, and a mask for each reduced value (missing is not zero)."""
    fields = []
    for name, label in labels.items():
        fields.append(StructField(name, LongType() if label.is_flag else FloatType()))
        if not label.is_flag:
            fields.append(StructField(mask_of(name), LongType()))
    return fields


def label_columns(labels: Mapping[str, Label]) -> list[str]:
    """Return the names of :func:`label_fields`."""
    return [field.name for field in label_fields(labels)]


def keys_among(plans: Sequence[LabelPlan]) -> list[str]:
    """Return the keys of all labels, without duplicates."""
    return list(dict.fromkeys(name for plan in plans for name in plan.keys))


def impression_reach(config: JobConfig, span: Span) -> Reach:
    """Return where impressions around a period matter: they may claim an action, or one of the period may repeat them.

    Of a request, all impressions since the local midnight before the period may be repeated, unless ``dedup`` is set.
    """
    reach = label_reach(plan_labels(config))
    before = max(reach, config.impressions.dedup or timedelta())
    own = span.own_day(config.timezone)
    if config.impressions.repeats_by_day and span.start is not None and own is not None:
        before = max(before, span.start - local_midnight(own, config.timezone))
    return Reach(before, reach)


def label_reach(plans: Sequence[LabelPlan]) -> timedelta:
    """Return the maximum time outside the day at which an impression can claim an action from the day's impressions."""
    return max((plan.label.window + plan.label.skew for plan in plans), default=timedelta())
