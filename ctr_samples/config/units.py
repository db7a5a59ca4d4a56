"""Human-readable durations and sizes in YAML: ``30m``, ``7d``, ``128MiB``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_LONGEST = timedelta(days=36500)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def parse_duration(value: Any) -> timedelta:
    """Parse ``"30m"`` to 30 minutes. Units: ms, s, m, h, d. Rejects a bare number, whose unit would be a guess.

    The maximum is a hundred years, so that every day within reach of a run date exists in the calendar.
    """
    if isinstance(value, timedelta):
        return value
    match = re.fullmatch(r"(\d{1,6})(ms|s|m|h|d)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a duration such as 30s, 30m, 2h or 7d")
    duration = timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
    if duration > _LONGEST:
        raise ValueError(f"expected a duration of at most {_LONGEST.days}d")
    return duration


def parse_age(value: Any) -> timedelta | None:
    """Parse a duration. Return None for ``unbounded``."""
    if value == "unbounded":
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or `unbounded`") from None


def format_duration(value: timedelta) -> str:
    """Return the shortest form that :func:`parse_duration` reads back: ``timedelta(minutes=30)`` -> ``"30m"``."""
    millis = value // timedelta(milliseconds=1)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if millis % size == 0 and (millis or unit == "s"):
            return f"{millis // size}{unit}"
    return f"{millis}ms"


def parse_size(value: Any) -> int:
    """Parse ``"128MiB"`` to 134217728. Units: B, KB, KiB, MB, MiB, GB, GiB."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"(\d{1,12})\s?([KMG]i?B|B)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected a size such as 64MiB or 1GiB")
    return int(match[1]) * _BYTES[match[2]]


def format_size(value: int) -> str:
    """Format ``134217728`` as ``"128 MiB"``, ``1500`` as ``"1.5 KiB"``."""
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size == int(size) else f"{size:.1f} {unit}"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["30m", "7d"]}),
]
Age = Annotated[
    timedelta | None,
    BeforeValidator(parse_age),
    PlainSerializer(lambda age: "unbounded" if age is None else format_duration(age), return_type=str),
    WithJsonSchema({"type": "string", "examples": ["7d", "unbounded"]}),
]
"""Maximum age, or None for any age."""
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"type": "string", "examples": ["128MiB"]}),
]
