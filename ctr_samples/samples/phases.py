"""Schedule of joins and features before and after samples move to their final place. Pure.

Joins that move impressions run first, and the shuffle then carries their columns. So all other tables are joined after
the shuffle by broadcast, which moves no rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ctr_samples.config import JobConfig
from ctr_samples.samples.features import paths
from ctr_samples.samples.views.as_of import JoinStep, views_of


@dataclass(frozen=True, slots=True)
class Phases:
    """Steps ``before`` the samples move, ``features`` computed there, and steps ``after``."""

    before: Sequence[JoinStep]
    features: Collection[str]
    after: Sequence[JoinStep]


def phases_of(
    config: JobConfig, steps: Sequence[JoinStep], together: Iterable[Collection[str]], moved: Iterable[str] = ()
) -> Phases:
    """Schedule each join as late as possible. ``moved`` lists features that move rows themselves.

    ``together`` groups columns that must be available at the same time, see
    :class:`ctr_samples.samples.features.SampleColumns`.
    """
    moving = views_of(step for step in steps if not step.keeps_order)
    first = {*paths("histories", config.histories), *paths("views", moving), *paths("features", moved)}
    groups = [set(group) for group in together]
    groups += [paths("views", step.views) for step in steps]
    groups += [paths("views", [name, *view.looked_up_in]) for name, view in config.views.items()]
    early = _with_companions(first, groups)
    after = [step for step in steps if not paths("views", step.views) & early]
    if early and not after:  # all features are then computed early, since they are narrower than their inputs
        return Phases(steps, list(config.features), ())
    before = [step for step in steps if step not in after]
    return Phases(before, [name for name in config.features if paths("features", [name]) & early], after)


def _with_companions(first: set[str], groups: Sequence[set[str]]) -> set[str]:
    """Add every path that shares a group with a member of ``first``, repeatedly until nothing is added."""
    found = set(first)
    while more := {one for group in groups if group & found for one in group} - found:
        found |= more
    return found
