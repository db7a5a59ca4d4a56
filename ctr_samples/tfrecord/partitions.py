"""Write and read ``key=value`` in paths, and infer the types of partition columns. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import unquote

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from ctr_samples.errors import ContractError, InputError

NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""Directory name that Spark and Hive write for null and for the empty string, which has no name of its own."""

PARTITION_TYPES = (BooleanType, ByteType, ShortType, IntegerType, LongType, DecimalType, DateType, StringType)
"""Column types allowed as partitions: their text form is the same everywhere and in every time zone."""

_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
"""Characters that Spark escapes in partition directory names."""
_INTEGER = re.compile(r"[+-]?\d{1,4000}")
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?|NaN|-?Infinity")

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}

Values = Mapping[str, str | None]


def directory_of(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """Build ``country=US/day=1`` from the partition values of one row. The result is safe as part of any path."""
    parts = [f"{escaped(name)}={escaped(text) if text else NULL_NAME}" for name, text in zip(names, texts, strict=True)]
    return "/".join(parts)


def escaped(text: str) -> str:
    """Escape each unsafe character as ``%`` and two hex digits, like Spark."""
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", text)


def values_of(directory: str) -> dict[str, str | None]:
    """Parse and unescape the ``key=value`` parts of a path, in order. Ignores all other parts."""
    values: dict[str, str | None] = {}
    for part in directory.split("/"):
        name, equals, text = part.partition("=")
        if equals and name:
            values[unquote(name)] = None if text == NULL_NAME else unquote(text)
    return values


def inferred_columns(all_values: Iterable[Values]) -> StructType:
    """Infer the partition columns of files, each as the narrowest of int, bigint, double, date and string.

    Raises InputError if files have different partition columns. Names may differ in case; the first file's case is
    used.
    """
    every = list(all_values)
    names = list(every[0]) if every else []
    for values in every:
        if [name.lower() for name in values] != [name.lower() for name in names]:
            raise InputError(
                f"Some files have the partition columns {names}, others {list(values)}; load their directories separately."
            )
    columns = zip(*(values.values() for values in every), strict=True)
    distinct = {name: set(texts) for name, texts in zip(names, columns, strict=True)}
    return StructType([StructField(name, _narrowest(texts)) for name, texts in distinct.items()])


def _narrowest(texts: set[str | None]) -> DataType:
    there = [text for text in texts if text is not None]
    for kind in (IntegerType(), LongType(), DoubleType(), DateType()):
        if there and all(_reads_as(text, kind) for text in there):
            return kind
    return StringType()


def _reads_as(text: str, kind: DataType) -> bool:
    if isinstance(kind, DoubleType) and _INTEGER.fullmatch(text):
        kind = LongType()  # beyond bigint it is an id, not a quantity: a double would lose digits
    return _typed(text, kind) is not None


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) else None
    except ValueError:
        return None


def typed(name: str, text: str | None, kind: DataType) -> Any:
    """Parse the value of a partition column. Raises ContractError if its text does not fit the type."""
    if text is None:
        return None
    value = _typed(text, kind)
    if value is None:
        raise ContractError(
            f"The partition column {name!r} has the value {text!r}, which is not a valid {kind.simpleString()}; "
            "read it as string, or remove the column from the schema."
        )
    return value


def _typed(text: str, kind: DataType) -> Any:
    if isinstance(kind, StringType):
        return text
    if isinstance(kind, DateType):
        return _date(text)
    if isinstance(kind, BooleanType):
        return {"true": True, "false": False}.get(text.lower())
    bits = _BITS.get(type(kind))
    if bits is not None:
        fits = _INTEGER.fullmatch(text) and -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1)
        return int(text) if fits else None
    if isinstance(kind, DoubleType | FloatType):
        return float(text) if _FRACTION.fullmatch(text) else None
    if isinstance(kind, DecimalType):
        return _decimal(text, kind)
    return None


def _decimal(text: str, kind: DecimalType) -> Decimal | None:
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale))
    except InvalidOperation:
        return None
    return value if len(value.as_tuple().digits) <= kind.precision else None
