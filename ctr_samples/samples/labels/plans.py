"""Labels with the keys that they inherit filled in, and what follows from them. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ctr_samples.config import Impressions, JobConfig, Label
from ctr_samples.config.names import mask_of
from ctr_samples.config.references import keys_of


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """A label with the columns it inherits from ``impressions`` filled in.

    ``keys`` are the kinds of key that find its impression, in the order in which they are tried, each with the expression
    that an action has it in: ``(("request", "request_id"), ("user", "user_id"))``. The article is always part of it.
    """

    name: str
    label: Label
    time: str
    article: str
    keys: tuple[tuple[str, str], ...]

    @property
    def by(self) -> str:
        """The kind of key that is tried first: request or user."""
        return self.keys[0][0]

    @property
    def by_key(self) -> str:
        """Its expression over the log of actions."""
        return self.keys[0][1]

    @property
    def tried(self) -> list[str]:
        """The kinds of key, first the one that is tried first."""
        return [kind for kind, _ in self.keys]


def plan_label(name: str, label: Label, impressions: Impressions) -> LabelPlan:
    """Fill in what a label inherits. A request id, where both logs have one, is better than a user and the clock."""
    keys = keys_of(label, impressions)
    assert keys, "references.py refuses a label without a key"
    return LabelPlan(name, label, label.time or impressions.time, label.article or impressions.article, keys)


def plan_labels(config: JobConfig) -> list[LabelPlan]:
    """The plans of all labels, in the order of the configuration."""
    return [plan_label(name, label, config.impressions) for name, label in config.labels.items()]


def label_columns(labels: Mapping[str, Label]) -> list[str]:
    """The label columns of a sample: each label, and a mask for each reduced value (missing is not zero)."""
    columns = []
    for name, label in labels.items():
        columns.append(name)
        if label.reduce != "any":
            columns.append(mask_of(name))
    return columns


def longest_window(plans: Sequence[LabelPlan]) -> timedelta:
    """How long after an impression actions still matter."""
    return max(plan.label.window for plan in plans)


def longest_skew(plans: Sequence[LabelPlan]) -> timedelta:
    """How long before an impression actions still matter."""
    return max(plan.label.skew for plan in plans)


def label_reach(plans: Sequence[LabelPlan]) -> timedelta:
    """How far from the day impressions still matter: they may take an action that one of the day would get otherwise."""
    return max(plan.label.window + plan.label.skew for plan in plans)
