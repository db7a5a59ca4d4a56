"""Lines of text as rows: their encoding, the values of CSV lines by the names in the first line or by position, and JSON lines.

Spark's own reader of JSON parses the first object of a line and ignores the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, StringType, StructField, StructType, VariantType

from ctr_samples.config import CsvSource, JsonSource, TextSource
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.errors import InputError
from ctr_samples.sparksql.columns import quoted
from ctr_samples.sparksql.moments import TIME_FORMAT

_BYTES = "ISO-8859-1"
"""Encoding that maps each byte to the character of that number, and so loses none."""
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""What Java writes in place of bytes that are no character. Text in UTF-8 may contain it, too."""
_NEVER = "\uffff"
_TEXT = StringType()


def check_encoding(spark: SparkSession, where: str, source: TextSource) -> None:
    """Raise InputError if the JVM lacks the encoding of a source."""
    if not source.is_utf8 and not cast(Any, spark)._jvm.java.nio.charset.Charset.isSupported(source.encoding):
        raise InputError(
            f"{where}.encoding: found {source.encoding!r}, which Java does not know; expected one such as GBK."
        )


def encoding_options(source: TextSource) -> dict[str, str]:
    """Return the options with which Spark's CSV reader decodes lines. A file is read whole unless lines can be told by the
    bytes of ASCII. UTF-8 is read as bytes, for :func:`decoded`, since Spark would hide wrong ones.
    """
    return {
        "encoding": _BYTES if source.is_utf8 else source.encoding,
        "multiLine": str(not source.extends_ascii).lower(),
    }


def as_bytes(text: str, source: TextSource) -> str:
    """Return text as :func:`encoding_options` makes Spark see it."""
    return text.encode().decode(_BYTES) if source.is_utf8 else text


def line_reader(reader: DataFrameReader, source: TextSource) -> DataFrameReader:
    """Configure a reader that gives lines in the column ``value``, in UTF-8 with their bytes unchecked."""
    if source.is_utf8:
        return reader.format("text")
    return reader.format("csv").options(sep=_NEVER, quote="", escape="", **encoding_options(source))


def encoding_hint(source: TextSource) -> str:
    """Return the encoding that lines were expected in, and what else they may be, to end a sentence."""
    other = "is it Latin-1? Set `encoding: ISO-8859-1`" if source.is_utf8 else "is `encoding` right?"
    return f"{source.encoding}; {other}"


def is_undecoded(text: Column, source: TextSource) -> Column:
    """Whether text has bytes that are no character of the source's encoding."""
    return ~F.is_valid_utf8(text) if source.is_utf8 else text.contains(_UNKNOWN)


def decoded(rows: DataFrame, source: TextSource, names: Sequence[str], malformed: str) -> DataFrame:
    """Return the rows of Spark's CSV reader with the columns ``names`` decoded. A line with bytes that are no text becomes
    malformed; ``malformed`` then has the value with these bytes.
    """
    kinds = {name: rows.schema[name].dataType for name in (*names, malformed)}
    texts = {name: kind for name, kind in kinds.items() if isinstance(kind, StringType | BinaryType | VariantType)}
    if source.is_utf8:
        rows = rows.withColumns({name: _of_bytes(F.col(quoted(name)), kind) for name, kind in texts.items()})
    checked = [name for name in names if name in texts and not isinstance(texts[name], BinaryType)]
    cells = [F.col(quoted(name)).cast("string") for name in checked]
    wrong = [F.when(is_undecoded(cell, source), cell) for cell in cells]
    return rows.withColumn(malformed, F.coalesce(F.col(quoted(malformed)), *wrong))


def _of_bytes(text: Column, kind: DataType = _TEXT) -> Column:
    """Return the text behind bytes that were read as characters."""
    if isinstance(kind, VariantType):
        # Text in a VARIANT is the only value of a cell that is not in ASCII.
        inner = F.variant_get(text, "$", "string")
        return F.when(F.coalesce(_is_ascii(inner), F.lit(True)), text).otherwise(_of_bytes(inner).cast(kind))
    text = text.cast("string")
    found = F.when(_is_ascii(text), text).otherwise(F.encode(text, _BYTES).cast("string"))
    return found.cast("binary") if isinstance(kind, BinaryType) else found


def _is_ascii(text: Column) -> Column:
    return F.octet_length(text) == F.char_length(text)


_DELIMITERS = (",", ";", "\t", "|", ":", " ")
_MOST_NAMES = 20
_UNREAD = "_unread_"


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """The values of a line, each with its text in the first line, also ``as_read`` by Spark, and its column in the schema."""

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
    return {"sep": source.delimiter, "quote": source.quote, "escape": source.escape, "timestampFormat": TIME_FORMAT}


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
    options, one_row = csv_options(source), spark.sql("VALUES (1)")  # a local relation: evaluated without a Spark job
    (kind,) = one_row.select(F.schema_of_csv(F.lit(line), options)).collect()[0]
    width = len(cast(StructType, StructType.fromDDL(kind.removeprefix("STRUCT<").removesuffix(">"))))
    texts = ", ".join(f"_{i} STRING" for i in range(width))
    (cells,) = one_row.select(F.from_csv(F.lit(line), texts, options)).collect()[0]
    return file, line, [cell or "" for cell in cells]


_LINE = "line"
_BEFORE, _BEHIND = f'{{"{_LINE}":[', ",null]}"
"""What a line is put between when it is parsed: it is one object if its list then has two elements, that and null. Whatever
follows an object on its line makes the list longer, ends it before its null, or cannot be parsed.
"""


def objects_of(lines: DataFrame, source: JsonSource, schema: StructType, malformed: str) -> DataFrame:
    """Parse the objects in ``value``, one per line. Other columns of ``lines`` override fields of the same name.

    ``schema`` has the text column ``malformed``. It holds the line unless the line is exactly one object whose fields
    have the schema's types, in the encoding of the source. Blank lines give no rows.
    """
    line = F.col("value")
    keys = [name for name in lines.columns if name != "value"]
    known = {key.lower() for key in keys}
    of_line = StructType([field for field in schema if field.name != malformed])
    rows = lines.where(F.startswith(line, F.lit("{")) | line.rlike(r"[^ \t\r]")).select(
        parsed_line(line, of_line, malformed, timestampFormat=TIME_FORMAT).alias("_parsed"), "value", *keys
    )
    values, is_one_object = object_of(F.col("_parsed"), malformed)
    fields = [
        F.when(~is_one_object | is_undecoded(line, source), line).alias(malformed)
        if field.name == malformed
        else values[field.name].alias(field.name)
        for field in schema
        if field.name.lower() not in known
    ]
    return rows.select(*fields, *keys)


def parsed_line(line: Column, schema: StructType, malformed: str, **options: str) -> Column:
    """Parse a line that should be one object with the fields of ``schema``, for :func:`object_of`."""
    parsed = StructType([StructField(_LINE, ArrayType(schema)), StructField(malformed, StringType())])
    options |= {"columnNameOfCorruptRecord": malformed, "maxStringLen": str(2**31 - 1)}
    return F.from_json(F.concat(F.lit(_BEFORE), line, F.lit(_BEHIND)), parsed, options)


def object_of(parsed: Column, malformed: str) -> tuple[Column, Column]:
    """Return the object of a :func:`parsed_line`, and whether the line is one object whose fields have their types."""
    found = parsed[_LINE]
    first = F.get(found, F.lit(0))
    return first, parsed[malformed].isNull() & first.isNotNull() & (F.size(found) == 2)
