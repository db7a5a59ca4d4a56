"""Partials of a history: the actions of a day's log that impressions of later days may need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyspark.sql import DataFrame

from ctr_samples.config import History, JobConfig
from ctr_samples.samples.histories.join import actions_of_history, history_plan, in_sight
from ctr_samples.samples.histories.lists import TIME, HistoryPlan
from ctr_samples.samples.histories.needed import needed_of, newest_first
from ctr_samples.samples.inputs.clocks import Use
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.partials.files import PartialWriter, files_since, read_files, write_files, write_timed
from ctr_samples.samples.period import EVER, Span
from ctr_samples.shards import Storage
from ctr_samples.shards.partials import Partial, PartialFile


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """A history with its inherited values filled in.

    A partial serves impressions at or after the end of its day, that is, the midnight in the configured time zone that
    ends the day in its log's path. An earlier impression may need any action. So a run reads its own day from the log,
    and earlier days from partials. Those days have ended before the run's day begins, regardless of when their actions
    happened or became known.
    """

    name: str
    history: History
    plan: HistoryPlan
    use: ClassVar[Use] = "histories"
    done: ClassVar[str] = "listed"
    has_own_day: ClassVar[bool] = False

    @classmethod
    def of(cls, config: JobConfig, name: str) -> Self:
        """Return the history with the given name."""
        history = config.history(name)
        return cls(name, history, history_plan(name, history, config.impressions))

    @property
    def source(self) -> str:
        """Source of the actions."""
        return self.history.source

    def cut(self, rows: DataFrame) -> DataFrame:
        """Return the actions among rows of the source, at any time."""
        return actions_of_history(rows, self.name, self.history, EVER)

    def definition(self) -> Mapping[str, Any]:
        """Return the settings that determine the needed actions and their kept columns. Their maximum age
        is excluded.
        """
        keys = {"where", "time", "key", "item", "request", "last", "available_after", "columns"}
        keys |= {"available_time"} & self.history.model_fields_set  # 0.1.0 had no such key
        return {**self.history.model_dump(mode="json", include=keys), "by_request": self.plan.by_request}

    def write(self, rows: DataFrame, place: PartialWriter, day: date, zone: str) -> tuple[PartialFile, ...]:
        """Write the actions of a day's rows that later days may need. Runs a Spark job."""
        (_, end), plan = Span.of(day, zone).bounds, self.plan

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[PartialFile]:
            return write_timed(place, "actions", needed_of(batches, plan), TIME)

        return write_files(newest_first(self.cut(rows), plan, end, place.tasks), write)

    def read(self, inputs: Inputs, storage: Storage, partials: Sequence[Partial]) -> DataFrame:
        """Return the actions visible to any impression of the run. Lazy."""
        source, files = inputs.plain(self.source), files_since(partials, inputs.span, self.history.within)
        actions = read_files(source.sparkSession, storage, files, self.cut(source).schema)
        return in_sight(actions, self.history, inputs.span)
