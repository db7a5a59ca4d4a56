"""CSV lines as rows. Maps the values of a line to columns, by the names in the first line or by position."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ctr_samples.config import CsvSource
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.encodings import as_bytes, encoding_hint, encoding_options, is_undecoded, line_reader
from ctr_samples.sparksql.moments import TIME_FORMAT

_DELIMITERS = (",", ";", "\t", "|", ":", " ")
_MOST_NAMES = 20
_UNREAD = "_unread_"


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """The values of a line in order, each with its text in the first line, also ``as_read`` by Spark, and its column in
    the schema.
    """

    first_line: str
    as_read: tuple[str, ...]
    names: tuple[str, ...]
    by_name: bool

    def line_schema(self, schema: StructType, beside: Collection[str]) -> StructType:
        """Return the schema for reading a line: names from the first line, and text for values without a column.

        ``beside`` lists columns of ``schema`` that are not in the line.
        """
        kinds = {field.name: field.dataType for field in schema}
        as_read = self.as_read if self.by_name else self.names
        values = [
            StructField(cell, kinds.get(name, StringType())) for cell, name in zip(as_read, self.names, strict=True)
        ]
        return StructType([*values, *[field for field in schema if field.name in beside]])

    def named(self, rows: DataFrame) -> DataFrame:
        """Rename Spark's columns to the schema names, and drop values without a column."""
        if not self.by_name:
            return rows
        unread = [name for name in self.names if name.startswith(_UNREAD)]
        return rows.toDF(*self.names, *rows.columns[len(self.names) :]).drop(*unread)


def columns_of(
    spark: SparkSession, where: str, source: CsvSource, wanted: Sequence[str], paths: Sequence[str], day: str | None
) -> CsvColumns:
    """Return the columns of a source from the first line of its files. Runs on the driver, with one small Spark job.

    ``wanted`` lists the schema columns. ``day`` is the column that the path also provides. Raises InputError if the
    first line contradicts the configuration.
    """
    file, line, cells = _first_line(spark, where, source, paths)
    as_read = tuple(as_bytes(cell, source) for cell in cells)
    if source.by_name:
        return CsvColumns(line, as_read, tuple(_by_name(where, source, wanted, file, cells, day)), by_name=True)
    if not source.header and [cell.lower() for cell in cells] == [name.lower() for name in wanted]:
        raise InputError(f"{where}: the first line of {file} contains the column names; set `header: true`.")
    return CsvColumns(line, as_read, tuple(wanted), by_name=False)


def csv_reader(reader: DataFrameReader, source: CsvSource, malformed: str) -> DataFrameReader:
    """Configure a reader that never reads a header as data and fails on a file with an unexpected header."""
    reader = reader.options(header=source.header, enforceSchema=not source.by_name)
    # With column pruning, Spark does not detect a line with too few or too many values.
    reader = reader.options(columnPruning=False)
    reader = reader.options(columnNameOfCorruptRecord=malformed, **csv_options(source), **encoding_options(source))
    return reader.option("sep", as_bytes(source.delimiter, source))


def csv_options(source: CsvSource) -> dict[str, str]:
    """Return the options for splitting a line."""
    return {
        "sep": source.delimiter,
        "quote": source.quote,
        "escape": source.escape,
        "timestampFormat": TIME_FORMAT,
    }


def delimiter_hint(line: str, delimiter: str, columns: int | None = None) -> str:
    """Return ``did you mean `delimiter: ';'`?`` for a line that only another delimiter splits into several values.

    ``columns`` is the expected number of values, if known.
    """
    counts = {other: line.count(other) + 1 for other in _DELIMITERS if other in line}
    fitting = [other for other, count in counts.items() if count == (columns or count)]
    if delimiter in line or not fitting:
        return ""
    best = max(fitting, key=counts.__getitem__)
    return "did you mean `delimiter: " + ('"\\t"' if best == "\t" else repr(best)) + "`?"


def _by_name(
    where: str, source: CsvSource, wanted: Sequence[str], file: str, cells: Sequence[str], day: str | None
) -> list[str]:
    """Return the column of each value in a line. The case of names does not matter, as in Spark."""
    lower = [cell.lower() for cell in cells]
    for cell in cells:
        if lower.count(cell.lower()) > 1:
            raise InputError(
                f"{where}: the first line of {file} names {cell!r} twice; set `by_position: true` to take "
                "columns in the order of `schema`."
            )
    for cell in source.rename:
        if cell.lower() not in lower:
            raise InputError(end_sentence(f"{where}.rename: {file} has no column {cell!r}{nearest(cell, cells)}"))
    columns = {name.lower(): name for name in wanted}
    renamed = {cell.lower(): name.lower() for cell, name in source.rename.items()}
    for cell, name in source.rename.items():
        if name.lower() not in columns:
            raise InputError(end_sentence(f"{where}.rename.{cell}: `schema` has no {name!r}{nearest(name, wanted)}"))
    names = [columns.get(renamed.get(cell, cell), f"{_UNREAD}{i}") for i, cell in enumerate(lower)]
    for name in wanted:
        if names.count(name) > 1:
            raise InputError(f"{where}.rename: {file} has several columns that become {name!r}; rename the others too.")
    for name in wanted:
        if name not in names and name != day:
            raise InputError(f"{where}: {_missing(name, file, cells, source.delimiter)}")
    return names


def _missing(name: str, file: str, cells: Sequence[str], delimiter: str) -> str:
    hint = delimiter_hint(cells[0], delimiter) if len(cells) == 1 else ""
    if hint:
        return f"the first line of {file} has one column, {cells[0]!r}; {hint}"
    first = ", ".join(map(repr, cells[:_MOST_NAMES])) + (", ..." if len(cells) > _MOST_NAMES else "")
    return (
        f'the first line of {file} has no column {name!r}, only {first or "nothing"}. Set `rename: {{"name in the file": '
        f"{name}}}`, or `by_position: true` to take them in the order of `schema`, or `header: false` if that line is data."
    )


def _first_line(spark: SparkSession, where: str, source: CsvSource, paths: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return a file, its first non-blank line, and the values of that line as split by Spark."""
    text = line_reader(spark.read, source).schema("value STRING").option("recursiveFileLookup", True).load(list(paths))
    value = F.col("value")
    line = F.make_valid_utf8(value)
    lines = text.select(line, "_metadata.file_path", is_undecoded(value, source))
    first = lines.where(value.rlike(r"[^\x00-\x20]")).head()
    if first is None:
        return paths[0], "", []
    line, file, undecoded = first
    if undecoded and source.header:
        raise InputError(f"{where}: the first line of {file} is not {encoding_hint(source)}")
    options, one_row = csv_options(source), spark.range(1)
    (kind,) = one_row.select(F.schema_of_csv(F.lit(line), options)).collect()[0]
    width = len(cast(StructType, StructType.fromDDL(kind.removeprefix("STRUCT<").removesuffix(">"))))
    texts = ", ".join(f"_{i} STRING" for i in range(width))
    (cells,) = one_row.select(F.from_csv(F.lit(line), texts, options)).collect()[0]
    return file, line, [cell or "" for cell in cells]
