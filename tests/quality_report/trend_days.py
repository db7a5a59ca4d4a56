"""A published day as the page about many days has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ctr_samples.quality.metrics import Finding
from ctr_samples.quality.trends import DayPoint


def point(
    day: str,
    *,
    findings: Iterable[Finding] = (),
    flags: frozenset[str] = frozenset(),
    page: str = "",
    **figures: Mapping[str, float],
) -> DayPoint:
    """A day that passed, with some figures by group: ``point("2019-06-05", drift={"age": 0.1})``."""
    return DayPoint(day, "passed", "published", page, 1, dict(figures), tuple(findings), flags)  # type: ignore[arg-type]
