"""Lake tables: which version of an Iceberg or Delta table there is, and the rows of one."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A snapshot of an Iceberg table, or a version of a Delta table.

    ``version`` is its number as text, since JSON's numbers have fewer digits. Delta counts versions from 0, so that a table
    that was made anew has the numbers of the old one: ``table`` is its id. Iceberg's numbers are random; there it is empty.
    """

    format: str
    version: str
    table: str = ""


def current_version(spark: SparkSession, table: str) -> TableVersion | None:
    """The version of a table that readers see now; None for tables of other formats, views, and Iceberg tables without data.

    Runs on the driver; reads metadata of the table. ``table`` must be a name that Spark has parsed.
    """
    try:
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
        # The columns come first, and one of them may have this name too.
        provider = next((row.data_type for row in reversed(described) if row.col_name == "Provider"), "").lower()
        if provider == "iceberg":
            snapshots = spark.read.table(f"{table}.refs").where("name = 'main'").select("snapshot_id").collect()
            return TableVersion(provider, str(snapshots[0].snapshot_id)) if snapshots else None
        if provider == "delta":
            version = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("version").collect()[0].version
            return TableVersion(provider, str(version), spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].id)
    except AnalysisException:  # A branch of a table, a function with arguments: whatever has no versions of its own.
        return None
    return None


def rows_of_version(spark: SparkSession, table: str, version: TableVersion) -> DataFrame:
    """The rows of a table as they were in a version."""
    # Spark has parsed the name, and the other part is a number.
    return spark.sql(f"SELECT * FROM {table} VERSION AS OF {int(version.version)}")  # noqa: S608
