"""Convert column values to one of the wire types: int64, float32, bytes (float64 inside tensors).

Nulls pass through. Raises UnwritableError for a value that cannot be written faithfully. Arrow and NumPy cast whole
columns at a time, at no cost if a column already has the wire type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ctr_samples.contract import FeatureSpec
from ctr_samples.errors import ContractError

Convert = Callable[[pa.Array], pa.Array]

WIRE_TYPES = {"int64": pa.int64(), "float32": pa.float32(), "float64": pa.float64(), "bytes": pa.large_binary()}
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
NANOSECONDS = {"D": 86_400_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}

ACCEPTED = {
    "int64": "bool, int8 to int64, uint8 to uint64, date or timestamp",
    "float32": "float16, float32, float64 or decimal",
    "float64": "float16, float32, float64 or decimal",
    "bytes": "string or binary",
}


class UnwritableError(Exception):
    """Raised for a value that the wire format cannot hold. ``position`` is its index in the converted array."""

    def __init__(self, position: int, value: object, problem: str) -> None:
        super().__init__(problem)
        self.position, self.value, self.problem = position, value, problem


def converter(spec: FeatureSpec, column: str, column_type: pa.DataType, leaf: pa.DataType) -> Convert:
    """Choose the conversion from type ``leaf`` to ``spec.dtype``.

    Runs while planning. Raises ContractError, naming ``column``, if there is no faithful conversion. The returned
    function returns an array of the wire type with the same nulls, or raises :class:`UnwritableError`.
    """
    convert = _CONVERTERS[spec.dtype](spec, leaf)
    if convert is not None:
        return convert
    hint = "cast the column or change the contract's dtype"
    if spec.dtype == "int64" and _is_time(leaf):
        hint = "declare the feature's `unit` (D, s, ms, us or ns)"
    raise ContractError(
        f"Column {column!r} has the type {column_type}, but a feature of type {spec.dtype} takes {ACCEPTED[spec.dtype]}; "
        f"{hint}."
    )


def _to_int64(spec: FeatureSpec, leaf: pa.DataType) -> Convert | None:
    if leaf == pa.int64():
        return _unchanged
    if leaf == pa.uint64():
        return _from_uint64
    if pt.is_integer(leaf) or pt.is_boolean(leaf):
        return lambda array: pc.cast(array, pa.int64())
    if _is_time(leaf) and spec.unit is not None:
        return _time_converter(leaf, spec.unit)
    return None


def _to_float32(spec: FeatureSpec, leaf: pa.DataType) -> Convert | None:
    if leaf == pa.float32():
        return _unchanged
    if leaf == pa.float16():
        return lambda array: pc.cast(array, pa.float32())
    if leaf == pa.float64():
        return _from_float64
    if pt.is_decimal(leaf):
        return lambda array: _from_float64(pc.cast(array, pa.float64()))
    return None


def _to_float64(spec: FeatureSpec, leaf: pa.DataType) -> Convert | None:
    if leaf == pa.float64():
        return _unchanged
    if pt.is_floating(leaf) or pt.is_decimal(leaf):
        return lambda array: pc.cast(array, pa.float64())
    return None


def _to_bytes(spec: FeatureSpec, leaf: pa.DataType) -> Convert | None:
    if leaf == pa.large_binary():
        return _unchanged
    known = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_fixed_size_binary)
    if any(test(leaf) for test in known):
        return lambda array: pc.cast(array, pa.large_binary())
    return None


_CONVERTERS: dict[str, Callable[[FeatureSpec, pa.DataType], Convert | None]] = {
    "int64": _to_int64,
    "float32": _to_float32,
    "float64": _to_float64,
    "bytes": _to_bytes,
}


def _unchanged(array: pa.Array) -> pa.Array:
    return array


def _is_time(leaf: pa.DataType) -> bool:
    return bool(pt.is_date(leaf) or pt.is_timestamp(leaf))


def _from_uint64(array: pa.Array) -> pa.Array:
    limit = pa.scalar(2**63 - 1, pa.uint64())
    _refuse(array, pc.greater(array, limit), "does not fit into int64")
    return pc.cast(array, pa.int64())


def _from_float64(array: pa.Array) -> pa.Array:
    narrow = pc.cast(array, pa.float32(), safe=False)
    infinite = pc.is_inf(narrow)
    if pc.any(infinite).as_py():
        _refuse(array, pc.and_(infinite, pc.is_finite(array)), "becomes infinite as float32")
    return narrow


def _time_converter(leaf: pa.DataType, unit: str) -> Convert:
    source = "D" if pt.is_date32(leaf) else "ms" if pt.is_date64(leaf) else leaf.unit
    storage = pa.int32() if pt.is_date32(leaf) else pa.int64()

    def convert(array: pa.Array) -> pa.Array:
        ticks = pc.cast(array.view(storage), pa.int64())
        if NANOSECONDS[source] >= NANOSECONDS[unit]:
            factor = NANOSECONDS[source] // NANOSECONDS[unit]
            limit = (2**63 - 1) // factor
            too_far = pc.or_(pc.greater(ticks, limit), pc.less(ticks, -limit))
            _refuse(ticks, too_far, f"does not fit into int64 as {unit}")
            return pc.multiply(ticks, factor)
        return _floor_divide(ticks, NANOSECONDS[unit] // NANOSECONDS[source])

    return convert


def _floor_divide(ticks: pa.Array, divisor: int) -> pa.Array:
    """Divide and round towards the past, so that the second before 1970 is -1 and not 0."""
    toward_zero = pc.divide(ticks, divisor)
    below = pc.less(ticks, pc.multiply(toward_zero, divisor))
    return pc.subtract(toward_zero, pc.cast(below, pa.int64()))


def _refuse(array: pa.Array, wrong: pa.Array, problem: str) -> None:
    position = first_true(wrong)
    if position is not None:
        raise UnwritableError(position, array[position].as_py(), problem)


def first_true(mask: pa.Array) -> int | None:
    """Return the position of the first true value, or None. Nulls count as false."""
    position = pc.index(mask, pa.scalar(True)).as_py()
    return None if position < 0 else int(position)


def _as_float32(value: float) -> np.float32:
    if math.isfinite(value) and abs(value) > LARGEST_FLOAT32:
        raise ValueError("too large")
    return np.float32(value)


def wire_scalar(spec: FeatureSpec, value: Any, role: str) -> pa.Scalar:
    """Convert the ``default`` or ``fill`` of a contract to the wire type. Raises ContractError if that fails."""
    try:
        if spec.dtype == "bytes" and isinstance(value, str):
            value = value.encode()
        elif spec.dtype == "float32":
            value = _as_float32(value)
        return pa.scalar(value, WIRE_TYPES[spec.dtype])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ContractError(
            f"The {role} of feature {spec.name!r} is {value!r}, which is not a value of type {spec.dtype}; change the contract."
        ) from error
