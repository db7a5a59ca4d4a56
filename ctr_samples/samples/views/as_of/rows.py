"""Rows of a view, ready to be joined: columns over a frame, evaluated where its source is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DoubleType, StructField, StructType

from ctr_samples.samples.views.as_of import matching
from ctr_samples.samples.views.as_of.matching import CONTENT, END, EVENT, KEY, KNOWN, PAYLOAD, AsOf
from ctr_samples.sparksql.columns import hash_of_fields, later

EVENT_TIME, AVAILABLE_TIME = "event_time", "available_time"
SEQUENCE, GONE = "sequence", "gone"
"""Columns of a feature table besides ``key`` and ``payload``.

The last two are optional: the order of rows with equal times, and a flag for tombstones, which mark that the entity no
longer has features. A table without times has neither of the first two.
"""

VALID_TO, CLOSED = "valid_to", "closed_available"
"""Two further columns of a table whose rows end: the end of a row's validity, and the time at which the end became
known. The first is null if the row has not ended, the second if the end was known at once.
"""


@dataclass(frozen=True, slots=True)
class Join:
    """View that is ready to join. ``features`` must not have rows without a key or times.

    ``made`` replaces the payload by what is computed from it, of the type ``payload``. The content of a row, which
    decides between equal times, is that of the features.
    """

    how: AsOf
    features: DataFrame
    made: Callable[[DataFrame], DataFrame] | None = None
    payload: StructType | None = None

    @property
    def kind(self) -> StructType:
        """Type of the struct that the join adds."""
        payload = self.payload or self.features.schema[PAYLOAD].dataType
        assert isinstance(payload, StructType)
        fields = [StructField(field.name, field.dataType) for field in payload.fields]
        return StructType([*fields, StructField("age_s", DoubleType()), StructField("matched", BooleanType(), False)])

    def ready(self) -> DataFrame:
        """Return the rows with the columns of :mod:`ctr_samples.samples.views.as_of.matching`."""
        features = self.features
        columns = [F.col(KEY), content_of(features.schema[PAYLOAD].dataType).alias(CONTENT), F.col(PAYLOAD)]
        if not self.how.static:
            clocks = {EVENT_TIME: EVENT, AVAILABLE_TIME: KNOWN, VALID_TO: END, CLOSED: matching.CLOSED}
            columns += [F.unix_micros(clock).alias(name) for clock, name in clocks.items() if clock in features.columns]
            gone = F.coalesce(F.col(GONE), F.lit(False)) if GONE in features.columns else F.lit(False)
            columns.append(gone.alias(matching.GONE))
            columns += [F.col(SEQUENCE).alias(matching.SEQUENCE)] if SEQUENCE in features.columns else []
        rows = features.select(*columns)
        return rows if self.made is None else self.made(rows)


def effective_from(how: AsOf) -> Column:
    """Return the first instant at which an impression sees a row, like :meth:`AsOf.seen_from`."""
    event = F.col(EVENT_TIME) if how.inclusive else later(F.col(EVENT_TIME), timedelta(microseconds=1))
    return F.greatest(event, F.col(AVAILABLE_TIME))


def rank_of(features: DataFrame) -> list[Column]:
    """Return the columns that order the rows of a key that are visible at one time, ascending."""
    content = content_of(features.schema[PAYLOAD].dataType)
    if GONE in features.columns:
        content = F.when(F.col(GONE), F.lit(-(2**63))).otherwise(content)
    sequence = [F.col(SEQUENCE)] if SEQUENCE in features.columns else []
    return [F.col(EVENT_TIME), F.col(AVAILABLE_TIME), *sequence, content]


def content_of(kind: DataType) -> Column:
    """Hash of the whole payload. As the last tie-breaker, it makes the order of rows total."""
    assert isinstance(kind, StructType)
    payload = F.col(PAYLOAD)
    return hash_of_fields([payload[f.name] for f in kind.fields], [f.dataType for f in kind.fields])
