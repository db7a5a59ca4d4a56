"""Read and check the records of one file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from ctr_samples.codec import RecordReader
from ctr_samples.codec.encoder import EncodedBatch
from ctr_samples.errors import DamagedFile
from ctr_samples.records.first_bytes import found_reader
from ctr_samples.shards import CheckedFile, Shard, Storage
from ctr_samples.shards.naming import compression_of
from ctr_samples.tfrecord.options import Compression
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


def chunks_of(file: DataFile, tolerance: Tolerance) -> Iterator[EncodedBatch]:
    """Yield a file's records in chunks of a few megabytes. Raises DamagedFile, naming the file, for an invalid record.

    For a file listed in a manifest, also checks size and checksum, once the whole file has been read. Tolerated damage
    ends the file instead.
    """
    try:
        yield from _checked_chunks(file)
    except FileNotFoundError:
        if not tolerance.missing:
            raise DamagedFile(_missing(file)) from None
        logger.warning("Skipped %s, which is missing.", file.location)
    except DamagedFile as error:
        if not tolerance.corrupt:
            raise
        logger.warning("Skipped the rest of a corrupt file. %s", error)


def _checked_chunks(file: DataFile) -> Iterator[EncodedBatch]:
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
