"""The checks of a day: each yields scores, which grow with what is wrong; :func:`findings` compares them with their limits.

All are functions of what was measured. A check that compares counts or distributions allows for chance: three standard
deviations of counts as small as the ones at hand are taken off before a limit is looked at, so that a small day is not refused
for its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ctr_samples.config import Limits, Quality
from ctr_samples.quality import drift
from ctr_samples.quality.metrics import STANDINGS, Facts, Finding, Hour, Measured, Standing

SIGMAS = 3.0
FEWEST_ROWS = 1000
"""Below this many samples the share of one user, or of one value, means nothing."""
_ENOUGH = 50
"""Rows that are all equal by chance only if hardly any differ; and events that are enough for a share of them."""


@dataclass(frozen=True, slots=True)
class Days:
    """A day, and the published ones that it is compared with: the last before it, and the last of the same weekday."""

    now: Measured
    before: Measured | None = None
    same_weekday: Measured | None = None

    @property
    def references(self) -> list[Measured]:
        """Those that are there."""
        return [day for day in (self.before, self.same_weekday) if day is not None]

    @property
    def weekday_known(self) -> bool:
        """Whether there is a day of the same weekday: until then, what differs between weekdays warns at most."""
        return self.same_weekday is not None


@dataclass(frozen=True, slots=True)
class Score:
    """What a check measured: how bad, and in words.

    A ``sure`` one fails whatever the limits. One that is not ``known`` to be new warns at most: there is no day to compare
    with, or the feature was constant on that day.
    """

    subject: str
    value: float
    words: str
    sure: bool = False
    known: bool = True


Check = Callable[[Days], Iterator[Score]]


def volume(days: Days) -> Iterator[Score]:
    """Samples, against the nearer of both references."""
    if days.references:
        now = days.now.rows
        closest = min(days.references, key=lambda day: _times(now, day.rows))
        before = closest.rows
        words = f"{now:,} samples ({_was(f'{before:,}', closest)})"
        yield Score("samples", _times(now, before), words, known=days.weekday_known or now == 0)


def too_few(days: Days) -> Iterator[Score]:
    """Whether there is enough to compare shares and distributions."""
    split = drift.main_split(days.now.samples)
    rows = days.now.samples.get(split, 0)
    words = f"{rows:,} {split} samples are too few to judge shares of users, duplicates, scales and rare values"
    yield Score("samples", float(rows < FEWEST_ROWS), words)


def rate(days: Days) -> Iterator[Score]:
    """The mean of each label over all splits, against the nearer of both references.

    Labels whose windows are open are compared with such, and final ones with final ones. Where no reference is like that, what
    is still to come explains a lower mean of the open ones, and a higher mean only warns.
    """
    mature = days.now.label_mature
    for name in days.now.labels:
        now = _label(days.now, name)
        references = [(day, old) for day in days.references if (old := _label(day, name)) is not None]
        alike = [(day, old) for day, old in references if day.label_mature == mature]
        if now is not None and references:
            found = [(_apart(now, old), day, old) for day, old in alike or references]
            times, day, old = min(found, key=lambda entry: entry[0])
            if alike or (now.mean < old.mean) == bool(mature):
                words = f"the mean of {name} is {now.mean:.4g} ({_was(f'{old.mean:.4g}', day)})"
                yield Score(name, times, words, known=bool(alike))


def silent_hours(days: Days) -> Iterator[Score]:
    """Hours without clicks, or without impressions, that should have had many, by the rest of the day or another day."""
    hours = _hours(days.now)
    if not hours:
        return
    positives, samples = sum(h.positives for h in hours), sum(h.samples for h in hours)
    silent = [h.hour for h in hours if h.positives == 0 and h.samples * positives / max(1, samples) > _SURELY_SOME]
    yield Score("clicks", len(silent), f"no clicks at {_named(silent)}, despite enough impressions to expect some")
    if days.references:
        gaps = [(_emptied(hours, _hours(day)), day) for day in days.references]
        empty, day = min(gaps, key=lambda gap: len(gap[0]))
        words = f"no impressions at {_named(empty)}, unlike on {day.run_date}"
        yield Score("impressions", len(empty), words, known=days.weekday_known)


def _emptied(hours: Sequence[Hour], before: Sequence[Hour]) -> list[int]:
    """The hours without impressions that should have had many, judging by another day."""
    samples, total = (sum(hour.samples for hour in day) for day in (hours, before))
    return [
        old.hour
        for new, old in zip(hours, before, strict=False)
        if new.samples == 0 and old.samples * samples / max(1, total) > _SURELY_SOME
    ]


_SURELY_SOME = 15.0
"""Expected events of which by chance none happens once in three million hours."""


def hours(days: Days) -> Iterator[Score]:
    """How the impressions spread over the day, against the nearer of both references."""
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


def one_class(days: Days) -> Iterator[Score]:
    """Whether there is something to learn."""
    for name, label in days.now.labels.items():
        split = drift.main_split({split: one.count for split, one in label.splits.items()})
        here = label.splits.get(split)
        if label.binary and here and here.count:
            alone = here.sum in (0, here.count)
            words = f"all {here.count:,} {split} samples have {name} = {here.sum / here.count:g}"
            # A small day may have no positive by chance; that it has nothing else is no chance.
            known = here.count >= (_ENOUGH if here.sum else FEWEST_ROWS)
            yield Score(name, float(alone), words, known=known)


def missing(days: Days) -> Iterator[Score]:
    """Rows without a value, or with the default in its place."""
    for name, now, before, day in _pairs(days):
        yield _missing(name, "no value for", (now.nulls, now.rows), (before.nulls, before.rows), day)
        # Another contract may have another default, or count one where there was none.
        if day.contract == days.now.contract:
            yield _missing(name, "the default value of", (now.defaults, now.rows), (before.defaults, before.rows), day)


def _missing(name: str, what: str, now: tuple[int, int], before: tuple[int, int], day: Measured) -> Score:
    """How the share of rows, a count and its whole, rose since ``day``."""
    new, old = (count / max(1, rows) for count, rows in (now, before))
    words = f"{new:.1%} of the rows have {what} {name} ({_was(f'{old:.1%}', day)})"
    return Score(name, _rise(new, old, now[1], before[1]), words)


def constant(days: Days) -> Iterator[Score]:
    """Features that have only one value."""
    for name, now, before in _features(days):
        alone = now.rows >= _ENOUGH and _is_constant(now)
        # A flag that was nearly always the same, such as that of a match, may come to be so always.
        others = 0.0 if before is None or _is_constant(before) else _others(before)
        varied = others > _SOME_OTHERS and others * now.rows > _SURELY_SOME
        words = f"the feature {name} has only one value ({_only_value(now)})" + (
            "; it had more on the day before" if varied else ""
        )
        yield Score(name, float(alone), words, sure=alone and varied)


_SOME_OTHERS = 0.1


def nonfinite(days: Days) -> Iterator[Score]:
    """NaN and infinity."""
    for name, now, before in _features(days):
        share, old = (_nonfinite(facts) for facts in (now, before))
        words = f"{share:.2%} of the values of {name} are NaN or infinite"
        yield Score(name, max(0.0, share - old), words, known=before is not None)


def distribution(days: Days) -> Iterator[Score]:
    """Numeric features: Jensen-Shannon divergence over bins of equal mass."""
    for name, now, before, day in _pairs(days):
        if now.cdf is not None and before.cdf is not None:
            p, q = drift.binned(now.cdf, before.cdf)
            apart = drift.jensen_shannon(p, q)
            value = max(0.0, apart - drift.bins_of_chance(len(p), now.values_looked_at, before.values_looked_at))
            middle, old = (f"{facts.quantiles['0.5']:.4g}" if facts.quantiles else "?" for facts in (now, before))
            words = f"the distribution of {name} moved by {apart:.2f}; its median is {middle} ({_was(old, day)})"
            yield Score(name, value, words, known=not _is_constant(before))


def scale(days: Days) -> Iterator[Score]:
    """Numeric features: how many times larger or smaller the values other than 0 became, all of them.

    Where most values are 0 the distribution hardly moves when the unit of the others changes.
    """
    for name, now, before, day in _pairs(days):
        if now.cdf is not None and before.cdf is not None:
            sizes, old = drift.sizes(now.cdf), drift.sizes(before.cdf)
            if sizes is not None and old is not None and min(_count_of(now), _count_of(before)) >= FEWEST_ROWS:
                ratios = [new / was for new, was in zip(sizes, old, strict=True)]
                times = max(1.0, min(ratios), min(1 / ratio for ratio in ratios))
                words = f"the typical non-zero value of {name} is {sizes[1]:.4g} ({_was(f'{old[1]:.4g}', day)})"
                yield Score(name, times, words)


def _count_of(facts: Facts) -> float:
    """How many values other than 0 were looked at."""
    return facts.values_looked_at * (1 - facts.zeros / max(1, facts.values))


def values(days: Days) -> Iterator[Score]:
    """Id features: the value whose share changed most."""
    for name, now, before, day in _ids(days):
        p, q = drift.by_value(now.top or (), before.top or ())
        most = int(abs(p - q).argmax())
        chance = _chance(p[most], q[most], now.values_looked_at, before.values_looked_at)
        listed = drift.names_of(now.top or (), before.top or ())
        which = f"the value {listed[most]!r} of {name} makes" if most < len(listed) else f"rare values of {name} make"
        words = f"{which} up {p[most]:.1%} of the rows ({_was(f'{q[most]:.1%}', day)})"
        value = max(0.0, float(abs(p[most] - q[most])) - chance)
        yield Score(name, value, words, known=not _is_constant(before))


def stability(days: Days) -> Iterator[Score]:
    """Id features: the population stability index."""
    for name, now, before, _ in _ids(days):
        if min(now.values_looked_at, before.values_looked_at) < FEWEST_ROWS:
            continue  # a value that was not seen has the least share that the index knows, which of few rows says nothing
        p, q = drift.by_value(now.top or (), before.top or ())
        index = drift.stability_index(p, q)
        chance = SIGMAS * len(p) * (1 / max(1, now.looked_at) + 1 / max(1, before.looked_at))
        words = f"the population stability index of {name} is {index:.2f}"
        yield Score(name, max(0.0, index - chance), words, known=not _is_constant(before))


def matched(days: Days) -> Iterator[Score]:
    """Samples that find a row of a view. Where no day is there to compare with, less than half of them warns."""
    for name, now in days.now.views.items():
        new, before = now["match_rate"], days.before and days.before.views.get(name)
        if days.before and before:
            old = before["match_rate"]
            words = f"{new:.1%} of the samples match a row of {name} ({_was(f'{old:.1%}', days.before)})"
            yield Score(name, _rise(1 - new, 1 - old, days.now.rows, days.before.rows), words)
        elif days.now.rows:
            words = f"{new:.1%} of the samples match a row of {name}, and there is no earlier day to compare with"
            yield Score(name, 1 - new if new < _HALF else 0.0, words, known=False)


_HALF = 0.5


def age(days: Days) -> Iterator[Score]:
    """How old the rows of a view are that samples find, against the nearer of both references.

    Rows of a view without a ttl, which has no `age_s_p10`, do not grow too old.
    """
    for name, view in days.now.views.items():
        parts = ("age_s_p10", "age_s_median") if "age_s_p10" in view else ()
        found = [one for part in parts if (one := _older(days, name, part)) is not None]
        if found:
            yield max(found, key=lambda score: score.value)


def _older(days: Days, view: str, part: str) -> Score | None:
    new = days.now.views[view].get(part)
    ages = [(old, day) for day in days.references if (old := day.views.get(view, {}).get(part)) is not None]
    if new is None or not ages:
        return None
    old, day = max(ages, key=lambda entry: entry[0])
    times = (new + 3600) / (old + 3600) if new - old > 3600 else 1.0
    which = "the newest tenth of the rows" if part == "age_s_p10" else "the median row"
    words = f"{which} of {view} is {_hours_of(new)} old ({_was(_hours_of(old), day)})"
    return Score(view, times, words, known=days.weekday_known)


def leak(days: Days) -> Iterator[Score]:
    """Features that leak the label."""
    rate = days.now.click_rate
    if rate is None:
        return
    counted = rate.by_split.get(drift.main_split({split: one.samples for split, one in rate.by_split.items()}))
    if counted is None or min(counted.positives, counted.samples - counted.positives) < _ENOUGH:
        return
    for name, now, _ in _features(days):
        if now.auc is not None:
            area = max(now.auc, 1 - now.auc)
            words = f"the feature {name} alone predicts {rate.label} with an AUC of {area:.3f}; it may leak the label"
            yield Score(name, area, words)


def heavy_user(days: Days) -> Iterator[Score]:
    """One user with too many samples: a bot, or a default in place of an id."""
    users = days.now.users
    if users and users.looked_at >= FEWEST_ROWS:
        first = users.heaviest[0]
        yield Score(first.user, first.share, f"{first.share:.1%} of the samples belong to user {first.user!r}")


def dropped(days: Days) -> Iterator[Score]:
    """Impressions that are no samples; those that the configuration leaves out on purpose count like others."""
    if days.before is None:
        return
    now, before = (day.accounting["impressions"] for day in (days.now, days.before))
    for reason, n in days.now.dropped.items():
        new, old = n / max(1, now), days.before.dropped.get(reason, 0) / max(1, before)
        words = f"{new:.1%} of the impressions were dropped as {reason} ({_was(f'{old:.1%}', days.before)})"
        yield Score(reason, _rise(new, old, now, before), words)


def orphans(days: Days) -> Iterator[Score]:
    """Actions without an impression."""
    for name, now in days.now.actions.items():
        before = days.before and days.before.actions.get(name)
        if days.before and before and now.actions and before.actions:
            new, old = (counts.orphans / counts.actions for counts in (now, before))
            words = f"{new:.1%} of the actions of {name} match no impression ({_was(f'{old:.1%}', days.before)})"
            yield Score(name, _rise(new, old, now.actions, before.actions), words)


def identical(days: Days) -> Iterator[Score]:
    """Samples that are like another one in all features."""
    shares = [(day.duplicates.identical, day) for day in (days.now, days.before) if day is not None]
    yield from _alike(shares, "are identical to another sample in all features")


def conflicting(days: Days) -> Iterator[Score]:
    """Samples that are like another one in all features, and have another label."""
    shares = [(day.duplicates.conflicting, day) for day in (days.now, days.before) if day is not None]
    yield from _alike(shares, "share all features with a sample of another label")


def _alike(shares: Sequence[tuple[float, Measured]], words: str) -> Iterator[Score]:
    """The rise of a share from the day before, the second one, to the day."""
    if len(shares) > 1 and min(day.duplicates.looked_at for _, day in shares) >= FEWEST_ROWS:
        (new, _), (old, before) = shares
        yield Score("samples", max(0.0, new - old), f"{new:.1%} of the samples {words} ({_was(f'{old:.1%}', before)})")


def same_ids(days: Days) -> Iterator[Score]:
    """Rows of one impression."""
    count = days.now.duplicates.ids
    share = count / max(1, days.now.rows)
    yield Score("impression_id", share, f"{count:,} samples share their impression_id with another sample")


def contract(days: Days) -> Iterator[Score]:
    """Whether both days can be read together."""
    if days.before is not None:
        changed = days.now.contract != days.before.contract
        yield Score("contract", float(changed), f"the contract differs from that of {days.before.run_date}")


CHECKS: Mapping[str, Check] = {
    "volume": volume,
    "too_few": too_few,
    "rate": rate,
    "silent_hours": silent_hours,
    "hours": hours,
    "one_class": one_class,
    "missing": missing,
    "constant": constant,
    "nonfinite": nonfinite,
    "distribution": distribution,
    "scale": scale,
    "values": values,
    "stability": stability,
    "matched": matched,
    "age": age,
    "leak": leak,
    "heavy_user": heavy_user,
    "dropped": dropped,
    "orphans": orphans,
    "identical": identical,
    "conflicting": conflicting,
    "same_ids": same_ids,
    "contract": contract,
}


def findings(days: Days, quality: Quality, accepted: Collection[str] = ()) -> list[Finding]:
    """All checks, held against their limits: the gravest findings first, each in the order of :data:`CHECKS`.

    That order goes from the whole day to its details. A check that is ``accepted`` blocks nothing.
    """
    found = []
    for name, check in CHECKS.items():
        limits: Limits = getattr(quality, name)
        if limits.warn is not None or limits.fail is not None:
            scores = (score for score in check(days) if score.subject not in limits.without)
            found += [_held(name, score, limits, name in accepted) for score in scores]
    return sorted(found, key=lambda finding: STANDINGS.index(finding.standing))


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
    """Whether the score fails, and how the finding then stands."""
    above_fail = limits.fail is not None and score.value > limits.fail
    if score.known and (above_fail or score.sure):
        return True, "accepted" if accepted else "blocks"
    above_warn = limits.warn is not None and score.value > limits.warn
    return False, "warns" if above_fail or above_warn or score.sure else "passed"


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
    # Where negatives of train were left out on both days alike, the means compare all the same.
    spread = max(((s.std or 0.0) for s in splits), default=0.0)
    return _Mean(total / count, count, spread, label.binary)


def _apart(now: _Mean, old: _Mean) -> float:
    """How many times one mean is the other, at least 1, less what chance may do."""
    if now.binary:
        # Half a positive more on both sides: a day without any compares too, and one of few says little.
        positives = now.mean * now.count + 0.5, old.mean * old.count + 0.5
        return _times(positives[0] / now.count, positives[1] / old.count, sum(1 / some for some in positives))
    errors = [one.std / math.sqrt(one.count) for one in (now, old)]
    if now.mean > 0 and old.mean > 0:
        return _times(now.mean, old.mean, (errors[0] / now.mean) ** 2 + (errors[1] / old.mean) ** 2)
    return 1 + max(0.0, abs(now.mean - old.mean) - SIGMAS * math.hypot(*errors)) / (abs(old.mean) or 1.0)


def _times(now: float, before: float, error: float = 0.0) -> float:
    """How many times more or fewer, at least 1; ``error`` is the variance of the logarithm of their ratio."""
    if now <= 0 or before <= 0:
        return 1.0 if now == before else 1e9
    return math.exp(max(0.0, abs(math.log(now / before)) - SIGMAS * math.sqrt(error)))


def _rise(new: float, old: float, rows: int, rows_before: int) -> float:
    return max(0.0, new - old - _chance(new, old, rows, rows_before))


def _chance(new: float, old: float, rows: int, rows_before: int) -> float:
    """How far two shares of so many rows may lie apart by chance."""
    return SIGMAS * math.sqrt(_variance(new, rows) + _variance(old, rows_before))


def _variance(share: float, rows: int) -> float:
    return max(share * (1 - share), 1 / max(1, rows)) / max(1, rows)


def _hours(day: Measured) -> Sequence[Hour]:
    return day.click_rate.by_hour if day.click_rate else ()


def _features(days: Days) -> Iterator[tuple[str, Facts, Facts | None]]:
    """The features of the day, and what they were on the day before if that had them."""
    for name in days.now.features:
        now, before = drift.compared(days.now, days.before, name)
        if now is not None:
            yield name, now, before


def _pairs(days: Days) -> Iterator[tuple[str, Facts, Facts, Measured]]:
    """The features that both days have, and the day before."""
    for name, now, before in _features(days):
        if before is not None and days.before is not None:
            yield name, now, before, days.before


def _ids(days: Days) -> Iterator[tuple[str, Facts, Facts, Measured]]:
    """Those of them that are known by their values."""
    for name, now, before, day in _pairs(days):
        if now.top and before.top and (now.cdf is None or _are_codes(before)):
            yield name, now, before, day


def _are_codes(facts: Facts) -> bool:
    """Whether integers are few enough to be the codes of something."""
    return math.fsum(top.share for top in facts.top or ()) > _NEARLY_ALL


_NEARLY_ALL = 0.9


def _others(facts: Facts) -> float:
    """The share of rows that do not have the most frequent value, as far as is known."""
    if facts.top:
        return 1 - facts.top[0].share
    if facts.cdf is None:
        return 0.0
    return 1 - max(below - under for under, below in zip(facts.cdf.under, facts.cdf.below, strict=True))


def _is_constant(facts: Facts) -> bool:
    lengths = facts.lengths
    if facts.nulls not in (0, facts.rows) or (lengths is not None and lengths.min != lengths.max):
        return False
    if facts.min is not None:
        return facts.min == facts.max
    only = facts.top and len(facts.top) == 1 and facts.top[0].share == 1
    return bool(only or facts.values == 0)


def _only_value(facts: Facts) -> str:
    if facts.min is not None:
        return f"{facts.min:g}"
    return repr(facts.top[0].value) if facts.top else "none"


def _nonfinite(facts: Facts | None) -> float:
    return 0.0 if facts is None else (facts.nan + facts.infinite) / max(1, facts.values)


def _was(value: str, day: Measured) -> str:
    """``0.2 on 2019-06-04``."""
    return f"{value} on {day.run_date}"


def _named(hours_: Sequence[int]) -> str:
    return ", ".join(f"{hour}:00" for hour in hours_) or "any hour"


def _hours_of(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
