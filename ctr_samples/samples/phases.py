"""What is joined and made before samples move to their final place, and what once they are there. Pure.

Whatever moves impressions comes first, and what comes first travels on to the final place. So all else waits: it is joined
there by broadcast, which moves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ctr_samples.config import JobConfig
from ctr_samples.samples.features import paths
from ctr_samples.samples.views.as_of import JoinStep, views_of


@dataclass(frozen=True, slots=True)
class Phases:
    """The steps ``before`` the samples move and the ``features`` that are made there; the steps ``after`` it."""

    before: Sequence[JoinStep]
    features: Collection[str]
    after: Sequence[JoinStep]


def phases_of(
    config: JobConfig, steps: Sequence[JoinStep], together: Iterable[Collection[str]], moved: Iterable[str] = ()
) -> Phases:
    """Joins as late as can be. ``moved`` are features that move rows themselves.

    ``together`` is what must be at hand at the same time, see :class:`ctr_samples.samples.features.SampleColumns`.
    """
    moving = views_of(step for step in steps if not step.keeps_order)
    first = {*paths("histories", config.histories), *paths("views", moving), *paths("features", moved)}
    groups = [set(group) for group in together]
    groups += [paths("views", step.views) for step in steps]
    groups += [paths("views", [name, *view.looked_up_in]) for name, view in config.views.items()]
    early = _with_companions(first, groups)
    after = [step for step in steps if not paths("views", step.views) & early]
    if early and not after:  # then features are narrower than what they are made from
        return Phases(steps, list(config.features), ())
    before = [step for step in steps if step not in after]
    return Phases(before, [name for name in config.features if paths("features", [name]) & early], after)


def _with_companions(first: set[str], groups: Sequence[set[str]]) -> set[str]:
    """All that shares a group with one of the ``first``, with what shares a group with that, and so on."""
    found = set(first)
    while more := {one for group in groups if group & found for one in group} - found:
        found |= more
    return found
