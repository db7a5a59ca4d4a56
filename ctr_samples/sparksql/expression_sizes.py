"""Size limits of expressions and their values, since a value of two billion characters crashes the JVM."""

from __future__ import annotations

import re
from typing import Any

from ctr_samples.config.masking import written
from ctr_samples.errors import ExpressionError

LONGEST_TEXT = 20_000
MOST_BRACKETS = 50
DEEPEST = 250
"""Nesting limit. Spark's parser and planner are recursive: deeper nesting overflows the stack or takes hours."""

LARGEST = 2**20
"""Maximum number of characters or items that an expression may produce. Sizes of nested calls multiply."""

_LONGEST_SHOWN = 200
_MOST_DIGITS = 308
_SIZED = {"lpad": 1, "rpad": 1, "array_repeat": 1}
_ROUNDING = {"round", "ceil", "ceiling", "floor"}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)
_WIDTH = re.compile(r"%(?:\d+\$)?[-#+ 0,(<]*(\d+)?(?:\.(\d+))?")


def check_text(text: str, where: str) -> None:
    """Raise ExpressionError for text that is too long or has too deeply nested brackets."""
    if len(text) > LONGEST_TEXT:
        raise ExpressionError(
            f"{where} has {len(text):,} characters, expected at most {LONGEST_TEXT:,}; compute a part of it "
            "as a column of the source."
        )
    depth = deepest = 0
    for bracket in re.findall(r"[()\[\]]", _QUOTED.sub("", text)):
        depth += 1 if bracket in "([" else -1
        deepest = max(deepest, depth)
    if deepest > MOST_BRACKETS:
        raise ExpressionError(f"{where}: brackets are nested {deepest:,} deep, expected at most {MOST_BRACKETS}.")


def shown(text: str) -> str:
    """Quote an expression for an error message, as written in the file, and truncated."""
    text = written(text) or text
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


def too_deep(where: str) -> ExpressionError:
    """Create the error for an expression with too deeply nested operators."""
    return ExpressionError(
        f"{where} is nested more than {DEEPEST} levels deep; split it, or write it with fewer operators."
    )


class Sizes:
    """The product of the value sizes that the functions of one expression may return."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._product = 1

    def check(self, name: str, node: Any) -> None:
        """Raise ExpressionError if the value of a call is too large, or its size depends on the data."""
        arguments = [node.children().apply(i) for i in range(node.children().size())]
        if name in _SIZED:
            for argument in arguments[_SIZED[name] : _SIZED[name] + 1]:
                self._count(name, _integer(argument))
        elif name == "sequence" and len(arguments) >= 2:
            numbers = [number for number in map(_integer, arguments) if number is not None]
            step = abs(numbers[2]) if len(numbers) > 2 else 1
            known = len(numbers) == len(arguments)
            self._count(name, abs(numbers[1] - numbers[0]) // max(step, 1) + 1 if known else None)
        elif name == "format_string" and arguments:
            form = _literal(arguments[0])
            self._count(name, _width(str(form)) if form is not None else None)
        elif name in _ROUNDING:
            for argument in arguments[1:2]:
                digits = _integer(argument)
                if digits is None or abs(digits) > _MOST_DIGITS:
                    raise ExpressionError(
                        f"{self._where}: {name} to {_found(digits)} digits; expected a number of at most {_MOST_DIGITS}."
                    )

    def _count(self, name: str, size: int | None) -> None:
        self._product *= max(size or 1, 1)
        if size is None:
            raise ExpressionError(
                f"{self._where}: the size of what {name} returns depends on the data; expected a literal number."
            )
        if self._product > LARGEST:
            raise ExpressionError(
                f"{self._where}: {name} returns a value of {self._product:,} characters or items; expected at most {LARGEST:,}."
            )


def _found(digits: int | None) -> str:
    return "a computed number of" if digits is None else f"{digits:,}"


def _width(form: str) -> int:
    return max((int(part) for sizes in _WIDTH.findall(form) for part in sizes if part), default=1)


def _integer(node: Any) -> int | None:
    kind = node.getClass().getSimpleName()
    if kind in ("UnaryMinus", "UnaryPositive"):
        inner = _integer(node.children().apply(0))
        return -inner if inner is not None and kind == "UnaryMinus" else inner
    value = _literal(node)
    return value if isinstance(value, int) and node.dataType().simpleString() in _INTEGERS else None


def _literal(node: Any) -> Any:
    """Return the value of a literal number or text, or None for any other node."""
    if node.getClass().getSimpleName() != "Literal":
        return None
    value = node.value()
    return (
        value
        if isinstance(value, int) or value is None
        else value.toString()
        if hasattr(value, "toString")
        else str(value)
    )
