"""Keeps the values of ``${NAME}`` out of all output: messages show ``${NAME}``, like the file.

The values of a configuration are remembered in the block of :func:`masking`, which each command and each run opens
around its work. Two functions keep them in:

- :func:`written` knows by origin whether a text of the configuration contains a value. What other software says about
  such a text, or what was computed from it, is not repeated.
- :func:`masked` is applied wherever a text leaves the process, and finds values in it, whatever became of them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

_SHORT = 4
"""Values shorter than this are masked as whole words only: a `7` would otherwise be found in every number."""
_FRAGMENT = 6
"""Number of consecutive characters that give a value away."""
_TEMPLATE = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[*?]")
"""Part of a path that is filled in or expanded: ``{date}``, ``{a,b}`` and globs."""
_BETWEEN = r"[^\s'\",;]{0,60}?"

LEFT_OUT = "the details are left out, since they may show what it stands for; put a harmless value there to see them"
"""Text of a message in place of details about a text with ``${NAME}``."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Values by name, and the texts of the file by their filled form."""

    values: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


_remembered: ContextVar[_Remembered | None] = ContextVar("values of ${NAME}", default=None)


@contextmanager
def masking() -> Iterator[None]:
    """Forget, at the end of the block, the values that were remembered in it."""
    around = _remembered.get() or _Remembered()
    before = _remembered.set(_Remembered(dict(around.values), dict(around.texts)))
    try:
        yield
    finally:
        _remembered.reset(before)


def remember(filled: Mapping[str, str], texts: Mapping[str, str] | None = None) -> None:
    """Let :func:`masked` know these values, by name, and :func:`written` the texts of the file, by their filled form.

    Outside of :func:`masking` nothing is kept.
    """
    known = _remembered.get()
    if known is not None:
        known.values.update(filled)
        known.texts.update(texts or {})


def written(text: str) -> str | None:
    """Return a configured text as written in the file if part of it came from the environment; else None."""
    known = _remembered.get()
    if known is None:
        return None
    if text in known.texts:
        return known.texts[text]
    hidden = mask(text, known.values)
    return hidden if hidden != text else None


def masked(text: str) -> str:
    """Return the text with ``${NAME}`` in place of each remembered value."""
    known = _remembered.get()
    return text if known is None else mask(text, known.values)


def masked_tree(node: Any) -> Any:
    """Mask all texts in a document of plain values."""
    if isinstance(node, Mapping):
        return {key: masked_tree(child) for key, child in node.items()}
    if isinstance(node, list | tuple):
        return type(node)(masked_tree(child) for child in node)
    return masked(node) if isinstance(node, str) else node


def tells(text: str) -> bool:
    """Return whether a masked text still contains a piece of a value, which was cut or split before."""
    known = _remembered.get()
    lower = text.lower()
    for value in () if known is None else known.values.values():
        secret = re.sub(r"^jdbc:[a-z:]*", "", value.lower())
        if any(secret[i : i + _FRAGMENT] in lower for i in range(len(secret) - _FRAGMENT + 1)):
            return True
    return False


def mask(text: str, filled: Mapping[str, str]) -> str:
    """Replace each value by ``${NAME}``, however it is quoted, escaped, filled in or spelled in the text."""
    names, pattern = _finder(tuple(filled.items()))
    if pattern is None:
        return text
    return pattern.sub(lambda found: f"${{{names[(found.lastindex or 1) - 1]}}}", text)


@lru_cache(maxsize=32)
def _finder(filled: tuple[tuple[str, str], ...]) -> tuple[list[str], re.Pattern[str] | None]:
    """Names, and a pattern with a group for each."""
    found = [(len(form), _pattern(form), name) for name, value in filled for form in _forms(value)]
    addresses = [(form, name) for name, value in filled if _TEMPLATE.search(value) for form in {value, *_places(value)}]
    templates = [(len(form), _filled_in(form), name) for form, name in addresses]
    found += [(size, part, name) for size, part, name in templates if part is not None]
    if not found:
        return [], None
    # Longest first: one value may be part of another.
    found.sort(key=lambda one: one[0], reverse=True)
    return [name for *_, name in found], re.compile("|".join(f"({part})" for _, part, _ in found), re.IGNORECASE)


def _pattern(form: str) -> str:
    return rf"(?<!\w){re.escape(form)}(?!\w)" if len(form) < _SHORT else re.escape(form)


def _filled_in(value: str) -> str | None:
    """Pattern of a path with its templates filled in, or of its beginning; None if its fixed part is too short."""
    first, *others = [piece for piece in _TEMPLATE.split(value) if piece] or [""]
    pattern = ""
    for piece in reversed(others):
        pattern = f"(?:{_BETWEEN}{re.escape(piece)}{pattern})?"
    if len(first) >= _FRAGMENT:
        return re.escape(first) + pattern
    return re.escape(first) + pattern.removesuffix("?") if others and len("".join(others)) >= _FRAGMENT else None


def _forms(value: str) -> set[str]:
    """Forms of a value in a message: unchanged, escaped by Python, JSON, SQL or a URL, by lines, or its secret part."""
    forms: set[str] = set()
    for part in {value, *value.splitlines(), *_credentials(value), *_places(value), *_long_pieces(value)}:
        forms |= {
            part,
            part.strip(),
            part.upper(),
            part.lower(),
            repr(part)[1:-1],
            json.dumps(part)[1:-1],
            part.replace("'", "''"),
            part.replace("'", "\\'"),
            part.replace("[", "\\["),
            quote(part),
            quote(part, safe=""),
            quote_plus(part),
        }
    return forms - {""}


def _credentials(value: str) -> set[str]:
    """Secret parts of a URL: the part before its ``@``, and the parameters that hold secrets."""
    parts = [
        *re.findall(r"://([^/?#\s]*)@", value),
        *re.findall(r"://[^/?#\s:]*:([^?#\s]*)@", value),
        *re.findall(r":thin:[^/@\s]*/([^@\s]*)@", value),
        *re.findall(rf"(?i)(?:^|[?&;,]){HIDDEN_PARAMETER}=([^&;,]+)", value),
    ]
    return {form for part in parts for form in (part, unquote(part))}


def _places(value: str) -> set[str]:
    """Forms in which storages and disks name a path: without its scheme, its last slash or a detour."""
    if "/" not in value:
        return set()
    if "://" in value:
        rest = value.partition("://")[2].rstrip("/")
        return {value.rstrip("/"), rest if len(rest) >= _FRAGMENT else ""}
    path = os.path.expanduser(value)
    return {value.rstrip("/"), os.path.normpath(path), os.path.abspath(path)} - {"/", ".", os.getcwd()}


def _long_pieces(value: str) -> set[str]:
    """Long fixed parts of a path with templates."""
    return {piece for piece in _TEMPLATE.split(value) if len(piece) >= 2 * _FRAGMENT}


HIDDEN_PARAMETER = r"[\w.-]*(?:passw|passphrase|pwd|secret|token|credential|key)[\w.-]*"
"""URL parameter that holds a secret, by its name."""
