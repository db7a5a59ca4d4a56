"""How far two counts or shares lie apart, less what chance alone may do to counts as small as they are."""

from __future__ import annotations

import math

SIGMAS = 3.0


def times(now: float, before: float, error: float = 0.0) -> float:
    """How many times more or fewer, at least 1; ``error`` is the variance of the logarithm of their ratio."""
    if now <= 0 or before <= 0:
        return 1.0 if now == before else 1e9
    return math.exp(max(0.0, abs(math.log(now / before)) - SIGMAS * math.sqrt(error)))


def rise(new: float, old: float, rows: int, rows_before: int) -> float:
    """How much one share of so many rows lies above another one, at least 0."""
    return max(0.0, new - old - by_chance(new, old, rows, rows_before))


def by_chance(new: float, old: float, rows: int, rows_before: int) -> float:
    """How far two shares of so many rows may lie apart by chance."""
    return SIGMAS * math.sqrt(_variance(new, rows) + _variance(old, rows_before))


def _variance(share: float, rows: int) -> float:
    return max(share * (1 - share), 1 / max(1, rows)) / max(1, rows)
