"""Configuration problems, and suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """A problem at one location in the file."""

    where: tuple[str, ...]
    what: str


def closest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name closest to a misspelled name, or None."""
    return next(iter(difflib.get_close_matches(name, sorted(valid), n=1, cutoff=0.6)), None)


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return ``"; did you mean 'ttl'?"`` or, if nothing is close, the valid names."""
    names = sorted(valid)
    close = closest(name, names)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; expected one of {', '.join(names)}" if names else ""


def end_sentence(text: str) -> str:
    """Add a full stop, unless the text ends with one or, as from :func:`nearest`, with a question mark."""
    return text if text.endswith((".", "?")) else f"{text}."
