"""Checks of labels and their actions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ctr_samples.quality import drift
from ctr_samples.quality.checks.score import ENOUGH, FEWEST_ROWS, SIGMAS, Days, Score, rise, times, was
from ctr_samples.quality.metrics import Measured


def rate(days: Days) -> Iterator[Score]:
    """Compare the mean of each label over all splits with the closer of the two references.

    Open labels are compared with open labels, final labels with final labels. If no reference has the same state, a
    lower mean of open labels is expected, because actions are still to come, and a higher mean only warns.
    """
    mature = days.now.label_mature
    for name in days.now.labels:
        now = _label(days.now, name)
        references = [(day, old) for day in days.references if (old := _label(day, name)) is not None]
        alike = [(day, old) for day, old in references if day.label_mature == mature]
        if now is not None and references:
            candidates = [(_apart(now, old), day, old) for day, old in alike or references]
            ratio, day, old = min(candidates, key=lambda entry: entry[0])
            if alike or (now.mean < old.mean) == bool(mature):
                words = f"the mean of {name} is {now.mean:.4g} ({was(f'{old.mean:.4g}', day)})"
                yield Score(name, ratio, words, known=bool(alike))


@dataclass(frozen=True, slots=True)
class _Mean:
    mean: float
    count: int
    std: float
    binary: bool


def _label(day: Measured, name: str) -> _Mean | None:
    label = day.labels.get(name)
    if label is None:
        return None
    splits = label.splits.values()
    count, total = sum(s.count for s in splits), sum(s.sum for s in splits)
    if not count:
        return None
    # Means stay comparable if both days downsample train negatives at the same rate.
    spread = max(((s.std or 0.0) for s in splits), default=0.0)
    return _Mean(total / count, count, spread, label.binary)


def _apart(now: _Mean, old: _Mean) -> float:
    """Return the ratio of the two means, at least 1, reduced by the difference expected by chance."""
    if now.binary:
        # Half a positive on both sides handles days without positives and damps the effect of few positives.
        positives = now.mean * now.count + 0.5, old.mean * old.count + 0.5
        return times(positives[0] / now.count, positives[1] / old.count, sum(1 / some for some in positives))
    errors = [one.std / math.sqrt(one.count) for one in (now, old)]
    if now.mean > 0 and old.mean > 0:
        return times(now.mean, old.mean, (errors[0] / now.mean) ** 2 + (errors[1] / old.mean) ** 2)
    return 1 + max(0.0, abs(now.mean - old.mean) - SIGMAS * math.hypot(*errors)) / (abs(old.mean) or 1.0)


_ONLY_POSITIVES = (
    ": a log of positives only, from which no model can learn what is not clicked; name the log of all that was shown, or make "
    "the label from a grade with a threshold"
)


def one_class(days: Days) -> Iterator[Score]:
    """Find labels with a single class, from which a model cannot learn."""
    for name, label in days.now.labels.items():
        split = drift.main_split({split: one.count for split, one in label.splits.items()})
        here = label.splits.get(split)
        if label.binary and here and here.count:
            alone = here.sum in (0, here.count)
            why = _ONLY_POSITIVES if here.sum == here.count else ""
            words = f"all {here.count:,} {split} samples have {name} = {here.sum / here.count:g}{why}"
            # A small day may lack positives by chance, but rarely negatives.
            known = here.count >= (ENOUGH if here.sum else FEWEST_ROWS)
            yield Score(name, float(alone), words, known=known)


def orphans(days: Days) -> Iterator[Score]:
    """Measure the rise in actions without an impression."""
    for name, now in days.now.actions.items():
        before = days.before and days.before.actions.get(name)
        if days.before and before and now.actions and before.actions:
            new, old = (counts.orphans / counts.actions for counts in (now, before))
            words = f"{new:.1%} of the actions of {name} match no impression ({was(f'{old:.1%}', days.before)})"
            yield Score(name, rise(new, old, now.actions, before.actions), words)


def funnel(days: Days) -> Iterator[Score]:
    """Find positives of a label without the label that comes first."""
    for name, now in days.now.funnels.items():
        share = now.without / max(1, now.positives)
        words = f"{now.without:,} of the {now.positives:,} samples with {name} have no {now.after}, which comes first"
        yield Score(name, share, words)
