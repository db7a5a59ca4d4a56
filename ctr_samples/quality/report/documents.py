"""Reads documents of which any part may be missing or of another form. Nothing here ever raises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def part(document: Any, *keys: str) -> Any:
    """What stands below ``keys``; None where the way there ends."""
    for key in keys:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def mapping(document: Any, *keys: str) -> Mapping[str, Any]:
    """The object below ``keys``, with keys of text; empty where there is none."""
    found = part(document, *keys)
    return {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else {}


def listing(document: Any, *keys: str) -> Sequence[Any]:
    """The list below ``keys``; empty where there is none."""
    found = part(document, *keys)
    return found if isinstance(found, Sequence) and not isinstance(found, str | bytes) else []


def objects(document: Any, *keys: str) -> list[Mapping[str, Any]]:
    """The objects of the list below ``keys``; what is no object is passed over."""
    return [mapping(item) for item in listing(document, *keys) if isinstance(item, Mapping)]


def figure(document: Any, *keys: str) -> float | None:
    """The finite number below ``keys``, or None."""
    found = part(document, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        return found if math.isfinite(found) else None
    except OverflowError:  # an integer beyond every float
        return None


def figures(document: Any, *keys: str) -> dict[str, float]:
    """The numbers of the object below ``keys``; what is no number is passed over."""
    found = {name: figure(value) for name, value in mapping(document, *keys).items()}
    return {name: value for name, value in found.items() if value is not None}


def by_split(document: Any, *keys: str) -> dict[str, Any]:
    """What the object below ``keys`` has for each split, train first."""
    found = mapping(document, *keys)
    return {split: found[split] for split in sorted(found, key=lambda name: (name != "train", name))}


def text(document: Any, *keys: str) -> str:
    """The text below ``keys``; empty where there is none."""
    found = part(document, *keys)
    return found if isinstance(found, str) else ""
