"""Checks of features and views: missing values, drift, label leaks, match rates."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ctr_samples.quality import drift
from ctr_samples.quality.checks.score import ENOUGH, FEWEST_ROWS, SIGMAS, SURELY_SOME, Days, Score, by_chance, rise, was
from ctr_samples.quality.feature_facts import Facts
from ctr_samples.quality.metrics import Measured

_QUANTILES = {
    "0.5": "median",
    "0.75": "75% quantile",
    "0.25": "25% quantile",
    "0.9": "90% quantile",
    "0.1": "10% quantile",
    "0.99": "99% quantile",
    "0.01": "1% quantile",
}
_SOME_OTHERS = 0.1
_NEARLY_ALL = 0.9


def missing(days: Days) -> Iterator[Score]:
    """Measure the rise in rows that have no value or the default value."""
    for name, now, before, day in _pairs(days):
        yield _missing(name, "no value for", (now.nulls, now.rows), (before.nulls, before.rows), day)
        # A different contract may add or change a default.
        if day.contract == days.now.contract:
            yield _missing(name, "the default value of", (now.defaults, now.rows), (before.defaults, before.rows), day)


def _missing(name: str, what: str, now: tuple[int, int], before: tuple[int, int], day: Measured) -> Score:
    """Measure the rise in a share of rows since ``day``. Shares are pairs of count and total."""
    new, old = (count / max(1, rows) for count, rows in (now, before))
    words = f"{new:.1%} of the rows have {what} {name} ({was(f'{old:.1%}', day)})"
    return Score(name, rise(new, old, now[1], before[1]), words)


def constant(days: Days) -> Iterator[Score]:
    """Find features with a single value."""
    for name, now, before in _features(days):
        alone = now.rows >= ENOUGH and _is_constant(now)
        # A flag that was nearly constant, such as a match flag, may become constant.
        others = 0.0 if before is None or _is_constant(before) else _others(before)
        varied = others > _SOME_OTHERS and others * now.rows > SURELY_SOME
        words = f"the feature {name} has only one value ({_only_value(now)})" + (
            "; it had more on the day before" if varied else ""
        )
        yield Score(name, float(alone), words, sure=alone and varied)


def nonfinite(days: Days) -> Iterator[Score]:
    """Measure the rise in the share of NaN and infinity."""
    for name, now, before in _features(days):
        share, old = (_nonfinite(facts) for facts in (now, before))
        words = f"{share:.2%} of the values of {name} are NaN or infinite"
        yield Score(name, max(0.0, share - old), words, known=before is not None)


def distribution(days: Days) -> Iterator[Score]:
    """Measure the drift of numeric features: Jensen-Shannon divergence over bins of equal mass."""
    for name, now, before, day in _pairs(days):
        if now.cdf is not None and before.cdf is not None:
            p, q = drift.binned(now.cdf, before.cdf)
            apart = drift.jensen_shannon(p, q)
            value = max(0.0, apart - drift.bins_of_chance(len(p), now.values_looked_at, before.values_looked_at))
            words = f"the distribution of {name} moved by {apart:.2f}{_what_moved(now, before, day)}"
            yield Score(name, value, words, known=not _is_constant(before))


def _what_moved(now: Facts, before: Facts, day: Measured) -> str:
    """Describe the change of the median, or of the first quantile that differs. Empty if all quantiles are equal."""
    for share, name in _QUANTILES.items():
        values = [facts.quantiles.get(share) for facts in (now, before) if facts.quantiles]
        texts = [f"{value:.4g}" for value in values if value is not None]
        if len(set(texts)) == 2:
            return f"; its {name} is {texts[0]} ({was(texts[1], day)})"
    return ""


def scale(days: Days) -> Iterator[Score]:
    """Measure the factor by which the non-zero values of a numeric feature grew or shrank overall.

    Detects a change of unit, which hardly affects the distribution if most values are 0.
    """
    for name, now, before, day in _pairs(days):
        if now.cdf is not None and before.cdf is not None:
            sizes, old = drift.sizes(now.cdf), drift.sizes(before.cdf)
            if sizes is not None and old is not None and min(_count_of(now), _count_of(before)) >= FEWEST_ROWS:
                ratios = [new / was for new, was in zip(sizes, old, strict=True)]
                times = max(1.0, min(ratios), min(1 / ratio for ratio in ratios))
                words = f"the typical non-zero value of {name} is {sizes[1]:.4g} ({was(f'{old[1]:.4g}', day)})"
                yield Score(name, times, words)


def _count_of(facts: Facts) -> float:
    """Estimate the number of non-zero values in the sketched rows."""
    return facts.values_looked_at * (1 - facts.zeros / max(1, facts.values))


def values(days: Days) -> Iterator[Score]:
    """Find the largest change in the share of a single value, for id features."""
    for name, now, before, day in _ids(days):
        p, q = drift.by_value(now.top or (), before.top or ())
        most = int(abs(p - q).argmax())
        chance = by_chance(p[most], q[most], now.values_looked_at, before.values_looked_at)
        listed = drift.names_of(now.top or (), before.top or ())
        which = f"the value {listed[most]!r} of {name} makes" if most < len(listed) else f"rare values of {name} make"
        words = f"{which} up {p[most]:.1%} of the rows ({was(f'{q[most]:.1%}', day)})"
        value = max(0.0, float(abs(p[most] - q[most])) - chance)
        yield Score(name, value, words, known=not _is_constant(before))


def stability(days: Days) -> Iterator[Score]:
    """Compute the population stability index of id features."""
    for name, now, before, _ in _ids(days):
        if now.lengths is not None:
            continue  # lists of new or recent items turn over every day
        if min(now.values_looked_at, before.values_looked_at) < FEWEST_ROWS:
            continue  # unseen values get the smallest share of the index, which means nothing for few rows
        p, q = drift.by_value(now.top or (), before.top or ())
        index = drift.stability_index(p, q)
        chance = SIGMAS * len(p) * (1 / max(1, now.looked_at) + 1 / max(1, before.looked_at))
        words = f"the population stability index of {name} is {index:.2f}"
        yield Score(name, max(0.0, index - chance), words, known=not _is_constant(before))


def leak(days: Days) -> Iterator[Score]:
    """Compute the AUC of each feature alone. A high AUC suggests a label leak."""
    rate = days.now.click_rate
    if rate is None:
        return
    counted = rate.by_split.get(drift.main_split({split: one.samples for split, one in rate.by_split.items()}))
    if counted is None or min(counted.positives, counted.samples - counted.positives) < ENOUGH:
        return
    for name, now, _ in _features(days):
        if now.auc is not None:
            area = max(now.auc, 1 - now.auc)
            words = f"the feature {name} alone predicts {rate.label} with an AUC of {area:.3f}; it may leak the label"
            yield Score(name, area, words)


def _features(days: Days) -> Iterator[tuple[str, Facts, Facts | None]]:
    """Yield the features of the day with their facts on both days, or None if the day before lacks the feature."""
    for name in days.now.features:
        now, before = drift.compared(days.now, days.before, name)
        if now is not None:
            yield name, now, before


def _pairs(days: Days) -> Iterator[tuple[str, Facts, Facts, Measured]]:
    """Yield the features that exist on both days, with their facts and the measures of the day before."""
    for name, now, before in _features(days):
        if before is not None and days.before is not None:
            yield name, now, before, days.before


def _ids(days: Days) -> Iterator[tuple[str, Facts, Facts, Measured]]:
    """Yield the entries of :func:`_pairs` for id features."""
    for name, now, before, day in _pairs(days):
        if now.top and before.top and (now.cdf is None or _are_codes(before)):
            yield name, now, before, day


def _are_codes(facts: Facts) -> bool:
    """Whether an integer feature has few enough distinct values to hold codes."""
    return math.fsum(top.share for top in facts.top or ()) > _NEARLY_ALL


def _others(facts: Facts) -> float:
    """Estimate the share of rows that do not have the most frequent value."""
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


_HALF = 0.5


def matched(days: Days) -> Iterator[Score]:
    """Measure the drop in the match rate of a view. Without a reference day, a rate below one half warns."""
    for name, now in days.now.views.items():
        new, before = now["match_rate"], days.before and days.before.views.get(name)
        if days.before and before:
            old = before["match_rate"]
            words = f"{1 - new:.1%} of the samples match no row of {name} ({was(f'{1 - old:.1%}', days.before)})"
            yield Score(name, rise(1 - new, 1 - old, days.now.rows, days.before.rows), words)
        elif days.now.rows:
            words = f"{1 - new:.1%} of the samples match no row of {name}, and there is no earlier day to compare with"
            yield Score(name, 1 - new if new < _HALF else 0.0, words, known=False)


def age(days: Days) -> Iterator[Score]:
    """Compare the age of matched view rows with the closer of the two references.

    Views without a ttl have no `age_s_p10` and are not checked, since their rows cannot be too old.
    """
    for name, view in days.now.views.items():
        parts = ("age_s_p10", "age_s_median") if "age_s_p10" in view else ()
        scores = [score for part in parts if (score := _older(days, name, part)) is not None]
        if scores:
            yield max(scores, key=lambda score: score.value)


def _older(days: Days, view: str, part: str) -> Score | None:
    new = days.now.views[view].get(part)
    ages = [(old, day) for day in days.references if (old := day.views.get(view, {}).get(part)) is not None]
    if new is None or not ages:
        return None
    old, day = max(ages, key=lambda entry: entry[0])
    times = (new + 3600) / (old + 3600) if new - old > 3600 else 1.0
    which = "the newest tenth of the rows" if part == "age_s_p10" else "the median row"
    words = f"{which} of {view} is {_hours_of(new)} old ({was(_hours_of(old), day)})"
    return Score(view, times, words, known=days.weekday_known)


def _hours_of(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"


def bias(days: Days) -> Iterator[Score]:
    """Find features that go with a feature that serving does not know, such as the position."""
    for name, feature in days.now.features.items():
        for other, correlation in feature.biases.items():
            words = f"the feature {name} goes with {other}, which is a bias, with a correlation of {correlation:.3f}"
            yield Score(name, correlation, words, known=max(f.looked_at for f in feature.splits.values()) >= ENOUGH)
