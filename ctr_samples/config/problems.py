"""What is wrong in a configuration, and the nearest name that would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """What is wrong at one place of the file."""

    where: tuple[str, ...]
    what: str


def closest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that a misspelt one was probably meant to be."""
    return next(iter(difflib.get_close_matches(name, sorted(valid), n=1, cutoff=0.6)), None)


def nearest(name: str, valid: Iterable[str]) -> str:
    """``"; did you mean 'ttl'?"`` or, where nothing is near, what would be valid."""
    names = sorted(valid)
    close = closest(name, names)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; expected one of {', '.join(names)}" if names else ""


def end_sentence(text: str) -> str:
    """The text with a full stop, unless it ends in one or asks something, as :func:`nearest` may."""
    return text if text.endswith((".", "?")) else f"{text}."
