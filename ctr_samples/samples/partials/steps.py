"""Partials of a counted view: the steps of a day's log and, if a day has several steps, its totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from ctr_samples.config import DailyCountView, WindowView
from ctr_samples.samples.inputs.clocks import Use
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.partials.files import PartialWriter, files_of, read_files, write_files
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.aggregates import KNOWN, STEP, VALUE, WHICH, Counting
from ctr_samples.samples.views.as_of.matching import KEY
from ctr_samples.samples.views.rows import view_steps
from ctr_samples.shards import Storage
from ctr_samples.shards.partials import Partial, PartialFile


@dataclass(frozen=True, slots=True)
class CountedView:
    """A counted view and its name. Counts of the impression's own day also come from steps."""

    name: str
    view: WindowView | DailyCountView
    use: ClassVar[Use] = "views"
    done: ClassVar[str] = "counted"
    has_own_day: ClassVar[bool] = True

    @property
    def source(self) -> str:
        """Source of the counted rows."""
        return self.view.source

    def cut(self, rows: DataFrame) -> DataFrame:
        """Return the steps of rows of the source."""
        return view_steps(rows, self.name, self.view)

    def definition(self) -> Mapping[str, Any]:
        """Return the settings that determine the contents of a step. Windows and rates are excluded."""
        keys = {"where", "key", "article_key", "event_time"}
        keys |= {"available_time"} & self.view.model_fields_set  # 0.1.0 had no such key
        counting = self.view.model_dump(mode="json", by_alias=True, include=keys)
        return {**counting, "counted": self.view.counted.model_dump(mode="json", exclude={"windows", "days", "rates"})}

    def write(self, rows: DataFrame, place: PartialWriter, day: date, zone: str) -> tuple[PartialFile, ...]:
        """Write the steps of a day's rows. Runs a Spark job."""
        per_day = Counting.of(self.view).steps_of_a_day

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[PartialFile]:
            parts = list(batches)
            if not any(part.num_rows for part in parts):
                return
            order = [(KEY, "ascending"), (WHICH, "ascending"), (STEP, "ascending")]
            steps = pa.Table.from_batches(parts).sort_by(order)
            yield place.write("steps", steps, _days(steps, per_day))
            if per_day > 1:
                totals = totals_of(steps, per_day)
                yield place.write("totals", totals, _days(totals, per_day))

        return write_files(self.cut(rows).repartition(place.tasks, KEY), write)

    def read(self, inputs: Inputs, storage: Storage, partials: Sequence[Partial]) -> DataFrame:
        """Return the steps and totals that a run needs. Lazy."""
        per_day = Counting.of(self.view).steps_of_a_day
        in_full = days_step_by_step(self.view, inputs.span, inputs.config.timezone)

        def cut(file: PartialFile, table: pa.Table) -> pa.Table:
            if per_day == 1:
                return table
            full = np.isin(_days(table, per_day), list(in_full))
            return table.filter(pa.array(full if file.kind == "steps" else ~full))

        files = files_of(partials) if per_day == 1 else list(_needed(files_of(partials), in_full))
        source = inputs.plain(self.source)
        return read_files(source.sparkSession, storage, files, self.cut(source).schema, cut)


def totals_of(steps: pa.Table, per_day: int) -> pa.Table:
    """Sum the steps of each key by day, and store each total at the day's last step. Distinct-count values keep their
    first and last step. Steps that became known after their day stay as they are.

    Windows that contain only whole days give the same result on these rows.
    """
    if KNOWN in steps.column_names:
        late = pa.array(_days(steps, per_day, KNOWN) > _days(steps, per_day))
        in_time = totals_of(steps.filter(pc.invert(late)).drop_columns([KNOWN]), per_day)
        with_known = in_time.append_column(steps.schema.field(KNOWN), in_time.column(STEP)).select(steps.column_names)
        return pa.concat_tables([with_known, steps.filter(late)])
    summed = [name for name in steps.column_names if name not in (KEY, WHICH, VALUE, STEP)]
    grouped = (
        steps.append_column("_day", pa.array(_days(steps, per_day)))
        .group_by([KEY, WHICH, VALUE, "_day"])
        .aggregate([(STEP, "max"), (STEP, "min"), *[(name, "sum") for name in summed]])
    )
    first, last = grouped.column(f"{STEP}_min"), grouped.column(f"{STEP}_max")
    kept = {KEY: grouped.column(KEY), WHICH: grouped.column(WHICH), VALUE: grouped.column(VALUE), STEP: last}
    kept |= {name: grouped.column(f"{name}_sum") for name in summed}
    at_last = pa.table(kept).select(steps.column_names).cast(steps.schema)
    again = pc.and_(pc.greater(grouped.column(WHICH), 0), pc.less(first, last))
    at_first = pa.table({**kept, STEP: first}).select(steps.column_names).cast(steps.schema).filter(again)
    return pa.concat_tables([at_last, at_first])


def _needed(files: Iterable[PartialFile], in_full: Set[int]) -> Iterator[PartialFile]:
    """Yield the files with steps of the days in ``in_full``, or with totals of other days."""
    for file in files:
        days = range(file.first_day, file.last_day + 1)  # a single row from another century makes the range long
        if any(day in days for day in in_full) if file.kind == "steps" else any(day not in in_full for day in days):
            yield file


def _days(steps: pa.Table, per_day: int, number: str = STEP) -> np.ndarray:
    days: np.ndarray = np.floor_divide(steps.column(number).to_numpy(), per_day)
    return days


def days_step_by_step(view: WindowView | DailyCountView, span: Span, zone: str) -> Set[int]:
    """Return the days, counted from 1970, on which a step may enter or leave a window during the run.

    At all times during the run, a window contains either every step of any other day or none.
    """
    (start, end), counting = span.bounds, Counting.of(view)
    per_day, days = counting.steps_of_a_day, set[int]()
    for window in (timedelta(), *counting.windows):
        # A step counts once it is over and known, and leaves a window later. One extra step on each side does no harm.
        first = counting.step_at(start - view.delay - window, zone) - 2
        last = counting.step_at(end - window, zone) + 1
        days.update(range(first // per_day, last // per_day + 1))
    return days
