"""Typed Spark columns for configured expressions: times, keys, lists of keys, and stable hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NumericType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ctr_samples.errors import InputError
from ctr_samples.sparksql.expressions import MATCH, PARSED_TIME, as_type, referenced_columns, typed_expression
from ctr_samples.sparksql.moments import example_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def micros_of(span: timedelta) -> int:
    """Convert a duration to microseconds, the unit of Spark's timestamps."""
    return span // timedelta(microseconds=1)


def micros_at(instant: datetime) -> int:
    """Convert an instant to microseconds since 1970, as in Spark's timestamps."""
    return micros_of(instant - _EPOCH)


def hint_of_parts(kind: DataType, text: str) -> str:
    """Return how to take values out of a VARIANT or a list, to append to an error. Empty for other types."""
    if isinstance(kind, ArrayType):
        return f"; set `explode: {{shown: {text}}}` of its source (`sources.<name>.explode`) for a row of each element `shown`"
    return (
        f"; take a field of it, as in variant_get({text}, '$.field', 'string')" if kind.typeName() == "variant" else ""
    )


def _wrong_type(where: str, text: str, kind: DataType, expected: str) -> InputError:
    return InputError(f"{where}: {text} is {kind.simpleString()}, expected {expected}{hint_of_parts(kind, text)}.")


def quoted(name: str) -> str:
    """Quote any column name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def later(time: Column, span: timedelta) -> Column:
    """Add an elapsed time, possibly negative, to a timestamp.

    Spark's own arithmetic follows the calendar of the session's time zone: at clock changes a day lasts 23 or 25 hours,
    and a repeated hour takes no time. Plans must therefore not add intervals to timestamps or subtract timestamps.
    """
    return F.timestamp_micros(F.unix_micros(time) + F.lit(micros_of(span)))


def time_column(frame: DataFrame, text: str, where: str) -> Column:
    """Return a timestamp column. Text is parsed in the session's time zone; unreadable text becomes null and is counted.

    Raises InputError for types that are not times.
    """
    if (parsed := f"{PARSED_TIME}{text}") in frame.columns:
        return F.col(quoted(parsed))
    column, kind = typed_expression(frame, text, where)
    if isinstance(kind, StringType):
        # Without a date, Spark would assume the current day, and the result would depend on when the job runs.
        return F.when(column.rlike(r"^\s*\d{4}-\d{1,2}-\d{1,2}"), F.try_to_timestamp(column))
    if isinstance(kind, TimestampType | TimestampNTZType | DateType):
        return as_type(column, kind, TimestampType())
    hint = hint_of_parts(kind, text)
    if isinstance(kind, INTEGERS):
        hint = f"; say its unit: timestamp_seconds({text}), timestamp_millis({text}) or timestamp_micros({text})"
    elif isinstance(kind, NumericType):
        hint = (
            f"; say what it counts since 1970, as in timestamp_seconds({text}), or timestamp_seconds(({text} - 25569) * 86400) "
            "for days since another day"
        )
    raise InputError(f"{where}: {text} is {kind.simpleString()}, expected a time{hint}.")


def unreadable_time(frame: DataFrame, text: str, where: str) -> str:
    """Describe an example of unreadable time text and suggest a fix, as the end of a sentence. Empty if all times are readable.

    Equal logs yield the same example. Runs a Spark job that reads the log, so call it only for runs that fail anyway.
    """
    names = referenced_columns(frame.sparkSession, text, where)
    raw, of = F.to_json(F.struct(*map(quoted, names))), text
    column, kind = typed_expression(frame, text, where)
    if isinstance(kind, StringType):
        raw = column
    elif len(names) == 1:
        raw, of = F.col(quoted(names[0])).cast("string"), names[0]
    row = frame.where(time_column(frame, text, where).isNull()).agg(F.min(raw)).head()
    if row is None or row[0] is None:
        return ""
    read = "" if of == text else f", which {text} does not read"
    return (
        f"{of} is {row[0]!r}, for example{read}; expected text such as '2019-06-05 10:00:00', or an expression that reads it, "
        f"such as {example_of(row[0], of)}"
    )


def with_parsed_times(frame: DataFrame, texts: Mapping[str, str]) -> DataFrame:
    """Add a parsed column for each text expression, so that :func:`time_column` does not parse it repeatedly.

    ``texts`` maps time expressions to their keys in the configuration.
    """
    parsed = {}
    for text, where in texts.items():
        if isinstance(typed_expression(frame, text, where)[1], StringType):
            parsed[f"{PARSED_TIME}{text}"] = time_column(frame, text, where)
    return frame.withColumns(parsed) if parsed else frame


def with_matches(frame: DataFrame, texts: Mapping[str, str]) -> DataFrame:
    """Add a column for each condition, which :func:`boolean_column` then finds. ``texts`` has their configuration keys."""
    return frame.withColumns({f"{MATCH}{text}": boolean_column(frame, text, where) for text, where in texts.items()})


def boolean_column(frame: DataFrame, text: str, where: str) -> Column:
    """Return a boolean column. Callers treat null as false. Raise InputError for other types."""
    if (match := f"{MATCH}{text}") in frame.columns:
        return F.col(quoted(match))
    column, kind = typed_expression(frame, text, where)
    if isinstance(kind, BooleanType):
        return column
    hint = hint_of_parts(kind, text) or f", such as `{text} = 1`"
    raise InputError(f"{where}: {text} is {kind.simpleString()}, expected a condition{hint}.")


def number_column(frame: DataFrame, text: str, where: str) -> Column:
    """Return a number as double, with -0.0 as 0.0. Non-numeric text becomes null. Raise InputError for other types."""
    column, kind = typed_expression(frame, text, where)
    if isinstance(kind, (*INTEGERS, FloatType, DoubleType, DecimalType, BooleanType, StringType)):
        return column.try_cast("double") + F.lit(0.0)
    raise _wrong_type(where, text, kind, "a number")


def without_negative_zero(column: Column, kind: DataType) -> Column:
    """Return a value of any type, with -0.0 as 0.0."""
    return column + F.lit(0).cast(kind) if isinstance(kind, FloatType | DoubleType) else column


def place_column(frame: DataFrame, text: str, where: str) -> Column:
    """Return a place in a list as int, null if it does not fit. Raise InputError for types that are no numbers."""
    column, kind = typed_expression(frame, text, where)
    if isinstance(kind, ArrayType | BinaryType | DateType | MapType | StructType | TimestampNTZType):
        raise _wrong_type(where, text, kind, "a whole number")
    return column.cast("bigint").try_cast("int")


def order_column(frame: DataFrame, text: str, where: str) -> Column:
    """Return a sort column: a number, text or a time. Raise InputError for other types."""
    column, kind = typed_expression(frame, text, where)
    if isinstance(kind, StringType):
        return _of_bytes(column, kind, text, where)
    if isinstance(kind, (*INTEGERS, FloatType, DoubleType, DecimalType, DateType, TimestampType, TimestampNTZType)):
        return column
    raise _wrong_type(where, text, kind, "a number, text or a time")


def key_column(frame: DataFrame, text: str, where: str) -> Column:
    """Return a join key: text, or an integer as bigint, so that keys of different tables are comparable.

    Raises InputError for other types, and for text under a collation.
    """
    column, kind = typed_expression(frame, text, where)
    return _as_key(column, kind, text, where)


def key_list_column(frame: DataFrame, text: str, where: str) -> Column:
    """Return a list of keys from an array, text such as ``[18577, 14299]``, or a bare key.

    Text in any other format becomes null; the caller counts the nulls.
    """
    column, kind = typed_expression(frame, text, where)
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda item: _as_key(item, kind.elementType, text, where))
    if isinstance(kind, StringType):
        return _parse_list(_of_bytes(column, kind, text, where))
    return F.array(_as_key(column, kind, text, where))


def stable_hash(salt: str, parts: Sequence[Column]) -> Column:
    """Return a 64-bit hash of several values that is equal on every run and cluster.

    Parts are joined with a separator and null has its own marker, so ("1", "23") and ("12", "3") differ.
    """
    texts = [F.coalesce(part.cast("string"), F.lit("\x00")) for part in parts]
    return F.xxhash64(F.concat_ws("\x1f", F.lit(salt), *texts))


def joint_key(keys: Sequence[Column]) -> Column:
    """Concatenate several keys into a single key, null if any part is null. A single key stays unchanged.

    Length prefixes distinguish ("1", "23") from ("12", "3"). A length counts characters. Text that is not valid UTF-8 has
    the negative number of its bytes, since programs count characters in it differently.
    """
    if len(keys) == 1:
        return keys[0]
    *others, last = [key.cast("string") for key in keys]
    return F.concat(*[part for key in others for part in (_length(key).cast("string"), F.lit(":"), key)], last)


def _length(text: Column) -> Column:
    return F.when(F.is_valid_utf8(text), F.length(text)).otherwise(-F.octet_length(text))


def content_hash(rows: DataFrame) -> Column:
    """Hash a whole row, as a last tie-breaker for a total order. See :func:`hash_of_fields`."""
    return hash_of_fields(
        [F.col(quoted(field.name)) for field in rows.schema], [field.dataType for field in rows.schema]
    )


def hash_of_fields(columns: Sequence[Column], kinds: Sequence[DataType]) -> Column:
    """Hash columns of any type, in order. Any difference visible in a sample changes the hash.

    Spark's ``xxhash64`` skips nulls at any depth, does not distinguish 0.0 from -0.0 or texts that are equal under a
    collation, and rejects maps and variants.
    """
    parts = [
        part for column, kind in zip(columns, kinds, strict=True) for part in (column.isNull(), *_exact(column, kind))
    ]
    return F.xxhash64(*parts) if parts else F.lit(0).cast("bigint")


def _exact(column: Column, kind: DataType) -> list[Column]:
    """Return ``xxhash64`` arguments that distinguish a non-null value from all other values of its type."""
    match kind:
        case FloatType() | DoubleType():
            return [column, F.when(column == 0, column.cast("string"))]
        case StringType() if kind != StringType():
            return [column.cast("binary")]  # the collation treats different texts as equal
        case ArrayType(elementType=FloatType() | DoubleType()):
            # Vectors are long, and this code is compiled, unlike a lambda. Lists with nulls yield true or null.
            has_zero_or_null = F.coalesce(F.array_contains(column, F.lit(0).cast(kind.elementType)), F.lit(True))
            return [column, F.when(has_zero_or_null, column.cast("string"))]
        case ArrayType():
            return [F.transform(column, lambda item: hash_of_fields([item], [kind.elementType]))]
        case MapType():
            # Keep the order of entries, which functions such as map_keys expose.
            entry = StructType().add("key", kind.keyType).add("value", kind.valueType)
            return _exact(F.map_entries(column), ArrayType(entry))
        case StructType():
            return [hash_of_fields([column[f.name] for f in kind.fields], [f.dataType for f in kind.fields])]
        case _ if kind.typeName() == "variant":
            # Writers may store a number in any type that holds it: shredded Parquet turns 3.0 into 3 or back.
            kinds = F.regexp_replace(F.schema_of_variant(column), r"BIGINT|DECIMAL\([0-9]+,[0-9]+\)|DOUBLE|FLOAT", "N")
            return [F.to_json(column), kinds]
        case _:
            return [column]


def _as_key(column: Column, kind: DataType, text: str, where: str) -> Column:
    if isinstance(kind, StringType):
        return _of_bytes(column, kind, text, where)
    if isinstance(kind, INTEGERS):
        return as_type(column, kind, LongType())
    raise _wrong_type(where, text, kind, "a key: text or an integer")


def _of_bytes(column: Column, kind: StringType, text: str, where: str) -> Column:
    """Return text that is compared by its bytes. Raise InputError if Spark compares it under another collation: joins in
    Python would not find what its own windows and groups find.
    """
    if kind == StringType():
        return column
    raise InputError(
        f"{where}: {text} is text under the collation {kind.collation}, expected text that is compared by its bytes; write "
        f"`cast({text} AS STRING)`, or `cast(lower({text}) AS STRING)` on all sides to ignore case."
    )


def _parse_list(text: Column) -> Column:
    # Possessive quantifiers: no position is tried twice, and Java keeps no backtracking state.
    item = r"\s*+(?:\"[^\",\[\]]++\"|[^\s\",\[\]]++)\s*+"
    bare = F.trim(text)
    inside = F.replace(F.btrim(bare, F.lit("[]")), F.lit('"'), F.lit(""))
    # Passed directly, F.trim would receive the item's index as the characters to trim.
    items = F.transform(F.split(inside, ","), lambda one: F.trim(one))  # noqa: PLW0108
    return (
        F.when(bare.rlike(rf"^(?:\[{item}(?:,{item})*+\]|{item})$"), items)
        .when(bare.rlike(r"^\[\s*\]$"), F.array().cast("array<string>"))
        .otherwise(F.lit(None))
    )


def bytes_of(column: Column, kind: DataType) -> Column:
    """Estimate the memory size of a value in bytes, 0 for null."""
    match kind:
        case StructType():
            size = reduce(Column.__add__, [bytes_of(column[f.name], f.dataType) for f in kind.fields], F.lit(0))
        case MapType():
            keys, values = F.map_keys(column), F.map_values(column)
            size = bytes_of(keys, ArrayType(kind.keyType)) + bytes_of(values, ArrayType(kind.valueType))
        case ArrayType() if isinstance(kind.elementType, StringType | BinaryType | ArrayType | MapType | StructType):
            sizes = F.transform(column, lambda item: bytes_of(item, kind.elementType))
            size = F.aggregate(sizes, F.lit(16).cast("bigint"), lambda total, one: total + one)
        case ArrayType():
            size = 16 + 8 * F.size(column)
        case StringType() | BinaryType():
            size = 16 + F.octet_length(column)
        case _:
            size = F.lit(8)
    return F.coalesce(F.when(column.isNotNull(), size), F.lit(0)).cast("bigint")
