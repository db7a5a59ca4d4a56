"""Which files a query can need, by the values of their partition columns. Pure functions; Spark filters the rows itself."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda value, several: value in several,
    "StringStartsWith": lambda value, part: value.startswith(part),
    "StringEndsWith": lambda value, part: value.endswith(part),
    "StringContains": lambda value, part: part in value,
}
"""Filters of pyspark.sql.datasource by name: Spark 4.0 has none of these classes."""


def may_match(filters: list[Any], values: Mapping[str, Any]) -> bool:
    """False only when no row of a file with these partition values can pass all the filters."""
    return all(_may_pass(expression, values) for expression in filters)


def _may_pass(expression: Any, values: Mapping[str, Any]) -> bool:
    negated = type(expression).__name__ == "Not"
    inner = expression.child if negated else expression
    attribute: tuple[str, ...] = getattr(inner, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in values:
        return True
    result = _result(inner, values[attribute[0]])
    if result is _UNKNOWN:
        return True
    # A comparison with null is null, and so is its negation: neither lets a row pass.
    return result is not None and result != negated


_UNKNOWN = object()


def _result(expression: Any, value: Any) -> Any:
    """True, False, None for SQL's null, or _UNKNOWN for what cannot be told here."""
    name = type(expression).__name__
    if name in ("IsNull", "IsNotNull"):
        return (value is None) == (name == "IsNull")
    if value is not None and value != value:  # NaN: Spark's order of it is not Python's  # noqa: PLR0124
        return _UNKNOWN
    if name == "EqualNullSafe":
        return value == expression.value
    if name not in _COMPARISONS:
        return _UNKNOWN
    if value is None:
        return None
    try:
        return _COMPARISONS[name](value, expression.value)
    except (TypeError, AttributeError):
        return _UNKNOWN
