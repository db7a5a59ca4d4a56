"""Checks of the whole day: sample count, hours, users, and duplicates. Checks of labels and their actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ctr_samples.quality import drift
from ctr_samples.quality.checks.score import ENOUGH, FEWEST_ROWS, SIGMAS, SURELY_SOME, Days, Score, rise, times, was
from ctr_samples.quality.metrics import HourCounts, Measured


def volume(days: Days) -> Iterator[Score]:
    """Compare the number of samples with the closer of the two references."""
    if days.references:
        now = days.now.rows
        closest = min(days.references, key=lambda day: times(now, day.rows))
        before = closest.rows
        words = f"{now:,} samples ({was(f'{before:,}', closest)})"
        yield Score("samples", times(now, before), words, known=days.weekday_known or now == 0)


def too_few(days: Days) -> Iterator[Score]:
    """Flag days with too few samples to compare shares and distributions."""
    split = drift.main_split(days.now.samples)
    rows = days.now.samples.get(split, 0)
    words = f"{rows:,} {split} samples are too few to judge shares of users, duplicates, scales and rare values"
    yield Score("samples", float(rows < FEWEST_ROWS), words)


def silent_hours(days: Days) -> Iterator[Score]:
    """Find hours without clicks or impressions in which the rest of the day or a reference day predicts many."""
    hours = _hours(days.now)
    if not hours:
        return
    positives, samples = sum(h.positives for h in hours), sum(h.samples for h in hours)
    silent = [h.hour for h in hours if h.positives == 0 and h.samples * positives / max(1, samples) > SURELY_SOME]
    yield Score("clicks", len(silent), f"no clicks at {_named(silent)}, despite enough impressions to expect some")
    if days.references:
        gaps = [(_emptied(hours, _hours(day)), day) for day in days.references]
        empty, day = min(gaps, key=lambda gap: len(gap[0]))
        words = f"no impressions at {_named(empty)}, unlike on {day.run_date}"
        yield Score("impressions", len(empty), words, known=days.weekday_known)


def _emptied(hours: Sequence[HourCounts], before: Sequence[HourCounts]) -> list[int]:
    """Return the hours without impressions in which ``before`` predicts many."""
    samples, total = (sum(hour.samples for hour in day) for day in (hours, before))
    return [
        old.hour
        for new, old in zip(hours, before, strict=False)
        if new.samples == 0 and old.samples * samples / max(1, total) > SURELY_SOME
    ]


def hours(days: Days) -> Iterator[Score]:
    """Compare the hourly distribution of impressions with the closer of the two references."""
    now = [h.samples for h in _hours(days.now)]
    moved = []
    for day in days.references:
        before = [h.samples for h in _hours(day)]
        if sum(now) and sum(before):
            apart = sum(abs(n / sum(now) - b / sum(before)) for n, b in zip(now, before, strict=True)) / 2
            chance = math.sqrt(len(now) * (1 / sum(now) + 1 / sum(before)) / 4) * 1.5
            words = f"{apart:.1%} of the impressions lie in different hours than on {day.run_date}"
            moved.append(Score("impressions", max(0.0, apart - chance), words, known=days.weekday_known))
    if moved:
        yield min(moved, key=lambda score: score.value)


def _hours(day: Measured) -> Sequence[HourCounts]:
    return day.click_rate.by_hour if day.click_rate else ()


def _named(hours_: Sequence[int]) -> str:
    return ", ".join(f"{hour}:00" for hour in hours_) or "any hour"


def heavy_user(days: Days) -> Iterator[Score]:
    """Measure the share of the user with the most samples, which may be a bot or a default id."""
    users = days.now.users
    if users and users.looked_at >= FEWEST_ROWS:
        first = users.heaviest[0]
        yield Score(first.user, first.share, f"{first.share:.1%} of the samples belong to {users.key} {first.user!r}")


def dropped(days: Days) -> Iterator[Score]:
    """Measure the rise in dropped impressions, by reason, including intended drops."""
    if days.before is None:
        return
    now, before = (day.accounting["impressions"] for day in (days.now, days.before))
    for reason, n in days.now.dropped.items():
        new, old = n / max(1, now), days.before.dropped.get(reason, 0) / max(1, before)
        words = f"{new:.1%} of the impressions were dropped as {reason} ({was(f'{old:.1%}', days.before)})"
        yield Score(reason, rise(new, old, now, before), words)


def identical(days: Days) -> Iterator[Score]:
    """Find samples that equal another sample in all features."""
    yield from _alike(days, lambda day: day.duplicates.identical, "are identical to another sample in all features")


def conflicting(days: Days) -> Iterator[Score]:
    """Find samples that equal another sample in all features but have a different label."""
    yield from _alike(days, lambda day: day.duplicates.conflicting, "share all features with a sample of another label")


def _alike(days: Days, share_of: Callable[[Measured], float], words: str) -> Iterator[Score]:
    """Measure the rise of a share since the day before."""
    before = days.before
    if before and min(days.now.duplicates.looked_at, before.duplicates.looked_at) >= FEWEST_ROWS:
        new, old = share_of(days.now), share_of(before)
        yield Score("samples", max(0.0, new - old), f"{new:.1%} of the samples {words} ({was(f'{old:.1%}', before)})")


def same_ids(days: Days) -> Iterator[Score]:
    """Find samples that share an impression id."""
    count = days.now.duplicates.ids
    share = count / max(1, days.now.rows)
    yield Score("impression_id", share, f"{count:,} samples share their impression_id with another sample")


def contract(days: Days) -> Iterator[Score]:
    """Check that the contract is unchanged since the day before, so that both days can be read together."""
    if days.before is not None:
        changed = days.now.contract != days.before.contract
        yield Score("contract", float(changed), f"the contract differs from that of {days.before.run_date}")


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
