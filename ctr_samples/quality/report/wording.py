"""Human-readable formats of figures and names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from ctr_samples.config.units import format_size
from ctr_samples.quality.metrics import Standing

T = TypeVar("T")

MISSING = "–"
TAGS: dict[Standing, str] = {"blocks": "Failed", "accepted": "Failed, accepted", "warns": "Warning", "passed": ""}
_LONGEST = 80


def by_split(splits: Mapping[str, T]) -> dict[str, T]:
    """Sort by split, train first."""
    return {split: splits[split] for split in sorted(splits, key=lambda name: (name != "train", name))}


def count(value: float | None) -> str:
    """Format ``1234567`` as ``1,234,567``."""
    return MISSING if value is None else f"{round(value):,}"


def number(value: float | None) -> str:
    """Format with four significant digits, or as an integer: ``0.12345`` -> ``0.1235``, ``12345.6`` -> ``12,346``."""
    if value is None:
        return MISSING
    size = abs(value)
    if size >= 1e12 or 0 < size < 1e-4:
        return f"{value:.3g}"
    if value == int(value) or size >= 10_000:
        return f"{value + 0.0:,.0f}"  # not -0
    return f"{value:,.4g}" if size < 1000 else f"{value:,.1f}"


def share(value: float | None) -> str:
    """Format ``0.0342`` as ``3.42%``. Only the exact values 0 and 1 become 0% and 100%."""
    if value is None:
        return MISSING
    percent = value * 100
    if percent in (0, 100):
        return f"{percent:.0f}%"
    if abs(percent) < 0.01:
        return f"{percent:.1g}%" if abs(percent) >= 1e-4 else "<0.0001%"
    if 99.95 <= percent < 100:
        return f"{min(percent, 99.999):.3f}%"
    return f"{percent:.1f}%" if abs(percent) >= 10 else f"{percent:.2f}%"


def size(value: float | None) -> str:
    """Format ``134217728`` as ``128 MiB``."""
    return MISSING if value is None else format_size(round(value))


def span(seconds: float | None) -> str:
    """Format ``7500`` as ``2 h 5 min``, with at most two units."""
    if seconds is None:
        return MISSING
    if abs(seconds) < 60:
        return f"{seconds:.3g} s"
    for unit, length, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if abs(seconds) >= length:
            whole, rest = divmod(round(abs(seconds) / part), length // part)
            sign = "−" if seconds < 0 else ""
            return f"{sign}{whole:,} {unit} {rest} {smaller}" if rest else f"{sign}{whole:,} {unit}"
    return MISSING


def change(now: float | None, before: float | None) -> str:
    """Format the relative change of a count, such as ``+3.1%``. Empty if nothing changed or there is no earlier value."""
    if now is None or not before:
        return ""
    return _signed((now - before) / abs(before) * 100, 1, "%")


def moved(now: float | None, before: float | None) -> str:
    """Format the change of a share in percentage points.

    Returns an empty string if the share did not change or has no previous value.
    """
    if now is None or before is None:
        return ""
    return _signed((now - before) * 100, 2, " points")


def shown(value: Any, longest: int = _LONGEST) -> str:
    """Format a name or value from the data on one line. Escapes invisible characters and truncates long text."""
    if value is None:
        return MISSING
    if isinstance(value, float) and math.isfinite(value):
        return number(value)
    text = str(value)[: longest + 1]
    if not text:
        return "(empty)"
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def clipped(text: str, longest: int = 600) -> str:
    """Truncate text to ``longest`` characters, by default those of a sentence."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def plural(number: int, one: str, many: str = "") -> str:
    """Format ``1 check``, ``2 checks``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def with_change(before: str, changed: str) -> str:
    """Format ``100 (+3.1%)``, or the earlier value alone if nothing changed."""
    return f"{before} ({changed})" if changed else before


def _signed(value: float, digits: int, unit: str) -> str:
    """Format with a sign. Empty if the value rounds to 0."""
    return f"{value:+.{digits}f}{unit}".replace("-", "−") if round(value, digits) else ""
