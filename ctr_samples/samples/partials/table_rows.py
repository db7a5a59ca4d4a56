"""Partials of an event view: the rows of a day's table that can still match after the day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.config import EventView
from ctr_samples.samples.inputs.clocks import Use
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.partials.files import PartialWriter, files_since, read_files, write_files, write_timed
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.as_of.matching import KEY, PAYLOAD
from ctr_samples.samples.views.as_of.rows import EVENT_TIME, effective_from, rank_of
from ctr_samples.samples.views.rows import as_of, usable, view_rows
from ctr_samples.shards import Storage
from ctr_samples.shards.partials import Partial, PartialFile


@dataclass(frozen=True, slots=True)
class KeptTable:
    """An event view without end times, and its columns.

    A partial serves impressions at or after the end of its day. Of a key's rows that are visible by then, only the
    best row can match, then and later: it expires last, since no other row has a later event time. Rows that become
    visible later are all kept.
    """

    name: str
    view: EventView
    columns: tuple[str, ...]
    use: ClassVar[Use] = "views"
    done: ClassVar[str] = "joined"
    has_own_day: ClassVar[bool] = False

    @property
    def source(self) -> str:
        """Source of the table."""
        return self.view.source

    def cut(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the view."""
        return usable(view_rows(rows, self.name, self.view, self.columns))

    def definition(self) -> Mapping[str, Any]:
        """Return the settings that determine the matching rows and their kept columns. The maximum age is excluded."""
        keys = {"where", "key", "article_key", "event_time", "available_after", "available_time", "inclusive"}
        keys |= {"sequence", "tombstone"}
        return {**self.view.model_dump(mode="json", by_alias=True, include=keys), "columns": self.columns}

    def write(self, rows: DataFrame, place: PartialWriter, day: date, zone: str) -> tuple[PartialFile, ...]:
        """Write the rows of a day's table that later days may need. Runs a Spark job."""
        end = Span.of(day, zone).end
        how, table = as_of(self.name, self.view, ()), self.cut(rows)
        later = effective_from(how) > F.lit(end)
        ranked = table.repartition(place.tasks, KEY).withColumn("_later", later)
        best_first = Window.partitionBy(KEY, "_later").orderBy(*[part.desc() for part in rank_of(table)])
        place_in_key = F.when(F.col("_later"), 1).otherwise(F.row_number().over(best_first))
        kept = ranked.withColumn("_place", place_in_key).where(F.col("_place") == 1)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[PartialFile]:
            return write_timed(place, "rows", batches, EVENT_TIME)

        return write_files(kept.select(*self._in_files(table).columns), write)

    def read(self, inputs: Inputs, storage: Storage, partials: Sequence[Partial]) -> DataFrame:
        """Return the rows visible to any impression of the run. Lazy."""
        source, files = inputs.plain(self.source), files_since(partials, inputs.span, self.view.max_age)
        rows = read_files(source.sparkSession, storage, files, self._in_files(self.cut(source)).schema)
        return rows if self.columns else rows.withColumn(PAYLOAD, F.struct())

    def _in_files(self, rows: DataFrame) -> DataFrame:
        """Convert rows to their stored form, since Parquet does not support structs without fields."""
        return rows if self.columns else rows.drop(PAYLOAD)
