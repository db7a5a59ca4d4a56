"""Turns impressions with their views into samples: one column for each feature, in the type that the record has."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
)

from ctr_samples.config import Feature, JobConfig
from ctr_samples.config.references import SAMPLE_WEIGHT, VIEW_METADATA, mask_of
from ctr_samples.contract import DType, ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.spark.columns import INTEGERS, stable_hash
from ctr_samples.spark.expressions import referenced_columns, referenced_paths, typed_expression

IMPRESSION = "impression"
"""Column that holds an impression as a struct while views are joined to it."""

SPLIT = "_split"
SHUFFLE = "_shuffle"
"""Columns of a sample that are not in the record: where it goes, and its place in the order of the day."""

_WIRE: Mapping[str, DType] = {"int64": "int64", "float32": "float32", "string": "bytes"}
_SQL = {"int64": "bigint", "float32": "double", "string": "string"}


def view_columns(spark: SparkSession, config: JobConfig) -> dict[str, list[str]]:
    """The columns that features need of each view: all that is carried through the joins."""
    needed: dict[str, list[str]] = {name: [] for name in config.views}
    for name, feature in config.features.items():
        where = f"features.{name}.{'from' if feature.from_ else 'expr'}"
        for path in referenced_paths(spark, feature.from_ or feature.expr or "", where):
            view, column = path[0], path[1] if len(path) > 1 else ""
            if view in needed and column not in VIEW_METADATA and column not in needed[view]:
                needed[view].append(column)
    return needed


def contract_of(config: JobConfig) -> ExampleContract:
    """What the configuration promises to readers: features, labels with their masks, and the impression's id."""
    features = [
        FeatureSpec(name, _WIRE[feature.dtype], _shape(feature), nulls="fail", buckets=feature.hash_buckets)
        for name, feature in config.features.items()
    ]
    labels = []
    for name, label in config.labels.items():
        labels.append(FeatureSpec(name, "int64" if label.reduce == "any" else "float32", role="label", nulls="fail"))
        if label.reduce != "any":
            labels.append(FeatureSpec(mask_of(name), "int64", role="mask", nulls="fail"))
    key = FeatureSpec("impression_id", "int64", role="key", nulls="fail")
    weight = [FeatureSpec(SAMPLE_WEIGHT, "float32", role="weight", nulls="fail")] if config.sampling else []
    return ExampleContract((*features, *labels, *weight, key))


def make_samples(
    joined: DataFrame, config: JobConfig, contract: ExampleContract, split: Column, weight: Column | None = None
) -> DataFrame:
    """Columns of the contract in its order, then ``_split`` and ``_shuffle``. Column expressions only."""
    # What a feature may be made from, and no label. Only the schema matters for checking expressions, and an empty table
    # is analysed faster than the joins below.
    blank = joined.sparkSession.createDataFrame([], joined.select(IMPRESSION, *config.views, *config.histories).schema)
    columns = [
        feature_column(blank, name, feature, config.histories).alias(name) for name, feature in config.features.items()
    ]
    labels = [F.col(name) for name in contract.names("label", "mask")]
    impression_id = F.col(f"{IMPRESSION}.impression_id")
    return joined.select(
        *columns,
        *labels,
        *([] if weight is None else [weight.alias(SAMPLE_WEIGHT)]),
        impression_id.alias("impression_id"),
        split.alias(SPLIT),
        stable_hash("shuffle", [impression_id]).alias(SHUFFLE),
    )


def feature_column(joined: DataFrame, name: str, feature: Feature, histories: Collection[str] = ()) -> Column:
    """The column of one feature; InputError if the data have another type or form than the configuration says.

    The lists of ``histories`` have any length, so a shape cuts them or pads them at the end.
    """
    where = f"features.{name}"
    text = feature.from_ or feature.expr or ""
    column, kind = typed_expression(joined, text, where)
    if feature.hash_buckets is not None:
        return _bucket(column, feature.hash_buckets, name)
    if feature.top_k is not None:
        column = _greatest(column, kind, feature, where)
        return F.coalesce(column, _defaults(feature))
    if feature.ragged:
        items = _list_items(column, kind, feature, where, "ragged: true")
        return F.coalesce(items, F.array().cast(f"array<{_SQL[feature.dtype]}>"))
    if feature.shape and any(root in histories for root in referenced_columns(joined.sparkSession, text, where)):
        items = _list_items(column, kind, feature, where, f"shape: {list(feature.shape)}")
        return F.slice(F.concat(F.coalesce(items, F.array()), _defaults(feature)), 1, feature.shape[0])
    if feature.shape:
        return _vector(column, kind, feature, where)
    return F.coalesce(_converted(column, kind, feature, where), _default(feature))


def _bucket(column: Column, buckets: int, salt: str) -> Column:
    # Missing values share one id of their own hash; the salt keeps equal values of two features apart.
    return F.pmod(stable_hash(salt, [column]), F.lit(buckets)).cast("bigint")


def _greatest(column: Column, kind: DataType, feature: Feature, where: str) -> Column:
    """The k greatest numbers of an array or of a map's values, greatest first, padded with the default."""
    if isinstance(kind, MapType):
        column, kind = F.map_values(column), ArrayType(kind.valueType)
    if not isinstance(kind, ArrayType):
        raise InputError(f"{where}: `top_k` needs an array or a map, found {kind.simpleString()}.")
    assert feature.top_k is not None
    items = _converted_items(column, kind, feature, where)
    numbers = F.filter(items, lambda x: x.isNotNull() & ~F.isnan(x.cast("double")))
    best = F.slice(F.sort_array(numbers, asc=False), 1, feature.top_k)
    return F.slice(F.concat(best, _defaults(feature)), 1, feature.top_k)


def _vector(column: Column, kind: DataType, feature: Feature, where: str) -> Column:
    """A list of the declared length; a missing one is all default, one of another length fails when it is written."""
    items = _list_items(column, kind, feature, where, f"shape: {list(feature.shape)}")
    return F.coalesce(items, _defaults(feature))


def _list_items(column: Column, kind: DataType, feature: Feature, where: str, asked: str) -> Column:
    if not isinstance(kind, ArrayType):
        raise InputError(f"{where}: `{asked}` needs an array, found {kind.simpleString()}.")
    return _converted_items(column, kind, feature, where)


def _converted_items(column: Column, kind: ArrayType, feature: Feature, where: str) -> Column:
    _converted(column, kind.elementType, feature, where)
    return column.cast(f"array<{_SQL[feature.dtype]}>")


def _converted(column: Column, kind: DataType, feature: Feature, where: str) -> Column:
    """The column as the wire's type, unless that would lose values."""
    whole = (*INTEGERS, BooleanType)
    fits = {
        "int64": isinstance(kind, whole),
        "float32": isinstance(kind, (*whole, FloatType, DoubleType, DecimalType)),
        "string": isinstance(kind, StringType | BinaryType),
    }[feature.dtype]
    if not fits:
        expected = {"int64": "an integer or boolean", "float32": "a number", "string": "text or binary"}[feature.dtype]
        hint = ""
        if isinstance(kind, ArrayType):
            hint = "; say its length with `shape: [n]`, or that it has any with `ragged: true`"
        elif feature.dtype == "int64":
            hint = "; use `hash_buckets`, or an `expr` that casts it"
        raise InputError(
            f"{where}: found {kind.simpleString()}, expected {expected} for `dtype: {feature.dtype}`{hint}."
        )
    return column if isinstance(kind, BinaryType) else column.cast(_SQL[feature.dtype])


def _shape(feature: Feature) -> tuple[int, ...] | None:
    """The shape in the contract: None for a list of any length."""
    return None if feature.ragged else feature.shape


def _default(feature: Feature) -> Column:
    return F.lit(feature.default_value).cast(_SQL[feature.dtype])


def _defaults(feature: Feature) -> Column:
    """As many defaults as the shape says."""
    return F.array_repeat(_default(feature), feature.shape[0])
