"""Layouts that join features: a dense vector, indices and values, SequenceExample FeatureLists, or the old 121 numbers.

A layout changes both the contract and the columns. Features do not depend on it.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from ctr_samples.config import JobConfig
from ctr_samples.config.base import LEGACY_LABEL
from ctr_samples.contract import ExampleContract, FeatureSpec, Part

DENSE, INDICES, VALUES, LEGACY = "features", "indices", "values", "feature"
"""Names of the features that layouts create."""

_FORBIDDEN = "found no value, which its `nulls: fail` forbids."


def laid_out(contract: ExampleContract, config: JobConfig) -> ExampleContract:
    """Convert a contract with one column per feature to the layout of the output."""
    layout = config.output.layout
    features = [f for f in contract.features if f.role == "feature"]
    others = [f for f in contract.features if f.role != "feature"]
    parts = parts_of(contract, layout)
    size = sum(part.size for part in parts)
    if layout == "dense":
        joined = [FeatureSpec(DENSE, "float32", (size,), nulls="fail")]
    elif layout == "sparse":
        indices = FeatureSpec(INDICES, "int64", None, nulls="fail", buckets=size)
        joined = [indices, FeatureSpec(VALUES, "float32", None, nulls="fail")]
    elif layout == "legacy_121":
        (label,) = (f for f in others if f.role == "label")
        joined = [FeatureSpec(LEGACY, "float64", (size,), nulls="fail", encoding="raw")]
        others = [FeatureSpec(LEGACY_LABEL, label.dtype, role="label", nulls="fail")]
    elif layout == "sequence":
        lists = [replace(f, sequence=True, shape=()) if f.shape is None else f for f in features]
        return replace(contract, features=(*lists, *others), layout=layout, record="sequence_example")
    else:
        return contract
    return replace(contract, features=(*joined, *others), layout=layout, parts=parts)


def parts_of(contract: ExampleContract, layout: str) -> tuple[Part, ...]:
    """Return the position of each feature in the layout's vector, or an empty tuple for layouts without a vector."""
    if layout in ("columns", "sequence"):
        return ()
    parts, start = [], 0
    for spec in contract.features:
        if spec.role == "feature":
            size = _size(spec, layout)
            parts.append(Part(spec.name, start, size, spec.missing))
            start += size
    return tuple(parts)


def layout_columns(rows: DataFrame, contract: ExampleContract, layout: str) -> list[Column]:
    """Return the columns of the layout, built from one column of ``rows`` per feature of the original ``contract``.

    A missing value, or a list that does not fit its shape, fails the run, because it would shift all later values.
    """
    names = contract.names()
    if layout in ("columns", "sequence"):
        return [F.col(name) for name in names]
    features = [f for f in contract.features if f.role == "feature"]
    others = [F.col(f.name) for f in contract.features if f.role != "feature"]
    if layout == "sparse":
        entries = F.concat(
            *[_entries(rows, spec, part) for spec, part in zip(features, parts_of(contract, layout), strict=True)]
        )
        indices = F.transform(entries, lambda e: e["place"]).alias(INDICES)
        return [indices, F.transform(entries, lambda e: e["value"]).alias(VALUES), *others]
    vector = F.concat(*[_numbers(rows, spec) for spec in features])
    if layout == "dense":
        return [vector.alias(DENSE), *others]
    (label,) = contract.names("label")
    return [vector.alias(LEGACY), F.col(label).alias(LEGACY_LABEL), F.col("impression_id")]


def _size(spec: FeatureSpec, layout: str) -> int:
    if layout == "sparse" and spec.buckets is not None:
        return spec.buckets
    return prod(spec.shape or ())


def _whole(rows: DataFrame, spec: FeatureSpec) -> Column:
    """Flatten the values of a feature into one list. Fails the run if they do not match its shape or contain a null."""
    column, kind = F.col(spec.name), rows.schema[spec.name].dataType
    values = column if isinstance(kind, ArrayType) else F.array(column)
    while isinstance(kind, ArrayType) and isinstance(kind.elementType, ArrayType):
        values, kind = F.flatten(values), kind.elementType
    lost = "found a null inside the list; set `fill`." if spec.shape != () else _FORBIDDEN
    checked = F.when(column.isNull(), _refused(spec, F.lit(_FORBIDDEN)))
    if spec.shape is not None:
        size = prod(spec.shape)
        counted = F.concat(F.lit("found "), F.size(values), F.lit(f" values, expected {size}; set `pad: true`."))
        checked = checked.when(F.size(values) != size, _refused(spec, counted))
    return checked.when(F.exists(values, lambda x: x.isNull()), _refused(spec, F.lit(lost))).otherwise(values)


def _refused(spec: FeatureSpec, problem: Column) -> Column:
    return F.raise_error(F.concat(F.lit(f"features.{spec.name}: "), problem))


def _numbers(rows: DataFrame, spec: FeatureSpec) -> Column:
    return _whole(rows, spec).cast("array<double>")


def _entries(rows: DataFrame, spec: FeatureSpec, part: Part) -> Column:
    """Return the non-zero values as ``(place, value)``, ascending and without duplicates. Omits padding of id lists."""
    if spec.buckets is not None:
        ids = _whole(rows, spec)
        if spec.shape != ():
            ids = F.array_sort(F.array_distinct(F.filter(ids, lambda i: i != 0)))
        return F.transform(ids, lambda i: _entry(i + part.start, F.lit(1.0)))
    numbered = F.transform(_numbers(rows, spec), lambda x, i: _entry(i.cast("bigint") + part.start, x))
    return F.filter(numbered, lambda e: e["value"] != 0)


def _entry(place: Column, value: Column) -> Column:
    return F.struct(place.cast("bigint").alias("place"), value.cast("double").alias("value"))
