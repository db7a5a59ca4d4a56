"""Databases over JDBC, whose driver must be on Spark's class path, and versions of lake tables. No message has a password."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from ctr_samples.config import DatabaseSource, Source
from ctr_samples.config.masking import masked, tells, written
from ctr_samples.errors import InputError
from ctr_samples.sparksql.columns import quoted
from ctr_samples.sparksql.failures import SPARK_FAILURES, expected_errors

_EXCEPTION = re.compile(r"(?<![\w.$])(?P<kind>(?:[a-z]\w*\.)+[\w$]*(?:Exception|Error)): (?=(?P<said>[^\n]+))")
"""Matches a Java exception and its message, which may contain a further exception on the same line."""

_NO_DRIVER = (
    "Spark does not find the driver {driver}; give its jar to spark-submit by `--jars`, or its coordinates by `--packages`, "
    "and name its class, as in `driver: org.postgresql.Driver`"
)

_ROWS_AT_ONCE = 10_000
"""Fetch size. Without it some drivers, such as PostgreSQL's, would read a whole table into memory."""


def open_database_table(spark: SparkSession, source: DatabaseSource) -> DataFrame:
    """Return the lazy frame of a JDBC source. Runs on the driver. Queries the database for its columns but reads no rows."""
    reader = spark.read.format("jdbc").option("url", source.url).option("fetchsize", _ROWS_AT_ONCE)
    table = source.table if source.table is not None else f"({source.query}) ctr_samples_query"
    # A time without a zone is in the configured time zone. Spark must not interpret it in the machine's zone.
    reader = reader.option("preferTimestampNTZ", True).option("dbtable", table)
    for key, value in (("user", source.user), ("password", source.password), ("driver", source.driver)):
        if value is not None:
            reader = reader.option(key, value)
    if source.partition is not None:
        cut = source.partition
        reader = reader.option("partitionColumn", cut.column).option("numPartitions", cut.count)
        reader = reader.option("lowerBound", str(cut.lower)).option("upperBound", str(cut.upper))
    return _with_wall_clocks(spark, reader.load(), source.url)


def place_of(source: DatabaseSource) -> str:
    """Return the database and its table or query, with possible secrets removed."""
    what = f"the table {source.table}" if source.table else "the query"
    return f"{what} of {written(source.url) or shown_url(source.url)}"


def shown_url(url: str) -> str:
    """Return a JDBC URL up to its parameters, without user and password: ``jdbc:postgresql://db:5432/shop``."""
    return re.sub(r"//[^/@]*@", "//", re.split(r"[?;]", url)[0])


@contextmanager
def without_secrets(what: str, source: DatabaseSource) -> Iterator[None]:
    """Turn database errors into a one-sentence InputError without the URL and the password."""
    try:
        yield
    except SPARK_FAILURES as error:
        raise InputError(f"{what}: {_reason(error, source)}.") from None


@contextmanager
def errors_of_sources(sources: Mapping[str, Source]) -> Iterator[None]:
    """Like :func:`expected_errors`, for a block that reads ``sources``. Database messages may contain secrets."""
    with expected_errors(partial(database_error, sources=sources)):
        yield


def database_error(error: Exception, sources: Mapping[str, Source]) -> InputError | None:
    """Return the cause of a job failure if a task failed to read a database, or None if no database is involved.

    A task's error arrives as the text of its Java exceptions, the last of which is the cause. A driver, or Spark
    itself, may include the URL with all its parameters.
    """
    read = {name: source for name, source in sources.items() if isinstance(source, DatabaseSource)}
    text = str(error)
    from_driver = [found["said"] for found in _EXCEPTION.finditer(text) if _is_of_driver(found["kind"])]
    named = {name: source for name, source in read.items() if source.url in text}
    if not read or not (from_driver or named):
        return None
    which = named or read
    what = ", or ".join(f"sources.{name}: {place_of(source)}" for name, source in which.items())
    reason = _redacted(from_driver[-1], read.values()) if from_driver else "a task failed while reading its rows"
    return InputError(f"{what} cannot be read: {reason}.")


def _is_of_driver(kind: str) -> bool:
    """Whether a Java exception comes from java.sql or a driver, such as ``org.postgresql.util.PSQLException``."""
    package, _, name = kind.rpartition(".")
    return not package.startswith("org.apache.spark") and ("SQL" in name or ".jdbc" in package)


def _with_wall_clocks(spark: SparkSession, frame: DataFrame, url: str) -> DataFrame:
    """Restore times without a zone to the database's values. Most Spark dialects shift them by Java's zone offset."""
    jvm = cast(Any, spark)._jvm
    noon = jvm.java.sql.Timestamp.valueOf("2019-06-05 12:00:00")
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url)
    if dialect.convertJavaTimestampToTimestampNTZ(noon).getHour() == noon.getHours():
        return frame
    zone = F.lit(jvm.java.util.TimeZone.getDefault().getID())
    moved = [f.name for f in frame.schema if isinstance(f.dataType, TimestampNTZType)]
    return frame.withColumns({name: F.convert_timezone(F.lit("UTC"), zone, F.col(quoted(name))) for name in moved})


def _reason(error: Exception, source: DatabaseSource) -> str:
    """Return the first line of the error, without secrets, or a hint if the JDBC driver is missing."""
    java = getattr(error, "java_exception", None)
    # For a failed connection, Spark reports only the failure. The driver's message is in the cause.
    text = str(getattr(error, "_cause", None) or error) if java is None else str(java.getMessage())
    if text == "No suitable driver" or (java is not None and "ClassNotFound" in java.getClass().getName()):
        return _NO_DRIVER.format(driver=source.driver or "for its address")
    line = (text.strip().splitlines() or [""])[0]
    return _redacted(re.sub(r"^(?:[a-z]\w*\.)+[\w$]+: ", "", line), [source])


def _redacted(line: str, sources: Collection[DatabaseSource]) -> str:
    """Return a message of Spark or a driver without Spark's markup. A message with a secret is replaced entirely."""
    line = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", line)
    line = re.split(r"\s*SQLSTATE: ", line)[0].rstrip(".; ")
    for url in (source.url for source in sources):
        line = line.replace(url, shown_url(url))
    line = masked(line)
    if tells(line) or any(secret.lower() in line.lower() for source in sources for secret in _secrets_of(source)):
        return "the database refused with a message that contains a secret"
    return line


def _secrets_of(source: DatabaseSource) -> list[str]:
    """Return the password, the parameter values of the URL, and the part before its ``@``."""
    url = source.url
    parts = [
        *re.findall(r"=([^;&?]+)", url),
        *re.findall(r"//([^/@]*)@", url),
        *re.findall(r"//[^/@:]*:([^/@]*)@", url),
    ]
    return [part for part in (source.password, *parts) if part]


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The snapshot of an Iceberg table, or the version of a Delta table.

    ``version`` is a number as text, since JSON numbers have fewer digits. Delta counts versions from 0, so a re-created table
    repeats old numbers; ``table`` is therefore its id. Iceberg's numbers are random, so ``table`` is empty.
    """

    format: str
    version: str
    table: str = ""


def current_version(spark: SparkSession, table: str) -> TableVersion | None:
    """Return the current version of a table, or None for other formats, views, and Iceberg tables without data.

    Runs on the driver and reads table metadata. ``table`` must be a name that Spark has parsed.
    """
    try:
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
        # The columns come first, and one of them may have the name "Provider".
        provider = next((row.data_type for row in reversed(described) if row.col_name == "Provider"), "").lower()
        if provider == "iceberg":
            snapshots = spark.read.table(f"{table}.refs").where("name = 'main'").select("snapshot_id").collect()
            return TableVersion(provider, str(snapshots[0].snapshot_id)) if snapshots else None
        if provider == "delta":
            version = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("version").collect()[0].version
            return TableVersion(provider, str(version), spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].id)
    except AnalysisException:  # A branch of a table, a function with arguments, or any other name without versions.
        return None
    return None


def rows_of_version(spark: SparkSession, table: str, version: TableVersion) -> DataFrame:
    """Return the rows of a table at a given version."""
    # Spark has parsed the name, and the version is a number.
    return spark.sql(f"SELECT * FROM {table} VERSION AS OF {int(version.version)}")  # noqa: S608
