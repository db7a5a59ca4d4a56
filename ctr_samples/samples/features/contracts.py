"""The record of a sample: its contract with readers, and the layouts that join features in it: a dense vector, indices and
values, SequenceExample FeatureLists, or the old 121 numbers.

A layout changes both the contract and the columns. Features do not depend on it. The contract needs no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql.types import ArrayType, DoubleType, LongType, StructField, StructType

from ctr_samples.config import Feature, JobConfig
from ctr_samples.config.base import LEGACY_LABEL, SAMPLE_WEIGHT, mask_of
from ctr_samples.config.feature_checks import ids_of
from ctr_samples.contract import DType, ExampleContract, FeatureSpec, ModelSteps, Part
from ctr_samples.errors import EncodeError
from ctr_samples.feature_rules import HASHED
from ctr_samples.samples.columnar.columns import Doubles, Integers, integers, spread
from ctr_samples.vocabulary import NOTHING_FITTED, FittedState

_WIRE: dict[str, DType] = {"int64": "int64", "float32": "float32", "string": "bytes", "bytes": "bytes"}


def contract_of(config: JobConfig, state: FittedState | None = None) -> ExampleContract:
    """Return the contract of a run: features, labels with masks, weight and impression id, in the output layout."""
    return laid_out(columns_contract(config, state), config)


def columns_contract(config: JobConfig, state: FittedState | None) -> ExampleContract:
    """Return the contract with one feature per configured feature, before any layout joins them."""
    features = [_spec(name, feature, config, state) for name, feature in config.features.items()]
    labels = []
    for name, label in config.labels.items():
        labels.append(FeatureSpec(name, "int64" if label.is_flag else "float32", role="label", nulls="fail"))
        if not label.is_flag:
            labels.append(FeatureSpec(mask_of(name), "int64", role="mask", nulls="fail"))
        labels += [FeatureSpec(mask, "int64", role="mask", nulls="fail") for mask in label.masks_of(name)]
    key = FeatureSpec("impression_id", "int64", role="key", nulls="fail")
    weight = [FeatureSpec(SAMPLE_WEIGHT, "float32", role="weight", nulls="fail")] if config.sampling else []
    fitted = None if state is None else state.to_contract()
    return ExampleContract((*features, *labels, *weight, key), state=fitted)


def _spec(name: str, feature: Feature, config: JobConfig, state: FittedState | None) -> FeatureSpec:
    buckets = ids_of(config, feature)
    shape = (buckets or 0,) if feature.multi_hot else None if feature.ragged else feature.shape
    return FeatureSpec(
        name,
        _WIRE[feature.dtype],
        shape,
        nulls="omit" if feature.nulls == "omit" else "fail",
        encoding=feature.encoding,
        buckets=buckets if feature.is_id else None,
        missing=HASHED.missing if feature.kind is HASHED and not feature.is_list else None,
        model=_model_steps(name, feature, state or NOTHING_FITTED) if feature.computed == "model" else None,
    )


def _model_steps(name: str, feature: Feature, state: FittedState) -> ModelSteps:
    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    boundaries = state.boundaries[name] if feature.quantiles is not None else feature.boundaries or ()
    if feature.scale is not None:
        shift, scale = state.moments[name].shift_and_scale(feature.scale)
    return ModelSteps(feature.clip, feature.log1p, shift, scale, boundaries, feature.vocabulary)


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


def lay_out(columns: Mapping[str, pa.Array], contract: ExampleContract, layout: str) -> dict[str, pa.Array]:
    """Return the columns of the layout, from the columns of the original ``contract``. Runs on executors.

    Raises EncodeError for a missing value, or a list that does not fit its shape, since it would shift all later values.
    """
    if layout in ("columns", "sequence"):
        return {name: columns[name] for name in contract.names()}
    features = [_Values.of(columns[f.name], f) for f in contract.features if f.role == "feature"]
    others = {f.name: columns[f.name] for f in contract.features if f.role != "feature"}
    if layout == "sparse":
        return _sparse(features, parts_of(contract, layout)) | others
    vector = _dense(features)
    if layout == "dense":
        return {DENSE: vector} | others
    (label,) = contract.names("label")
    return {LEGACY: vector, LEGACY_LABEL: others[label], "impression_id": others["impression_id"]}


def laid_out_kind(kinds: StructType, contract: ExampleContract, layout: str) -> StructType:
    """Return the types of the columns of :func:`lay_out`, given those of all columns of ``contract``."""
    if layout in ("columns", "sequence"):
        return StructType([kinds[name] for name in contract.names()])
    others = [kinds[f.name] for f in contract.features if f.role != "feature"]
    vector = ArrayType(DoubleType())
    if layout == "sparse":
        joined = [StructField(INDICES, ArrayType(LongType())), StructField(VALUES, vector)]
        return StructType([*joined, *others])
    if layout == "dense":
        return StructType([StructField(DENSE, vector), *others])
    (label,) = contract.names("label")
    return StructType(
        [StructField(LEGACY, vector), StructField(LEGACY_LABEL, kinds[label].dataType), kinds["impression_id"]]
    )


def _size(spec: FeatureSpec, layout: str) -> int:
    if layout == "sparse" and spec.buckets is not None:
        return spec.buckets
    return prod(spec.shape or ())


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of a feature in one list, and the number of values of each row."""

    spec: FeatureSpec
    values: pa.Array
    lengths: Integers

    @classmethod
    def of(cls, column: pa.Array, spec: FeatureSpec) -> Self:
        if column.null_count:
            raise EncodeError(f"features.{spec.name}: {_FORBIDDEN}")
        lost = EncodeError(f"features.{spec.name}: found a null inside the list; set `fill`.")
        values, lengths = column, np.ones(len(column), np.int64)
        while pt.is_list(values.type) or pt.is_large_list(values.type) or pt.is_fixed_size_list(values.type):
            if values.null_count:
                raise lost
            ends = np.concatenate([[0], np.cumsum(integers(pc.list_value_length(values)))])
            lengths = np.diff(ends[np.concatenate([[0], np.cumsum(lengths)])])
            values = values.flatten()
        if spec.shape is not None and (wrong := lengths[lengths != prod(spec.shape)]).size:
            raise EncodeError(
                f"features.{spec.name}: found {wrong[0]} values, expected {prod(spec.shape)}; set `pad: true`."
            )
        if values.null_count:
            raise lost
        return cls(spec, values, lengths)

    def entries(self, start: int) -> tuple[Integers, Integers, Doubles]:
        """Return the row, the place and the value of each non-zero value. ``start`` is the place of the first one. Ids
        of a list are ascending and distinct, and its padding is left out.
        """
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        if self.spec.buckets is not None:
            ids = integers(self.values)
            if self.spec.shape != ():
                rows, ids = np.unique(np.stack([rows, ids])[:, ids != 0], axis=1)
            return rows, ids + start, np.ones(len(ids))
        numbers = _doubles(self.values)
        inside = spread(np.zeros_like(self.lengths), self.lengths)
        kept = numbers != 0
        return rows[kept], inside[kept] + start, numbers[kept]


def _doubles(values: pa.Array) -> Doubles:
    numbers: Doubles = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _dense(features: Sequence[_Values]) -> pa.Array:
    matrix = np.hstack([_doubles(one.values).reshape(len(one.lengths), -1) for one in features])
    return _lists(np.full(len(matrix), matrix.shape[1]), pa.array(matrix.ravel()))


def _sparse(features: Sequence[_Values], parts: Sequence[Part]) -> dict[str, pa.Array]:
    entries = [one.entries(part.start) for one, part in zip(features, parts, strict=True)]
    rows, places, values = (np.concatenate(column) for column in zip(*entries, strict=True))
    order = np.argsort(rows, kind="stable")
    lengths = np.bincount(rows, minlength=len(features[0].lengths))
    return {
        INDICES: _lists(lengths, pa.array(places[order], pa.int64())),
        VALUES: _lists(lengths, pa.array(values[order], pa.float64())),
    }


def _lists(lengths: Integers, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), values)
