"""The columns of a table over all of its writes: what a write may add, and what a schema can read. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql.types import StructField, StructType

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, DamagedFile
from ctr_samples.shards import TableManifest
from ctr_samples.tfrecord.schema import contract_of, features_of


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
