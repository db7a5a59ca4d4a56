"""Spark settings. ``register`` stores some of them, since Spark passes none to a Python data source during planning."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pyspark import TaskContext
from pyspark.sql import SparkSession

from ctr_samples.tfrecord.files import DataFile, Tolerance
from ctr_samples.tfrecord.options import Options

_SIZE = re.compile(r"(\d+)([bkmgtp]?)b?", re.IGNORECASE)
_UNITS = "bkmgtp"


@dataclass(frozen=True, slots=True)
class Packing:
    """Settings for packing files into tasks: ``spark.sql.files.maxPartitionBytes``, ``openCostInBytes``,
    ``minPartitionNum``.

    A file counts as its bytes plus the cost of opening it. A task takes files up to ``max_bytes``, or fewer if there
    would otherwise be fewer than ``least_tasks`` tasks. Files are never split.
    """

    max_bytes: int = 128 << 20
    open_cost: int = 4 << 20
    least_tasks: int = 1

    def packed(self, files: Iterable[DataFile]) -> list[tuple[DataFile, ...]]:
        """Group files into tasks, in order."""
        every = list(files)
        total = sum(file.size + self.open_cost for file in every)
        limit = min(self.max_bytes, max(self.open_cost, total // self.least_tasks))
        tasks: list[list[DataFile]] = []
        size = 0
        for file in every:
            if not tasks or size + file.size > limit:
                tasks.append([])
                size = 0
            tasks[-1].append(file)
            size += file.size + self.open_cost
        return [tuple(task) for task in tasks]


def packing_of(spark: SparkSession) -> Packing:
    """Read the session's settings for packing files. Runs on the driver, when the format is registered."""
    defaults = Packing()
    cores = spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    with suppress(AttributeError):  # not available in Spark Connect
        cores = cores or str(spark.sparkContext.defaultParallelism)
    return Packing(
        _size(spark.conf.get("spark.sql.files.maxPartitionBytes", None), defaults.max_bytes),
        _size(spark.conf.get("spark.sql.files.openCostInBytes", None), defaults.open_cost),
        max(1, int(spark.conf.get("spark.sql.files.minPartitionNum", None) or cores or defaults.least_tasks)),
    )


def session_setting(name: str, default: str) -> str:
    """Read a setting of the query's session.

    Call it only in tasks: Spark does not pass session settings anywhere else.
    """
    context = TaskContext.get()
    value = context.getLocalProperty(name) if context else None
    return default if value is None else value


def tolerance_of(options: Options) -> Tolerance:
    """Return the errors to skip, from the options or else from the session. Runs in tasks; during planning, only
    options count.
    """
    return Tolerance(
        corrupt=_either(options.ignore_corrupt, "spark.sql.files.ignoreCorruptFiles"),
        missing=_either(options.ignore_missing, "spark.sql.files.ignoreMissingFiles"),
    )


def _either(option: bool | None, setting: str) -> bool:
    return session_setting(setting, "false").lower() == "true" if option is None else option


def _size(text: str | None, default: int) -> int:
    """Parse Spark's size notation: ``134217728b``, ``64MB`` and ``64m`` are binary units."""
    match = _SIZE.fullmatch(text.strip()) if text else None
    return int(match[1]) << 10 * _UNITS.index(match[2].lower() or "b") if match else default
