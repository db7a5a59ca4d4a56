"""Values of ``${NAME}``: masked in all output, where messages show ``${NAME}`` like the file, and compared with those of an
earlier run by slow hashes.

Each command and each run executes within a :func:`masking` block, which stores the values of the configuration. Two
functions prevent leaks:

- :func:`written` tracks whether a text of the configuration contains a value. Messages of other software about such a
  text, and values computed from it, are not reported.
- :func:`masked` processes all text that leaves the process, and finds the values in any of their forms.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from ctr_samples.config.document import names

_SHORT = 4
"""Length below which values are masked only as whole words: a `7` would otherwise match in every number."""
_FRAGMENT = 6
"""Number of consecutive characters that reveal a value."""
_TEMPLATE = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[*?]")
"""Template or glob in a path: ``{date}``, ``{a,b}``, ``*``."""
_BETWEEN = r"[^\s'\",;]{0,60}?"

LEFT_OUT = "the details are left out, since they may show what it stands for; put a harmless value there to see them"
"""Text of a message in place of details about a text with ``${NAME}``."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Values by name, and original texts of the file by their filled form."""

    values: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


_remembered: ContextVar[_Remembered | None] = ContextVar("values of ${NAME}", default=None)


@contextmanager
def masking() -> Iterator[None]:
    """Forget the values remembered in the block when it ends."""
    around = _remembered.get() or _Remembered()
    before = _remembered.set(_Remembered(dict(around.values), dict(around.texts)))
    try:
        yield
    finally:
        _remembered.reset(before)


def remember(filled: Mapping[str, str], texts: Mapping[str, str] | None = None) -> None:
    """Register values by name for :func:`masked`, and texts of the file by their filled form for :func:`written`.

    Has no effect outside a :func:`masking` block.
    """
    known = _remembered.get()
    if known is not None:
        known.values.update(filled)
        known.texts.update(texts or {})


def written(text: str) -> str | None:
    """Return the original text of the file for a text with values from the environment. None for any other text."""
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
    """Return whether a masked text still contains a fragment of a value, left by truncation or splitting."""
    known = _remembered.get()
    lower = text.lower()
    for value in () if known is None else known.values.values():
        secret = re.sub(r"^jdbc:[a-z:]*", "", value.lower())
        if any(secret[i : i + _FRAGMENT] in lower for i in range(len(secret) - _FRAGMENT + 1)):
            return True
    return False


def mask(text: str, filled: Mapping[str, str]) -> str:
    """Replace each value by ``${NAME}``, in any quoted, escaped, filled or alternative form."""
    names, pattern = _finder(tuple(filled.items()))
    if pattern is None:
        return text
    return pattern.sub(lambda found: f"${{{names[(found.lastindex or 1) - 1]}}}", text)


@lru_cache(maxsize=32)
def _finder(filled: tuple[tuple[str, str], ...]) -> tuple[list[str], re.Pattern[str] | None]:
    """Return a pattern with one group for each form of a value, and the name of the value behind each group."""
    found = [(len(form), _pattern(form), name) for name, value in filled for form in _forms(value)]
    addresses = [(form, name) for name, value in filled if _TEMPLATE.search(value) for form in {value, *_places(value)}]
    templates = [(len(form), _filled_in(form), name) for form, name in addresses]
    found += [(size, part, name) for size, part, name in templates if part is not None]
    if not found:
        return [], None
    # Longest first, since a value may contain another value.
    found.sort(key=lambda one: one[0], reverse=True)
    return [name for *_, name in found], re.compile("|".join(f"({part})" for _, part, _ in found), re.IGNORECASE)


def _pattern(form: str) -> str:
    return rf"(?<!\w){re.escape(form)}(?!\w)" if len(form) < _SHORT else re.escape(form)


def _filled_in(value: str) -> str | None:
    """Return a pattern for a path with filled templates, or for its prefix. None if the fixed part is too short."""
    first, *others = [piece for piece in _TEMPLATE.split(value) if piece] or [""]
    pattern = ""
    for piece in reversed(others):
        pattern = f"(?:{_BETWEEN}{re.escape(piece)}{pattern})?"
    if len(first) >= _FRAGMENT:
        return re.escape(first) + pattern
    return re.escape(first) + pattern.removesuffix("?") if others and len("".join(others)) >= _FRAGMENT else None


def _forms(value: str) -> set[str]:
    """Return the forms of a value in messages: unchanged, escaped (Python, JSON, SQL, URLs), lines, secret parts."""
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
    """Return the secret parts of a URL: the part before ``@``, and parameters with secrets."""
    parts = [
        *re.findall(r"://([^/?#\s]*)@", value),
        *re.findall(r"://[^/?#\s:]*:([^?#\s]*)@", value),
        *re.findall(r":thin:[^/@\s]*/([^@\s]*)@", value),
        *re.findall(rf"(?i)(?:^|[?&;,]){HIDDEN_PARAMETER}=([^&;,]+)", value),
    ]
    return {form for part in parts for form in (part, unquote(part))}


def _places(value: str) -> set[str]:
    """Return the forms of a path in storage messages: without scheme or trailing slash, or normalized."""
    if "/" not in value:
        return set()
    if "://" in value:
        rest = value.partition("://")[2].rstrip("/")
        return {value.rstrip("/"), rest if len(rest) >= _FRAGMENT else ""}
    path = os.path.expanduser(value)
    return {value.rstrip("/"), os.path.normpath(path), os.path.abspath(path)} - {"/", ".", os.getcwd()}


def _long_pieces(value: str) -> set[str]:
    """Return the long fixed parts of a path with templates."""
    return {piece for piece in _TEMPLATE.split(value) if len(piece) >= 2 * _FRAGMENT}


HIDDEN_PARAMETER = r"[\w.-]*(?:passw|passphrase|pwd|secret|token|credential|key)[\w.-]*"
"""URL parameter that holds a secret, by its name."""


_COST = {"n": 2**14, "r": 8, "p": 1}
"""Cost of scrypt (RFC 7914): about 50 ms and 16 MiB, so that short values cannot be tried by the billion."""


def digests(values: Mapping[str, str], sample_set: str) -> dict[str, str]:
    """Return a slow hash of each value, as ``salt:hash`` in hex digits. The salt is that of a sample set, so that the hashes in
    its manifests can be compared.
    """
    salt = hashlib.sha256(sample_set.encode()).digest()[:16]
    return {name: _digest(value, salt) for name, value in values.items()}


def digests_in(node: Any, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of the values in a part of a configuration, as far as they are known."""
    return {name: environment[name] for name in sorted({*names(node)}) if name in environment}


def changed(needed: Iterable[str], values: Mapping[str, str], before: Mapping[str, str]) -> set[str]:
    """Return the ``needed`` names whose values are not surely those of the hashes ``before``."""
    return {name for name in needed if not _is_same(values.get(name), before.get(name))}


def _is_same(value: str | None, digest: str | None) -> bool:
    return value is not None and digest is not None and _digest(value, bytes.fromhex(digest[:32])) == digest


@lru_cache(maxsize=256)  # a run compares each value some three times, and writes it
def _digest(value: str, salt: bytes) -> str:
    return f"{salt.hex()}:{hashlib.scrypt(value.encode(), salt=salt, dklen=16, **_COST).hex()}"
