"""YAML document: environment references, plain values, and line numbers of keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

REFERENCE = re.compile(r"\$\{(\w+)\}")
"""``${NAME}``: a value from the environment."""


_OF_NO_BYTE = ("quality", "partials", "served", "trends", "from_samples")
_OF_NO_BYTE_IN_OUTPUT = ("path", "retention", "ids", "ids_salt")
"""Configuration keys, and ``output`` keys, that do not affect the bytes of samples."""


def of_the_bytes(document: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the keys that do not affect the bytes of the samples. Changing any other key may change the samples."""
    kept = {key: value for key, value in document.items() if key not in _OF_NO_BYTE}
    output = {key: value for key, value in (document.get("output") or {}).items() if key not in _OF_NO_BYTE_IN_OUTPUT}
    return {**kept, "output": output}


def deciding_names(document: Mapping[str, Any]) -> set[str]:
    """Return each ``${NAME}`` on whose value the bytes of the samples depend: database logins do not decide them."""
    kept = of_the_bytes(document)
    of_sources = [
        {key: value for key, value in source.items() if key not in ("user", "password")}
        for source in (document.get("sources") or {}).values()
    ]
    return {*names({**kept, "sources": of_sources})}


def names(node: Any) -> Iterator[str]:
    """Yield the name of each ``${NAME}`` in a document."""
    if isinstance(node, Mapping | list):
        for child in node.values() if isinstance(node, Mapping) else node:
            yield from names(child)
    elif isinstance(node, str):
        yield from REFERENCE.findall(node)


def filled(node: Any, value_of: Callable[[str, tuple[Any, ...]], str], where: tuple[Any, ...] = ()) -> Any:
    """Return a plain copy of a document. ``value_of`` maps the name and location of each ``${NAME}`` to its value."""
    if isinstance(node, Mapping):
        return {key: filled(child, value_of, (*where, key)) for key, child in node.items()}
    if isinstance(node, list):
        return [filled(child, value_of, (*where, i)) for i, child in enumerate(node)]
    return REFERENCE.sub(lambda match: value_of(match[1], where), node) if isinstance(node, str) else plain(node)


def references(node: Any, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each text that contains ``${NAME}`` as a pair: with the values filled in, and as written."""
    if isinstance(node, Mapping | list):
        for child in node.values() if isinstance(node, Mapping) else node:
            yield from references(child, values)
    elif isinstance(node, str) and REFERENCE.search(node):
        yield REFERENCE.sub(lambda match: values[match[1]], node), node


def plain(node: Any) -> Any:
    """Return the tree without ruamel's own types, ready for JSON."""
    if isinstance(node, Mapping):
        return {str(k): plain(v) for k, v in node.items()}
    if isinstance(node, list):
        return [plain(v) for v in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node if node is None else str(node)


FILES = "files_of_keys"
"""Attribute of a map that was merged: the file of each key."""


def line_of(node: Any, key: Any) -> int:
    """Return the line of a key or of an element, from 1 on."""
    return int(node.lc.key(key)[0] if isinstance(node, CommentedMap) else node.lc.item(key)[0]) + 1


def at(path: str, tree: CommentedMap, where: Sequence[Any]) -> str:
    """Return ``conf/x.yaml:12: views.item.ttl: ``, with the file and line of the nearest existing key."""
    line, node = None, tree
    for part in where:
        key = int(part) if isinstance(node, CommentedSeq) and str(part).isdecimal() else part
        try:
            line = line_of(node, key)
            path, node = getattr(node, FILES, {}).get(key, path), node[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    position = f"{path}:{line}: " if line is not None else f"{path}: "
    return position + (".".join(str(part) for part in where) + ": " if where else "")
