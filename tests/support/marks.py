"""Parameters of which ``make test`` takes some."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_except(fast: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Return the values as parameters of a test. Those that are not ``fast`` are slow."""
    return [
        one if one in fast else pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.slow)
        for one in values
    ]
