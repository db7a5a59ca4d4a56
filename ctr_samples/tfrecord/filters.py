"""Which files and rows a query can need, by the filters that Spark tells of. Pure functions; Spark filters the rest itself."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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

_KERNELS: dict[str, Callable[[pa.Array, Any], pa.Array]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
    "In": lambda array, several: pc.is_in(array, pa.array(several, array.type)),
    "StringStartsWith": pc.starts_with,
    "StringEndsWith": pc.ends_with,
    "StringContains": pc.match_substring,
}


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


def rows_needed(filters: list[Any], columns: Mapping[str, pa.Array]) -> pa.Array | None:
    """Whether each row may pass all the filters (null: no), or None where nothing can be told from these columns."""
    needed = None
    for expression in filters:
        passes = _passes(expression, columns)
        if passes is not None:
            needed = passes if needed is None else pc.and_(needed, passes)
    return needed


def _passes(expression: Any, columns: Mapping[str, pa.Array]) -> pa.Array | None:
    negated = type(expression).__name__ == "Not"
    inner = expression.child if negated else expression
    attribute: tuple[str, ...] = getattr(inner, "attribute", ())
    array = columns.get(attribute[0]) if len(attribute) == 1 else None
    if array is None or not _has_order_of_spark(array.type):
        return None
    passes = _compared(inner, array)
    if passes is None:
        return None
    if negated:
        passes = pc.invert(passes)
    # Spark holds NaN for greater than all numbers and equal to itself: it looks at these rows itself.
    return pc.or_kleene(passes, pc.is_nan(array)) if pa.types.is_floating(array.type) else passes


def _compared(expression: Any, array: pa.Array) -> pa.Array | None:
    name = type(expression).__name__
    if name in ("IsNull", "IsNotNull"):
        return array.is_null() if name == "IsNull" else array.is_valid()
    value = getattr(expression, "value", None)
    if name not in _KERNELS or value is None or value != value:  # noqa: PLR0124
        return None
    try:
        return _KERNELS[name](array, value)
    except (pa.ArrowException, TypeError):
        return None


def _has_order_of_spark(kind: pa.DataType) -> bool:
    types = pa.types
    return any((types.is_integer(kind), types.is_floating(kind), types.is_boolean(kind), types.is_string(kind)))
