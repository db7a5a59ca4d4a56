"""Small SVG drawings that stretch to the available width, and the histograms that they show. They contain no text, which
stretching would distort.

A wide pale shape shows the day before; a narrow dark shape shows the day itself. A drawing has a text alternative, or
is hidden from screen readers if the page states its figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from ctr_samples.quality.feature_facts import Curve
from ctr_samples.quality.html import Chart
from ctr_samples.quality.report.wording import share

_BAR = Markup('<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{}</svg>')
_COLUMNS = Markup(
    '<svg class="plot" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" aria-label="{}">{}{}{}{}</svg>'
)
_GRID = Markup('<path class="grid" d="M0 0H{0}M0 50H{0}M0 100H{0}"/>')
_RECT = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>')
_LEGEND = Markup(
    '<p class="legend"><span><span class="key day"></span>this day</span> <span><span class="key before"></span>before: {}'
    "</span></p>\n"
)
_HOVER = Markup('<rect class="hover" x="{}" y="0" width="1" height="100"><title>{}</title></rect>')


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
    hints: Sequence[str] = (),
    grid: bool = False,
    vague: Collection[int] = (),
) -> Markup:
    """Draw columns of equal width on an axis up to ``top``. ``hints`` are the tooltips of the columns, and ``vague`` has
    the columns drawn as outlines.
    """
    hover = Markup().join(_HOVER.format(at, hint) for at, hint in enumerate(hints))
    lines = _GRID.format(len(day)) if grid else ""
    drawn = Markup().join(
        _columns([value if (at in vague) is outlined else None for at, value in enumerate(day)], top, kind)
        for kind, outlined in (("day", False), ("vague", True))
    )
    return _COLUMNS.format(max(len(day), 1), label, lines, _steps(before, top), drawn, hover)


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
    hints: Sequence[str] = (),
    vague: Collection[int] = (),
    note: str = "",
) -> Chart:
    """Return a chart of a rate in each hour of the day. ``label`` is its text for screen readers."""
    top = round_top(max((rate for rate in (*rates, *before) if rate is not None), default=0.0))
    drawing = columns(rates, before, top=top, label=label, hints=hints, grid=True, vague=vague)
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
    """Build columns from the 1st to the 99th percentile of both curves, so that outliers do not stretch the axis."""
    curves = [day] if before is None else [day, before]
    low = min(curve.low_end(0.01) for curve in curves)
    high = max(curve.high_end(0.99) for curve in curves)
    if all(curve.whole for curve in curves) and high - low < _MOST_COUNTS:
        return _of_counts(day, before, int(low), int(high))
    if not low < high:
        low, high = _around(low)
    scale, back = _scale(day, low, high)
    start, step = scale(low), (scale(high) - scale(low)) / bins
    edges = [low, *(back(start + step * number) for number in range(1, bins)), high]
    return Histogram(
        _shares(day, edges),
        _shares(before, edges) if before else (),
        low,
        edges[bins // 2],
        high,
        scale is not _same,
    )


def _of_counts(day: Curve, before: Curve | None, low: int, high: int) -> Histogram:
    """Build one column per integer, at least three: a single full column would be uninformative."""
    if high - low < 2:
        high = low + 2
    counts = range(low, high + 1)
    of_day = tuple(day.share_of(n) for n in counts)
    of_before = tuple(before.share_of(n) for n in counts) if before else ()
    return Histogram(of_day, of_before, low, (low + high) / 2, high, logarithmic=False)


def _around(value: float) -> tuple[float, float]:
    """Return the ends of the axis for a constant column."""
    reach = max(abs(value), 1.0) * 0.5
    return value - reach, value + reach


def _shares(curve: Curve, edges: list[float]) -> tuple[float, ...]:
    """Return the shares between the edges. Includes values on the lowest edge, but no values outside."""
    below = [curve.share_to(edge) for edge in edges]
    below[0] = curve.share_to(math.nextafter(edges[0], -math.inf))
    return tuple(max(right - left, 0.0) for left, right in pairwise(below))


Scale = Callable[[float], float]


def _scale(day: Curve, low: float, high: float) -> tuple[Scale, Scale]:
    """Choose a logarithmic axis for non-negative values far above their median, else a linear axis."""
    unit = day.high_end(0.5)
    if low >= 0 and unit > 0 and high > _SKEWED * unit:
        return (lambda x: math.log1p(x / unit)), (lambda y: unit * math.expm1(y))
    return _same, _same


def _same(value: float) -> float:
    return value
