"""Differences between counts or shares, less what chance explains for samples of that size."""

from __future__ import annotations

import math

SIGMAS = 3.0


def times(now: float, before: float, error: float = 0.0) -> float:
    """Factor between two figures, at least 1, less what chance explains; ``error`` is the variance of the log ratio."""
    if now <= 0 or before <= 0:
        return 1.0 if now == before else 1e9
    return math.exp(max(0.0, abs(math.log(now / before)) - SIGMAS * math.sqrt(error)))


def rise(new: float, old: float, rows: int, rows_before: int) -> float:
    """Rise of a share, at least 0, beyond what chance explains for these row counts."""
    return max(0.0, new - old - by_chance(new, old, rows, rows_before))


def by_chance(new: float, old: float, rows: int, rows_before: int) -> float:
    """Difference between two shares that chance explains for these row counts."""
    return SIGMAS * math.sqrt(_variance(new, rows) + _variance(old, rows_before))


def _variance(share: float, rows: int) -> float:
    return max(share * (1 - share), 1 / max(1, rows)) / max(1, rows)
