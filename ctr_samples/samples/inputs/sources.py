"""Reads the configured sources and records their existing days, malformed lines and input files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial, reduce

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampType

from ctr_samples.config import (
    CatalogSource,
    ColumnarSource,
    CsvSource,
    DatabaseSource,
    FileSource,
    JsonSource,
    Source,
    TextSource,
)
from ctr_samples.config.masking import LEFT_OUT, masked, written
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.periods import Period, Whole, calendar_day, overlap
from ctr_samples.samples.inputs.databases import (
    TableVersion,
    current_version,
    open_database_table,
    place_of,
    rows_of_version,
    without_secrets,
)
from ctr_samples.samples.inputs.file_columns import columns_of_files
from ctr_samples.samples.inputs.listing import (
    LOG_DAY,
    SEED,
    FilesByDay,
    InputFile,
    Listing,
    SourceFrame,
    days_there,
    find_files,
)
from ctr_samples.samples.inputs.log_days import day_in_path, day_of_row, rows_of_days, with_repeats
from ctr_samples.samples.inputs.text_lines import (
    CsvColumns,
    check_encoding,
    columns_of,
    csv_reader,
    decoded,
    line_reader,
    objects_of,
)
from ctr_samples.samples.period import NO_REACH, Reach, days_needed, periods_needed
from ctr_samples.sparksql.columns import quoted
from ctr_samples.sparksql.expressions import MALFORMED, first_sentence
from ctr_samples.sparksql.failures import input_errors

_DAY = timedelta(days=1)
_HIVE_HINT = " If it is a Hive table, run with `--conf spark.sql.catalogImplementation=hive`."


def read_source(
    spark: SparkSession,
    name: str,
    source: Source,
    period: Period,
    reach: Reach = NO_REACH,
    pinned: TableVersion | None = None,
) -> SourceFrame:
    """Read the part of a source that the run needs. Runs on the driver. Lists files, and reads at most one row per day
    of a table.

    An hourly run needs data within ``reach`` of the hour. A lake table is read at the ``pinned`` version, or else
    at its current version, regardless of concurrent writes. Raises InputError if the run date is missing or empty.
    Other days may be missing and are reported. If all days of an optional source are missing, it has no rows.
    """
    if isinstance(source, DatabaseSource):
        with without_secrets(f"sources.{name}: {place_of(source)} cannot be read", source):
            frame = open_database_table(spark, source)
            return _of_days(name, frame, source, period, reach, place_of(source))
    if isinstance(source, CatalogSource):
        return _read_table(spark, name, source, period, reach, pinned)
    files = _Files(spark, name, source)
    listings, found = files.find(period, reach)
    missing = tuple(period for period, listing in found.items() if listing is None or not listing.files)
    if not listings:
        return _absent(spark, name, source, source.path, missing if source.is_dated else ())
    days = () if isinstance(period, Whole) else days_needed(source, period, _zone(spark), reach)
    schema = files.schema(listings)
    by_day = files.by_day(listings, days, schema)
    empty = {period: bool(listing.empty) for period in missing if (listing := found[period]) is not None}
    there = tuple(period for period in found if period not in missing)
    rows = files.read(listings, schema, days or None)
    return replace(rows, missing_days=missing, by_day=by_day, empty=empty, there=there)


def _zone(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.session.timeZone"))


def _absent(
    spark: SparkSession, name: str, source: FileSource | CatalogSource, place: str, missing: tuple[Period, ...]
) -> SourceFrame:
    """Return an empty frame for a missing optional source. Spark detects it while planning and skips the joins."""
    schema = _schema(name, source)
    key = source.days.key if isinstance(source, FileSource) else None
    if key is not None and key.lower() not in _lower(schema.fieldNames()):
        schema = schema.add(key, DateType())
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return SourceFrame(name, spark.range(1).where(F.lit(False)).select(*columns), missing, (), place)


def _read_table(
    spark: SparkSession, name: str, source: CatalogSource, period: Period, reach: Reach, pinned: TableVersion | None
) -> SourceFrame:
    try:
        frame = spark.read.table(source.table)
        version = current_version(spark, source.table)
        if version is not None and pinned is not None and masked(version.table) == masked(pinned.table):
            version = replace(pinned, table=version.table)
        if version is not None:
            frame = rows_of_version(spark, source.table, version)
    except (AnalysisException, ParseException) as error:
        unknown = error.getCondition() in ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
        if unknown and source.optional:
            missing = days_needed(source, period, _zone(spark), reach) if source.is_dated else ()
            return _absent(spark, name, source, f"table {source.table}", tuple(missing))
        hint = _HIVE_HINT if unknown and spark.conf.get("spark.sql.catalogImplementation") == "in-memory" else ""
        why = f"{LEFT_OUT}." if written(source.table) else first_sentence(error)
        raise InputError(f"sources.{name}: the table {source.table} cannot be read: {why}{hint}") from None
    with input_errors(f"sources.{name}: the table {source.table} cannot be read"):
        days = _of_days(name, frame, source, period, reach, f"the table {source.table}")
        return replace(days, version=version)


def _of_days(
    name: str, frame: DataFrame, source: CatalogSource | DatabaseSource, period: Period, reach: Reach, table: str
) -> SourceFrame:
    """Return the rows of the days needed, or all without ``date_column``. Checks that the run date and later days have rows."""
    column, own = source.date_column, calendar_day(period)
    on = None if column is None else rows_of_days(f"sources.{name}.date_column", table, frame, column)
    if source.unique and column is not None:
        frame = frame.withColumn(LOG_DAY, day_of_row(frame, column))
    if on is None or own is None:
        return SourceFrame(name, with_repeats(frame, source, f"sources.{name}").drop(LOG_DAY), (), None)
    days = days_needed(source, period, _zone(frame.sparkSession), reach)
    missing = [day for day in days if day >= own and frame.where(on([day])).isEmpty()]
    if own in missing:
        raise InputError(f"sources.{name}: {table} has no rows with {column} = {own}; wait for the job that writes it.")
    if not source.unique:
        return SourceFrame(name, frame.where(on(days)), tuple(missing), None)
    compared = with_repeats(frame.where(on([days[0] - _DAY, *days])), source, f"sources.{name}")
    return SourceFrame(name, compared.where(F.col(LOG_DAY).isin(*days)).drop(LOG_DAY), tuple(missing), None)


@dataclass(frozen=True, slots=True)
class _Files:
    """A source with files, as a session reads it."""

    spark: SparkSession
    name: str
    source: FileSource

    @property
    def where(self) -> str:
        """Configuration key of the source."""
        return f"sources.{self.name}"

    def find(self, period: Period, reach: Reach) -> tuple[dict[str, Listing], Mapping[Period, Listing | None]]:
        """Find the files of each path, and of each day or hour, None where nothing exists. An optional source may have none."""
        paths = self._paths(period, reach)
        lead = [] if (day := self._lead(period, reach)) is None else [self.source.path_of(day)]
        listings = find_files(self.spark, self.where, list(dict.fromkeys([*lead, *paths.values()])))
        found = {period: listings.get(path) for period, path in paths.items()}
        if not {*listings} - {*lead} and self.source.optional:
            return {}, found
        own = [path for each, path in paths.items() if overlap(each, period)]
        if not any(path in listings for path in own):
            raise InputError(f"{self.where}: there is no {own[0]}; check the path, or wait for the job that writes it.")
        with_data = {path: listing for path, listing in listings.items() if listing.files}
        if not any(path in with_data for path in own):
            raise InputError(
                f"{self.where}: {own[0]} exists but contains no data file; wait for the job that writes it."
            )
        return with_data, found

    def _lead(self, period: Period, reach: Reach) -> date | None:
        """Return the day before those that a run reads, if the rows of the first one are compared with it."""
        if not (self.source.unique and self.source.is_dated) or isinstance(period, Whole):
            return None
        return days_needed(self.source, period, _zone(self.spark), reach)[0] - _DAY

    def _paths(self, period: Period, reach: Reach) -> dict[Period, str]:
        """Return the path of each day or hour that a run reads. For the whole log, return the path of each existing day."""
        if not self.source.is_dated:
            return {period: self.source.path}
        if isinstance(period, Whole):
            there = days_there(self.spark, self.where, self.source.days)
            if not there and not self.source.optional:
                raise InputError(f"{self.where}: there is no {self.source.path}; check the path.")
            return {day: self.source.path_of(day) for day in there}
        needed = periods_needed(self.source, period, _zone(self.spark), reach)
        return {period: self.source.path_of(period) for period in needed}

    def schema(self, listings: Mapping[str, Listing]) -> StructType | None:
        """Return the columns of self-describing files and of their ``key=value`` directories. None for text.

        Covers all files of the source, so a day is read the same way regardless of the other days.
        """
        if not isinstance(self.source, ColumnarSource):
            return None
        with input_errors(f"{self.where}: cannot read {next(iter(listings))} as {self.source.format}"):
            schema = columns_of_files(self.spark.read.format(self.source.format), self.where, listings)
        keys = [key for key in self._keys(listings) if key.lower() not in _lower(schema.fieldNames())]
        return StructType([*schema, *[StructField(key, StringType()) for key in keys]])

    def by_day(
        self, listings: Mapping[str, Listing], days: Sequence[date], schema: StructType | None
    ) -> FilesByDay | None:
        """Return the files of each day, or None if a path does not correspond to one day."""
        if not (days and self.source.is_dated) or self.source.is_hourly:
            return None
        back = 1 if self.source.unique else 0
        every = [days[0] - _DAY, *days][1 - back :]
        paths = {day: path for day in every if (path := self.source.path_of(day)) in listings}

        def compared(days: Collection[date]) -> list[date]:
            return sorted({day - n * _DAY for day in days for n in range(back + 1)})

        def only(some: Collection[date]) -> SourceFrame:
            read = {paths[day]: listings[paths[day]] for day in compared(some) if day in paths}
            return self.read(read, schema, some)

        def files_now(day: date) -> Sequence[InputFile]:
            found = find_files(self.spark, self.where, [self.source.path_of(one) for one in compared([day])])
            return [file for listing in found.values() for file in listing.files]

        files = {day: tuple(listings[path].files) for day, path in paths.items()}
        lead = {day: files.pop(day) for day in every[:back] if day in files}
        return FilesByDay(files, only, files_now, lead if back else None)

    def read(
        self, listings: Mapping[str, Listing], file_schema: StructType | None, days: Collection[date] | None = None
    ) -> SourceFrame:
        """Read exactly the files found. ``key=value`` directories below the path become columns.

        With `unique`, only the rows of ``days`` stay once they are compared with all rows. None stands for all.
        """
        # What Spark loads at once: each path itself, or only the files found below each of its roots.
        parts: list[tuple[list[str], dict[str, str]]] = []
        for path, listing in listings.items():
            parts += [(names, {"basePath": root}) for root, names in listing.named.items()] or [([path], {})]
        paths = [path for some, _ in parts for path in some]
        source, keys = self.source, self._keys(listings)
        read = partial(
            SourceFrame,
            self.name,
            missing_days=(),
            files=tuple(f for found in listings.values() for f in found.files),
            told=tuple(sentence for found in listings.values() for sentence in found.told),
        )
        with input_errors(f"{self.where}: cannot read {paths[0]} as {source.format}"):
            columns = self._csv_columns(source, paths, keys) if isinstance(source, CsvSource) else None
            reader = self._reader(keys, columns)
            if not keys:
                reader = reader.option("recursiveFileLookup", True)
            if file_schema is not None:
                reader = reader.schema(file_schema)
            # With ``key=value`` directories, Spark loads only one root at a time.
            together = parts if keys else [(paths, {})]
            day = [day_in_path(self.where, source.days, listings).alias(LOG_DAY)] if source.is_dated else []
            loaded = [reader.options(**base).load(some) for some, base in together]
            rows = reduce(DataFrame.unionByName, [rows.select("*", *day) for rows in loaded])

            def marked(rows: DataFrame) -> DataFrame:
                rows = with_repeats(self._with_day(rows), source, self.where)
                if days is None or not (source.unique and source.is_dated):
                    return rows
                return rows.where(F.col(LOG_DAY).isin(*days))

            if not isinstance(source, JsonSource):
                return read(marked(rows if columns is None else self._decoded(columns, rows)), csv=columns)

            def parsed(lines: DataFrame) -> DataFrame:
                return objects_of(lines, source, _schema(self.name, source), MALFORMED)

            def some_lines(share: float) -> DataFrame:
                return self._with_day(parsed(rows.sample(share, SEED)))

            return read(marked(parsed(rows)), some_lines=some_lines)

    def _csv_columns(self, source: CsvSource, paths: Sequence[str], keys: Sequence[str]) -> CsvColumns:
        """Return the columns in the lines of a CSV source. The day column may or may not be in the lines."""
        schema, day = _schema(self.name, source), source.days.key
        in_lines = [field.name for field in schema if field.name != MALFORMED and field.name not in keys]
        return columns_of(self.spark, self.where, source, in_lines, paths, day)

    def _decoded(self, columns: CsvColumns, rows: DataFrame) -> DataFrame:
        assert isinstance(self.source, TextSource)
        named = columns.named(rows)
        return decoded(named, self.source, [name for name in columns.names if name in named.columns], MALFORMED)

    def _with_day(self, rows: DataFrame) -> DataFrame:
        """Add the day of a ``key={date}`` directory as the column ``key``. Values in the files take precedence."""
        source, key = self.source, self.source.days.key
        if key is None:
            return rows
        day, there = F.col(LOG_DAY), key.lower() in _lower(rows.columns)
        declared = _schema(self.name, source) if isinstance(source, TextSource) else StructType()
        kinds = {field.name.lower(): field.dataType for field in declared}
        kind = kinds.get(key.lower(), DateType())
        if not there:
            rows = rows.withColumn(key, day.cast(kind))
        elif isinstance(source, JsonSource) and isinstance(kind, DateType | StringType | TimestampType):
            rows = rows.withColumn(key, F.coalesce(F.col(quoted(key)), day.cast(kind)))
        return rows

    def _keys(self, listings: Mapping[str, Listing]) -> tuple[str, ...]:
        """Return the keys of the ``key=value`` directories, which all files have."""
        layouts = set[tuple[str, ...]]().union(*(listing.layouts for listing in listings.values()))
        if len(layouts) > 1 or any("*" in layout for layout in layouts):
            keys = " and ".join(sorted("/".join(layout) or "none" for layout in layouts))
            raise InputError(
                f"{self.where}: the files under {self.source.path} lie in different `key=value` directories ({keys}); expected "
                "the same keys for all files, directly below the path. Move the files, or give each kind its own source."
            )
        return next(iter(layouts))

    def _reader(self, keys: Sequence[str], columns: CsvColumns | None) -> DataFrameReader:
        source = self.source
        reader = self.spark.read.format(source.format)
        if isinstance(source, TextSource):
            check_encoding(self.spark, self.where, source)
        if isinstance(source, JsonSource):
            reader = line_reader(reader, source)
            typed = [field for field in _schema(self.name, source) if field.name in keys]
            reader = reader.schema(StructType([StructField("value", StringType()), *typed]))
        if isinstance(source, CsvSource) and columns is not None:
            schema = columns.line_schema(_schema(self.name, source), (MALFORMED, *keys))
            reader = csv_reader(reader, source, MALFORMED).schema(schema)
        return reader


def _lower(names: Sequence[str]) -> set[str]:
    return {name.lower() for name in names}


def _schema(name: str, source: FileSource | CatalogSource) -> StructType:
    text = source.schema_ or ""
    try:
        schema = StructType.fromDDL(text)
    except (ParseException, AnalysisException) as error:
        why = f"{LEFT_OUT}." if written(text) else first_sentence(error)
        raise ConfigError(f"sources.{name}.schema: {why}") from None
    if not isinstance(schema, StructType):
        raise ConfigError(f"sources.{name}.schema: found {text}, expected columns such as `a INT, b STRING`")
    return schema.add(MALFORMED, StringType()) if isinstance(source, TextSource) else schema
