"""Checks for arguments of public functions: paths, whole numbers and lists of names.

A failed check raises UsageError with the actual value and the expected kind of value.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from numbers import Integral
from typing import Any

from ctr_samples.errors import UsageError


def path_text(name: str, value: Any) -> str:
    """Return the text of a path or URL, given as text or as ``pathlib.Path``. Raise UsageError for anything else."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UsageError(f"`{name}` is {value!r}; expected a path or URL, as text or as pathlib.Path.")
    return text


def check_whole(name: str, value: Any, least: int, *, optional: bool = False) -> None:
    """Raise UsageError unless the value is a whole number of at least ``least``, or None if it is ``optional``."""
    if value is None and optional:
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise UsageError(
            f"`{name}` is {value!r}; expected a whole number, {least} or more{', or None' if optional else ''}."
        )


def check_text(name: str, value: Any, what: str, *, optional: bool = False) -> None:
    """Raise UsageError unless the value is text, or None if it is ``optional``."""
    if not isinstance(value, str) and not (optional and value is None):
        raise UsageError(f"`{name}` is {value!r}; expected {what}{', or None' if optional else ''}.")


def names_in(name: str, value: Any) -> Collection[str]:
    """Return a collection of feature names. Raise UsageError for anything else, including a single string."""
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"`{name}` is {value!r}; expected a list of feature names.")
    return value


def check_kind(name: str, value: Any, kind: type, how: str) -> None:
    """Raise UsageError unless the value is an instance of ``kind``. ``how`` says how to get an instance."""
    if not isinstance(value, kind):
        raise UsageError(f"`{name}` is {value!r}; expected the {kind.__name__} {how}.")
