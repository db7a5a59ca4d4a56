"""Schemas from text without Spark, for what runs without it; and the types of the fixtures ``ddl`` and ``read``."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any

from pyspark.sql import types
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

Ddl = Callable[[str], StructType]
Read = Callable[..., list[dict[str, Any]]]

_TOKEN = re.compile(r"`(?:[^`]|``)+`|[<>(),:]|[^\s<>(),:`]+")
_SIMPLE: dict[str, DataType] = {
    "void": types.NullType(),
    "variant": types.VariantType(),
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "boolean": types.BooleanType(),
    "tinyint": types.ByteType(),
    "smallint": types.ShortType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "date": types.DateType(),
    "timestamp": types.TimestampType(),
    "timestamp_ntz": types.TimestampNTZType(),
    "interval": types.DayTimeIntervalType(0, 0),
}


def schema_from(text: str) -> StructType:
    """``schema_from("a int, b array<struct<c: string>>")``, as ``StructType.fromDDL`` returns it."""
    return _fields(deque(_TOKEN.findall(text)))


def _fields(tokens: deque[str]) -> StructType:
    kind = StructType()
    while tokens and tokens[0] != ">":
        name = tokens.popleft()
        if tokens[0] == ":":
            tokens.popleft()
        of = _type(tokens)
        required = [token.lower() for token in list(tokens)[:2]] == ["not", "null"]
        for _ in range(2 * required):
            tokens.popleft()
        kind.add(name[1:-1].replace("``", "`") if name[0] == "`" else name, of, not required)
        if tokens and tokens[0] == ",":
            tokens.popleft()
    return kind


def _type(tokens: deque[str]) -> DataType:
    word = tokens.popleft().lower()
    if word == "decimal":
        _, precision, _, scale, _ = (tokens.popleft() for _ in range(5))
        return DecimalType(int(precision), int(scale))
    if word == "interval":
        assert tokens.popleft() == "day", "other intervals are not known here"
    if word not in ("array", "map", "struct"):
        return _SIMPLE[word]
    tokens.popleft()
    kind: DataType
    if word == "struct":
        kind = _fields(tokens)
    elif word == "array":
        kind = ArrayType(_type(tokens))
    else:
        key = _type(tokens)
        tokens.popleft()
        kind = MapType(key, _type(tokens))
    tokens.popleft()
    return kind
