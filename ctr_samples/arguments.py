"""What public functions take: paths, whole numbers and lists of names, checked. UsageError says what was given and expected."""

from __future__ import annotations

import os
from collections.abc import Collection
from numbers import Integral
from typing import Any

from ctr_samples.errors import UsageError


def path_text(name: str, value: Any) -> str:
    """The text of a path or URL, which may be text or a ``pathlib.Path``."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UsageError(f"`{name}` is {value!r}; expected a path or URL, as text or as pathlib.Path.")
    return text


def check_whole(name: str, value: Any, least: int, *, optional: bool = False) -> None:
    """Check that a number is whole and not below ``least``, or None where it is ``optional``."""
    if value is None and optional:
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise UsageError(
            f"`{name}` is {value!r}; expected a whole number, {least} or more{', or None' if optional else ''}."
        )


def check_text(name: str, value: Any, what: str, *, optional: bool = False) -> None:
    """Check that an argument is text, or None where it is ``optional``."""
    if not isinstance(value, str) and not (optional and value is None):
        raise UsageError(f"`{name}` is {value!r}; expected {what}{', or None' if optional else ''}.")


def names_in(name: str, value: Any) -> Collection[str]:
    """A collection of names of features, and no text, whose letters would pass for names."""
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"`{name}` is {value!r}; expected a list of feature names.")
    return value


def check_kind(name: str, value: Any, kind: type, how: str) -> None:
    """Check that an argument is an object of a class; ``how`` says where one comes from."""
    if not isinstance(value, kind):
        raise UsageError(f"`{name}` is {value!r}; expected the {kind.__name__} {how}.")
