"""Labels with inherited keys filled in, and what follows from them. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ctr_samples.config import ActionLabel, Impressions, JobConfig, Label, RowLabel
from ctr_samples.config.base import mask_of
from ctr_samples.config.references import action_keys, actions_among, match_of


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """Action label with the values inherited from ``impressions`` filled in.

    ``keys`` are the expressions of an action's keys, by name; ``tried`` are the sets of keys that find its impression,
    in the order they are tried: ``(("request", "article"), ("user", "article"))``.
    """

    name: str
    label: ActionLabel
    time: str
    keys: Mapping[str, str]
    tried: tuple[tuple[str, ...], ...]

    @property
    def first(self) -> tuple[str, ...]:
        """Keys that are tried first."""
        return self.tried[0]

    @property
    def is_bound_to_its_request(self) -> bool:
        """Whether an action with a request id belongs to that request or to none."""
        return self.label.match is None and "request" in self.first


def plan_label(name: str, label: ActionLabel, impressions: Impressions) -> LabelPlan:
    """Fill in what a label inherits. If both logs have a request id, it is preferred to user and time."""
    tried = match_of(label, impressions)
    assert tried, "references.py refuses a label without a key"
    keys = action_keys(label, impressions)
    used = {name: text for name, text in keys.items() if any(name in names for names in tried)}
    return LabelPlan(name, label, label.time or impressions.time, used, tried)


def plan_labels(config: JobConfig) -> list[LabelPlan]:
    """Return the plans of all action labels, in the order of the configuration."""
    labels = actions_among(config.labels)
    return [plan_label(name, label, config.impressions) for name, label in labels.items()]


def rows_among(labels: Mapping[str, Label]) -> dict[str, RowLabel]:
    """Return the labels that the impression's own row holds."""
    return {name: label for name, label in labels.items() if isinstance(label, RowLabel)}


def rounds(plans: Sequence[LabelPlan]) -> list[tuple[tuple[str, ...], list[LabelPlan]]]:
    """Order the sets of keys so that each label can try its own, with the labels that try each; greedily few rounds."""
    waiting = {plan.name: list(plan.tried) for plan in plans}
    order = []
    while any(waiting.values()):
        heads = [sets[0] for sets in waiting.values() if sets]
        # A set that some label tries only later waits for that label, if another set can go first.
        free = [names for names in heads if not any(names in sets[1:] for sets in waiting.values())]
        names = (free or heads)[0]
        trying = [plan for plan in plans if waiting[plan.name][:1] == [names]]
        for plan in trying:
            waiting[plan.name].pop(0)
        order.append((names, trying))
    return order


def label_columns(labels: Mapping[str, Label]) -> list[str]:
    """Return the label columns of a sample: each label, and a mask for each reduced value (missing is not zero)."""
    columns = []
    for name, label in labels.items():
        columns.append(name)
        if not label.is_flag:
            columns.append(mask_of(name))
    return columns


def longest_window(plans: Sequence[LabelPlan]) -> timedelta:
    """Return how long after an impression actions still matter."""
    return max((plan.label.window for plan in plans), default=timedelta())


def longest_skew(plans: Sequence[LabelPlan]) -> timedelta:
    """Return how long before an impression actions still matter."""
    return max((plan.label.skew for plan in plans), default=timedelta())


def keys_among(plans: Sequence[LabelPlan]) -> list[str]:
    """Return the keys of all labels, without duplicates."""
    return list(dict.fromkeys(name for plan in plans for name in plan.keys))


def impression_reach(config: JobConfig) -> timedelta:
    """Return how far from the day impressions still matter: they may take an action, or repeat one of the day."""
    return max(label_reach(plan_labels(config)), config.impressions.dedup or timedelta())


def label_reach(plans: Sequence[LabelPlan]) -> timedelta:
    """Return how far from the day impressions still matter: they may take an action from an impression of the day."""
    return max((plan.label.window + plan.label.skew for plan in plans), default=timedelta())
