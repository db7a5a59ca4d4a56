"""Options of the ``tfrecord`` format. Names follow other TFRecord connectors and are case-insensitive."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
OWN = (
    "recordType",
    "codec",
    "compression",
    "shardSize",
    "split",
    "columns",
    "streamId",
    "pathGlobFilter",
    "recursiveFileLookup",
    "basePath",
    "partitionOverwriteMode",
    "maxPartitionBytes",
    "openCostInBytes",
    "samplingRatio",
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
    "maxRecordsPerFile",
    "fileColumn",
    "maxFilesPerTrigger",
)
"""Options that users may set. ``write_tfrecord`` sets ``partitionColumns`` and ``firstWrite``."""

_OF_SPARK = ("path", "paths", "mergeSchema", "header", "compressionCodec", "checkpointLocation", "queryName")
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
    packing: Mapping[str, int] = field(default_factory=dict)
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
    split = values.get("split", "all")
    return Options(
        paths=_paths(values),
        record_type=_record_type(values["recordtype"]) if "recordtype" in values else None,
        compression=_compression(values),
        shard_size=_size("shardSize", values["shardsize"]) if "shardsize" in values else 128 * 2**20,
        split=None if split.lower() in ("", "all") else split,
        columns=tuple(name for part in values.get("columns", "").split(",") if (name := part.strip())),
        stream_id=values.get("streamid"),
        checkpoint=values.get("checkpointlocation"),
        file_pattern=values.get("pathglobfilter"),
        recursive=_boolean("recursiveFileLookup", values.get("recursivefilelookup", "false")),
        base_path=values.get("basepath"),
        partition_columns=StructType.fromJson(json.loads(values["partitioncolumns"]))
        if "partitioncolumns" in values
        else None,
        partition_overwrite=partition_overwrite_named(values["partitionoverwritemode"])
        if "partitionoverwritemode" in values
        else None,
        packing={
            name: _size(option, values[option.lower()])
            for name, option in (("max_bytes", "maxPartitionBytes"), ("open_cost", "openCostInBytes"))
            if option.lower() in values
        },
        sampling_ratio=_ratio(values.get("samplingratio", "1")),
        ignore_corrupt=_optional_boolean("ignoreCorruptFiles", values),
        ignore_missing=_optional_boolean("ignoreMissingFiles", values),
        max_records=_count("maxRecordsPerFile", values),
        max_files=_count("maxFilesPerTrigger", values) or None,
        file_column=values.get("filecolumn") or None,
        first_write=_boolean("firstWrite", values.get("firstwrite", "false")),
    )


def _check_names(values: Mapping[str, str]) -> None:
    ours = {name.lower(): name for name in OWN}
    known = {*ours, *(name.lower() for name in _OF_SPARK), "partitioncolumns", "firstwrite"}
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


def _record_type(text: str) -> RecordType:
    record_type = RECORD_TYPES.get(text.lower().replace("_", ""))
    if record_type is None:
        raise UsageError(f"The option recordType is {text!r}; expected Example, SequenceExample or ByteArray.")
    return record_type


def partition_overwrite_named(text: str) -> PartitionOverwrite:
    """Parse Spark's mode for overwriting a partitioned table: static or dynamic. Otherwise raises UsageError."""
    modes: dict[str, PartitionOverwrite] = {"static": "static", "dynamic": "dynamic"}
    if text.lower() not in modes:
        raise UsageError(f"The option partitionOverwriteMode is {text!r}; expected static or dynamic.")
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
    given = {name: compression_named(values[name], name) for name in ("codec", "compression") if name in values}
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


def _count(option: str, values: Mapping[str, str]) -> int | None:
    """Parse a limit. As in Spark, zero or less means no limit. Return None if the option was not set."""
    text = values.get(option.lower())
    try:
        return None if text is None else max(0, int(text))
    except ValueError:
        raise UsageError(f"The option {option} is {text!r}; expected a whole number.") from None


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0
    if not 0 < ratio <= 1:
        raise UsageError(f"The option samplingRatio is {text!r}; expected a share of the files, above 0 and up to 1.")
    return ratio


def _optional_boolean(name: str, values: Mapping[str, str]) -> bool | None:
    return _boolean(name, values[name.lower()]) if name.lower() in values else None


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"The option {name} is {text!r}; expected true or false.")
    return text.lower() == "true"
