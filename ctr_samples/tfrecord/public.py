"""Functions for users: register the format with a session, and write with partitions and all four modes."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Literal
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ctr_samples.errors import ContractError, InputError, PublishConflict, UsageError
from ctr_samples.shards import Table, open_storage
from ctr_samples.sparksql.failures import expected_errors
from ctr_samples.sparksql.session import make_active
from ctr_samples.tfrecord.data_source import TfrecordSource, TfrecordsSource
from ctr_samples.tfrecord.files import Packing, packing_of
from ctr_samples.tfrecord.options import PartitionOverwrite, partition_overwrite_named
from ctr_samples.tfrecord.partitions import PARTITION_TYPES

WriteMode = Literal["errorifexists", "error", "append", "overwrite", "ignore"]

_known: WeakKeyDictionary[SparkSession, Packing] = WeakKeyDictionary()


def register(spark: SparkSession) -> None:
    """Register ``format("tfrecord")`` with a session, also as ``tfrecords``. Runs on the driver, in each thread that writes:
    Spark looks for the format in the session that is active there.

    Copies ``spark.sql.files.maxPartitionBytes``, ``openCostInBytes`` and ``minPartitionNum``, which Spark does not pass
    to a Python data source later. A second call only copies changed values. Does not change the session's settings.
    """
    make_active(spark)
    packing = packing_of(spark)
    if _known.get(spark) == packing:
        return
    for source in (TfrecordSource, TfrecordsSource):
        spark.dataSource.register(_with_packing(source, packing))
    _known[spark] = packing


def _with_packing(source: type[TfrecordSource], packing: Packing) -> type[TfrecordSource]:
    """Create a subclass with the session's settings. Spark pickles it by value, so the settings reach the planner."""
    return type(source.__name__, (source,), {"packing": packing})


def write_tfrecord(
    df: DataFrame,
    path: str,
    *,
    partition_by: Sequence[str] = (),
    mode: WriteMode = "errorifexists",
    partition_overwrite_mode: PartitionOverwrite | None = None,
    record_type: str = "Example",
    compression: str = "none",
    shard_size: int | str = "128MiB",
    max_records_per_file: int | None = None,
) -> None:
    """Write a DataFrame as TFRecord shards, below ``key=value`` directories if ``partition_by`` names columns.

    Like ``df.write.format("tfrecord")``, plus features that Spark denies to Python data sources: partitions, and the
    modes ``errorifexists`` (alias ``error``) and ``ignore``. Runs on the driver and returns once readers see the data.

    ``partition_overwrite_mode`` selects the partitions that ``overwrite`` replaces in a partitioned table: all
    (``static``), or only partitions that receive rows (``dynamic``). The default is
    ``spark.sql.sources.partitionOverwriteMode``.

    ``max_records_per_file`` defaults to ``spark.sql.files.maxRecordsPerFile``.

    Raises UsageError for invalid arguments, InputError for a directory that already exists or is not ours,
    ContractError and its subclass EncodeError for data that records cannot hold, and PublishConflict if another writer
    was faster. After an error, nothing is published.
    """
    names = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    partitions = _partition_columns(df.schema, names)
    if mode not in ("errorifexists", "error", "append", "overwrite", "ignore"):
        raise UsageError(f"The mode is {mode!r}; expected errorifexists, append, overwrite or ignore.")
    first_write = mode in ("errorifexists", "error", "ignore")
    if first_write and _exists(path):
        if mode == "ignore":
            return
        raise InputError(f"{path} exists already; choose another directory, or the mode append, overwrite or ignore.")
    register(df.sparkSession)
    overwrite = partition_overwrite_mode or df.sparkSession.conf.get(
        "spark.sql.sources.partitionOverwriteMode", "static"
    )
    writer = _in_order(df, names).write.format("tfrecord").mode("overwrite" if mode == "overwrite" else "append")
    settings = {
        "recordType": record_type,
        "compression": compression,
        "shardSize": str(shard_size),
        "partitionOverwriteMode": partition_overwrite_named("partitionOverwriteMode", str(overwrite)),
        "partitionColumns": json.dumps(partitions.jsonValue()),
        "firstWrite": str(first_write).lower(),
    }
    if max_records_per_file is not None:
        settings["maxRecordsPerFile"] = str(max_records_per_file)
    try:
        with expected_errors():
            writer.options(**settings).save(str(path))
    except PublishConflict:
        if mode != "ignore":  # else another writer was faster: its data exist now, and stay
            raise


def _partition_columns(schema: StructType, names: list[str]) -> StructType:
    fields = []
    for name in names:
        if name not in schema.names:
            near = difflib.get_close_matches(name, schema.names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(schema.names)}."
            raise UsageError(f"The DataFrame has no column {name!r} to partition by; {hint}")
        if not isinstance(schema[name].dataType, PARTITION_TYPES):
            raise ContractError(
                f"Column {name!r} has the type {schema[name].dataType.simpleString()}, which cannot name a directory; "
                "partition by a string, an integer, a decimal, a boolean or a date."
            )
        fields.append(StructField(name, schema[name].dataType))
    if len(set(names)) < len(names):
        raise UsageError(f"partition_by names a column twice: {', '.join(names)}.")
    return StructType(fields)


def _in_order(df: DataFrame, names: list[str]) -> DataFrame:
    """Sort rows by partition directory within each task, and convert partition values to Spark's text form."""
    if not names:
        return df
    data = [F.col(_quoted(name)) for name in df.columns if name not in names]
    texts = [F.col(_quoted(name)).cast("string").alias(name) for name in names]
    return df.select(*data, *texts).sortWithinPartitions(*map(_quoted, names))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _exists(path: str) -> bool:
    storage = open_storage(path)
    return Table(storage).current() is not None or bool(storage.names(""))
