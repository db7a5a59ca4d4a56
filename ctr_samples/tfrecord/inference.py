"""Infer a schema for data that has none, from every record of every file."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from math import ceil

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from ctr_samples.codec import SchemaSurvey
from ctr_samples.codec.encoder import EncodedBatch
from ctr_samples.contract import ExampleContract, RecordType
from ctr_samples.errors import ContractError, DamagedFile, InputError
from ctr_samples.tfrecord.catalog import Catalog
from ctr_samples.tfrecord.files import DataFile, chunks_of, tolerance_of, tolerated
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.schema import schema_of

_THREADS = 8
"""Number of files read concurrently. Spark requests a schema in one process, without help from executors."""

BYTE_ARRAY = StructType([StructField("byteArray", BinaryType())])


def schema_for(catalog: Catalog, options: Options) -> StructType:
    """Return the schema to read: data and partition columns (or the columns in ``columns``), plus the file column.

    Runs while the query is planned. Reads whole files only if nothing else provides a schema. Raises InputError if
    there are no files, and ContractError if records are inconsistent, there are no records, or a name in ``columns`` is
    unknown.
    """
    schema = _schema_of_data(catalog, options)
    if options.file_column is None:
        return schema
    if options.file_column in schema.names:
        raise ContractError(
            f"The option fileColumn is {options.file_column!r}, which is already a column of the data; use another name."
        )
    return StructType([*schema, StructField(options.file_column, StringType(), nullable=False)])


def _schema_of_data(catalog: Catalog, options: Options) -> StructType:
    if catalog.schema is not None:
        chosen = _chosen(list(catalog.schema), catalog.partitions, options.columns)
        _check_conflicts(chosen, catalog)
        return chosen
    if not catalog.files:
        raise InputError(
            "The paths hold no TFRecord files to infer a schema from; give a schema, or another path. Files in nested "
            "directories are read only where these are named key=value, or with the option recursiveFileLookup."
        )
    if catalog.record_type == "byte_array":
        return _chosen(list(BYTE_ARRAY), catalog.partitions, options.columns)
    if options.columns and set(options.columns) <= set(catalog.partitions.names):
        return _chosen([], catalog.partitions, options.columns)
    return _inferred(catalog, options)


def _check_conflicts(chosen: StructType, catalog: Catalog) -> None:
    """Raise ContractError, with what can be read, if a column has different types in two writes to a table."""
    problem = next((catalog.conflicts[name] for name in chosen.names if name in catalog.conflicts), None)
    if problem is not None:
        rest = [name for name in chosen.names if name not in catalog.conflicts]
        raise ContractError(f"{problem}, so no type fits all of its files. To read the table, {_advice(rest)}.")


def _advice(names: Sequence[str]) -> str:
    """Return what to do where not all columns can be read, but those of these names can."""
    single = ",".join(name for name in names if _can_be_listed(name))
    return f"{f'set the option columns to those to read ({single}), or ' if single else ''}give a schema of your own"


def _chosen(inside: list[StructField], partitions: StructType, columns: tuple[str, ...]) -> StructType:
    every = [field for field in inside if field.name not in partitions.names] + list(partitions)
    known = {field.name: field for field in every}
    _check_columns(columns, list(known))
    return StructType([known[name] for name in columns] if columns else every)


def _check_columns(columns: tuple[str, ...], known: list[str]) -> None:
    missing = [name for name in columns if name not in known]
    if missing:
        raise ContractError(f"The option columns lists {', '.join(missing)}, but the data have {', '.join(known)}.")


def _inferred(catalog: Catalog, options: Options) -> StructType:
    survey = _surveyed(catalog, options)
    inside = [name for name in survey.names() if name not in catalog.partitions.names]
    if not inside:
        raise ContractError(
            f"{_named(catalog.files)} no feature to infer a schema from; give a schema, or set recordType if the records are "
            "not Examples."
        )
    _check_columns(options.columns, [*inside, *catalog.partitions.names])
    wanted = [name for name in inside if name in options.columns or not options.columns]
    try:
        contract = survey.contract(wanted)
    except ContractError as error:
        advice = _advice([name for name in wanted if name not in survey.conflicts()])
        raise ContractError(f"{error} To do so, {advice}.") from None
    # A list of steps is an array of arrays, even if each step happens to have one value.
    features = tuple(replace(spec, shape=None) if spec.sequence else spec for spec in contract.features)
    schema = schema_of(ExampleContract(features, contract.record), survey.binary_names())
    return _chosen(list(schema), catalog.partitions, options.columns)


def _named(files: Sequence[DataFile]) -> str:
    """Return the subject and verb of a sentence about all files."""
    first, others = files[0].location, len(files) - 1
    return f"{first} has" if not others else f"{first} and {others:,} other {'file' if others == 1 else 'files'} have"


def _can_be_listed(name: str) -> bool:
    """Whether the option ``columns`` can name the column: the option is split at commas, and names are stripped."""
    return name != "" and name == name.strip() and "," not in name


def _surveyed(catalog: Catalog, options: Options) -> SchemaSurvey:
    record: RecordType = catalog.record_type or "example"
    files = sampled(catalog.files, options.sampling_ratio)
    survey = SchemaSurvey(record)
    with ThreadPoolExecutor(_THREADS) as threads:
        for other in threads.map(partial(_survey, record, options), files):
            survey.merge(other)
    return survey


def sampled(files: Sequence[DataFile], ratio: float) -> list[DataFile]:
    """Return an evenly spaced sample of the files, at least one."""
    count = max(1, min(len(files), ceil(len(files) * ratio)))
    return [files[number * len(files) // count] for number in range(count)]


def _survey(record: RecordType, options: Options, file: DataFile) -> SchemaSurvey:
    """Survey one file. Runs in a thread: the codec releases the GIL while it reads records."""
    survey = SchemaSurvey(record)
    try:
        with tolerated(file, tolerance_of(options)):
            for chunk in chunks_of(file):
                _add(survey, chunk, file)
        if not options.columns:
            survey.check_keys()
    except ContractError as error:
        raise ContractError(
            f"{file.location}: {error} Set the option columns to those to read, or give a schema of your own."
        ) from None
    return survey


def _add(survey: SchemaSurvey, chunk: EncodedBatch, file: DataFile) -> None:
    try:
        survey.add(chunk)
    except DamagedFile as error:
        raise DamagedFile(f"{file.location}: {error}") from error
