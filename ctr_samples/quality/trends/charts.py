"""Step chart of a figure over all days, as SVG that stretches to its width. Text stays outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from ctr_samples.quality.report.charts import round_top
from ctr_samples.quality.report.wording import MISSING, count, number, share, size, span

HEIGHT = 500
"""Steps of the vertical axis: enough for the script to read values back with three digits."""

UNITS: dict[str, Callable[[float | None], str]] = {
    "count": count,
    "share": share,
    "number": number,
    "seconds": span,
    "bytes": size,
}

_LINE = Markup(
    '<svg class="line" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}" data-top="{}" '
    'data-unit="{}"><path d="{}"/></svg>'
)


@dataclass(frozen=True, slots=True)
class Chart:
    """Drawing with its words: the ``top`` of its axis from 0, and the newest value."""

    name: str
    drawing: Markup
    top: str
    newest: str
    highest: float
    """Sort key of the chart; 0 without values."""


def chart(name: str, values: Sequence[float | None], unit: str) -> Chart:
    """Draw one value per day, None for days without one. ``unit`` is a key of :data:`UNITS`."""
    shown = UNITS[unit]
    known = [value for value in values if value is not None]
    highest, top, newest, words = 0.0, 1.0, MISSING, "no values"
    if known:
        highest = max(known)
        top, newest = round_top(highest), shown(known[-1])
        words = f"{newest} on the last day with a value; lowest {shown(min(known))}, highest {shown(highest)}"
    drawing = _LINE.format(len(values), HEIGHT, f"{name}: {words}", f"{top:.6g}", unit, steps(values, top))
    return Chart(name, drawing, shown(top), newest, highest)


def steps(values: Sequence[float | None], top: float) -> str:
    """Path of a line that is level over each day and broken where there is no value."""
    parts: list[str] = []
    at, pen = 0, -1  # height at which the line ended, or -1 after a gap
    for height, days in groupby(_height(value, top) for value in values):
        width = sum(1 for _ in days)
        if height is None:
            pen = -1
        else:
            parts.append(f"v{height - pen}h{width}" if pen >= 0 else f"M{at} {height}h{width}")
            pen = height
        at += width
    return "".join(parts)


def _height(value: float | None, top: float) -> int | None:
    """Distance from the top edge, in whole steps."""
    return None if value is None else round(HEIGHT * (1 - min(max(value / top, 0.0), 1.0)))
