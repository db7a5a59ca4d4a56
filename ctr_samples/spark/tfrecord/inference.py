"""The schema of data that come without one, from every record of every file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pyspark.sql.types import BinaryType, StructField, StructType

from ctr_samples.codec import SchemaSurvey
from ctr_samples.contract import ExampleContract, RecordType
from ctr_samples.errors import ContractError, DamagedFile, InputError
from ctr_samples.spark.tfrecord.catalog import Catalog
from ctr_samples.spark.tfrecord.files import DataFile, chunks_of
from ctr_samples.spark.tfrecord.schema import schema_of

_THREADS = 8
"""Files that are read at once. Spark asks for a schema in one process, which executors cannot help."""

BYTE_ARRAY = StructType([StructField("byteArray", BinaryType())])


def schema_for(catalog: Catalog, columns: tuple[str, ...] = ()) -> StructType:
    """What reading gives: the columns of the data, then those of the partitions; of all that, ``columns`` if it names some.

    Runs where the query is planned. Reads whole files only where nothing says what they hold. InputError when there is no
    file, ContractError when records disagree, when there are none, and for a name in ``columns`` that is no column.
    """
    if catalog.schema is None and not catalog.files:
        raise InputError(
            "The paths hold no TFRecord files from which to infer a schema; give a schema, or another path. Files in nested "
            "directories are read where these are named key=value, or with the option recursiveFileLookup."
        )
    inside = catalog.schema or _inferred(catalog)
    partitions = set(catalog.partitions.names)
    every = [field for field in inside if field.name not in partitions] + list(catalog.partitions)
    known = {field.name: field for field in every}
    missing = [name for name in columns if name not in known]
    if missing:
        raise ContractError(f"The option columns names {', '.join(missing)}; the data have {', '.join(known)}.")
    return StructType([known[name] for name in columns] if columns else every)


def _inferred(catalog: Catalog) -> StructType:
    record: RecordType = catalog.record_type or "example"
    if record == "byte_array":
        return BYTE_ARRAY
    with ThreadPoolExecutor(_THREADS) as threads:
        survey = SchemaSurvey(record)
        for other in threads.map(partial(_survey, record), catalog.files):
            survey.merge(other)
    contract = survey.contract()
    if not contract.features:
        raise ContractError(
            f"{catalog.files[0].place} and {len(catalog.files) - 1} other file(s) have no feature from which to infer a "
            "schema; give one, or set recordType if the records are no Examples."
        )
    # A list of steps is an array of arrays, also where each step happens to have one value.
    features = tuple(replace(spec, shape=None) if spec.sequence else spec for spec in contract.features)
    return schema_of(ExampleContract(features, record))


def _survey(record: RecordType, file: DataFile) -> SchemaSurvey:
    """Runs in a thread: the codec lets others work while it reads records."""
    survey = SchemaSurvey(record)
    try:
        for chunk in chunks_of(file):
            survey.add(chunk)
    except ContractError as error:
        raise ContractError(f"{file.place}: {error}") from error
    except DamagedFile as error:
        if str(error).startswith(file.place):
            raise
        raise DamagedFile(f"{file.place}: {error}") from error
    return survey
