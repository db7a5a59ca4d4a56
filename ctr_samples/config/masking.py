"""Keeps the values of ``${NAME}`` out of everything that is said: messages show ``${NAME}``, as the file does.

What a configuration was filled with is remembered in the block of :func:`masking`, which each command opens around its
work; :func:`masked` is asked wherever a text leaves the process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import quote, quote_plus, unquote

_SHORT = 4
"""Values shorter than this are masked as whole words only: a `7` would otherwise be found in every number."""

_remembered: ContextVar[dict[str, str] | None] = ContextVar("values of ${NAME}", default=None)


@contextmanager
def masking() -> Iterator[None]:
    """A block at whose end the values are forgotten."""
    before = _remembered.set({})
    try:
        yield
    finally:
        _remembered.reset(before)


def remember(filled: Mapping[str, str]) -> None:
    """Let :func:`masked` know these values, by name; outside of :func:`masking` nothing is kept."""
    known = _remembered.get()
    if known is not None:
        known.update(filled)


def masked(text: str) -> str:
    """The text with ``${NAME}`` in place of each value that is remembered."""
    return mask(text, _remembered.get() or {})


def mask(text: str, filled: Mapping[str, str]) -> str:
    """The text with ``${NAME}`` in place of each value, however it is quoted or escaped in there."""
    names = {form: name for name, value in filled.items() for form in _forms(value)}
    if not names:
        return text
    # The longest first: one value may be a part of another.
    longest_first = sorted(names, key=len, reverse=True)
    return re.sub("|".join(_pattern(form) for form in longest_first), lambda found: f"${{{names[found[0]]}}}", text)


def _pattern(form: str) -> str:
    return rf"(?<!\w){re.escape(form)}(?!\w)" if len(form) < _SHORT else re.escape(form)


def _forms(value: str) -> set[str]:
    """How a value may stand in a message: as it is, escaped by Python, JSON, SQL or a URL, by lines, or its secret part."""
    forms: set[str] = set()
    for part in {value, *value.splitlines(), *_credentials(value)}:
        forms |= {
            part,
            part.strip(),
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
    """What in an address is secret for itself: what stands before its ``@``, and the parameters that hold secrets."""
    parts = [
        *re.findall(r"://([^/?#\s]*)@", value),
        *re.findall(r"://[^/?#\s:]*:([^?#\s]*)@", value),
        *re.findall(r":thin:[^/@\s]*/([^@\s]*)@", value),
        *re.findall(rf"(?i)(?:^|[?&;,]){HIDDEN_PARAMETER}=([^&;,]+)", value),
    ]
    return {form for part in parts for form in (part, unquote(part))}


HIDDEN_PARAMETER = r"[\w.-]*(?:passw|passphrase|pwd|secret|token|credential|key)[\w.-]*"
"""A parameter of an address that holds a secret, by its name."""
