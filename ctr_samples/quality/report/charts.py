"""Small SVG drawings that stretch to the available width. They contain no text, which stretching would distort.

A wide pale shape shows the day before; a narrow dark shape shows the day itself. A drawing has a text alternative, or
is hidden from screen readers if the page states its figure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from markupsafe import Markup

_BAR = Markup('<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{}</svg>')
_COLUMNS = Markup(
    '<svg class="plot" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" aria-label="{}">{}{}{}{}</svg>'
)
_GRID = Markup('<path class="grid" d="M0 0H{0}M0 50H{0}M0 100H{0}"/>')
_RECT = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>')
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
