"""Columns of Parquet and ORC files: the union over all files that a run may read, with one type per column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrameReader
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructField, StructType

from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.listing import Listing, glob_of
from ctr_samples.sparksql.columns import INTEGERS
from ctr_samples.sparksql.failures import SPARK_FAILURES

_WIDER: tuple[tuple[type[DataType], ...], ...] = (INTEGERS, (FloatType, DoubleType))
"""Groups of types, from narrow to wide. Spark reads each type as any wider type of its group without loss."""


def columns_of_files(reader: DataFrameReader, where: str, listings: Mapping[str, Listing]) -> StructType:
    """Return the columns of all files, with the widest integer or float type. A column missing from a file is null there.

    Spark alone would use columns and types of an arbitrary file, and read another file's local time as UTC. Runs a Spark job
    that reads the footer of each file. Raises InputError, naming two files, if a column has incompatible types.
    """
    return _Merging(reader, where, listings).of(list(listings))


@dataclass(frozen=True, slots=True)
class _Merging:
    reader: DataFrameReader
    where: str
    listings: Mapping[str, Listing]

    def of(self, paths: Sequence[str]) -> StructType:
        """Merge the columns. If Spark rejects unequal types, merges the two halves separately, then compares them."""
        try:
            return self._schema(paths)
        except SPARK_FAILURES as error:
            if "CANNOT_MERGE_SCHEMAS" not in str(error):
                raise
        if len(paths) == 1:
            paths = self._files_of(paths[0])
        half = len(paths) // 2
        return self._together(paths[:half], paths[half:])

    def _schema(self, paths: Sequence[str]) -> StructType:
        merging = self.reader.option("recursiveFileLookup", True).option("mergeSchema", True)
        loads = [self.listings[path].to_load(path) if path in self.listings else [glob_of(path)] for path in paths]
        return merging.load([name for names in loads for name in names]).schema

    def _files_of(self, path: str) -> list[str]:
        return [file.path for file in self.listings[path].files] if path in self.listings else [path]

    def _together(self, left: Sequence[str], right: Sequence[str]) -> StructType:
        columns = {field.name.lower(): field for field in self.of(left)}
        for field in self.of(right):
            name = field.name.lower()
            kind = wider(columns[name].dataType, field.dataType) if name in columns else field.dataType
            if kind is None:
                one, other = columns[name].dataType.simpleString(), field.dataType.simpleString()
                raise InputError(
                    f"{self.where}: `{field.name}` is {one} in {self._file_with(name, left)}, but {other} in "
                    f"{self._file_with(name, right)}; expected one type in all files that a run reads. Write the files of one "
                    "kind again with the type of the others."
                )
            columns[name] = StructField(columns.get(name, field).name, kind)
        return StructType(list(columns.values()))

    def _file_with(self, name: str, paths: Sequence[str]) -> str:
        files = [file for path in paths for file in self._files_of(path)]
        return next(file for file in files if name in map(str.lower, self._schema([file]).fieldNames()))


def wider(one: DataType, other: DataType) -> DataType | None:
    """Return the type that holds values of both types, or None if none does."""
    match one, other:
        case _ if one == other:
            return one
        case (StructType(), StructType()):
            own = {field.name: field.dataType for field in one}
            both = {field.name: wider(own.get(field.name, field.dataType), field.dataType) for field in other}
            every = {**own, **both}
            return None if None in both.values() else StructType([StructField(n, k) for n, k in every.items() if k])
        case (ArrayType(), ArrayType()):
            item = wider(one.elementType, other.elementType)
            return item and ArrayType(item)
        case (MapType(), MapType()):
            key, value = wider(one.keyType, other.keyType), wider(one.valueType, other.valueType)
            return MapType(key, value) if key and value else None
    for kinds in _WIDER:
        if isinstance(one, kinds) and isinstance(other, kinds):
            return max(one, other, key=lambda kind: kinds.index(type(kind)))
    return None
