"""Build Spark columns from decoded features, with checked casts: the inverse of ``schema.features_of``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from ctr_samples.codec.kernel_columns import take_apart, validity
from ctr_samples.contract import ExampleContract, FeatureSpec, RecordType, TimeUnit
from ctr_samples.errors import ContractError
from ctr_samples.sparksql.releases import arrow_schema
from ctr_samples.tfrecord.schema import TEXTS, TIMESTAMPS, dtype_of, features_of, is_vector, type_of

Features = Mapping[str, pa.Array]

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, DateType: 32}
_PER_MICROSECOND = {"D": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}


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


class MisfitError(Exception):
    """Raised for a value that its column's type cannot hold. ``row`` is its row in the array that was cast."""

    def __init__(self, row: int, value: object, problem: str) -> None:
        super().__init__(problem)
        self.row, self.value, self.problem = row, value, problem


def cast(array: pa.Array, kind: DataType, target: pa.DataType, unit: TimeUnit | None) -> pa.Array:
    """Cast values, lists or lists of lists to ``kind``. ``target`` is the Arrow type that Spark expects.

    ``unit`` is the unit of dates and timestamps. Raises MisfitError for the first value that does not fit.
    """
    if not isinstance(kind, ArrayType):
        return _cast_values(array, kind, target, unit)
    lists = take_apart(array)
    try:
        values = cast(lists.values, kind.elementType, target.value_type, unit)
    except MisfitError as error:
        raise MisfitError(lists.owner(error.row), error.value, error.problem) from None
    return _lists(target, lists.offsets, values, validity(array))


def _lists(target: pa.DataType, offsets: Any, values: pa.Array, valid: Any = None) -> pa.Array:
    """Build lists, or maps, from the offsets of the rows and the values of all. ``valid`` is None if no row is null."""
    buffers = [_bitmap(valid), pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(target, len(offsets) - 1, buffers, children=[values])


def _bitmap(valid: Any) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _cast_values(array: pa.Array, kind: DataType, target: pa.DataType, unit: TimeUnit | None) -> pa.Array:
    if isinstance(kind, BooleanType):
        _refuse(array, lambda: pc.and_(pc.not_equal(array, 0), pc.not_equal(array, 1)), "is neither 0 nor 1")
        return pc.equal(array, 1)
    if type(kind) in _BITS:
        narrow = _narrowed(array, _BITS[type(kind)], kind.simpleString())
        return narrow.view(target) if isinstance(kind, DateType) else narrow
    if isinstance(kind, TIMESTAMPS):
        return _microseconds(array, unit).view(target)
    if isinstance(kind, DecimalType):
        return _decimals(array, kind, target)
    if isinstance(kind, DoubleType):
        return pc.cast(array, target)
    return _texts(array, target) if isinstance(kind, TEXTS) else pc.cast(array, target)


def _narrowed(array: pa.Array, bits: int, name: str) -> pa.Array:
    limit = 2 ** (bits - 1)
    too_far = f"does not fit into {name}"
    _refuse(array, lambda: pc.or_(pc.less(array, -limit), pc.greater_equal(array, limit)), too_far)
    return pc.cast(array, {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}[bits])


def _microseconds(array: pa.Array, unit: TimeUnit | None) -> pa.Array:
    if unit == "ns":
        toward_zero = pc.divide(array, 1000)
        return pc.subtract(toward_zero, pc.cast(pc.less(array, pc.multiply(toward_zero, 1000)), pa.int64()))
    factor = _PER_MICROSECOND[unit or "us"]
    limit = (2**63 - 1) // factor
    _refuse(array, lambda: pc.or_(pc.less(array, -limit), pc.greater(array, limit)), "does not fit into timestamp")
    return pc.multiply(array, factor)


def _decimals(array: pa.Array, kind: DecimalType, target: pa.DataType) -> pa.Array:
    return _cast_each(pc.cast(array, pa.float64()), target, f"does not fit into {kind.simpleString()}")


def _texts(array: pa.Array, target: pa.DataType) -> pa.Array:
    return _cast_each(array, target, "is not UTF-8; read the column as binary")


def _cast_each(array: pa.Array, target: pa.DataType, problem: str) -> pa.Array:
    """Cast values of which some may not fit. Raises MisfitError for the first one."""
    try:
        return pc.cast(array, target)
    except pa.ArrowInvalid:
        for row, value in enumerate(array):
            try:
                pc.cast(value, target)
            except pa.ArrowInvalid:
                found = value.as_py()
                raise MisfitError(row, found[:40] if isinstance(found, bytes) else found, problem) from None
        raise


def _refuse(array: pa.Array, wrong: Callable[[], pa.Array], problem: str) -> None:
    position = pc.index(wrong(), pa.scalar(True)).as_py()
    if position >= 0:
        raise MisfitError(position, array[position].as_py(), problem)


class ColumnError(Exception):
    """Raised for a feature that does not fit its column, in record ``row`` of the batch."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row


def struct_of(children: list[pa.Array], target: pa.DataType) -> pa.Array:
    """Build a struct, null if all its fields are null: records do not distinguish a null struct from a struct of nulls."""
    present = np.zeros(len(children[0]), bool)
    for child in children:
        valid = validity(child)
        present |= True if valid is None else valid
    return pa.Array.from_buffers(target, len(present), [None if present.all() else _bitmap(present)], children=children)


def map_of(name: str, keys: pa.Array, items: pa.Array, target: pa.DataType) -> pa.Array:
    """Build maps from a list of keys and a list of values per row. Raises ColumnError if their lengths differ."""
    ours, theirs = take_apart(keys), take_apart(items)
    _same_lengths(name, ours.offsets, theirs.offsets, "keys and values")
    repeated = _first_repeated(keys)
    if repeated is not None:
        raise ColumnError(repeated, f"a key of {name!r} is there twice")
    pairs = target.field(0).type  # in Arrow a map is a list of structs
    entries = pa.Array.from_buffers(pairs, len(ours.values), [None], children=[ours.values, theirs.values])
    return _lists(target, ours.offsets, entries, validity(keys))


def _first_repeated(keys: pa.Array) -> int | None:
    """Return the first row with a duplicate key, which Spark's maps cannot hold, or None."""
    lists = take_apart(keys)
    rows = np.repeat(np.arange(len(keys)), np.diff(lists.offsets))
    pairs = pa.table({"row": rows, "key": lists.values})
    counted = pairs.group_by(["row", "key"]).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1))["row"]
    return pc.min(repeated).as_py() if len(repeated) else None


def lists_of_lists(name: str, values: pa.Array, lengths: pa.Array, target: pa.DataType) -> pa.Array:
    """Build a list of lists from its values and the length of each inner list."""
    flat, counts = take_apart(values), take_apart(lengths)
    sizes = counts.values.to_numpy()
    negative = np.flatnonzero(sizes < 0)
    if len(negative):
        raise ColumnError(counts.owner(int(negative[0])), f"{name!r} has a negative row length")
    # A sum of lengths beyond that of all values could wrap around to the right one.
    inner = np.concatenate([[0], np.cumsum(np.minimum(sizes, len(flat.values) + 1))])
    _same_lengths(name, inner[counts.offsets], flat.offsets, "row lengths and values")
    steps = _lists(target.value_type, inner, flat.values)
    return _lists(target, counts.offsets, steps, validity(lengths))


def vectors_of(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Build dense Spark ML vectors from lists of values."""
    count = len(values)
    lists = take_apart(values)
    doubles = pc.cast(lists.values, pa.float64())
    dense = _lists(target.field("values").type, lists.offsets, doubles)
    empty = [pa.nulls(count, target.field(part).type) for part in ("size", "indices")]
    kind = pa.repeat(pa.scalar(1, pa.int8()), count)
    return pa.Array.from_buffers(target, count, [_bitmap(validity(values))], children=[kind, *empty, dense])


def _same_lengths(name: str, left: Any, right: Any, what: str) -> None:
    wrong = np.flatnonzero(np.diff(left) != np.diff(right))
    if len(wrong):
        raise ColumnError(int(wrong[0]), f"the {what} of {name!r} do not belong together")
