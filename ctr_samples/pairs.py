"""What a feature makes of two sources: values looked up in a map, the overlap of two lists, the product of two vectors.

The job and serving compute them by the same functions, over the rows of a batch and over one row: ``values`` are flat, and
``sizes`` has the number of values of each row. Numbers are added in their order, in 64 bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Numbers = tuple[Doubles, Flags]
"""A number for each row, and whether there is one."""


def reduced(values: Doubles, known: Flags, sizes: Integers, how: str) -> Numbers:
    """Reduce the ``known`` values of each row, by ``sum``, ``mean``, ``max``, ``min`` or ``count``.

    Of no values the sum and the count are 0, and the others are missing. NaN among them gives NaN.
    """
    rows = _rows(sizes)[known]
    values, counts = values[known], np.bincount(rows, minlength=len(sizes))
    if how == "count":
        return counts.astype(np.float64), np.ones(len(sizes), np.bool_)
    if how in ("max", "min"):
        extreme, start = (np.maximum, -np.inf) if how == "max" else (np.minimum, np.inf)
        numbers = np.full(len(sizes), start)
        with np.errstate(invalid="ignore"):
            extreme.at(numbers, rows, values)
        return numbers, counts > 0
    sums = np.bincount(rows, values, len(sizes)).astype(np.float64)
    if how == "sum":
        return sums, np.ones(len(sizes), np.bool_)
    return sums / np.maximum(counts, 1), counts > 0


def overlap(of: Integers, of_sizes: Integers, others: Integers, other_sizes: Integers, how: str) -> Numbers:
    """Compare two sets of codes in each row: ``count`` of common values, ``any``, ``share_of`` the first or ``share_with`` the
    second. Codes below 0 are nulls, and are left out. A share of an empty set is missing.
    """
    size = 1 + max(int(of.max(initial=0)), int(others.max(initial=0)))
    first, second = _distinct(of, of_sizes, size), _distinct(others, other_sizes, size)
    count = len(of_sizes)
    common = np.bincount(np.intersect1d(first, second, assume_unique=True) // size, minlength=count)
    if how in ("count", "any"):
        numbers = common if how == "count" else common > 0
        return numbers.astype(np.float64), np.ones(count, np.bool_)
    whole = np.bincount((first if how == "share_of" else second) // size, minlength=count)
    return common / np.maximum(whole, 1), whole > 0


def product(one: Doubles, other: Doubles, sizes: Integers, how: str) -> Numbers:
    """Return the ``dot`` product of two vectors in each row, or their ``cosine``, which is missing for a vector of zeros."""
    rows, count = _rows(sizes), len(sizes)
    dots = np.bincount(rows, one * other, count).astype(np.float64)
    if how == "dot":
        return dots, np.ones(count, np.bool_)
    lengths = np.sqrt(np.bincount(rows, one * one, count)) * np.sqrt(np.bincount(rows, other * other, count))
    return np.divide(dots, lengths, where=lengths != 0, out=np.zeros(count)), lengths != 0


def _rows(sizes: Integers) -> Integers:
    return np.repeat(np.arange(len(sizes)), sizes)


def _distinct(codes: Integers, sizes: Integers, size: int) -> Integers:
    """Return a number for each row and code in it, in ascending order."""
    kept = codes >= 0
    numbers = np.sort(_rows(sizes)[kept] * size + codes[kept])
    return numbers[np.diff(numbers, prepend=-1) > 0]
