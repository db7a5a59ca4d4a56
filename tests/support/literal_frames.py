"""Frames of literal rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

Frame = Callable[..., DataFrame]
"""The fixture ``frame``."""

_ZONE = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
"""What ``to_arrow_schema`` takes; Spark 4.0 asks for no zone."""


def literal(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """Like ``createDataFrame``, but the rows become part of the plan: no job of Spark's has to read them.

    Times must have a zone.
    """
    target = StructType.fromDDL(schema)
    columns = zip(*rows, strict=True) if rows else [()] * len(target)
    types = to_arrow_schema(target, **_ZONE)
    arrays = [
        pa.array([_plain(value, field.dataType) for value in column], kind)
        for column, field, kind in zip(columns, target, types.types, strict=True)
    ]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=types), target)


def _plain(value: Any, kind: DataType) -> Any:
    """The value as Arrow takes it: a struct as a dict, a map as its pairs, whatever stands for a text as a text."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        parts = value.values() if isinstance(value, dict) else value
        return {field.name: _plain(part, field.dataType) for field, part in zip(kind, parts, strict=True)}
    if isinstance(kind, ArrayType):
        return [_plain(one, kind.elementType) for one in value]
    if isinstance(kind, MapType):
        return [(_plain(key, kind.keyType), _plain(one, kind.valueType)) for key, one in value.items()]
    return str(value) if isinstance(kind, StringType) else value
