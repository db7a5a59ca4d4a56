"""How closely features go with the biases of a sample set, such as the position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

Sums = list[float]
"""Count, both sums, both sums of squares, and the sum of the products of pairs of numbers."""


def sums_with(rows: pa.RecordBatch, biases: Sequence[str], features: Sequence[str]) -> dict[str, dict[str, Sums]]:
    """Return the sums of each bias and each other feature that are single numbers. Runs on executors."""
    numbers = dict(_numbers(rows, features))
    pairs = {bias: [name for name in numbers if name not in biases] for bias in biases if bias in numbers}
    return {bias: {name: _sums(numbers[bias], numbers[name]) for name in names} for bias, names in pairs.items()}


def _numbers(rows: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    for name in names:
        column = rows.column(name)
        if pt.is_integer(column.type) or pt.is_floating(column.type):
            yield name, column.to_numpy(zero_copy_only=False).astype(np.float64)


def _sums(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> Sums:
    there = np.isfinite(one) & np.isfinite(other)
    x, y = one[there], other[there]
    with np.errstate(over="ignore", invalid="ignore"):
        return [float(n) for n in (len(x), x.sum(), y.sum(), x @ x, y @ y, x @ y)]


def correlations(sums: Mapping[str, Sums]) -> dict[str, float]:
    """Return the absolute correlation (Pearson) of each feature with a bias, from sums over all tasks. A feature that does
    not vary has none.
    """
    found = {}
    for name, (n, x, y, xx, yy, xy) in sums.items():
        spread = (n * xx - x * x) * (n * yy - y * y)
        if np.isfinite(spread) and spread > 0:
            found[name] = float(min(1.0, abs(n * xy - x * y) / spread**0.5))
    return found
