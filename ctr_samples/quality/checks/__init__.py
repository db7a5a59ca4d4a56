"""Daily quality checks. Each check yields scores, where higher is worse; :func:`findings` applies the limits.

All checks are functions of the measures. Checks of counts or distributions subtract three standard deviations before
the limit applies, so that noise alone does not reject a small day.

::

    score.py      input and output of a check, and allowance for chance
    day.py        samples, hours, users, drop reasons, duplicates, the contract; labels and their actions
    features.py   missing values, constants, drift, leaks; match rates of views, and the age of matched rows
    counts.py     warnings from the counts in a manifest, whatever the limits are
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ctr_samples.config import Limits, Quality
from ctr_samples.quality.checks import day, features
from ctr_samples.quality.checks.score import Check, Days, Score
from ctr_samples.quality.metrics import STANDINGS, Finding, Standing

__all__ = ["CHECKS", "Days", "findings"]

CHECKS: Mapping[str, Check] = {
    "volume": day.volume,
    "too_few": day.too_few,
    "rate": day.rate,
    "silent_hours": day.silent_hours,
    "hours": day.hours,
    "one_class": day.one_class,
    "missing": features.missing,
    "constant": features.constant,
    "nonfinite": features.nonfinite,
    "distribution": features.distribution,
    "scale": features.scale,
    "values": features.values,
    "stability": features.stability,
    "matched": features.matched,
    "age": features.age,
    "leak": features.leak,
    "bias": features.bias,
    "heavy_user": day.heavy_user,
    "dropped": day.dropped,
    "orphans": day.orphans,
    "funnel": day.funnel,
    "identical": day.identical,
    "conflicting": day.conflicting,
    "same_ids": day.same_ids,
    "contract": day.contract,
}


def findings(days: Days, quality: Quality, accepted: Collection[str] = ()) -> list[Finding]:
    """Run all checks against their limits. Findings are sorted by severity, then in the order of :data:`CHECKS`.

    :data:`CHECKS` starts with the whole day and ends with details. An ``accepted`` check blocks nothing.
    """
    results = []
    for name, check in CHECKS.items():
        limits: Limits = getattr(quality, name)
        if limits.warn is not None or limits.fail is not None:
            scores = (_softened(score, days) for score in check(days) if score.subject not in limits.without)
            results += [_held(name, score, limits, name in accepted) for score in scores]
    return sorted(results, key=lambda finding: STANDINGS.index(finding.standing))


def _softened(score: Score, days: Days) -> Score:
    """Downgrade a score to a warning if the window of its feature is still filling up."""
    if score.subject not in days.filling:
        return score
    words = f"{score.words}; the log does not yet go as far back as its window"
    return replace(score, known=False, sure=False, words=words)


def _held(check: str, score: Score, limits: Limits, accepted: bool) -> Finding:
    fails, standing = _standing(score, limits, accepted)
    limit = limits.fail if fails else limits.warn
    expected = "at most " + " or ".join(
        f"{n:g} ({w})" for w, n in (("warn", limits.warn), ("fail", limits.fail)) if n is not None
    )
    words = score.words[0].upper() + score.words[1:]
    said_by_itself = limit is None or (limit == 0 and score.value == 1)
    sentence = f"{words}." if said_by_itself else f"{words}; {check} is {score.value:.3g}, the limit is {limit:g}."
    return Finding(check, score.subject, standing, float(score.value), expected, sentence)


def _standing(score: Score, limits: Limits, accepted: bool) -> tuple[bool, Standing]:
    """Return whether the score fails and the resulting standing."""
    above_fail = limits.fail is not None and score.value > limits.fail
    if score.known and (above_fail or score.sure):
        return True, "accepted" if accepted else "blocks"
    above_warn = limits.warn is not None and score.value > limits.warn
    return False, "warns" if above_fail or above_warn or score.sure else "passed"
