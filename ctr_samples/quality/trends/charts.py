"""A figure over all days as a line of steps, in SVG that stretches to its width. All letters stand outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from ctr_samples.quality.report.charts import round_top
from ctr_samples.quality.report.wording import MISSING, count, number, share, size, span

HEIGHT = 500
"""Steps of the vertical axis, so the script reads a value back with three digits."""

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
    """A drawing with its words: the ``top`` of its axis from 0, and the newest value."""

    name: str
    drawing: Markup
    top: str
    newest: str
    highest: float
    """For the order of charts; 0 where there is no value."""


def chart(name: str, values: Sequence[float | None], unit: str) -> Chart:
    """A chart of one value for each day, None where a day has none. ``unit`` is a key of :data:`UNITS`."""
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
    """The path of a line that is level for the width of each day, and interrupted where there is no value."""
    parts: list[str] = []
    at, pen = 0, -1  # the height at which the line ended, if it may go on
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
    """From the top edge, in whole steps."""
    return None if value is None else round(HEIGHT * (1 - min(max(value / top, 0.0), 1.0)))
