"""Options of the ``tfrecord`` format. Names follow other TFRecord connectors and are case-insensitive."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql.types import StructType

from ctr_samples.contract import RecordType
from ctr_samples.errors import UsageError

Compression = Literal["none", "gzip", "zlib"]
PartitionOverwrite = Literal["static", "dynamic"]

RECORD_TYPES: dict[str, RecordType] = {
    "example": "example",
    "sequenceexample": "sequence_example",
    "bytearray": "byte_array",
}
COMPRESSIONS: dict[str, Compression] = {
    "": "none",
    "none": "none",
    "uncompressed": "none",
    "gzip": "gzip",
    "gz": "gzip",
    "gzipcodec": "gzip",
    "zlib": "zlib",
    "deflate": "zlib",
    "deflatecodec": "zlib",
    "defaultcodec": "zlib",  # Hadoop's default codec writes zlib streams
}
_OF_SPARK = ("path", "paths", "mergeSchema", "header", "compressionCodec", "queryName")
_UNSUPPORTED = ("modifiedBefore", "modifiedAfter")

_NO_CATALOG = (
    "For a table of the catalog (CREATE TABLE, saveAsTable, insertInto, writeTo) Spark passes a Python data source neither "
    "LOCATION nor OPTIONS, so the format tfrecord cannot read or write one. Use a temporary view: "
    "CREATE TEMPORARY VIEW name USING tfrecord OPTIONS (path '...')."
)


@dataclass(frozen=True, slots=True)
class Options:
    """Parsed options. None means that the option was not set: the data decide, or a default applies when writing."""

    paths: tuple[str, ...]
    record_type: RecordType | None = None
    compression: Compression | None = None
    shard_size: int = 128 * 2**20
    split: str | None = None
    columns: tuple[str, ...] = ()
    stream_id: str | None = None
    checkpoint: str | None = None
    file_pattern: str | None = None
    recursive: bool = False
    base_path: str | None = None
    partition_columns: StructType | None = None
    partition_overwrite: PartitionOverwrite | None = None
    first_write: bool = False
    max_bytes: int | None = None
    open_cost: int | None = None
    sampling_ratio: float = 1.0
    ignore_corrupt: bool | None = None
    ignore_missing: bool | None = None
    max_records: int | None = None
    file_column: str | None = None
    max_files: int | None = None

    @property
    def path(self) -> str:
        """Directory to write to. Raises UsageError unless there is exactly one path."""
        if len(self.paths) != 1:
            raise UsageError(f"The format tfrecord writes to one path; found {list(self.paths)}. Use save(path).")
        return self.paths[0]


def parse_options(given: Mapping[str, str]) -> Options:
    """Parse the options that Spark passes. Raises UsageError with the option's name, its value and the expected values.

    Ignores unrelated names, since Spark passes its own options in the same map.
    """
    values = {name.lower(): value for name, value in given.items()}
    if {"provider", "owner"} <= values.keys():  # properties of a table that CREATE TABLE is about to create
        raise UsageError(_NO_CATALOG)
    _check_names(values)
    paths = _paths(values)
    every = {**_OPTIONS, **_OTHERS}
    parsed = {
        field: parse(name, values[name.lower()]) for name, (field, parse) in every.items() if name.lower() in values
    }
    return Options(paths, compression=_compression(values), **parsed)


def _check_names(values: Mapping[str, str]) -> None:
    ours = {name.lower(): name for name in (*_OPTIONS, *_COMPRESSION)}
    known = {*ours, *(name.lower() for name in (*_OF_SPARK, *_OTHERS))}
    for name in values:
        near = difflib.get_close_matches(name, ours, 1, cutoff=0.8) if name not in known else []
        if near:
            raise UsageError(f"The format tfrecord has no option {name!r}; did you mean {ours[near[0]]!r}?")
    for name in _UNSUPPORTED:
        if name.lower() in values:
            # Ignoring it would read files that the user excluded.
            raise UsageError(f"The format tfrecord does not know the option {name!r}; choose files by path or a glob.")


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths. ``load(path)`` sets the option ``path``; ``load([...])`` sets ``paths`` as JSON."""
    several = json.loads(values["paths"]) if "paths" in values else []
    paths = (*([values["path"]] if "path" in values else []), *several)
    if not paths or not all(paths):
        raise UsageError(f"The format tfrecord was given no path; use load(path) or save(path). {_NO_CATALOG}")
    return tuple(paths)


def _record_type(option: str, text: str) -> RecordType:
    record_type = RECORD_TYPES.get(text.lower().replace("_", ""))
    if record_type is None:
        raise UsageError(f"The option {option} is {text!r}; expected Example, SequenceExample or ByteArray.")
    return record_type


def partition_overwrite_named(option: str, text: str) -> PartitionOverwrite:
    """Parse Spark's mode for overwriting a partitioned table: static or dynamic. Otherwise raises UsageError."""
    modes: dict[str, PartitionOverwrite] = {"static": "static", "dynamic": "dynamic"}
    if text.lower() not in modes:
        raise UsageError(f"The option {option} is {text!r}; expected static or dynamic.")
    return modes[text.lower()]


def compression_named(text: str, option: str) -> Compression:
    """Parse the short name of a compression, or a Hadoop codec class. Raises UsageError for anything else."""
    compression = COMPRESSIONS.get(text.lower().rpartition(".")[2])
    if compression is None:
        raise UsageError(
            f"The option {option} is {text!r}; TensorFlow reads gzip, zlib and uncompressed files. Use gzip, zlib or none, "
            "or Hadoop's GzipCodec or DefaultCodec."
        )
    return compression


def _compression(values: Mapping[str, str]) -> Compression | None:
    given = {name: compression_named(values[name], name) for name in _COMPRESSION if name in values}
    if len(set(given.values())) > 1:
        raise UsageError(f"The options codec and compression disagree: {given}. Give one of them.")
    return next(iter(given.values()), None)


def _size(option: str, text: str) -> int:
    from ctr_samples.config.units import parse_size  # here, since Python workers never need the configuration's models

    try:
        size = int(text) if text.strip().isdecimal() else parse_size(text.strip())
    except ValueError as error:
        raise UsageError(f"The option {option} is {text!r}; {error}, or a number of bytes.") from None
    if size < 1:
        raise UsageError(f"The option {option} is {text!r}; expected at least one byte.")
    return size


def _count(option: str, text: str) -> int:
    """Parse a limit. As in Spark, zero or less means no limit."""
    try:
        return max(0, int(text))
    except ValueError:
        raise UsageError(f"The option {option} is {text!r}; expected a whole number.") from None


def _ratio(option: str, text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0
    if not 0 < ratio <= 1:
        raise UsageError(f"The option {option} is {text!r}; expected a share of the files, above 0 and up to 1.")
    return ratio


def _boolean(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"The option {option} is {text!r}; expected true or false.")
    return text.lower() == "true"


def _as_given(option: str, text: str) -> str:
    return text


Parse = Callable[[str, str], Any]
"""Parses the text of an option, whose name stands in errors."""

_OPTIONS: dict[str, tuple[str, Parse]] = {
    "recordType": ("record_type", _record_type),
    "shardSize": ("shard_size", _size),
    "split": ("split", lambda _, text: None if text.lower() in ("", "all") else text),
    "columns": ("columns", lambda _, text: tuple(name for part in text.split(",") if (name := part.strip()))),
    "streamId": ("stream_id", _as_given),
    "pathGlobFilter": ("file_pattern", _as_given),
    "recursiveFileLookup": ("recursive", _boolean),
    "basePath": ("base_path", _as_given),
    "partitionOverwriteMode": ("partition_overwrite", partition_overwrite_named),
    "maxPartitionBytes": ("max_bytes", _size),
    "openCostInBytes": ("open_cost", _size),
    "samplingRatio": ("sampling_ratio", _ratio),
    "ignoreCorruptFiles": ("ignore_corrupt", _boolean),
    "ignoreMissingFiles": ("ignore_missing", _boolean),
    "maxRecordsPerFile": ("max_records", _count),
    "maxFilesPerTrigger": ("max_files", lambda option, text: _count(option, text) or None),
    "fileColumn": ("file_column", lambda _, text: text or None),
}
"""Options that users may set, besides the names of the compression: the field of :class:`Options`, and its parser."""

_COMPRESSION = ("codec", "compression")
_OTHERS: dict[str, tuple[str, Parse]] = {
    "checkpointLocation": ("checkpoint", _as_given),
    "partitionColumns": ("partition_columns", lambda _, text: StructType.fromJson(json.loads(text))),
    "firstWrite": ("first_write", _boolean),
}
"""The option of a stream's checkpoint, which is Spark's own, and those that ``write_tfrecord`` sets."""
