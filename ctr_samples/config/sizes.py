"""How large a configuration may be: aliases of YAML can make a few lines stand for billions of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LARGEST_FILE = 2 * 2**20
_MOST_VALUES = 200_000


def too_large(tree: Any) -> str | None:
    """What is wrong with a document that refers to itself or that its aliases make too large. Takes each part once."""
    sizes: dict[int, int] = {}
    try:
        size = _size(tree, sizes, set())
    except RecursionError:
        return "is nested too deeply; make it flatter"
    if size is None:
        return "has an alias that refers to a part of itself; write the part out"
    if size > _MOST_VALUES:
        return f"has {size:,} values once its aliases are expanded, expected at most {_MOST_VALUES:,}"
    return None


def _size(node: Any, sizes: dict[int, int], above: set[int]) -> int | None:
    parts: Iterable[Any] = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
    if not isinstance(node, Mapping | list):
        return 1
    if id(node) in above:
        return None
    if id(node) not in sizes:
        total = 1
        for part in parts:
            size = _size(part, sizes, above | {id(node)})
            if size is None:
                return None
            total += size
        sizes[id(node)] = total
    return sizes[id(node)]
