"""Find the files of a path: files listed in a manifest, or all files of a foreign directory.

Runs while a query is planned, never in a task. A path may be a table written by this format, a partition of such a
table, the output of the nightly job or of a single day, any directory of TFRecord files, a file, or a glob.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from pyspark.sql.types import DateType, StructField, StructType

from ctr_samples.contract import ExampleContract, RecordType
from ctr_samples.errors import ContractError, InputError
from ctr_samples.records.paths import FilePattern, existing_place, is_hidden, regex_of, single_file
from ctr_samples.shards import Shard, Storage, Table, TableManifest, latest_manifest, open_storage, published_days
from ctr_samples.shards.naming import day_directory, day_of, needs_manifests
from ctr_samples.tfrecord.files import DataFile
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.partitions import NULL_NAME, Values, inferred_columns, values_of
from ctr_samples.tfrecord.schema import conflicts_of, merged, schema_of, schemas_of


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A file with the directory that matched the place (``top``), and the base of its partition columns."""

    path: str
    top: str
    base: str
    values: Values


def found_files(paths: Iterable[str], place: FilePattern, *, base_given: bool, recursive: bool) -> dict[str, Values]:
    """Select the files of a place from ``paths``, which are relative to its root, with their partition values.

    Without partition columns, selects only files directly in the directory. With ``recursive``, selects all files and
    ignores partition columns. Raises InputError if partition columns start at different directories, as Spark does.
    """
    tops = [(path, top) for path in paths if (top := _top(path, place)) is not None]
    if recursive:
        return {path: {} for path, _ in tops}
    leaves = [_leaf(path, top, base_given) for path, top in tops]
    if not any(leaf.values for leaf in leaves):
        return {leaf.path: {} for leaf in leaves if leaf.top in (leaf.path, _directory(leaf.path))}
    bases = sorted({leaf.base for leaf in leaves})
    if len(bases) > 1:
        raise InputError(
            f"{place} has partition columns (key=value directories), but they start at different levels: "
            f"{', '.join(base or '.' for base in bases[:3])}. Load these separately, set the option basePath to the directory "
            "above the partitions, or set recursiveFileLookup to read every file without partition columns."
        )
    return {leaf.path: leaf.values for leaf in leaves if leaf.values}


def _top(path: str, place: FilePattern) -> str | None:
    """Return the directory or file that matches the place and contains the path. Return None for hidden and other
    files.
    """
    if not place.has(path) or is_hidden(path[len(place.fixed) :].removeprefix("/")):
        return None
    if place.pattern is None:
        return place.fixed
    return "/".join(path.split("/")[: place.pattern.count("/") + 1])


def _leaf(path: str, top: str, base_given: bool) -> _Leaf:
    directory = _directory(path)
    start = "" if base_given else _directory(top) if top == path else top
    parts = [part for part in directory[len(start) :].split("/") if part]
    end = len(parts)
    while end and "=" not in parts[end - 1]:
        end -= 1
    begin = end
    while begin and "=" in parts[begin - 1]:
        begin -= 1
    base = directory if begin == end else "/".join(part for part in (start, *parts[:begin]) if part)
    return _Leaf(path, top, base, _values(parts[begin:end], path))


def _values(parts: list[str], path: str) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for part in parts:
        name, _, text = part.partition("=")
        if not name or not text or unquote(name).lower() in map(str.lower, values):
            problem = "is there twice" if name and text else "lacks a name or a value"
            raise InputError(f"{path}: the partition column {part!r} {problem}; rename the directory.")
        values[unquote(name)] = None if text == NULL_NAME else unquote(text)
    return values


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Files of one or more paths, with the metadata known without opening a file (None if unknown).

    ``contracts`` are those of all writes, oldest first. ``conflicts`` has the columns of ``schema`` that have another
    type in a later write, with their types in words.
    """

    files: tuple[DataFile, ...]
    partitions: StructType
    record_type: RecordType | None = None
    schema: StructType | None = None
    contracts: tuple[ExampleContract, ...] = ()
    conflicts: Mapping[str, str] = field(default_factory=dict)


def find(options: Options) -> Catalog:
    """Find the files of the options' paths. Raises InputError if a path is missing or the paths are incompatible."""
    catalogs = [_find_one(existing_place(path, options.base_path), options) for path in options.paths]
    files = tuple(file for catalog in catalogs for file in catalog.files)
    _check_once(catalogs, options)
    if all(catalog.schema is None for catalog in catalogs):
        partitions = inferred_columns(file.values for file in files)
        return Catalog(_with_equal_names(files, partitions.names), partitions, options.record_type)
    for other in catalogs[1:]:
        if replace(other, files=()) != replace(catalogs[0], files=()):
            raise InputError(
                f"The paths {', '.join(options.paths)} hold different columns or kinds of records; load them separately."
            )
    return replace(catalogs[0], files=files)


def _check_once(catalogs: Sequence[Catalog], options: Options) -> None:
    """Raise InputError if two paths hold the same file."""
    seen: dict[str, str] = {}
    for path, catalog in zip(options.paths, catalogs, strict=True):
        for file in catalog.files:
            if file.location in seen:
                raise InputError(
                    f"The paths {seen[file.location]} and {path} both hold {file.location}, so its records would be read "
                    "twice; leave one of them out."
                )
        seen |= dict.fromkeys((file.location for file in catalog.files), path)


def _with_equal_names(files: Sequence[DataFile], names: list[str]) -> tuple[DataFile, ...]:
    """Unify the case of partition names, which is insignificant in Spark and may differ between directories."""
    return tuple(replace(file, values=dict(zip(names, file.values.values(), strict=True))) for file in files)


def _find_one(place: FilePattern, options: Options) -> Catalog:
    for root, prefix in place.roots():
        storage = open_storage(root)
        if (manifest := Table(storage).current()) is not None:
            return _table(storage, manifest, place.below(prefix), options)
    for root, prefix in place.roots():
        storage = open_storage(root)
        if (prefix == "" and any(map(day_of, storage.names("")))) or day_of(prefix.split("/")[0]):
            nightly = _nightly(storage, place.below(prefix), options)
            if nightly is not None:
                return nightly
    if options.split is not None:
        raise InputError(
            f"{place} was not written by the nightly job, so it has no split {options.split!r}; remove the option."
        )
    return _foreign(place, options)


def _table(storage: Storage, manifest: TableManifest, place: FilePattern, options: Options) -> Catalog:
    _check_record_type(storage.url, manifest.record_type, options)
    schemas = schemas_of(manifest, storage.url)
    schema = merged(schemas)
    files = [_of_manifest(storage, shard) for shard in manifest.shards if place.has(shard.path)]
    partitions = StructType([column for column in schema if column.name in manifest.partition_by])
    if not partitions.fields:  # written without Spark, so the types of directories are unknown
        partitions = inferred_columns({name: file.values.get(name) for name in manifest.partition_by} for file in files)
    inside = StructType([column for column in schema if column.name not in manifest.partition_by])
    return Catalog(
        tuple(files),
        partitions,
        manifest.record_type,
        inside if schema.fields else None,
        tuple(ExampleContract.from_dict(dict(document)) for document in manifest.contracts),
        {name: f"Column {name!r} of {storage.url} is {types}" for name, types in conflicts_of(schemas).items()},
    )


def _nightly(storage: Storage, place: FilePattern, options: Options) -> Catalog | None:
    """Return the files of the latest generation of each day, or None if no day is published."""
    days = [day for day in published_days(storage) if place.has(day_directory(day), partly=True)]
    manifests = [manifest for day in days if (manifest := latest_manifest(storage, day))]
    if not manifests:
        return None
    newest = ExampleContract.from_dict(dict(manifests[-1].contract))
    for manifest in manifests:
        theirs = ExampleContract.from_dict(dict(manifest.contract))
        if (theirs.features, theirs.record) != (newest.features, newest.record):
            raise ContractError(
                f"{storage.url}: the samples of {manifest.run_date} have different features from those of "
                f"{manifests[-1].run_date}; load the days separately, by their paths."
            )
    _check_record_type(storage.url, newest.record, options)
    shards = [shard for manifest in manifests for shard in manifest.of_split(options.split)]
    files = [_of_manifest(storage, shard) for shard in shards if place.has(shard.path)]
    if options.split and not files:
        raise InputError(f"{storage.url} has no split {options.split!r}; it has {', '.join(manifests[-1].splits)}.")
    day = StructType([StructField("dt", DateType())])
    return Catalog(tuple(files), day, newest.record, schema_of(newest), (newest,))


def _of_manifest(storage: Storage, shard: Shard) -> DataFile:
    return DataFile(storage, shard.path, shard.bytes, None, values_of(_directory(shard.path)), shard)


def _check_record_type(where: str, there: str, options: Options) -> None:
    if options.record_type not in (None, there):
        raise ContractError(
            f"{where} holds records of type {there}, but the option recordType asks for {options.record_type}; "
            "remove the option."
        )


def _foreign(place: FilePattern, options: Options) -> Catalog:
    """Return the files of a directory without a manifest. Partition columns are inferred over all paths together."""
    storage = open_storage(place.root)
    sizes = {file.path: file.size for file in storage.files(place.fixed) if file.path}  # a file on HDFS lists itself
    for path in sizes:
        if needs_manifests(place.in_full(path)):
            raise InputError(
                f"{place} holds {storage.locate(path)}, whose directory must be read through its manifests; load the output "
                "directory or the table itself."
            )
    if not any(map(place.has, sizes)):
        storage, place, sizes = single_file(storage, place)
    listing = found_files(sizes, place, base_given=options.base_path is not None, recursive=options.recursive)
    pattern = regex_of(options.file_pattern or "*")
    files = [
        DataFile(storage, path, sizes[path], options.compression, values)
        for path, values in listing.items()
        if pattern.fullmatch(path.rpartition("/")[2])
    ]
    return Catalog(tuple(files), StructType())
