"""The table column that holds the day of a row, as a date, text or a timestamp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DateType, StringType, TimestampNTZType, TimestampType

from ctr_samples.errors import InputError
from ctr_samples.periods import span_of
from ctr_samples.sparksql.columns import quoted


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
