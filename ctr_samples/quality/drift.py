"""Distances between two distributions, computed from their summaries in metrics documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ctr_samples.quality.feature_facts import Curve, Facts, TopValue
from ctr_samples.quality.metrics import Measured

Shares = npt.NDArray[np.floating]

BINS = 20


def compared(metrics: Measured, reference: Measured | None, name: str) -> tuple[Facts | None, Facts | None]:
    """Return the facts of a feature in both documents, for train or, on a day without train, for the largest split.

    The facts of a day are None if it has no samples or lacks the feature.
    """
    now = metrics.features[name].splits
    known = reference.features.get(name) if reference else None
    before = known.splits if known else {}
    split = main_split({split: facts.rows for split, facts in now.items()})
    old = split if split in before else main_split({other: facts.rows for other, facts in before.items()})
    return now.get(split), before.get(old)


def main_split(rows: Mapping[str, int]) -> str:
    """Split used to judge a day: train, or the largest split if train is empty."""
    return "train" if rows.get("train") else max(rows, key=lambda split: rows[split], default="train")


def drifts(metrics: Measured, reference: Measured) -> dict[str, float]:
    """Measure the drift of each feature in both documents, from 0 to 1: Jensen-Shannon divergence or L-infinity
    distance.
    """
    drift = {}
    for name in metrics.features:
        now, before = compared(metrics, reference, name)
        if now is None or before is None:
            continue
        if now.cdf is not None and before.cdf is not None:
            drift[name] = jensen_shannon(*binned(now.cdf, before.cdf))
        elif now.top and before.top:
            drift[name] = l_infinity(*by_value(now.top, before.top))
    return drift


def binned(now: Curve, before: Curve) -> tuple[Shares, Shares]:
    """Return the shares of both curves in common bins. A bin holds about 5 % of each curve at most, or one frequent
    value.

    Both curves define the bin edges. Values outside the range of the other curve get their own bins, and the divergence
    is symmetric.
    """
    edges = np.unique(np.concatenate([_twentieths(now), _twentieths(before)]))
    p, q = (np.diff(curve.shares_to(edges), prepend=0, append=1) for curve in (now, before))
    return p, q


def _twentieths(curve: Curve) -> Shares:
    """Return the quantiles at every 5 %, and the maximum."""
    at, below = np.array(curve.at), np.array(curve.below)
    wanted = np.searchsorted(below, np.linspace(0, 1, BINS + 1)[1:-1])
    twentieths: Shares = np.append(at[np.minimum(wanted, len(at) - 1)], at[-1])
    return twentieths


def sizes(curve: Curve) -> list[float] | None:
    """Return the quartiles of the non-zero absolute values, or None if nearly all values are 0."""
    at, below = np.array(curve.at), np.array(curve.below)
    # Mass between two kept values, at most 1 % of all values, is assigned to the upper value.
    shares = np.where(at == 0, 0.0, np.diff(below, prepend=0.0))
    if shares.sum() < _SOME:
        return None
    order = np.argsort(np.abs(at))
    ends = np.cumsum(shares[order]) / shares.sum()
    return [float(abs(at[order[np.searchsorted(ends, rank)]])) for rank in (0.25, 0.5, 0.75)]


_SOME = 0.05
"""Minimum share of non-zero values for reliable quartiles."""


def names_of(now: Sequence[TopValue], before: Sequence[TopValue]) -> list[int | str]:
    """Return the union of the values kept for either day."""
    return list(dict.fromkeys([top.value for top in [*before, *now]]))


def by_value(now: Sequence[TopValue], before: Sequence[TopValue]) -> tuple[Shares, Shares]:
    """Return the shares of each value kept for either day, ordered as in :func:`names_of`, then of the remaining
    values.
    """
    names = names_of(now, before)
    shares = []
    for tops in (now, before):
        known = {top.value: top.share for top in tops}
        listed = [known.get(name, 0.0) for name in names]
        shares.append(np.array([*listed, max(0.0, 1 - sum(listed))]))
    return shares[0], shares[1]


def jensen_shannon(p: Shares, q: Shares) -> float:
    """Return the Jensen-Shannon divergence in bits: 0 for equal and 1 for disjoint distributions (J. Lin, 1991)."""
    middle = (p + q) / 2
    return float((_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2)


def _relative_entropy(p: Shares, q: Shares) -> float:
    some = p > 0
    return float(np.sum(p[some] * np.log2(p[some] / q[some])))


def l_infinity(p: Shares, q: Shares) -> float:
    """Return the largest difference between the shares of a value."""
    return float(np.max(np.abs(p - q)))


def stability_index(p: Shares, q: Shares, smallest: float = 0.005) -> float:
    """Return the population stability index: the sum of (p - q) ln(p / q). Pools values below ``smallest`` in both."""
    rare = np.maximum(p, q) < smallest
    p, q = (np.append(side[~rare], side[rare].sum()) for side in (p, q))
    p, q = np.maximum(p, smallest), np.maximum(q, smallest)
    return float(np.sum((p - q) * np.log(p / q)))


def bins_of_chance(bins: int, now: int, before: int) -> float:
    """Return the divergence in bits expected by chance between two samples of one distribution, times a safety factor
    of 3.
    """
    return 3 * (bins - 1) * (1 / max(1, now) + 1 / max(1, before)) / (8 * float(np.log(2)))
