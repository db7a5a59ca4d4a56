"""Lake tables: the current version of an Iceberg or Delta table, and its rows at a given version."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The snapshot of an Iceberg table, or the version of a Delta table.

    ``version`` is a number as text, since JSON numbers have fewer digits. Delta counts versions from 0, so a
    re-created table repeats old numbers; ``table`` is therefore its id. Iceberg's numbers are random, so ``table`` is
    empty.
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
