"""Columns of equal width from what was kept of a distribution: points of its cumulative curve, or quantiles."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ctr_samples.quality.report.documents import figure, figures, listing

BINS = 24
_MOST_COUNTS = 40
"""Whole numbers over a range less than this have a column each."""
_MANY_TIMES = 5
"""A column that is so much higher than the next is cut."""
_SKEWED = 40
"""How many times the median the 99th percentile must be for a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The cumulative curve of a column: ``under[i]`` of the values are less than ``at[i]``, ``below[i]`` no greater.

    ``at`` rises strictly.
    """

    at: tuple[float, ...]
    under: tuple[float, ...]
    below: tuple[float, ...]

    def share_to(self, value: float) -> float:
        """The share of values up to ``value``, straight lines between the points; a value of many rows is a jump."""
        after = bisect_right(self.at, value)
        if after == 0:
            return 0.0
        if after == len(self.at):
            return self.below[-1]
        left, right = self.at[after - 1], self.at[after]
        part = (value - left) / (right - left)
        return self.below[after - 1] + part * (self.under[after] - self.below[after - 1])

    @property
    def whole(self) -> bool:
        """Whether all points are whole numbers, as counts are."""
        return all(x == math.floor(x) for x in self.at)

    def share_of(self, value: float) -> float:
        """The share of values that are no greater than ``value``, but greater than the point before: of whole numbers."""
        after = bisect_right(self.at, value)
        if after == 0 or self.at[after - 1] <= value - 1:
            return 0.0
        return self.below[after - 1] - (self.below[after - 2] if after > 1 else 0.0)

    def low_end(self, share: float) -> float:
        """The greatest point that leaves at most ``share`` of the values below it."""
        return self.at[max(bisect_right(self.below, share + 1e-9) - 1, 0)]

    def high_end(self, share: float) -> float:
        """The least point that leaves at most ``1 - share`` of the values above it."""
        return self.at[min(bisect_left(self.below, share - 1e-9), len(self.at) - 1)]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Shares of the values in columns of equal width between two ends; on a logarithmic axis, of equal ratio."""

    day: tuple[float, ...]
    before: tuple[float, ...]
    low: float
    middle: float
    high: float
    logarithmic: bool

    @property
    def top(self) -> float:
        """Where the drawing ends: where one column has most values, such as the zeros, not far above the others."""
        highest = sorted(map(max, zip(self.day, self.before or self.day, strict=True)), reverse=True)
        if len(highest) > 1 and 0 < _MANY_TIMES * highest[1] < highest[0]:
            return 1.5 * highest[1]
        return highest[0]

    @property
    def cut(self) -> bool:
        """Whether the highest column of the day is higher than the drawing."""
        return max(self.day) > self.top


def curve_of(column: Mapping[str, Any]) -> Curve | None:
    """The curve of a column of ``metrics.json``; None where none was kept, or none that rises."""
    at, under, below = (list(map(figure, listing(column, "cdf", name))) for name in ("at", "under", "below"))
    points = list(zip(at, under or below, below, strict=False))
    if not any(x is not None for x, _, _ in points):
        quantiles = [(value, float(share)) for share, value in figures(column, "quantiles").items() if _is_share(share)]
        points = [(value, share, share) for value, share in quantiles]
    return _rising(sorted((x, u, p) for x, u, p in points if x is not None and u is not None and p is not None))


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _rising(points: list[tuple[float, float, float]]) -> Curve | None:
    """Several shares at one value are a jump there, from the first to the last."""
    under: dict[float, float] = {}
    below: dict[float, float] = {}
    highest = 0.0
    for x, u, p in points:
        under.setdefault(x, max(highest, min(u, p, 1.0)))
        highest = below[x] = max(highest, min(p, 1.0))
    return Curve(tuple(below), tuple(under.values()), tuple(below.values())) if highest > 0 else None


def histogram_of(day: Curve, before: Curve | None, bins: int = BINS) -> Histogram:
    """Columns over what lies between the 1st and 99th percentile of either curve, so that one outlier hides nothing."""
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
    """A column for each whole number; at least three, since one that fills all says nothing."""
    if high - low < 2:
        high = low + 2
    counts = range(low, high + 1)
    of_day = tuple(day.share_of(n) for n in counts)
    of_before = tuple(before.share_of(n) for n in counts) if before else ()
    return Histogram(of_day, of_before, low, (low + high) / 2, high, logarithmic=False)


def _around(value: float) -> tuple[float, float]:
    """Ends for a column that has one value."""
    reach = max(abs(value), 1.0) * 0.5
    return value - reach, value + reach


def _shares(curve: Curve, edges: list[float]) -> tuple[float, ...]:
    """What lies beyond the ends is left out, but not what lies on the lower end itself."""
    below = [curve.share_to(edge) for edge in edges]
    below[0] = curve.share_to(math.nextafter(edges[0], -math.inf))
    return tuple(max(right - left, 0.0) for left, right in pairwise(below))


Scale = Callable[[float], float]


def _scale(day: Curve, low: float, high: float) -> tuple[Scale, Scale]:
    """A logarithmic axis where counts or ages reach far beyond their median, else a plain one."""
    unit = day.high_end(0.5)
    if low >= 0 and unit > 0 and high > _SKEWED * unit:
        return (lambda x: math.log1p(x / unit)), (lambda y: unit * math.expm1(y))
    return _same, _same


def _same(value: float) -> float:
    return value
