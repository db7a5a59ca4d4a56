"""Build one feature from its configuration: its source, its transformations, and its form in the record."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
)

from ctr_samples.config import Feature, JobConfig
from ctr_samples.errors import InputError
from ctr_samples.samples.features.values import (
    Value,
    before_scaling,
    crossed,
    made_ids,
    multi_hot,
    scaled,
    source_value,
    tokens,
)
from ctr_samples.sparksql.columns import INTEGERS
from ctr_samples.sparksql.expressions import as_type, referenced_columns
from ctr_samples.vocabulary import NOTHING_FITTED, FittedState

_SQL = {"int64": "bigint", "float32": "double", "string": "string", "bytes": "binary"}
_KINDS: dict[str, DataType] = {
    "int64": LongType(),
    "float32": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
}


def feature_column(
    frame: DataFrame,
    name: str,
    feature: Feature,
    config: JobConfig | None = None,
    state: FittedState | None = None,
    histories: Collection[str] = (),
) -> Column:
    """Return the column of one feature. Raises InputError if the data do not have the configured type or form.

    ``config`` and ``state`` are needed for features that refer to other features or fitted values. Lists of
    ``histories`` have any length, so a shape cuts or pads them at the end.
    """
    where = f"features.{name}"
    fitted = state or NOTHING_FITTED
    if feature.cross is not None:
        features = {} if config is None else config.features
        parts = [feature_column(frame, other, features[other], config, state, histories) for other in feature.cross]
        return crossed(parts, feature.kind.ids(feature, {}), feature.salt or name, where).column
    value = source_value(frame, name, feature)
    from_values = feature.kind.takes == "values"
    if feature.bias is not None and from_values:
        _check_bias(value, feature)
    value = _as_id_source(value, feature) if from_values else _converted(value, feature)
    missing = value.column.isNull()
    pads = (
        feature.computed == "sample"  # ids always fill their shape, tokens that a model looks up never do
        if from_values
        else feature.pad or feature.top_k is not None or _of_history(frame, feature, where, histories)
    )
    if feature.computed == "model":
        value = _filled(value, feature, feature.fill)
        if value.levels and feature.makes_ids:
            value = _filled(value, feature, feature.default_value)
        return _finished(value, feature, missing, pads)
    value = _filled(before_scaling(value, feature), feature, feature.fill)
    if feature.scale is not None:
        value = scaled(value, *fitted.moments[name].shift_and_scale(feature.scale))
    if feature.makes_ids:
        value = made_ids(value, name, feature, fitted)
    if feature.multi_hot:
        vector = multi_hot(value, feature.kind.ids(feature, fitted.vocabularies), _KINDS[feature.dtype])
        return _nulls_as_declared(vector, feature, missing)
    return _finished(value, feature, missing, pads)


def _check_bias(value: Value, feature: Feature) -> None:
    """Raise InputError unless the constant has the text that a value of the column would have, from which ids are made."""
    as_integers, as_texts = isinstance(value.kind, INTEGERS), isinstance(value.kind, StringType | BinaryType)
    wanted = bool if isinstance(value.kind, BooleanType) else int if as_integers else str if as_texts else None
    if type(feature.bias) is not wanted:
        expected = {bool: "true or false", int: "a whole number", str: "text"}
        raise InputError(
            f"{value.where}: found `bias: {feature.bias!r}` for ids of {value.kind.simpleString()}, expected "
            f"{expected[wanted] if wanted else 'a column of text, whole numbers or booleans: cast it in `expr`'}."
        )


def fitted_value(frame: DataFrame, name: str, feature: Feature) -> Value:
    """Return the values for fitting a feature: tokens for a vocabulary, or numbers after `clip` and `log1p`."""
    value = source_value(frame, name, feature)
    if feature.kind.takes == "values":
        return _as_id_source(value, feature)
    _check_form(value, feature)
    return before_scaling(value.each(lambda x: x.cast("double"), DoubleType()), feature)


def _as_id_source(value: Value, feature: Feature) -> Value:
    """Return the input of the id lookup: tokens for a vocabulary, else the unchanged values."""
    _check_levels(value, feature)
    return tokens(value) if feature.vocabulary is not None else value


def _of_history(frame: DataFrame, feature: Feature, where: str, histories: Collection[str]) -> bool:
    text = feature.from_ or feature.expr
    if not histories or not feature.shape or text is None:
        return False
    return any(root in histories for root in referenced_columns(frame.sparkSession, text, where))


def _finished(value: Value, feature: Feature, missing: Column, pads: bool) -> Column:
    """Fit the value to its shape, and replace a missing value with the default."""
    column = _fixed_length(value, feature, pads).column
    if feature.nulls == "default":
        empty = F.array().cast(f"array<{_SQL[feature.dtype]}>")
        return F.coalesce(column, empty if feature.ragged else _defaults(feature, value.levels))
    return _nulls_as_declared(column, feature, missing)


def _nulls_as_declared(column: Column, feature: Feature, missing: Column) -> Column:
    """Set a missing value to null unless the feature has a default. The contract then defines how to handle it."""
    return column if feature.nulls == "default" else F.when(~missing, column)


def _fixed_length(value: Value, feature: Feature, pads: bool) -> Value:
    """Cut or pad a list to its shape. Without ``pads``, a list of the wrong length fails at write time."""
    if not (pads and feature.shape):
        return value
    size = feature.shape[0] if value.levels == len(feature.shape) else prod(feature.shape)
    padded = F.slice(F.concat(value.column, _defaults(feature, value.levels)), 1, size)
    return Value(padded, value.kind, value.where)


def _filled(value: Value, feature: Feature, by: Any) -> Value:
    """Replace nulls inside a list ``by`` a value, if there is one."""
    if by is None:
        return value
    fill = F.lit(by).cast(_SQL[feature.dtype])
    return value.each(lambda item: F.coalesce(item, fill), _KINDS[feature.dtype])


def _check_form(value: Value, feature: Feature) -> None:
    """Raise InputError unless lists appear only where the configuration has them and the items fit its dtype."""
    _check_levels(value, feature)
    whole = (*INTEGERS, BooleanType)
    numeric = (*whole, FloatType, DoubleType, DecimalType)
    accepted: dict[str, tuple[type[DataType], ...]] = {
        "int64": numeric if feature.bucketises else whole,
        "float32": numeric,
        "string": (StringType, BinaryType),
        "bytes": (StringType, BinaryType),
    }
    if not isinstance(value.item, accepted[feature.dtype]):
        expected = "a number" if feature.bucketises else _scalar_of(feature)
        hint = "; use `hash_buckets`, or an `expr` that casts it" if feature.dtype == "int64" else ""
        raise value.refuse(
            f"found {value.kind.simpleString()}, expected {expected} for `dtype: {feature.dtype}`{hint}."
        )


def _check_levels(value: Value, feature: Feature) -> None:
    if feature.multi_hot and value.levels <= 1:
        return
    if feature.multi_hot:
        raise value.refuse(
            f"found {value.kind.simpleString()}, which is nested {value.levels} deep, but `multi_hot` takes a value or a "
            "list; flatten it with an `expr`."
        )
    if not feature.is_list and value.levels:
        raise value.refuse(
            f"found {value.kind.simpleString()}, expected {_scalar_of(feature)} for `dtype: {feature.dtype}`; set `shape: [n]` "
            "for a fixed length, or `ragged: true` for any length."
        )
    if feature.is_list and not value.levels:
        asked = "ragged: true" if feature.ragged else f"shape: {list(feature.shape)}"
        raise value.refuse(f"`{asked}` needs an array, found {value.kind.simpleString()}.")
    if value.levels > 1 and value.levels != len(feature.shape):
        raise value.refuse(
            f"found {value.kind.simpleString()}, which is nested {value.levels} deep, but `shape: {list(feature.shape)}` has "
            f"{len(feature.shape)} dimension(s); give one number per level, or flatten it with an `expr`."
        )


def _scalar_of(feature: Feature) -> str:
    return {"int64": "an integer or boolean", "float32": "a number"}.get(feature.dtype, "text or binary")


def _converted(value: Value, feature: Feature) -> Value:
    """Convert the items to the wire type. Numbers that later become bucket ids remain numbers.

    Raises InputError unless lists appear only where the configuration has them and the items fit its dtype.
    """
    _check_form(value, feature)
    dtype = "float32" if feature.bucketises else feature.dtype
    if isinstance(value.item, BinaryType):
        return value
    kind: DataType = _KINDS[dtype]
    for _ in range(value.levels):
        kind = ArrayType(kind)
    return Value(as_type(value.column, value.kind, kind), kind, value.where)


def _defaults(feature: Feature, levels: int) -> Column:
    """Return the default value, repeated to fill the shape and nested as deeply as the data."""
    column = F.lit(feature.default_value).cast(_SQL[feature.dtype])
    for size in reversed(feature.shape if levels == len(feature.shape) else (prod(feature.shape),)):
        column = F.array_repeat(column, size)
    return column
