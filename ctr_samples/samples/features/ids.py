"""Feature ids from hashes, vocabularies, buckets and crosses, and multi-hot vectors.

A join with the vocabulary looks up single values. Lists are looked up in a literal, a table of hash buckets whose
lookup cost does not depend on the number of tokens.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType

from ctr_samples.config import Feature, JobConfig
from ctr_samples.errors import InputError
from ctr_samples.samples.features.values import Value, bucketised, source_value
from ctr_samples.sparksql.columns import stable_hash, without_negative_zero
from ctr_samples.vocabulary import FIRST_OOV, MISSING, FittedState, FittedVocabulary

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
        token = tokens(source_value(frame, feature, f"features.{name}"))
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
