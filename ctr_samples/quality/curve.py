"""The cumulative curve of a column: what a metrics document keeps of a distribution."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise

from ctr_samples.typed import Finite


@dataclass(frozen=True, slots=True)
class Curve:
    """``under[i]`` of the values are less than ``at[i]``, ``below[i]`` are no greater; ``at`` rises strictly."""

    at: tuple[Finite, ...]
    under: tuple[Finite, ...]
    below: tuple[Finite, ...]

    def __post_init__(self) -> None:
        if not self.at or not len(self.at) == len(self.under) == len(self.below):
            raise ValueError(
                f"a curve has {len(self.at)}, {len(self.under)} and {len(self.below)} points, expected equally many"
            )
        if not all(left < right for left, right in pairwise(self.at)):
            raise ValueError("the points of a curve do not rise")

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
