"""Map Spark types to features on the wire and back, for one write and for all writes of a table: what a write may add, and
what a schema can read. Pure functions that run while a query is planned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VarcharType,
)

from ctr_samples.contract import DType, ExampleContract, FeatureSpec, RecordType, TimeUnit
from ctr_samples.errors import ContractError, DamagedFile
from ctr_samples.shards import TableManifest

DATE_UNIT: TimeUnit = "D"
TIMESTAMP_UNIT: TimeUnit = "us"
"""Units of dates and timestamps, counted since 1970: the resolution of Spark's own types."""

INTEGERS = (BooleanType, ByteType, ShortType, IntegerType, LongType)
FLOATS = (FloatType, DoubleType, DecimalType)
TIMESTAMPS = (TimestampType, TimestampNTZType)
TEXTS = (StringType, CharType, VarcharType)

_VECTOR_FIELDS = ["type", "size", "indices", "values"]
_TYPES: dict[DType, DataType] = {"int64": LongType(), "float32": FloatType(), "bytes": StringType()}


def dtype_of(kind: DataType) -> DType | None:
    """Return the wire type of a single value, or None if the type is not scalar or cannot be written."""
    if isinstance(kind, (*INTEGERS, DateType, *TIMESTAMPS)):
        return "int64"
    if isinstance(kind, FLOATS):
        return "float32"
    return "bytes" if isinstance(kind, (*TEXTS, BinaryType)) else None


def unit_of(kind: DataType) -> TimeUnit | None:
    """Return the unit of a date or timestamp type, or None for other types."""
    if isinstance(kind, DateType):
        return DATE_UNIT
    return TIMESTAMP_UNIT if isinstance(kind, TIMESTAMPS) else None


def is_vector(kind: DataType) -> bool:
    """Whether this is Spark ML's vector type, recognised by its struct."""
    return isinstance(kind, UserDefinedType) and getattr(kind.sqlType(), "names", None) == _VECTOR_FIELDS


def features_of(name: str, kind: DataType, record: RecordType) -> list[FeatureSpec]:
    """Return the features that represent a column. Raises ContractError, naming the column, for an unsupported type."""
    return list(_features(name, kind, record, name))


def contract_of(schema: StructType, record: RecordType) -> ExampleContract:
    """Return the contract for writing a DataFrame. Runs on the driver while the query is planned.

    Raises ContractError for a type that cannot be written, for two columns that map to the same feature, and for a
    byte_array record that is not a single column of text or bytes.
    """
    if record == "byte_array":
        return ExampleContract((_byte_array(schema),), record)
    if not schema.fields:
        raise ContractError("The DataFrame has no columns to write; keep at least one besides those of partition_by.")
    features = [spec for field in schema for spec in features_of(field.name, field.dataType, record)]
    return ExampleContract(tuple(features), record)


def schema_as_stored(schema: StructType) -> StructType:
    """Return the schema as read back: float replaces double and decimal, which records cannot hold."""
    return StructType(
        [StructField(field.name, _as_stored(field.dataType), metadata=field.metadata) for field in schema]
    )


def schema_of(contract: ExampleContract, binary: Collection[str] = ()) -> StructType:
    """Return the schema for a given or inferred contract. ``binary`` names bytes features that are not text."""
    return StructType([StructField(spec.name, type_of(spec, binary=spec.name in binary)) for spec in contract.features])


def _features(name: str, kind: DataType, record: RecordType, column: str) -> Iterator[FeatureSpec]:
    dtype = dtype_of(kind)
    if dtype is not None:
        yield FeatureSpec(name, dtype, unit=unit_of(kind))
    elif is_vector(kind):
        yield FeatureSpec(name, "float32", None)
    elif isinstance(kind, ArrayType):
        yield from _features_of_array(name, kind, record, column)
    elif isinstance(kind, MapType):
        yield _list(f"{name}.keys", kind.keyType, column, kind)
        yield _list(f"{name}.values", kind.valueType, column, kind)
    elif isinstance(kind, StructType) and kind.fields:
        for field in kind:
            yield from _features(f"{name}.{field.name}", field.dataType, record, column)
    else:
        raise _unsupported(column, kind)


def _features_of_array(name: str, kind: ArrayType, record: RecordType, column: str) -> Iterator[FeatureSpec]:
    inner = kind.elementType
    if not isinstance(inner, ArrayType):
        yield _list(name, inner, column, kind)
    elif record == "sequence_example":
        steps = _list(name, inner.elementType, column, kind)
        yield FeatureSpec(name, steps.dtype, None, unit=steps.unit, sequence=True)
    else:
        yield _list(f"{name}.values", inner.elementType, column, kind)
        yield FeatureSpec(f"{name}.row_lengths", "int64", None)


def _list(name: str, element: DataType, column: str, whole: DataType) -> FeatureSpec:
    dtype = dtype_of(element)
    if dtype is None:
        raise _unsupported(column, whole)
    return FeatureSpec(name, dtype, None, unit=unit_of(element))


def _unsupported(column: str, kind: DataType) -> ContractError:
    return ContractError(
        f"Column {column!r} has the type {kind.simpleString()}, which no record can hold; records hold numbers, text, bytes, "
        "dates and timestamps, arrays and arrays of arrays of those, maps, structs and ML vectors. "
        "Cast the column or leave it out."
    )


def _byte_array(schema: StructType) -> FeatureSpec:
    fields = schema.fields
    if len(fields) != 1 or dtype_of(fields[0].dataType) != "bytes":
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in fields) or "no column"
        raise ContractError(
            f"A ByteArray record is one column of bytes or text; found {columns}. Select one column, or use Example."
        )
    return FeatureSpec(fields[0].name, "bytes", nulls="fail")


def _as_stored(kind: DataType) -> DataType:
    if isinstance(kind, FLOATS):
        return FloatType()
    if isinstance(kind, ArrayType):
        return ArrayType(_as_stored(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_as_stored(kind.keyType), _as_stored(kind.valueType))
    return schema_as_stored(kind) if isinstance(kind, StructType) else kind


def type_of(spec: FeatureSpec, *, binary: bool = False) -> DataType:
    """Return the default type for reading a feature."""
    kind = BinaryType() if binary else _TYPES[spec.dtype]
    if spec.shape is None:
        kind = ArrayType(kind)
    for _ in spec.shape or ():
        kind = ArrayType(kind)
    return ArrayType(kind) if spec.sequence else kind


def schemas_of(manifest: TableManifest, place: str) -> list[StructType]:
    """Return the schemas of all writes. Raises DamagedFile if Spark cannot read a schema."""
    try:
        return [StructType.fromJson(dict(document)) for document in manifest.schemas]
    except Exception as error:  # Spark checks its schemas with assertions, and with whatever errors its parsers raise
        raise DamagedFile(
            f"A manifest of {place} has a schema that Spark cannot read ({type(error).__name__}: {error}); restore it."
        ) from None


def merged(schemas: Iterable[StructType]) -> StructType:
    """Return the columns of all writes, each as the first write that has it."""
    columns: dict[str, StructField] = {}
    for schema in schemas:
        for field in schema:
            columns.setdefault(field.name, field)
    return StructType(list(columns.values()))


def conflicts_of(schemas: Iterable[StructType]) -> dict[str, str]:
    """Return the columns that have different types in two writes, each with its types in words.

    Two writers at once could make such a table, before commits compared columns.
    """
    columns: dict[str, StructField] = {}
    conflicts: dict[str, str] = {}
    for schema in schemas:
        for field in schema:
            there = columns.setdefault(field.name, field)
            if there.dataType != field.dataType:
                types = f"{there.dataType.simpleString()} and then {field.dataType.simpleString()}"
                conflicts.setdefault(field.name, types)
    return conflicts


def check_names(names: Iterable[str], there: Iterable[str], place: str) -> None:
    """Raise ContractError for a name that differs only in case from another one, or from one that is ``there``."""
    exact = set(there)
    known = {name.lower(): name for name in exact}
    for name in names:
        other = name if name in exact else known.setdefault(name.lower(), name)
        if other != name:
            raise ContractError(
                f"Column {name!r} of {place} differs only in case from {other!r}, which Spark does not tell apart; "
                "rename it."
            )


def check_added(added: StructType, manifest: TableManifest, place: str) -> None:
    """Raise ContractError if Spark could not read a table any more with the columns of a write beside its own."""
    there = schemas_of(manifest, place)
    for name, types in conflicts_of([*there, added]).items():
        if name in added.names:
            raise ContractError(
                f"Column {name!r} of {place} is {types}; give each type a directory of its own, or overwrite."
            )
    whole = merged([*there, added])
    check_names(added.names, merged(there).names, place)
    try:
        contract_of(StructType([f for f in whole if f.name not in manifest.partition_by]), manifest.record_type)
    except ContractError as error:
        raise ContractError(
            f"{place} could not be read with these columns beside its own. {error} Use another directory, or overwrite."
        ) from None


def contract_for(schema: StructType, contracts: Sequence[ExampleContract]) -> ExampleContract | None:
    """Merge the features of all writes, for reading ``schema``. Return None if there is no contract.

    Where two writes have a feature of different kinds, the one that the schema asks for is taken, or else the last.
    Where only their units differ, values are plain numbers: no unit is right for all of them.
    """
    if not contracts:
        return None
    record = contracts[-1].record
    features: dict[str, FeatureSpec] = {}
    asked: Mapping[str, FeatureSpec] | None = None
    for contract in contracts:
        for spec in contract.features:
            there = features.setdefault(spec.name, spec)
            if there == spec:
                continue
            if _kind(there) == _kind(spec):
                features[spec.name] = replace(spec, unit=spec.unit if spec.unit == there.unit else None)
                continue
            if asked is None:
                asked = {own.name: own for field in schema for own in features_of(field.name, field.dataType, record)}
            if spec.name not in asked or _kind(asked[spec.name]) != _kind(there):
                features[spec.name] = spec
    return ExampleContract(tuple(features.values()), record)


def _kind(spec: FeatureSpec) -> tuple[str, bool]:
    return spec.dtype, spec.sequence
