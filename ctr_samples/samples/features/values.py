"""The value of a feature: picked from lists and maps, clipped, scaled and bucketed, and its ids from hashes,
vocabularies, buckets and crosses, or a multi-hot vector of them.

A join with the vocabulary looks up single values. Lists are looked up in a literal, a table of hash buckets whose
lookup cost does not depend on the number of tokens.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, IntegerType, LongType, MapType, StringType

from ctr_samples.config import Feature, JobConfig
from ctr_samples.errors import InputError
from ctr_samples.samples.features.pairs import PAIRS
from ctr_samples.sparksql.columns import hint_of_parts, quoted, stable_hash, time_column, without_negative_zero
from ctr_samples.sparksql.expressions import typed_expression
from ctr_samples.vocabulary import FIRST_OOV, MISSING, FittedState, FittedVocabulary

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


def source_value(frame: DataFrame, name: str, feature: Feature) -> Value:
    """Return the source value of a feature. Raises InputError if the data do not have the configured form."""
    where, text = f"features.{name}", feature.from_ or feature.expr or f"{PAIRS}.{quoted(name)}"
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


MOST_TOKENS_OF_A_LIST = 200_000
"""Maximum vocabulary size for lists. Every task would take seconds to load a larger token table."""

MOST_TOKENS_BROADCAST = 2_000_000

_PER_BUCKET = 2
_TOKENS = ("string", "byte", "short", "integer", "long", "boolean", "date")


def tokens(value: Value) -> Value:
    """Return the value, or each item of a list, as vocabulary text. Empty text counts as missing."""
    if value.item.typeName() not in _TOKENS:
        raise value.refuse(
            f"found {value.kind.simpleString()}, expected text, an integer, a boolean or a date for an id."
        )
    return value.each(lambda item: F.nullif(item.cast("string"), F.lit("")), StringType())


def made_ids(value: Value, name: str, feature: Feature, state: FittedState) -> Value:
    """Return the id of a value, or of each item of a list, according to the kind of the feature."""
    if feature.vocabulary is not None:
        vocabulary = state.vocabularies[feature.vocabulary]
        return looked_up(value, vocabulary, feature.vocabulary, id_column(name))
    if feature.hash_buckets is not None:
        return hashed(value, feature.hash_buckets, feature.salt or name)
    return bucketised(value, feature.boundaries or state.boundaries[name])


def hashed(value: Value, buckets: int, salt: str) -> Value:
    """Hash values to ids starting at 1. Id 0 marks missing values and list padding. -0.0 has the id of 0.0.

    The salt keeps equal values of two features apart.
    """

    def hashed_item(item: Column) -> Column:
        return F.pmod(stable_hash(salt, [without_negative_zero(item, value.item)]), F.lit(buckets - 1)) + 1

    ids = value.each(hashed_item, LongType())
    if value.levels:
        return ids
    return Value(F.when(value.column.isNull(), F.lit(0)).otherwise(ids.column).cast("bigint"), LongType(), value.where)


def crossed(columns: Sequence[Column], buckets: int, salt: str, where: str) -> Value:
    """Hash a combination of values to one id."""
    return Value(F.pmod(stable_hash(salt, columns), F.lit(buckets)).cast("bigint"), LongType(), where)


@dataclass(frozen=True, slots=True)
class JoinedIds:
    """A single-token feature whose ids come from a join with its vocabulary."""

    feature: str
    token: Column
    vocabulary: FittedVocabulary

    @property
    def is_broadcast(self) -> bool:
        """Whether the vocabulary is broadcast to all tasks. For a larger vocabulary, Spark chooses the join."""
        return len(self.vocabulary.tokens) <= MOST_TOKENS_BROADCAST


def joined_ids(frame: DataFrame, config: JobConfig, state: FittedState) -> list[JoinedIds]:
    """Return the features whose ids :func:`with_joined_ids` adds. ``frame`` provides the types of their sources."""
    joined = []
    for name, feature in config.features.items():
        if feature.vocabulary is None or feature.computed == "model" or feature.is_list:
            continue
        token = tokens(source_value(frame, name, feature))
        if not token.levels:  # else a multi-hot feature of a list
            joined.append(JoinedIds(name, token.column, state.vocabularies[feature.vocabulary]))
    return joined


def with_joined_ids(frame: DataFrame, ids: Sequence[JoinedIds]) -> DataFrame:
    """Add an id column for each feature by joining its vocabulary, which is broadcast unless too large. Lazy."""
    for joined_id in ids:
        name, vocabulary = joined_id.feature, joined_id.vocabulary
        table = _table(frame, vocabulary).select(
            F.col("token").alias(f"_token_{name}"), F.col("id").alias(id_column(name))
        )
        if joined_id.is_broadcast:
            table = F.broadcast(table)
        with_token = frame.withColumn("_token", joined_id.token)
        joined = with_token.join(table, F.col("_token") == F.col(f"_token_{name}"), "left")
        frame = joined.drop(f"_token_{name}", "_token")
    return frame


def ids_in(row: DataFrame, ids: Sequence[JoinedIds]) -> dict[str, int | None]:
    """Return the id of each feature's token in a single row. Runs a Spark job unless there are no ``ids``."""
    if not ids:
        return {}
    found = row.select(*[one.token.alias(id_column(one.feature)) for one in ids]).collect()[0]
    return {one.feature: one.vocabulary.id_of(found[id_column(one.feature)]) for one in ids}


def with_ids(frame: DataFrame, ids: Mapping[str, int | None]) -> DataFrame:
    """Add the id columns of :func:`with_joined_ids`, each with one id in all rows. Lazy."""
    return frame.select("*", *[F.lit(found).cast("bigint").alias(id_column(name)) for name, found in ids.items()])


def id_column(name: str) -> str:
    """Return the name of the column that :func:`with_joined_ids` adds for a feature."""
    return f"_id_{name}"


def looked_up(value: Value, vocabulary: FittedVocabulary, name: str, joined: str) -> Value:
    """Return the ids of tokens: 1 for null, an OOV bucket for an unknown token.

    ``joined`` is the id column of a single value. Raises InputError if the vocabulary is too large for a list.
    """
    if not value.levels:
        ids = _with_oov(value.column, F.col(joined), vocabulary, name)
        return Value(ids, LongType(), value.where)
    if len(vocabulary.tokens) > MOST_TOKENS_OF_A_LIST:
        raise InputError(
            f"{value.where}: the vocabulary has {len(vocabulary.tokens):,} tokens, but a list is looked up in at most "
            f"{MOST_TOKENS_OF_A_LIST:,}; use `hash_buckets`, or a higher `min_count`."
        )
    table, size = _literal(vocabulary)

    def lookup(token: Column) -> Column:
        bucket = F.get(table, F.pmod(F.crc32(token), F.lit(size)).cast("int"))
        return _with_oov(token, F.try_element_at(bucket, token), vocabulary, name)

    return value.each(lookup, LongType())


def multi_hot(value: Value, buckets: int, kind: DataType) -> Column:
    """Return a vector of ``buckets`` numbers: 1 at each id, 0 elsewhere. A missing list gives all zeros."""
    ids = F.coalesce(value.column, F.array().cast("array<bigint>")) if value.levels else F.array(value.column)
    return F.transform(
        F.sequence(F.lit(0).cast("bigint"), F.lit(buckets - 1).cast("bigint")),
        lambda i: F.array_contains(ids, i).cast(kind),
    )


def _with_oov(token: Column, known_id: Column, vocabulary: FittedVocabulary, name: str) -> Column:
    bucket = F.pmod(stable_hash(f"oov {name}", [token]), F.lit(vocabulary.oov_buckets)) + FIRST_OOV
    return F.when(token.isNull(), F.lit(MISSING).cast("bigint")).otherwise(F.coalesce(known_id, bucket.cast("bigint")))


def _table(frame: DataFrame, vocabulary: FittedVocabulary) -> DataFrame:
    ids = pa.array(range(vocabulary.first_id, vocabulary.first_id + len(vocabulary.tokens)), pa.int64())
    return frame.sparkSession.createDataFrame(pa.table({"token": pa.array(vocabulary.tokens, pa.string()), "id": ids}))


def _literal(vocabulary: FittedVocabulary) -> tuple[Column, int]:
    """Return the tokens in buckets by CRC-32, as JSON that Spark parses once during planning, and the number of buckets."""
    buckets: list[dict[str, int]] = [{} for _ in range(max(1, len(vocabulary.tokens) // _PER_BUCKET))]
    for number, token in enumerate(vocabulary.tokens):
        buckets[zlib.crc32(token.encode()) % len(buckets)][token] = vocabulary.first_id + number
    return F.from_json(F.lit(json.dumps(buckets, ensure_ascii=False)), "array<map<string,bigint>>"), len(buckets)
