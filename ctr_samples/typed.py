"""Convert JSON values to frozen dataclasses, rejecting unknown keys and values of the wrong type. Pure functions.

Fields declare ``str``, ``int`` (64 bits), ``float``, ``bool``, ``Literal``, ``X | None``, ``tuple[X, ...]``,
``Mapping[str, X]``, another dataclass, a ``TypedDict`` (unknown keys are allowed), or ``Any``; ``Annotated`` adds rules
such as :class:`Within`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Required, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

T = TypeVar("T")

_DEEPEST = 50
"""Maximum nesting of lists and objects under ``Any``. Deeper values exhaust the stack of code that copies them."""
_LONGEST = 60


class Mistyped(ValueError):
    """A value does not match its field. The message has the location, the value and the expected type."""


@dataclass(frozen=True, slots=True)
class Within:
    """A rule for numbers from ``least`` to ``most``, excluding NaN."""

    least: float
    most: float

    def allows(self, value: Any) -> bool:
        """Whether a value of the right type is in the range."""
        return bool(self.least <= value <= self.most)

    def __str__(self) -> str:
        return f"a number from {self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True)
class Such:
    """A rule for values that pass a test, which may also raise ValueError. ``description`` completes "expected ..."."""

    test: Callable[[Any], object]
    description: str

    def allows(self, value: Any) -> bool:
        """Whether a value of the right type passes the test."""
        try:
            return bool(self.test(value))
        except ValueError:
            return False

    def __str__(self) -> str:
        return self.description


@dataclass(frozen=True, slots=True)
class Like:
    """A rule for objects that can be parsed as ``kind``, but are kept unchanged."""

    kind: Any


Count = Annotated[int, Within(0, 2**63 - 1)]
Positive = Annotated[int, Within(1, 2**63 - 1)]
Finite = Annotated[float, Within(-1.7976931348623157e308, 1.7976931348623157e308)]


def typed(kind: type[T], value: Any, where: str = "") -> T:
    """Convert ``value`` to ``kind``. Raises Mistyped, with a location below ``where``, and any error of ``kind``."""
    return _typed(kind, value, where)  # type: ignore[no-any-return]


def _typed(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return _bounded(value, where)
    if origin is Annotated:
        return _ruled(kind, value, where)
    if origin in (Union, UnionType):
        return _one_of(get_args(kind), value, where)
    if origin is Literal:
        if not any(type(value) is type(literal) and value == literal for literal in get_args(kind)):
            raise _mistyped(where, value, " or ".join(map(repr, get_args(kind))))
        return value
    if origin is tuple:
        return _tuple(get_args(kind), value, where)
    if origin is Required:
        return _typed(get_args(kind)[0], value, where)
    if origin is not None:  # a mapping
        return {key: _typed(get_args(kind)[1], item, f"{where}.{key}") for key, item in _object(value, where).items()}
    if is_dataclass(kind):
        return _dataclass(kind, value, where)
    if is_typeddict(kind):
        return _typed_dict(kind, value, where)
    return _scalar(kind, value, where)


def _ruled(kind: Any, value: Any, where: str) -> Any:
    plain, *rules = get_args(kind)
    result = _typed(plain, value, where)
    for rule in rules:
        if isinstance(rule, Like):
            _typed(rule.kind, value, where)
        elif not rule.allows(result):
            raise _mistyped(where, value, str(rule))
    return result


def _one_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    others = [kind for kind in kinds if kind is not NoneType]
    for kind in others[:-1]:
        try:
            return _typed(kind, value, where)
        except Mistyped:
            continue
    return _typed(others[-1], value, where)


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if not isinstance(value, list | tuple):
        raise _mistyped(where, value, "a list")
    if kinds[-1] is not Ellipsis and len(kinds) != len(value):
        raise _mistyped(where, value, f"a list of {len(kinds)}")
    of_each = [kinds[0]] * len(value) if kinds[-1] is Ellipsis else kinds
    return tuple(_typed(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(of_each, value, strict=True)))


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    hints, given = _hints(kind), _object(value, where)
    if unknown := sorted(set(given) - set(hints)):
        raise Mistyped(f"{_named(where)} has the unknown key {_in_words(unknown[0])}")
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    for name in missing:
        if name not in given:
            raise Mistyped(f"{_named(where)} has no {name!r}")
    return kind(**{name: _typed(hints[name], item, f"{where}.{name}".lstrip(".")) for name, item in given.items()})


def _typed_dict(kind: Any, value: Any, where: str) -> Any:
    given = _object(value, where)
    for name, hint in _hints(kind).items():
        if name in given:
            _typed(hint, given[name], f"{where}.{name}".lstrip("."))
        elif (
            kind.__total__ or get_origin(hint) is Required
        ):  # __required_keys__ does not see through postponed annotations
            raise Mistyped(f"{_named(where)} has no {name!r}")
    return _bounded(value, where)


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is int and (isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63):
        raise _mistyped(where, value, "a whole number of 64 bits")
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _fits(value):
            raise _mistyped(where, value, "a number")
        return value
    if not isinstance(value, kind):
        raise _mistyped(where, value, {str: "text", bool: "true or false"}.get(kind, kind.__name__))
    return value


def _fits(value: float) -> bool:
    """Whether a number fits into a float. Some integers do not."""
    try:
        math.isfinite(value)
    except OverflowError:
        return False
    return True


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _mistyped(where, value, "an object")
    return value


def _bounded(value: Any, where: str, depth: int = 0) -> Any:
    """Return the value. Raise Mistyped if it is nested too deeply."""
    if depth > _DEEPEST:
        raise Mistyped(f"{_named(where)} is nested more than {_DEEPEST} levels deep")
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in inside:
        _bounded(item, where, depth + 1)
    return value


def _mistyped(where: str, value: Any, expected: str) -> Mistyped:
    return Mistyped(f"{_named(where)} is {_in_words(value)}, expected {expected}")


def _named(where: str) -> str:
    return where.lstrip(".") or "it"


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
