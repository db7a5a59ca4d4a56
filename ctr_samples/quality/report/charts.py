"""Small SVG drawings that stretch to the available width, and the histograms that they show. They contain no text, which
stretching would distort.

A wide pale shape shows the day before; a narrow dark shape shows the day itself. A drawing has a text alternative, or
is hidden from screen readers if the page states its figure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ctr_samples.quality.feature_facts import Curve
from ctr_samples.quality.html import Chart
from ctr_samples.quality.report.wording import share

_BAR = Markup('<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{}</svg>')
_COLUMNS = Markup(
    '<svg class="plot" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" aria-label="{}">{}{}{}</svg>'
)
_GRID = Markup('<path class="grid" d="M0 0H{0}M0 50H{0}M0 100H{0}"/>')
_RECT = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>')
_LEGEND = Markup(
    '<p class="legend"><span><span class="key day"></span>this day</span> <span><span class="key before"></span>before: {}'
    "</span></p>\n"
)


def bar(length: float | None, *, start: float = 0.0, before: float | None = None, tone: str = "day") -> Markup:
    """Draw a bar from ``start`` with ``length``, over a bar of length ``before``. All are shares of the width."""
    parts = Markup()
    if before is not None:
        parts += _rect("before", 0, before, 0, 10)
    if length is not None:
        inset = 0.0 if before is None else 2.5
        parts += _rect(tone, start, length, inset, 10 - 2 * inset)
    return _BAR.format(parts)


def _rect(tone: str, start: float, length: float, top: float, height: float) -> Markup:
    left = min(max(start, 0.0), 1.0)
    width = min(max(length, 0.0), 1.0 - left)
    if length <= 0:
        return Markup()
    width = max(width, 0.004)  # keep it visible
    left = min(left, 1.0 - width)
    return _RECT.format(tone, _plain(left * 100), _plain(top), _plain(width * 100), _plain(height))


def columns(
    day: Sequence[float | None],
    before: Sequence[float | None],
    *,
    top: float,
    label: str,
    grid: bool = False,
    vague: Collection[int] = (),
) -> Markup:
    """Draw columns of equal width on an axis up to ``top``. ``vague`` has the columns drawn as outlines."""
    lines = _GRID.format(len(day)) if grid else ""
    drawn = Markup().join(
        _columns([value if (at in vague) is outlined else None for at, value in enumerate(day)], top, kind)
        for kind, outlined in (("day", False), ("vague", True))
    )
    return _COLUMNS.format(max(len(day), 1), label, lines, _steps(before, top), drawn)


def _columns(values: Sequence[float | None], top: float, kind: str) -> Markup:
    drawn = [
        f"M{_plain(at + 0.22)} 100V{_plain(100 - _height(value, top))}h.56V100z"
        for at, value in enumerate(values)
        if value
    ]
    return Markup('<path class="{}" d="{}"/>').format(kind, "".join(drawn)) if drawn else Markup()


def _steps(values: Sequence[float | None], top: float) -> Markup:
    """Draw the outline of adjacent columns."""
    if not any(values):
        return Markup()
    steps = "".join(f"V{_plain(100 - _height(value, top))}h1" for value in values)
    return Markup('<path class="before" d="M0 100{}V100z"/>').format(steps)


def _height(value: float | None, top: float) -> float:
    if not value or top <= 0:
        return 0.0
    return min(max(value / top * 100, 0.8), 100.0)


def _plain(value: float) -> str:
    """Format with at most two decimals and no trailing zeros, to keep pages with thousands of numbers small."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def round_top(highest: float) -> float:
    """Round up the end of an axis to 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten."""
    if not highest > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next((step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8) if highest <= step * power * 1.0001), 10 * power)


def hourly(
    title: str,
    rates: Sequence[float | None],
    before: Sequence[float | None] = (),
    *,
    label: str,
    vague: Collection[int] = (),
    note: str = "",
) -> Chart:
    """Return a chart of a rate in each hour of the day. ``label`` is its text for screen readers."""
    top = round_top(max((rate for rate in (*rates, *before) if rate is not None), default=0.0))
    drawing = columns(rates, before, top=top, label=label, grid=True, vague=vague)
    return Chart(drawing, title, note, (share(top), share(top / 2), "0%"), ("00:00", "06:00", "12:00", "18:00"))


def legend(before: str) -> Markup:
    """Explain the shapes of a day and of the day before. Empty if there is no day before."""
    return _LEGEND.format(before) if before else Markup()


BINS = 24
_MOST_COUNTS = 40
"""Range of integers below which each integer has its own column."""
_MANY_TIMES = 5
"""Ratio to the next highest column above which a column is cut off."""
_SKEWED = 40
"""Ratio of the 99th percentile to the median above which the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Shares of the values in columns of equal width, or of equal ratio on a logarithmic axis."""

    day: tuple[float, ...]
    before: tuple[float, ...]
    low: float
    middle: float
    high: float
    logarithmic: bool

    @property
    def top(self) -> float:
        """Height of the drawing. A dominant column, such as zeros, is cut off slightly above the next highest."""
        highest = sorted(map(max, zip(self.day, self.before or self.day, strict=True)), reverse=True)
        if len(highest) > 1 and 0 < _MANY_TIMES * highest[1] < highest[0]:
            return 1.5 * highest[1]
        return highest[0]

    @property
    def cut(self) -> bool:
        """Whether the highest column of the day is cut off."""
        return max(self.day) > self.top


def histogram_of(day: Curve, before: Curve | None, bins: int = BINS) -> Histogram:
    """Build columns from the 1st to the 99th percentile of both curves, so that outliers do not stretch the axis. Integers over
    a small range have one column each.
    """
    curves = [day] if before is None else [day, before]
    low = min(curve.low_end(0.01) for curve in curves)
    high = max(curve.high_end(0.99) for curve in curves)
    unit, middle, logarithmic = day.high_end(0.5), (low + high) / 2, False
    if all(curve.whole for curve in curves) and high - low < _MOST_COUNTS:
        high = max(high, low + 2)  # a single full column would be uninformative
        middle, edges = (low + high) / 2, np.arange(low, high + 2) - 0.5
    else:
        if not low < high:  # a constant column
            reach = max(abs(low), 1.0) * 0.5
            low, high = low - reach, low + reach
        edges = np.linspace(low, high, bins + 1)
        if logarithmic := low >= 0 and unit > 0 and high > _SKEWED * unit:
            edges = unit * np.expm1(np.linspace(np.log1p(low / unit), np.log1p(high / unit), bins + 1))
            middle = float(edges[bins // 2])
        edges[0] = np.nextafter(low, -np.inf)  # values on the lowest edge count
    of_day, of_before = (tuple(np.diff(curve.shares_to(edges)).tolist()) if curve else () for curve in (day, before))
    return Histogram(of_day, of_before, low, middle, high, logarithmic)
