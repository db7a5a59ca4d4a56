"""Build Spark columns from decoded features: the inverse of ``schema.features_of``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructField, StructType

from ctr_samples.codec.kernel_columns import validity
from ctr_samples.contract import ExampleContract, FeatureSpec, RecordType
from ctr_samples.errors import ContractError
from ctr_samples.sparksql.releases import arrow_schema
from ctr_samples.tfrecord.assembly import ColumnError, MisfitError, cast, lists_of_lists, map_of, struct_of, vectors_of
from ctr_samples.tfrecord.schema import TIMESTAMPS, dtype_of, features_of, is_vector, type_of

Features = Mapping[str, pa.Array]


@dataclass(frozen=True)
class ReadPlan:
    """Features to decode, and a builder for each column. Created on the driver, to check the schema, and per task."""

    contract: ExampleContract
    schema: pa.Schema
    builders: tuple[Callable[[Features], pa.Array], ...]

    def columns(self, decoded: pa.RecordBatch) -> list[pa.Array]:
        """Build one array per column of ``schema``. Raises ColumnError for a record that does not fit."""
        features = dict(zip(decoded.schema.names, decoded.columns, strict=True))
        arrays = []
        for field, build in zip(self.schema, self.builders, strict=True):
            array = build(features)
            _check_nulls(array, field, field.name)
            arrays.append(array)
        return arrays


def plan_reading(schema: StructType, record: RecordType, known: ExampleContract | None = None) -> ReadPlan:
    """Plan how to read ``schema``. ``known`` is the contract of the data, if any.

    Raises ContractError, naming the first column whose type records cannot provide.
    """
    target = arrow_schema(schema)
    if record == "byte_array":
        return _plan_byte_array(schema, target)
    specs: list[FeatureSpec] = []
    builders = []
    for field, arrow in zip(schema, target, strict=True):
        own = _specs(field, record, known)
        specs += own
        builders.append(_builder(field.name, field.dataType, arrow.type, {spec.name: spec for spec in own}))
    return ReadPlan(ExampleContract(tuple(specs), record), target, tuple(builders))


def _plan_byte_array(schema: StructType, target: pa.Schema) -> ReadPlan:
    fields = schema.fields
    if len(fields) > 1 or any(dtype_of(field.dataType) != "bytes" for field in fields):
        raise ContractError(
            f"A ByteArray record is one column of bytes or text; the schema asks for {schema.simpleString()}. "
            "Ask for one column, such as `byteArray binary`."
        )
    name = fields[0].name if fields else "byteArray"
    contract = ExampleContract((FeatureSpec(name, "bytes"),), "byte_array")
    builders = [_builder(f.name, f.dataType, target.field(0).type, {f.name: contract.features[0]}) for f in fields]
    return ReadPlan(contract, target, tuple(builders))


def _specs(field: StructField, record: RecordType, known: ExampleContract | None) -> list[FeatureSpec]:
    """Return the features of a column. Units, defaults, tensors and shapes come from the data's contract, if any."""
    if known is not None and field.name in known.names():
        there = known[field.name]
        _check_known(field, there)
        if _is_whole(there):
            return [replace(there, role="feature", nonfinite=True)]
    own = features_of(field.name, field.dataType, record)
    if known is None:
        return own
    declared = {spec.name: spec for spec in known.features}
    return [_with_declared(spec, declared.get(spec.name)) for spec in own]


def _with_declared(spec: FeatureSpec, there: FeatureSpec | None) -> FeatureSpec:
    return spec if there is None else replace(spec, unit=there.unit, nulls=there.nulls, default=there.default)


def _check_known(field: StructField, there: FeatureSpec) -> None:
    """Raise ContractError for a type that contradicts the contract. The number of values is checked per record."""
    kind, element = field.dataType.simpleString(), _element(field.dataType)
    dtype = "float32" if is_vector(element) else dtype_of(element)
    problem = None
    if dtype != there.dtype or (_is_whole(there) and _levels(field.dataType) != _levels(type_of(there))):
        problem = f"the data are {type_of(there).simpleString()}; change the schema"
    elif isinstance(element, (DateType, *TIMESTAMPS)) and there.unit is None:
        problem = "its data are plain integers; read it as bigint and convert it"
    elif isinstance(element, DateType) and there.unit != "D":
        problem = f"the data are times in {there.unit}; read it as timestamp"
    if problem:
        raise ContractError(f"Column {field.name!r} is declared as {kind}, but {problem}.")


def _is_whole(there: FeatureSpec) -> bool:
    """Whether reading the feature requires the contract: packed tensors, matrices, sequence steps."""
    return there.encoding != "list" or there.sequence or len(there.shape or ()) > 1


def _levels(kind: DataType) -> int:
    return 1 + _levels(kind.elementType) if isinstance(kind, ArrayType) else 0


def _element(kind: DataType) -> DataType:
    return _element(kind.elementType) if isinstance(kind, ArrayType) else kind


def _builder(
    name: str, kind: DataType, target: pa.DataType, specs: Mapping[str, FeatureSpec]
) -> Callable[[Features], pa.Array]:
    if name in specs and not is_vector(kind):
        return _plain(name, kind, target, specs[name])
    if is_vector(kind):
        return lambda features: vectors_of(features[name], target)
    if isinstance(kind, StructType):
        children = [
            _builder(f"{name}.{field.name}", field.dataType, target.field(i).type, specs)
            for i, field in enumerate(kind.fields)
        ]
        return lambda features: struct_of([build(features) for build in children], target)
    if isinstance(kind, MapType):
        keys = _plain(f"{name}.keys", ArrayType(kind.keyType), pa.list_(target.key_type), specs[f"{name}.keys"])
        items = _plain(f"{name}.values", ArrayType(kind.valueType), pa.list_(target.item_type), specs[f"{name}.values"])
        return lambda features: map_of(name, keys(features), items(features), target)
    inner = target.value_type
    values = _plain(f"{name}.values", kind.elementType, inner, specs[f"{name}.values"])  # type: ignore[attr-defined]
    return lambda features: lists_of_lists(name, values(features), features[f"{name}.row_lengths"], target)


def _plain(name: str, kind: DataType, target: pa.DataType, spec: FeatureSpec) -> Callable[[Features], pa.Array]:
    def build(features: Features) -> pa.Array:
        try:
            return cast(features[name], kind, target, spec.unit)
        except MisfitError as error:
            raise ColumnError(error.row, f"the value {error.value!r} of {name!r} {error.problem}") from None

    return build


def _check_nulls(array: pa.Array, field: pa.Field, name: str) -> None:
    """Raise ColumnError for a null in a column that is not nullable."""
    if not field.nullable and array.null_count:
        row = int(np.flatnonzero(~validity(array))[0])  # type: ignore[operator]
        raise ColumnError(row, f"{name!r} is absent, but the schema says NOT NULL")
    if pa.types.is_struct(field.type) and array.null_count == 0:
        for i in range(field.type.num_fields):
            inner = field.type.field(i)
            _check_nulls(array.field(i), inner, f"{name}.{inner.name}")
