"""What is joined and made before samples move to their final place, and what once they are there. Pure.

Joins that move impressions come first, and their columns travel to the final place. So everything else waits and is
joined there by broadcast, which moves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ctr_samples.config import JobConfig
from ctr_samples.samples.features import paths
from ctr_samples.samples.views.as_of import JoinStep, views_of


@dataclass(frozen=True, slots=True)
class Phases:
    """Steps ``before`` the samples move, with the ``features`` made there, and steps ``after``."""

    before: Sequence[JoinStep]
    features: Collection[str]
    after: Sequence[JoinStep]


def phases_of(
    config: JobConfig, steps: Sequence[JoinStep], together: Iterable[Collection[str]], moved: Iterable[str] = ()
) -> Phases:
    """Join as late as possible. ``moved`` are features that move rows themselves.

    ``together`` groups what must be available at the same time, see
    :class:`ctr_samples.samples.features.SampleColumns`.
    """
    moving = views_of(step for step in steps if not step.keeps_order)
    first = {*paths("histories", config.histories), *paths("views", moving), *paths("features", moved)}
    groups = [set(group) for group in together]
    groups += [paths("views", step.views) for step in steps]
    groups += [paths("views", [name, *view.looked_up_in]) for name, view in config.views.items()]
    early = _with_companions(first, groups)
    after = [step for step in steps if not paths("views", step.views) & early]
    if early and not after:  # then features are narrower than their inputs
        return Phases(steps, list(config.features), ())
    before = [step for step in steps if step not in after]
    return Phases(before, [name for name in config.features if paths("features", [name]) & early], after)


def _with_companions(first: set[str], groups: Sequence[set[str]]) -> set[str]:
    """Close ``first`` under sharing a group: add everything that shares a group with a member, repeatedly."""
    found = set(first)
    while more := {one for group in groups if group & found for one in group} - found:
        found |= more
    return found
