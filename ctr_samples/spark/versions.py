"""What differs between the releases of Spark that the product runs on, 4.0 to 4.3: all of it is here."""

from __future__ import annotations

import inspect

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

_MAX_BY_TAKES_K = "k" in inspect.signature(F.max_by).parameters  # since Spark 4.2

_SINGLES = 16
"""Of a sample without such a `max_by`: one row of each of so many groups."""


def all_by(values: Column, number: Column, most: int) -> Column:
    """Aggregate: the values of a group of at most ``most`` rows, those with the greatest numbers first; numbers are unique."""
    if _MAX_BY_TAKES_K:
        return F.max_by(values, number, most)
    in_order = F.sort_array(F.collect_list(F.struct(number.alias("number"), values.alias("value"))), asc=False)
    return F.transform(in_order, lambda one: one["value"])


def sample_by(row: Column, place: Column, most: int) -> Column:
    """Aggregate: the rows with the greatest places, a hash, at most ``most``. A row or place that is null does not count.

    Before Spark 4.2 it has at most 16 rows: the one with the greatest place of each sixteenth of the places.
    """
    if _MAX_BY_TAKES_K:
        return F.max_by(row, place, most)
    groups = [F.pmod(place, F.lit(_SINGLES)) == group for group in range(min(_SINGLES, most))]
    return F.array_compact(F.array(*[F.max_by(F.when(mine, row), F.when(mine, place)) for mine in groups]))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema, with timestamps in UTC. Runs anywhere."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:  # since Spark 4.1
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)
