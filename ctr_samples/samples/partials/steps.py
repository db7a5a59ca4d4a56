"""What partial results keep of a day's log for a view or history: steps of counts, actions or rows; and their files."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from math import ceil
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.config import DailyCountView, EventView, History, JobConfig, WindowView
from ctr_samples.crc32c import crc32c
from ctr_samples.samples.columnar.columns import usual
from ctr_samples.samples.histories import (
    TIME,
    HistoryPlan,
    actions_of_history,
    history_plan,
    in_sight,
    needed_of,
    newest_first,
)
from ctr_samples.samples.inputs.clocks import Use
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import EVER, Span
from ctr_samples.samples.views.aggregates import KNOWN, STEP, VALUE, WHICH, Counting
from ctr_samples.samples.views.as_of.matching import KEY, PAYLOAD
from ctr_samples.samples.views.as_of.planning import EVENT_TIME, effective_from, rank_of
from ctr_samples.samples.views.rows import as_of, usable, view_rows, view_steps
from ctr_samples.shards import Storage
from ctr_samples.shards.partials import Partial, PartialFile, read_partial_file
from ctr_samples.sparksql.columns import micros_of
from ctr_samples.sparksql.workers import current_task
from ctr_samples.typed import typed

_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BYTES_OF_A_TASK = 32 * 2**20
_READ_AT_ONCE = 8
_FILE = "file string"


@dataclass(frozen=True, slots=True)
class PartialWriter:
    """The storage directory for the files of a partial, used by no other run, and the number of tasks that write them."""

    storage: Storage
    directory: str
    tasks: int

    def write(
        self, kind: Literal["steps", "totals", "actions", "rows"], table: pa.Table, days: np.ndarray
    ) -> PartialFile:
        """Write a file. ``days`` are the days of its rows. Files of failed attempts are not referenced anywhere."""
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        data = buffer.getvalue()
        path = f"{self.directory}/{kind}-{current_task().partitionId():05}-{uuid.uuid4().hex[:8]}.parquet"
        with self.storage.new_file(path) as file:
            file.write(data)
        facts = {"path": path, "kind": kind, "rows": table.num_rows, "bytes": len(data), "crc32c": int(crc32c(data))}
        return typed(PartialFile, {**facts, "first_day": int(days.min()), "last_day": int(days.max())})


def write_timed(
    place: PartialWriter, kind: Literal["actions", "rows"], batches: Iterable[pa.RecordBatch], time: str
) -> Iterator[PartialFile]:
    """Write rows with a ``time`` column to one file, or no file if there are no rows. Runs on an executor."""
    parts = [batch for batch in batches if batch.num_rows]
    if parts:
        table = pa.Table.from_batches(parts)
        micros = table.column(time).cast(pa.int64()).to_numpy()
        yield place.write(kind, table, np.floor_divide(micros, micros_of(_DAY)))


Write = Callable[[Iterator[pa.RecordBatch]], Iterable[PartialFile]]
"""Writes the rows of one partition. Runs on an executor, once per attempt."""


def write_files(rows: DataFrame, write: Write) -> tuple[PartialFile, ...]:
    """Write all partitions. Runs a Spark job."""

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = [json.dumps(asdict(file)) for file in write(usual(batches))]
        if files:
            yield pa.RecordBatch.from_pydict({"file": files})

    found = rows.mapInArrow(written, _FILE).collect()
    return tuple(sorted((typed(PartialFile, json.loads(row[0])) for row in found), key=lambda file: file.path))


Cut = Callable[[PartialFile, pa.Table], pa.Table]


def files_of(partials: Iterable[Partial]) -> list[PartialFile]:
    """Return all files of some partials."""
    return [file for partial in partials for file in partial.files]


def files_since(partials: Iterable[Partial], span: Span, age: timedelta | None) -> list[PartialFile]:
    """Return the files of :func:`write_timed` with rows not older than ``age``, if given, at the start of a run."""
    files = files_of(partials)
    if age is None or span.start is None:
        return files
    oldest = (span.start - age - _EPOCH) // _DAY
    return [file for file in files if file.last_day >= oldest]


def read_files(
    spark: SparkSession,
    storage: Storage,
    files: Sequence[PartialFile],
    schema: StructType,
    cut: Cut = lambda _, table: table,
) -> DataFrame:
    """Return the rows of files, each reduced by ``cut``. Lazy; raises DamagedFile, when run, if a file has changed."""
    groups = _groups(files)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                group = groups[number]
                with ThreadPoolExecutor(_READ_AT_ONCE) as threads:  # storage latency is high, and groups are small
                    for file, data in zip(group, threads.map(partial(read_partial_file, storage), group), strict=True):
                        yield from cut(file, pq.read_table(io.BytesIO(data))).to_batches(max_chunksize=1 << 16)

    return spark.range(0, len(groups), 1, max(1, len(groups))).mapInArrow(read, schema)


def _groups(files: Sequence[PartialFile]) -> tuple[tuple[PartialFile, ...], ...]:
    """Group files of about equal total size in bytes, to be read together."""
    count = ceil(sum(file.bytes for file in files) / _BYTES_OF_A_TASK)
    groups: list[list[PartialFile]] = [[] for _ in range(min(count, len(files)))]
    for file in sorted(files, key=lambda file: (-file.bytes, file.path)):
        min(groups, key=lambda group: sum(one.bytes for one in group)).append(file)
    return tuple(tuple(group) for group in groups)


@dataclass(frozen=True, slots=True)
class CountedView:
    """A counted view and its name. Counts of the impression's own day also come from steps."""

    name: str
    source: str
    view: WindowView | DailyCountView
    use: ClassVar[Use] = "views"
    done: ClassVar[str] = "counted"
    has_own_day: ClassVar[bool] = True

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
        source = inputs.uncounted(self.source)
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


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """A history with its inherited values filled in.

    A partial serves impressions at or after the end of its day, that is, the midnight in the configured time zone that ends the
    day in its log's path. An earlier impression may need any action. So a run reads its own day from the log, and earlier days
    from partials. Those days have ended before the run's day begins, regardless of when their actions happened or became known.
    """

    name: str
    source: str
    history: History
    plan: HistoryPlan
    use: ClassVar[Use] = "histories"
    done: ClassVar[str] = "listed"
    has_own_day: ClassVar[bool] = False

    @classmethod
    def of(cls, config: JobConfig, name: str) -> Self:
        """Return the history with the given name."""
        history = config.history(name)
        return cls(name, history.source, history, history_plan(name, history, config.impressions))

    def cut(self, rows: DataFrame) -> DataFrame:
        """Return the actions among rows of the source, at any time."""
        return actions_of_history(rows, self.name, self.history, EVER)

    def definition(self) -> Mapping[str, Any]:
        """Return the settings that determine the needed actions and their kept columns. Their maximum age is excluded."""
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
        source, files = inputs.uncounted(self.source), files_since(partials, inputs.span, self.history.within)
        actions = read_files(source.sparkSession, storage, files, self.cut(source).schema)
        return in_sight(actions, self.history, inputs.span)


@dataclass(frozen=True, slots=True)
class KeptTable:
    """An event view without end times, and its columns.

    A partial serves impressions at or after the end of its day. Of a key's rows that are visible by then, only the
    best row can match, then and later: it expires last, since no other row has a later event time. Rows that become
    visible later are all kept.
    """

    name: str
    source: str
    view: EventView
    columns: tuple[str, ...]
    use: ClassVar[Use] = "views"
    done: ClassVar[str] = "joined"
    has_own_day: ClassVar[bool] = False

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
        source, files = inputs.uncounted(self.source), files_since(partials, inputs.span, self.view.max_age)
        rows = read_files(source.sparkSession, storage, files, self._in_files(self.cut(source)).schema)
        return rows if self.columns else rows.withColumn(PAYLOAD, F.struct())

    def _in_files(self, rows: DataFrame) -> DataFrame:
        """Convert rows to their stored form, since Parquet does not support structs without fields."""
        return rows if self.columns else rows.drop(PAYLOAD)
