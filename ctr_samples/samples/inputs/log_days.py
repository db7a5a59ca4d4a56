"""The day of a row, whatever its times say: that of the file's path in a log, which is counted, or of a column in a table. And
rows that repeat those of the same day or of the day before, as in logs that are delivered at least once; see docs/logs.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DateType, StringType, TimestampNTZType, TimestampType

from ctr_samples.config.source import SourceKind
from ctr_samples.day_paths import DayPath
from ctr_samples.errors import InputError
from ctr_samples.periods import span_of
from ctr_samples.samples.inputs.listing import LOG_DAY, Listing
from ctr_samples.sparksql.columns import content_hash, order_column, quoted
from ctr_samples.sparksql.expressions import IS_REPEAT, MALFORMED
from ctr_samples.sparksql.observations import Tally

ByDay = dict[date | None, list[int]]
"""Number of rows of each kind, by day. The day is None for a source without days."""


def day_in_path(where: str, path: DayPath, listings: Mapping[str, Listing]) -> Column:
    """Return the day named in the path of a row's file. ``listings`` has the files of each day under ``path``.

    Raises InputError, prefixed with ``where``, if a day's files are in directories of different depths.
    """
    roots = {root for listing in listings.values() for root in listing.roots}
    depths = {len(re.sub(r"^[^:/]+:(//[^/]*)?", "", root).split("/")) - path.from_end for root in roots}
    if len(depths) > 1:
        raise InputError(
            f"{where}: the files of a day lie at several depths below {path.path}; give each depth its own source."
        )
    depth, file, place = depths.pop() - 1, F.col("_metadata.file_path"), path.iso_place()
    if place is not None:  # cutting takes half the time of a regular expression for each row
        names, at = place
        dated = F.when(F.contains(file, F.lit("://")), _cut(file, 3 + depth, names)).otherwise(
            _cut(file, 1 + depth, names)
        )
        return F.substr(dated, F.lit(at + 1), F.lit(10)).try_cast("date")
    pattern, groups = path.day_pattern()
    # Spark writes file:///a where Hadoop has file:/a.
    pattern = rf"^[^:/]+:(?://[^/]*)?/(?:[^/]*/){{{depth}}}{pattern}.*$"
    # One regular expression for each row is dear enough, so it finds year, month and day at once.
    return F.regexp_replace("_metadata.file_path", pattern, "-".join(f"${group}" for group in groups)).try_cast("date")


def _cut(path: Column, before: int, names: int) -> Column:
    """Return some components of a path behind those ``before`` them."""
    return F.substring_index(F.substring_index(path, "/", before + names), "/", -names)


def kinds_by_day(name: str, kind: Column, kinds: int, days: Collection[date]) -> dict[str, Tally]:
    """Return aggregates that count the rows of each kind on each of the ``days`` of a log, for :func:`by_day`.

    A kind is a number below ``kinds``.
    """
    if not days:
        return {f"{name}|": Tally(kind, kinds)}
    first, last = min(days), max(days)
    day = F.unix_date(LOG_DAY) - (first - date(1970, 1, 1)).days
    return {f"{name}|{first}": Tally(day * kinds + kind, ((last - first).days + 1) * kinds)}


def by_day(tallies: Mapping[str, Mapping[int, int]], kinds_of: Callable[[str], int]) -> dict[str, ByDay]:
    """Decode the counts of :func:`kinds_by_day`, by name. ``kinds_of`` returns the number of kinds of each."""
    counts: dict[str, ByDay] = {}
    for key, numbers in tallies.items():
        name, _, first = key.rpartition("|")
        of_name, kinds = counts.setdefault(name, {}), kinds_of(name)
        for number, count in numbers.items():
            day = date.fromisoformat(first) + timedelta(days=number // kinds) if first else None
            of_name.setdefault(day, [0] * kinds)[number % kinds] = count
    return counts


def in_log_of(day: date | None) -> str:
    """Return the phrase that names the day of the log, or an empty string without a day."""
    return "" if day is None else f" in the log of {day}"


def rows_of_days(where: str, table: str, frame: DataFrame, name: str) -> Callable[[Sequence[date]], Column]:
    """Return a condition for the rows of consecutive days. A time belongs to its day in the session time zone.

    The column stands alone on one side, so that databases can use an index and skip partitions. Raises InputError,
    prefixed with ``where``, if the table lacks the column or its type cannot express days.
    """
    kinds = {column.lower(): frame.schema[column].dataType for column in frame.columns}
    kind, column = kinds.get(name.lower()), F.col(quoted(name))
    match kind:
        case None:
            raise InputError(f"{where}: {table} has no column {name!r}.")
        case DateType():
            return lambda days: column.isin(list(days))
        case TimestampType() | TimestampNTZType():
            has_zone = isinstance(kind, TimestampType)
            zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
            return lambda days: (
                (column >= _midnight(days[0], zone, has_zone))
                & (column < _midnight(days[-1] + timedelta(days=1), zone, has_zone))
            )
        case StringType() | BinaryType():
            return lambda days: column.cast("string").isin([day.isoformat() for day in days])
    raise InputError(
        f"{where}: {name!r} of {table} is of type {kind.simpleString()}; expected a date, a timestamp, or text such as "
        "2019-06-05. Name another column, or make a date of it in a view or a query."
    )


def day_of_row(frame: DataFrame, name: str) -> Column:
    """Return the day of a row as a date, given the column of :func:`rows_of_days`."""
    column = F.col(quoted(name))
    kind = next(field.dataType for field in frame.schema if field.name.lower() == name.lower())
    return column.cast("string").try_cast("date") if isinstance(kind, StringType | BinaryType) else column.cast("date")


def _midnight(day: date, zone: str, has_zone: bool) -> Column:
    """Return the start of a day, as an instant or as wall-clock time."""
    if not has_zone:
        return F.lit(day.isoformat()).cast("timestamp_ntz")
    return F.lit(span_of(day, zone)[0])


def with_repeats(rows: DataFrame, source: SourceKind, where: str) -> DataFrame:
    """Add the column ``IS_REPEAT`` if the source has `unique`. Costs a shuffle of all rows.

    Of rows of one day, the one with the least `unique_first` counts, then the one with the least hash of its content. A
    row that lacks a value of `unique` is no repeat, and neither is a malformed line. Raises InputError for a value that
    has no order.
    """
    if not source.unique:
        return rows
    keys = [order_column(rows, text, f"{where}.unique") for text in source.unique]
    first = (
        F.lit(0) if source.unique_first is None else order_column(rows, source.unique_first, f"{where}.unique_first")
    )
    content = content_hash(rows.drop(LOG_DAY, MALFORMED))
    told = [key.isNotNull() for key in keys] + ([F.col(MALFORMED).isNull()] if MALFORMED in rows.columns else [])
    comparable = reduce(Column.__and__, told)
    # Rows without a key are spread over the tasks by their content.
    alike = [F.when(comparable, key) for key in keys] + [F.when(~comparable, content)]
    day = F.col(LOG_DAY) if LOG_DAY in rows.columns else F.lit(None).cast("date")
    before = F.lag(F.struct(day.alias("day"))).over(
        Window.partitionBy(*alike).orderBy(day, first.asc_nulls_last(), content)
    )
    near = F.coalesce(F.datediff(day, before["day"]) <= 1, F.lit(True))
    return rows.withColumn(IS_REPEAT, comparable & before.isNotNull() & near)
