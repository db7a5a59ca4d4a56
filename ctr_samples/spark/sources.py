"""Reads the configured inputs: which days are there, which lines are malformed, which files were seen."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, cast

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from ctr_samples.config import Source
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.spark.expressions import first_sentence

MALFORMED = "_malformed_line"
"""Column of json and csv sources: the text of a line that does not fit the schema, else null."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input file as the driver saw it before the run."""

    path: str
    bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A source as a lazy DataFrame, with what was found on the way.

    ``missing_days`` are neighbours of the run date that are not there. ``files`` is None for tables, whose content the driver
    cannot tell apart by name.
    """

    name: str
    frame: DataFrame
    missing_days: tuple[date, ...]
    files: tuple[InputFile, ...] | None

    @property
    def snapshot(self) -> dict[str, Any]:
        """What the manifest keeps about the input: counts and a fingerprint of names, sizes and times."""
        missing = [day.isoformat() for day in self.missing_days]
        if self.files is None:
            return {"files": None, "bytes": None, "fingerprint": None, "missing_days": missing}
        text = "\n".join(f"{f.path} {f.bytes} {f.modified_ms}" for f in sorted(self.files, key=lambda f: f.path))
        return {
            "files": len(self.files),
            "bytes": sum(f.bytes for f in self.files),
            "fingerprint": hashlib.sha256(text.encode()).hexdigest()[:16],
            "missing_days": missing,
        }


def read_source(spark: SparkSession, name: str, source: Source, run_date: date) -> SourceFrame:
    """A source over the days that the run needs. Runs on the driver and reads no data, only names.

    Raises InputError when the run date is missing or empty; other days may be missing and are reported.
    """
    if source.format == "table":
        return _read_table(spark, name, source, run_date)
    files, missing = _find_files(spark, name, source, run_date)
    paths = sorted({place for place, _ in files})
    return SourceFrame(name, _read_paths(spark, name, source, paths), missing, tuple(file for _, file in files))


def days_needed(source: Source, run_date: date) -> list[date]:
    """The days that a dated source is read over, in order."""
    return [run_date + timedelta(days=n) for n in range(-source.days_before, source.days_after + 1)]


def _read_table(spark: SparkSession, name: str, source: Source, run_date: date) -> SourceFrame:
    try:
        frame = spark.read.table(cast(str, source.table))
    except (AnalysisException, ParseException) as error:
        raise InputError(f"sources.{name}: the table {source.table} cannot be read: {first_sentence(error)}") from None
    if source.date_column is not None:
        days = [day.isoformat() for day in days_needed(source, run_date)]
        if source.date_column not in frame.columns:
            raise InputError(f"sources.{name}: the table {source.table} has no column {source.date_column!r}.")
        frame = frame.where(F.col(source.date_column).cast("string").isin(days))
    return SourceFrame(name, frame, (), None)


def _find_files(
    spark: SparkSession, name: str, source: Source, run_date: date
) -> tuple[list[tuple[str, InputFile]], tuple[date, ...]]:
    """The data files with the path that each was found under, and the days that have none."""
    template = cast(str, source.path)
    if "{date}" not in template:
        return [(template, file) for file in _require_files(spark, name, template)], ()
    found: list[tuple[str, InputFile]] = []
    missing = []
    for day in days_needed(source, run_date):
        path = template.replace("{date}", day.isoformat())
        files = _require_files(spark, name, path) if day == run_date else _list_files(spark, path)
        found += [(path, file) for file in files or ()]
        if not files:
            missing.append(day)
    return found, tuple(missing)


def _require_files(spark: SparkSession, name: str, path: str) -> list[InputFile]:
    files = _list_files(spark, path)
    if files is None:
        raise InputError(f"sources.{name}: there is no {path}; check the path, or wait for the job that writes it.")
    if not files:
        raise InputError(f"sources.{name}: {path} is there but holds no data file; wait for the job that writes it.")
    return files


def _list_files(spark: SparkSession, path: str) -> list[InputFile] | None:
    """All data files under a path or glob, or None where nothing matches; through Hadoop, as Spark will read them."""
    jvm = cast(Any, spark)._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    try:
        filesystem = where.getFileSystem(cast(Any, spark)._jsparkSession.sessionState().newHadoopConf())
        roots = filesystem.globStatus(where)
        if not roots:
            return None
        return [file for root in roots for file in _data_files(filesystem, root)]
    except Exception as error:
        if type(error).__name__ != "Py4JJavaError":
            raise
        reason = cast(Any, error).java_exception.toString().splitlines()[0]
        raise InputError(f"{path} cannot be listed: {reason}.") from None


def _data_files(filesystem: Any, root: Any) -> list[InputFile]:
    files = []
    listing = filesystem.listFiles(root.getPath(), True)
    depth = len(root.getPath().toString().split("/"))
    while listing.hasNext():
        status = listing.next()
        path = status.getPath().toString()
        # Spark skips names that start with _ or . at any level below the root.
        if not any(part.startswith(("_", ".")) and "=" not in part for part in path.split("/")[depth:]):
            files.append(InputFile(path, status.getLen(), status.getModificationTime()))
    return files


def _read_paths(spark: SparkSession, name: str, source: Source, paths: Sequence[str]) -> DataFrame:
    reader = spark.read
    if source.format in ("json", "csv"):
        reader = reader.schema(_schema(name, source)).option("columnNameOfCorruptRecord", MALFORMED)
    if source.format == "csv":
        reader = reader.option("header", source.header).option("sep", source.delimiter)
    try:
        return reader.format(source.format).load(list(paths))
    except AnalysisException as error:
        raise InputError(f"sources.{name}: cannot read {paths[0]}: {first_sentence(error)}") from None
    except Exception as error:
        if type(error).__name__ != "Py4JJavaError":
            raise
        reason = str(cast(Any, error).java_exception.getMessage()).splitlines()[0]
        raise InputError(f"sources.{name}: cannot read {paths[0]} as {source.format}: {reason}.") from None


def _schema(name: str, source: Source) -> StructType:
    try:
        schema = cast(StructType, StructType.fromDDL(cast(str, source.schema_)))
    except (ParseException, AnalysisException) as error:
        raise ConfigError(f"sources.{name}.schema: {first_sentence(error)}") from None
    return schema.add(MALFORMED, StringType())
