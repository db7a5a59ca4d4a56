"""Sources: files, catalog tables, and databases, distinguished by ``format``."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from ctr_samples.config.base import Expression, Model, Name, OneOrMore, Scalar, as_text, from_home, hint
from ctr_samples.config.kinds import Kind, kinds_of, without_absent
from ctr_samples.day_paths import DayPath
from ctr_samples.periods import Hour, Period, calendar_day


class BadRecords(Model):
    """How many unreadable lines or rows of a source a run tolerates."""

    max_rate: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of malformed lines, of impressions without a readable time or article, of impossible times, "
        "and of rows of a view without a key or a time, above which the run is refused.",
    )


class JdbcPartition(Model):
    """Lets several tasks read a table of a database, each a range of a column. All rows are read, whatever the bounds."""

    column: str = Field(min_length=1, description="A number, date or timestamp with evenly spread values.")
    lower: Scalar = Field(description="Roughly where the first range ends, as the database writes the value.")
    upper: Scalar = Field(description="Roughly where the last range begins.")
    count: int = Field(ge=2, le=1000, description="How many tasks read, each over its own connection.")


_DATE_COLUMN = (
    "The column with the day: a date, text such as 2019-06-05, or a timestamp, whose day is that of "
    "`timezone`. Only the days needed are read."
)
_OPTIONAL = (
    "If nothing is there, the source reads as empty, with a warning: for a feature table that does not exist yet."
)


class SourceKind(Kind):
    """One input, read over the days that a run needs."""

    thing: ClassVar[str] = "source"

    format: Literal["json", "csv", "parquet", "orc", "table", "jdbc"] = Field(description="How the input is stored.")
    days_before: int = Field(
        0,
        ge=0,
        le=3660,
        description="Days that are read before the run date. [Some may be missing](logs.md#missing-days), the run date "
        "not.",
    )
    days_after: int = Field(0, ge=0, le=366, description="Days that are read after it, for late clicks.")
    bad_records: BadRecords = Field(BadRecords(), description="What is tolerated.")
    explode: dict[Name, Expression] = Field(
        {},
        max_length=1,
        description="A name and a list: [each element becomes a row](logs.md#lists), with the element in a column of that "
        "name and its place from 0 on in `<name>_position`.",
    )

    unique: Annotated[tuple[Expression, ...], OneOrMore, Field(max_length=8)] = Field(
        (),
        description="What the copies of an event have in common, such as `event_id`, in [a log that is delivered at least "
        "once](logs.md#at-least-once-logs): one of them counts. Rows that lack a value all count.",
    )
    unique_first: Expression | None = Field(
        None,
        description="With `unique`: the copy with the least value counts, such as that received first. Default, and for "
        "equal ones: one by its content.",
    )

    @property
    def place(self) -> str:
        """Short description of the location."""
        raise NotImplementedError

    @property
    def is_dated(self) -> bool:
        """Whether a day's data can be addressed without reading other days."""
        raise NotImplementedError

    @property
    def may_be_absent(self) -> bool:
        """Whether a missing source is read as empty."""
        return False


class FileSource(SourceKind):
    """Files of one format under a path."""

    instead: ClassVar = {"date_column": "write `{date}` in `path` instead."}

    format: Literal["json", "csv", "parquet", "orc"]
    path: str = Field(
        min_length=1,
        description="A file or directory. `{date}` stands for each day that is read, as 2019-06-05; other forms have %Y, "
        "%m, %d, and %-m and %-d without leading zeros: `{date:%Y%m%d}`, `year={date:%Y}/month={date:%-m}`. A "
        "directory that names the whole day, as `dt={date}`, gives the rows a date column `dt`, unless the "
        "files have one. With `grain: hour`, `{hour}` (two digits, or `{hour:%-H}`) stands for each hour of "
        "these days.",
    )
    schema_: str | None = Field(None, alias="schema", description="Columns and types as in `CREATE TABLE`.")
    optional: bool = Field(False, description=_OPTIONAL)

    @field_validator("path")
    @classmethod
    def _only_templates_of_time(cls, value: str) -> str:
        if problem := DayPath(value).problem():
            raise ValueError(problem)
        return from_home(value)

    @property
    def place(self) -> str:
        """Path of the source files."""
        return self.path

    @property
    def days(self) -> DayPath:
        """Path template, which may contain the day and the hour."""
        return DayPath(self.path)

    @property
    def is_dated(self) -> bool:
        """Whether the path contains the day."""
        return self.days.is_dated

    @property
    def is_hourly(self) -> bool:
        """Whether the path contains the hour."""
        return self.days.is_hourly

    def path_of(self, period: Period) -> str:
        """Return the path for a daily or hourly run. A whole-log run uses the path as written."""
        return self.days.filled(calendar_day(period), period.hour if isinstance(period, Hour) else None)

    @property
    def may_be_absent(self) -> bool:
        """Whether a path without files is read as empty."""
        return self.optional


class ColumnarSource(FileSource):
    """Files that know their own columns and types. A time without a zone is in `timezone`: see
    [times without a zone](logs.md#times-without-a-zone).
    """

    kind: ClassVar[str] = "`format: parquet` and `orc`"
    told_by: ClassVar[str] = "this is `format: parquet` or `orc`"

    format: Literal["parquet", "orc"]
    schema_: str | None = Field(
        None, alias="schema", description="Columns and types as in `CREATE TABLE`; only needed with `optional`."
    )


class TextSource(FileSource):
    """Text files with one record per line, whose columns and types come from the configuration."""

    schema_: str = Field(
        alias="schema",
        description="Columns and types as in `CREATE TABLE`.",
        json_schema_extra=hint("without it, types would depend on one day's data"),
    )
    encoding: str = Field(
        "UTF-8",
        description="Such as ISO-8859-1 (Latin-1), windows-1252, GBK or UTF-16: see [encodings](logs.md#encodings).",
    )

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            "".encode(value)
        except (LookupError, ValueError):
            raise ValueError(f"found {value!r}, expected an encoding such as ISO-8859-1, windows-1252 or GBK") from None
        return value

    @property
    def is_utf8(self) -> bool:
        """Whether the files are in UTF-8."""
        return codecs.lookup(self.encoding).name == "utf-8"

    @property
    def extends_ascii(self) -> bool:
        """Whether the encoding has the bytes of ASCII, so that lines can be told before they are decoded."""
        ascii_bytes = bytes(range(128))
        return ascii_bytes.decode(self.encoding, "replace") == ascii_bytes.decode("ascii")


class JsonSource(TextSource):
    """Files with one JSON object on each line."""

    kind: ClassVar[str] = "`format: json`"
    told_by: ClassVar[str] = "this is `format: json`"

    format: Literal["json"]


class CsvSource(TextSource):
    """Files with comma-separated values, one row on each line. An empty cell is null, in quotes (`""`) too."""

    kind: ClassVar[str] = "`format: csv`"
    told_by: ClassVar[str] = "this is `format: csv`"

    format: Literal["csv"]
    header: bool = Field(
        False,
        description="The first line holds names, by which the columns of `schema` are found.",
    )
    by_position: bool = Field(
        False,
        description="With `header: true`: ignore the names and take the columns in the order of `schema`.",
    )
    rename: dict[Annotated[str, BeforeValidator(as_text)], Annotated[str, Field(min_length=1)]] = Field(
        {},
        description='With `header: true`: names in the first line and their columns of `schema`, as in `{"user:token": '
        'user, "": row}`; `""` is a column without a name.',
    )
    delimiter: str = Field(",", min_length=1, description="Between columns.")
    quote: str = Field(
        '"', max_length=1, description='Around values that contain the delimiter; `""` if quotes mean nothing.'
    )
    escape: str = Field(
        '"',
        min_length=1,
        max_length=1,
        description="Before a quote within quotes: `'\"'` where it is doubled (RFC 4180), or `'\\'`.",
    )

    @field_validator("quote", "escape")
    @classmethod
    def _one_byte(cls, value: str) -> str:
        if not value.isascii():
            raise ValueError(f"found {value!r}, expected a character of ASCII")
        return value

    @property
    def by_name(self) -> bool:
        """Whether the first line holds the column names."""
        return self.header and not self.by_position


class CatalogSource(SourceKind):
    """A table that the catalog of Spark knows: Hive, Iceberg or Delta."""

    kind: ClassVar[str] = "`format: table`"
    told_by: ClassVar[str] = "this is `format: table`"

    format: Literal["table"]
    table: str = Field(min_length=1, description="As `db.name`.")
    date_column: str | None = Field(None, min_length=1, description=_DATE_COLUMN)
    schema_: str | None = Field(
        None, alias="schema", description="Columns and types as in `CREATE TABLE`; only needed with `optional`."
    )
    optional: bool = Field(False, description=_OPTIONAL)

    @property
    def place(self) -> str:
        """Name of the table."""
        return self.table

    @property
    def is_dated(self) -> bool:
        """Whether a column holds the day."""
        return self.date_column is not None

    @property
    def may_be_absent(self) -> bool:
        """Whether a table missing from the catalog is read as empty."""
        return self.optional


class DatabaseSource(SourceKind):
    """A table or a query of a database, read over JDBC."""

    kind: ClassVar[str] = "`format: jdbc`"
    told_by: ClassVar[str] = "this is `format: jdbc`"
    instead: ClassVar = {
        "schema": "the database knows its types; cast them in `query` instead.",
        "optional": "write a `query` that may return no rows instead.",
        "path": "name the database with `url` instead.",
    }

    format: Literal["jdbc"]
    url: str = Field(pattern=r"^jdbc:", description="As `jdbc:postgresql://db/shop`.")
    table: str | None = Field(None, min_length=1, description="The table to read.")
    query: str | None = Field(None, min_length=1, description="Instead of `table`: a SELECT for the database.")
    date_column: str | None = Field(None, min_length=1, description=_DATE_COLUMN)
    user: str | None = Field(None, min_length=1, description="The user to log in as.")
    password: str | None = Field(None, min_length=1, description="Only as `${NAME}`; it is never written anywhere.")
    driver: str | None = Field(None, min_length=1, description="Its class, if its jar does not declare it.")
    partition: JdbcPartition | None = Field(None, description="Lets several tasks read it.")

    @property
    def place(self) -> str:
        """Name of the table."""
        return self.table or "a query"

    @property
    def is_dated(self) -> bool:
        """Whether a column holds the day."""
        return self.date_column is not None


def _model_of(source: Mapping[str, Any]) -> type[Kind] | None:
    return kinds_of(Source).get(str(source.get("format")))


Source = Annotated[
    JsonSource | CsvSource | ColumnarSource | CatalogSource | DatabaseSource,
    Field(discriminator="format"),
    without_absent(_model_of, lambda: Source),
]
"""One input: files of a format under a path, a table in the catalog, or a table of a database."""
