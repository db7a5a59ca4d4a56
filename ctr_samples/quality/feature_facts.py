"""Facts of a feature column in a metrics document, by split. Value classes only."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from ctr_samples.typed import Count, Finite, Such, Within

Kind = Literal["number", "id", "text"]

_WITH_MEDIAN = Such(lambda ranks: "0.5" in ranks, "an object with the median, '0.5'")


@dataclass(frozen=True, slots=True)
class Curve:
    """The cumulative distribution of a column; ``at`` is strictly increasing.

    ``under[i]`` is the share of values less than ``at[i]``; ``below[i]`` is the share less than or equal to ``at[i]``.
    """

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

    def shares_to(self, edges: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Return the share of values at or below each edge.

        The share is linear between two kept values, but the mass of a frequent value stays on that value.
        """
        xs = np.column_stack([np.nextafter(self.at, -np.inf), self.at]).ravel()
        shares: npt.NDArray[np.floating] = np.interp(
            edges, xs, np.column_stack([self.under, self.below]).ravel(), left=0.0, right=1.0
        )
        return shares

    @property
    def whole(self) -> bool:
        """Whether all points are integers, as for counts."""
        return all(x == math.floor(x) for x in self.at)

    def low_end(self, share: float) -> float:
        """Return the largest point with at most ``share`` of the values below it."""
        return self.at[max(bisect_right(self.below, share + 1e-9) - 1, 0)]

    def high_end(self, share: float) -> float:
        """Return the smallest point with at most ``1 - share`` of the values above it."""
        return self.at[min(bisect_left(self.below, share - 1e-9), len(self.at) - 1)]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Number of values per row of a list column."""

    min: Count
    max: Count
    mean: Finite


@dataclass(frozen=True, slots=True)
class TopValue:
    """A frequent value, its share of all values, and the share of positives among its rows. ``words`` says what an id
    stands for, if the configuration or its fitted state knows.
    """

    value: int | str
    share: Finite
    positives: Finite
    words: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of a column in one split, over all rows. ``quantiles``, ``cdf``, ``top`` and ``auc`` cover only
    ``looked_at`` rows.

    ``distinct`` covers all rows for integers, and the ``looked_at`` rows for floats.
    """

    rows: Count
    nulls: Count
    defaults: Count
    values: Count
    zeros: Count
    nan: Count
    infinite: Count
    min: Finite | None
    max: Finite | None
    mean: Finite | None
    std: Finite | None
    lengths: Lengths | None
    distinct: Finite | None
    quantiles: Annotated[Mapping[str, Finite], _WITH_MEDIAN] | None
    cdf: Curve | None
    top: tuple[TopValue, ...] | None
    looked_at: Count
    values_looked_at: Count
    auc: Finite | None


@dataclass(frozen=True, slots=True)
class FeatureFacts:
    """A feature of the samples. ``shape`` is None for variable-length lists. ``hashed`` is the number of hash buckets,
    without the id of missing values. ``share`` is its share of the bytes of a record, or None if a layout joins features,
    and ``joined`` has the views and histories that were joined for it. ``biases`` has its absolute correlation with features
    that serving does not know.
    """

    kind: Kind
    dtype: Literal["int64", "float32", "float64", "bytes"]
    shape: tuple[int, ...] | None
    splits: Mapping[str, Facts]
    hashed: int | None = None
    share: Annotated[float, Within(0, 1)] | None = None
    joined: tuple[str, ...] = ()
    biases: Mapping[str, Annotated[float, Within(0, 1)]] = field(default_factory=dict)
