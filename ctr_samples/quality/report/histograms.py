"""Histograms of equal-width columns, computed from points of a cumulative distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ctr_samples.quality.feature_facts import Curve

BINS = 24
_MOST_COUNTS = 40
"""Range of integers below which each integer has its own column."""
_MANY_TIMES = 5
"""Ratio to the next highest column above which a column is cut off."""
_SKEWED = 40
"""Ratio of the 99th percentile to the median above which the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Shares of the values in columns of equal width, or of equal ratio on a logarithmic axis."""

    day: tuple[float, ...]
    before: tuple[float, ...]
    low: float
    middle: float
    high: float
    logarithmic: bool

    @property
    def top(self) -> float:
        """Height of the drawing. A dominant column, such as zeros, is cut off slightly above the next highest."""
        highest = sorted(map(max, zip(self.day, self.before or self.day, strict=True)), reverse=True)
        if len(highest) > 1 and 0 < _MANY_TIMES * highest[1] < highest[0]:
            return 1.5 * highest[1]
        return highest[0]

    @property
    def cut(self) -> bool:
        """Whether the highest column of the day is cut off."""
        return max(self.day) > self.top


def histogram_of(day: Curve, before: Curve | None, bins: int = BINS) -> Histogram:
    """Build columns from the 1st to the 99th percentile of both curves, so that outliers do not stretch the axis."""
    curves = [day] if before is None else [day, before]
    low = min(curve.low_end(0.01) for curve in curves)
    high = max(curve.high_end(0.99) for curve in curves)
    if all(curve.whole for curve in curves) and high - low < _MOST_COUNTS:
        return _of_counts(day, before, int(low), int(high))
    if not low < high:
        low, high = _around(low)
    scale, back = _scale(day, low, high)
    start, step = scale(low), (scale(high) - scale(low)) / bins
    edges = [low, *(back(start + step * number) for number in range(1, bins)), high]
    return Histogram(
        _shares(day, edges),
        _shares(before, edges) if before else (),
        low,
        edges[bins // 2],
        high,
        scale is not _same,
    )


def _of_counts(day: Curve, before: Curve | None, low: int, high: int) -> Histogram:
    """Build one column per integer, at least three: a single full column would be uninformative."""
    if high - low < 2:
        high = low + 2
    counts = range(low, high + 1)
    of_day = tuple(day.share_of(n) for n in counts)
    of_before = tuple(before.share_of(n) for n in counts) if before else ()
    return Histogram(of_day, of_before, low, (low + high) / 2, high, logarithmic=False)


def _around(value: float) -> tuple[float, float]:
    """Return the ends of the axis for a constant column."""
    reach = max(abs(value), 1.0) * 0.5
    return value - reach, value + reach


def _shares(curve: Curve, edges: list[float]) -> tuple[float, ...]:
    """Return the shares between the edges. Includes values on the lowest edge, but no values outside."""
    below = [curve.share_to(edge) for edge in edges]
    below[0] = curve.share_to(math.nextafter(edges[0], -math.inf))
    return tuple(max(right - left, 0.0) for left, right in pairwise(below))


Scale = Callable[[float], float]


def _scale(day: Curve, low: float, high: float) -> tuple[Scale, Scale]:
    """Choose a logarithmic axis for non-negative values far above their median, else a linear axis."""
    unit = day.high_end(0.5)
    if low >= 0 and unit > 0 and high > _SKEWED * unit:
        return (lambda x: math.log1p(x / unit)), (lambda y: unit * math.expm1(y))
    return _same, _same


def _same(value: float) -> float:
    return value
