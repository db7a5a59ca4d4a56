"""The value of a feature before it becomes ids: picked from lists and maps, clipped, scaled and bucketed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, IntegerType, LongType, MapType

from ctr_samples.config import Feature
from ctr_samples.errors import InputError
from ctr_samples.sparksql.columns import hint_of_parts, time_column, without_negative_zero
from ctr_samples.sparksql.expressions import typed_expression

_WHOLE = ("boolean", "byte", "short", "integer", "long")
_FLOATS = ("float", "double")


@dataclass(frozen=True, slots=True)
class Value:
    """An intermediate column of a feature, with its Spark type. ``where`` is the configuration key shown in errors."""

    column: Column
    kind: DataType
    where: str

    @property
    def item(self) -> DataType:
        """Type of the value, or of the innermost items if it is a list."""
        kind = self.kind
        while isinstance(kind, ArrayType):
            kind = kind.elementType
        return kind

    @property
    def levels(self) -> int:
        """Nesting depth of the lists; 0 for a single value."""
        levels, kind = 0, self.kind
        while isinstance(kind, ArrayType):
            levels, kind = levels + 1, kind.elementType
        return levels

    def each(self, change: Callable[[Column], Column], kind: DataType) -> Value:
        """Apply ``change`` to every item, which then has the type ``kind``."""
        changed: Callable[[Column], Column] = change
        for _ in range(self.levels):
            changed = _lifted(changed)
            kind = ArrayType(kind)
        return replace(self, column=changed(self.column), kind=kind)

    def refuse(self, problem: str) -> InputError:
        """Return an InputError that names the feature."""
        return InputError(f"{self.where}: {problem}")


def source_value(frame: DataFrame, feature: Feature, where: str) -> Value:
    """Return the source value of a feature. Raises InputError if the data do not have the configured form."""
    text = feature.from_ or feature.expr or ""
    if feature.date_part is not None:
        return Value(_date_part(time_column(frame, text, where), feature.date_part), IntegerType(), where)
    column, kind = typed_expression(frame, text, where)
    value = Value(column, kind, where)
    if feature.at is not None:
        value = _looked_up(frame, value, feature.at)
    if feature.top_k is not None or feature.part == "keys" or isinstance(value.kind, MapType):
        value = _best(value, feature)
    if value.item.typeName() == "variant":
        raise value.refuse(
            f"found {value.kind.simpleString()}, expected a value of one type{hint_of_parts(value.item, text)}."
        )
    return value


def _lifted(change: Callable[[Column], Column]) -> Callable[[Column], Column]:
    return lambda items: F.transform(items, change)


def _date_part(time: Column, part: str) -> Column:
    weekday = F.weekday(time)
    parts = {
        "hour": F.hour(time),
        "weekday": weekday,
        "day": F.dayofmonth(time),
        "month": F.month(time),
        "hour_of_week": weekday * 24 + F.hour(time),
        "weekend": (weekday >= 5).cast("int"),
    }
    return parts[part]


def _looked_up(frame: DataFrame, value: Value, key: str) -> Value:
    if not isinstance(value.kind, MapType):
        raise value.refuse(f"`at` needs a map, found {value.kind.simpleString()}.")
    at, kind = typed_expression(frame, key, f"{value.where}.at")
    entry = F.try_element_at(value.column, without_negative_zero(at, kind).try_cast(value.kind.keyType))
    return replace(value, column=entry, kind=value.kind.valueType)


def _best(value: Value, feature: Feature) -> Value:
    """Return the items of a list, or the values or keys of a map, in the configured order. The smaller key wins ties."""
    kind = value.kind
    if isinstance(kind, MapType):
        weight = kind.valueType
    elif isinstance(kind, ArrayType) and feature.part == "values":
        weight = kind.elementType
    else:
        wanted = "an array or a map" if feature.part == "values" else "a map"
        key = f"`part: {feature.part}`" if feature.part == "keys" else "`top_k`"
        raise value.refuse(f"{key} needs {wanted}, found {kind.simpleString()}.")
    if not _is_number(weight):
        raise value.refuse(f"found {weight.simpleString()} in {kind.simpleString()}, expected numbers to sort by.")
    if isinstance(kind, ArrayType) or feature.part == "values":
        return replace(value, column=_first_numbers(value, feature, weight), kind=ArrayType(weight))
    first = _in_order(F.map_entries(value.column), weight, descending=feature.order != "smallest")
    if feature.top_k is not None:
        first = F.slice(first, 1, feature.top_k)
    return replace(value, column=F.transform(first, lambda e: e["key"]), kind=ArrayType(kind.keyType))


def _in_order(entries: Column, kind: DataType, *, descending: bool) -> Column:
    """Return the entries of a map, ordered by their numbers and then by their keys, without null and NaN."""
    entries = F.filter(entries, lambda e: e["value"].isNotNull())
    if kind.typeName() in _FLOATS:
        entries = F.filter(entries, lambda e: ~F.isnan(e["value"]))
    if descending and kind.typeName() not in (*_WHOLE, *_FLOATS):
        # Spark negates decimals with 34 digits. A comparator is exact, and takes twice as long.
        return F.array_sort(
            entries,
            lambda a, b: (
                F.when(a["value"] > b["value"], -1)
                .when(a["value"] < b["value"], 1)
                .when(a["key"] < b["key"], -1)
                .otherwise(1)
            ),
        )

    def order(number: Column) -> Column:
        if not descending:
            return number
        # The least integer has no negative.
        return -number if kind.typeName() in _FLOATS else F.bitwise_not(number.cast("bigint"))

    return F.sort_array(F.transform(entries, lambda e: F.struct(order(e["value"]).alias("order"), e["key"])))


def _first_numbers(value: Value, feature: Feature, kind: DataType) -> Column:
    """Like :func:`_best`, for the numbers themselves, but several times faster. -0.0 becomes 0.0."""
    items = F.map_values(value.column) if isinstance(value.kind, MapType) else value.column
    numbers, are_floats = F.array_compact(items), kind.typeName() in _FLOATS
    if are_floats:
        numbers = F.filter(numbers, lambda item: ~F.isnan(item))
    in_order = F.sort_array(numbers)  # compiled for numbers without nulls, but only ascending
    if feature.order != "smallest":
        in_order = F.reverse(in_order)
    if feature.top_k is not None:
        in_order = F.slice(in_order, 1, feature.top_k)
    return F.transform(in_order, lambda item: without_negative_zero(item, kind)) if are_floats else in_order


def _is_number(kind: DataType) -> bool:
    return kind.typeName() in (*_WHOLE, *_FLOATS) or kind.typeName().startswith("decimal")


MISSING_BUCKET = 0
"""Bucket id of a missing value and of NaN."""


def before_scaling(value: Value, feature: Feature) -> Value:
    """Apply `clip` and `log1p`. Moments and quantiles are fitted on the result. NaN and null remain unchanged."""
    if feature.clip is not None:
        low, high = feature.clip
        value = value.each(
            lambda x: _unless_missing(x, F.when(x < low, low).when(x > high, high).otherwise(x)), DoubleType()
        )
    if feature.log1p:
        value = value.each(lambda x: _unless_missing(x, _log1p(x, value.where)), DoubleType())
    return value


def scaled(value: Value, shift: Sequence[float], scale: Sequence[float]) -> Value:
    """Return ``(x - shift) / scale``. A vector has moments per position; all items of a variable-length list share them."""
    if len(shift) == 1:
        return value.each(lambda x: (x - shift[0]) / scale[0], DoubleType())
    shifts, scales = F.lit(list(shift)), F.lit(list(scale))
    # A list may be shorter or longer than its shape; it is padded or cut later.
    column = F.transform(value.column, lambda x, i: (x - F.get(shifts, i)) / F.get(scales, i))
    return Value(column, value.kind, value.where)


def bucketised(value: Value, boundaries: Sequence[float]) -> Value:
    """Return bucket ids: 0 for a missing value, else 1 plus the number of boundaries at or below the value."""

    def bucket(x: Column) -> Column:
        number = _searched(x, boundaries, MISSING_BUCKET + 1)
        return F.when(x.isNull() | F.isnan(x), MISSING_BUCKET).otherwise(number).cast("bigint")

    return value.each(bucket, LongType())


def _searched(x: Column, boundaries: Sequence[float], first: int) -> Column:
    """Return a binary search as an expression. It is shallow, and compares each row with few boundaries."""
    if not boundaries:
        return F.lit(first)
    middle = len(boundaries) // 2
    below = _searched(x, boundaries[:middle], first)
    return F.when(x < boundaries[middle], below).otherwise(_searched(x, boundaries[middle + 1 :], first + middle + 1))


def _unless_missing(x: Column, changed: Column) -> Column:
    return F.when(x.isNull() | F.isnan(x), x).otherwise(changed)


def _log1p(x: Column, where: str) -> Column:
    # Spark returns null where log1p is undefined, which would pass for a missing value.
    problem = F.concat(
        F.lit(f"{where}: found "),
        x.cast("string"),
        F.lit(", expected a number above -1 for `log1p`; set `clip: [0, ...]`."),
    )
    return F.when(x > -1, F.log1p(x)).otherwise(F.raise_error(problem).cast("double"))
