"""Read and check the records of one file."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from pyspark import TaskContext
from pyspark.sql import SparkSession

from ctr_samples.codec import RecordReader
from ctr_samples.codec.encoder import EncodedBatch
from ctr_samples.errors import DamagedFile
from ctr_samples.records.read import found_reader
from ctr_samples.shards import CheckedFile, Shard, Storage
from ctr_samples.shards.naming import compression_of
from ctr_samples.tfrecord.options import Compression, Options
from ctr_samples.tfrecord.partitions import Values

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Errors to skip with a log warning: ``spark.sql.files.ignoreCorruptFiles`` and ``ignoreMissingFiles``."""

    corrupt: bool = False
    missing: bool = False


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read. ``shard`` is its manifest entry, or None if no manifest lists the file.

    ``compression`` is the value of the option. If it is None, the file name decides for a file in a manifest, and the
    first bytes for any other file.
    """

    storage: Storage
    path: str
    size: int
    compression: Compression | None = None
    values: Values = field(default_factory=dict)
    shard: Shard | None = None

    @property
    def location(self) -> str:
        """Path or URL of the file, for use by other programs."""
        return self.storage.locate(self.path)


@contextmanager
def tolerated(file: DataFile, tolerance: Tolerance) -> Iterator[None]:
    """Let tolerated damage end the reading of a file, with a warning. Raises DamagedFile for any other."""
    try:
        yield
    except FileNotFoundError:
        if not tolerance.missing:
            raise DamagedFile(_missing(file)) from None
        logger.warning("Skipped %s, which is missing.", file.location)
    except DamagedFile as error:
        if not tolerance.corrupt:
            raise
        logger.warning("Skipped the rest of a corrupt file. %s", error)


def chunks_of(file: DataFile) -> Iterator[EncodedBatch]:
    """Yield a file's records in chunks of a few megabytes. Raises DamagedFile, naming the file, for an invalid record.

    For a file listed in a manifest, also checks size and checksum, once the whole file has been read.
    """

    def reopen() -> BinaryIO:
        return file.storage.open(file.path)

    try:
        with file.storage.open(file.path) as raw:
            checked = CheckedFile(raw)
            if file.shard is None:
                yield from found_reader(checked, file.path, file.compression, reopen)
            else:
                yield from RecordReader(checked, compression_of(file.path), reopen=reopen)
            checked.drain()
    except DamagedFile as error:
        raise DamagedFile(f"{file.location}: {error}") from error
    wrong = checked.difference(file.shard) if file.shard else None
    if wrong:
        raise DamagedFile(f"{file.location} {wrong}; restore the file, or write the data again.")


def _missing(file: DataFile) -> str:
    if file.shard is None:
        return f"{file.location} existed when the query was planned but is gone now; read again."
    return (
        f"{file.location} is missing: the directory was overwritten since the query was planned, or the file was lost. "
        "Read again; restore the file if that fails too."
    )


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
