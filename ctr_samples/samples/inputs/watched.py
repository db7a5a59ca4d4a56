"""The sources of a run over the required days, and the watches that count their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import partial, reduce
from math import ceil
from typing import Any, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from ctr_samples.config import JobConfig, TextSource
from ctr_samples.errors import InputError
from ctr_samples.periods import Period, local_days
from ctr_samples.samples.inputs.clocks import Clock, Use, clocks_of, conditions_of, of_interest, texts_of_times
from ctr_samples.samples.inputs.databases import TableVersion
from ctr_samples.samples.inputs.listing import LOG_DAY, SourceFrame
from ctr_samples.samples.inputs.malformed import LineCounts, line_kinds
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.samples.labels.plans import impression_reach, label_reach, plan_labels
from ctr_samples.samples.period import EVER, Reach, Span
from ctr_samples.samples.watches.all import Watches
from ctr_samples.samples.watches.times import ClockCounts
from ctr_samples.sparksql.columns import quoted, with_matches, with_parsed_times
from ctr_samples.sparksql.expressions import MALFORMED, columns_of_data, typed_expression
from ctr_samples.sparksql.observations import Aggregates

LEAST, MOST = 32 << 20, 256 << 20
"""Bytes of logs that a joining task has. A task holds up to four times as much, see docs/operations.md, "Sizing"."""
_MANY = 4096
_READ_AT_ONCE = 4
"""Number of sources whose files are listed at the same time."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The kept rows of a view or history, and the ``later`` days of its source that must still be read.

    ``counts`` holds the log counts of each kept day.
    """

    rows: DataFrame
    later: tuple[date, ...]
    counts: Mapping[date, Mapping[str, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The sources of a configuration on one day. Lives on the driver."""

    config: JobConfig
    span: Span
    sources: Mapping[str, SourceFrame]
    watches: Watches
    near: Mapping[str, Collection[date]] = field(default_factory=dict)
    """Days of a source that cover all its impressions and actions for the run, if known. Otherwise all days are read."""
    kept: Mapping[str, KeptRows] = field(default_factory=dict)
    """Rows of views and histories read from partial results."""
    whole: JobConfig | None = None
    """The configuration of which ``config`` has only some features, or None if it has all. Its columns of a view decide
    between rows that only their content tells apart, so that all features of a sample come from one row.
    """

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        config: JobConfig,
        period: Period,
        *,
        watched: bool = True,
        known_by: datetime | None = None,
        pinned: Mapping[str, TableVersion] | None = None,
    ) -> Self:
        """Find the input data. Lists files and reads at most one row per day of a table. Raises the errors of
        :func:`read_source`.

        Unless ``watched``, counts nothing, as required for plans that run only in part. Skips data that was unknown at
        ``known_by``. ``pinned`` maps sources to versions of lake tables; other tables are read at their current version.
        """
        span, pins = Span.of(period, config.timezone, known_by), pinned or {}
        with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
            reading = {
                # Each thread masks secrets as this one does.
                name: threads.submit(
                    copy_context().run,
                    partial(read_source, spark, name, source, period, reach_of(config, name, span), pins.get(name)),
                )
                for name, source in config.sources.items()
            }
        sources = {name: found.result() for name, found in reading.items()}
        return cls(config, span, sources, Watches.of(config, span, active=watched))

    def for_partials(self) -> Self:
        """Return inputs restricted neither by a run's span nor by earlier partials, with separate watches."""
        return replace(self, span=EVER, watches=Watches.of(self.config, EVER), near={}, kept={})

    def uncounted(self, name: str, days: Collection[date] | None = None) -> DataFrame:
        """Return the rows of a source, or of some of its days, without counting: for quick checks while planning a run."""
        return self._exploded(name, self._of_days(name, days).rows).drop(LOG_DAY)

    def columns_of(self, name: str) -> list[str]:
        """Return the columns of a source that come from its data."""
        return columns_of_data(self.uncounted(name))

    def shown(self) -> SourceFrame:
        """Return the source of the impressions, restricted to the days that may contain them."""
        source = self.config.impressions.source
        return self._of_days(source, self.near.get(source))

    @property
    def fingerprints(self) -> dict[str, str | None]:
        """The fingerprint of the files of each source, or None for a table whose changes cannot be told."""
        return {name: source.snapshot["fingerprint"] for name, source in self.sources.items()}

    @property
    def spark(self) -> SparkSession:
        """The session of the sources."""
        return next(iter(self.sources.values())).rows.sparkSession

    def partitions(self) -> int:
        """Return the number of tasks for the impressions and actions of the run, from the size of their logs."""
        names = {self.config.impressions.source, *(plan.label.source for plan in plan_labels(self.config))}
        return tasks_of_logs(self.spark, [self._of_days(name, self.near.get(name)).bytes for name in names])

    def sample_shown(self, share: float) -> DataFrame:
        """Return a random share of the rows of :meth:`shown`, without counting. Skipped JSON lines are not parsed."""
        return self._exploded(self.config.impressions.source, self.shown().sample(share))

    def watched(self, name: str, *uses: Use, days: Collection[date] | None = None) -> DataFrame:
        """Return the rows of a source for some uses, counting malformed lines and implausible times.

        Reads only ``days``, if given. Counts all rows of a daily log. Reads only relevant rows of other files and
        tables, which may be large.
        """
        by_time = set(uses) <= {"impressions", "labels"}
        if days is None and by_time:
            days = self.near.get(name)
        frame, logged = self._of_days(name, days).rows, self.days_of_log(name)
        is_text = MALFORMED in frame.columns
        counts: dict[str, Aggregates] = {}
        if self.counts_lines(name):
            counts["lines"] = line_kinds(name, frame, logged)
        if self.config.sources[name].explode or not (is_text or logged):
            frame, counts = self.watches.observed.on(frame, counts), {}
        rows = self._exploded(name, frame)
        rows = with_parsed_times(rows, texts_of_times(self.config, name))
        if is_text or logged:
            rows = with_matches(rows, conditions_of(self.config, name, uses))
        clocks = [clock for use in uses for clock in clocks_of(self.config, self.span, name, use, rows)]
        if not is_text and not logged:
            rows = rows.where(of_interest(clocks))  # before counting, so that Spark pushes it down to the files
        if by_time:
            around = self.days_around(name) if logged else []
            counts |= self.watches.of_labels(name, clocks, around)
            clocks = [replace(clock, days=around if logged else None) for clock in clocks]
        counts |= self.watches.of_rows(name, clocks, logged, logged if days is None else days)
        rows = self.watches.observed.on(rows, counts)
        return (rows.where(self._is_own(clocks)) if by_time and logged else rows).drop(LOG_DAY)

    def days_of_log(self, name: str) -> Collection[date]:
        """Return the existing days of a source whose path names the day, or none for other sources."""
        by_day = self.sources[name].by_day
        return () if by_day is None else by_day.files

    def days_around(self, name: str) -> list[date]:
        """Return the days of a log that a run reads for impressions and labels: its own, and those within their reach."""
        start, end = self.span.start, self.span.end
        if start is None or end is None:
            return list(self.days_of_log(name))
        before = impression_reach(self.config, self.span).before
        days = local_days(start - before, end + forward_reach(self.config, name), self.config.timezone)
        return [day for day in days if day in self.days_of_log(name)]

    def _is_own(self, clocks: Sequence[Clock]) -> Column:
        """Whether the row's time may fall within the run, or the row is in the run's own log, even without a time."""
        near = reduce(Column.__or__, [F.coalesce(clock.applies & clock.near, F.lit(False)) for clock in clocks])
        own = self.span.own_day(self.config.timezone)
        return F.lit(True) if own is None else near | (F.col(LOG_DAY) == F.lit(own))

    def with_kept(
        self, name: str, source: str, use: Use, cut: Callable[[DataFrame], DataFrame], *, watched: bool = True
    ) -> DataFrame:
        """Return the kept rows of a view or history, plus the result of ``cut`` for the remaining days of the log."""
        kept = self.kept.get(name)
        days = None if kept is None else kept.later
        if kept is not None and not days:
            return kept.rows
        rows = cut(self.watched(source, use, days=days) if watched else self.uncounted(source, days))
        return rows if kept is None else kept.rows.unionByName(rows)

    def lines(self, name: str) -> dict[date | None, LineCounts]:
        """Return the line counts of a source by log day, from this run or an earlier run. Call it after the action."""
        kept = {day: LineCounts(*counts) for key, day, counts in self._kept_counts() if key == lines_of(name)}
        return kept | self.watches.lines(name)

    def clocks(self) -> dict[str, dict[date | None, ClockCounts]]:
        """Return the time counts of all sources, by clock name and log day. Call it after the action."""
        clocks = self.watches.clocks()
        for key, day, counts in self._kept_counts():
            if not key.startswith("sources."):
                clocks.setdefault(key, {})[day] = ClockCounts(*counts)
        return clocks

    def _kept_counts(self) -> Iterator[tuple[str, date, Sequence[int]]]:
        for kept in self.kept.values():
            yield from ((key, day, counts) for day, of_day in kept.counts.items() for key, counts in of_day.items())

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return the manifest entry of each source. Call it after the action."""
        offsets = self.watches.offsets
        return {
            name: {**source.snapshot, **self._lines(name), **self._empty_days(name), **offsets(name)}
            for name, source in self.sources.items()
        }

    def told(self) -> Iterator[str]:
        """Yield sentences about symbolic links, special files and absent optional sources."""
        for source in self.sources.values():
            yield from source.told
        for name, source in self.sources.items():
            if source.absent is not None:
                yield f"sources.{name}: there is no {source.absent}; the source is optional and is read as empty."

    def _of_days(self, name: str, days: Collection[date] | None) -> SourceFrame:
        source = self.sources[name]
        return source if days is None else source.of_days.only(days)

    def _exploded(self, name: str, frame: DataFrame) -> DataFrame:
        source = self.config.sources[name]
        return exploded(frame, source.explode, f"sources.{name}.explode") if source.explode else frame

    def _empty_days(self, name: str) -> dict[str, list[str]]:
        """Return the days that exist without files or without rows, and those without data that lie between others."""
        source = self.sources[name]
        empty: set[Period] = {period for period, has_files in source.empty.items() if has_files}
        empty |= self.watches.days_without_rows(name)
        if self.counts_lines(name):
            empty |= {day for day, counts in self.lines(name).items() if day is not None and not counts.lines}
        data = sorted(period.isoformat() for period in source.there if period not in empty)
        lists = {
            "without_files": [period for period, has_files in source.empty.items() if not has_files],
            "without_rows": empty,
            "gaps": {
                period for period in {*source.missing_days, *empty} if data and data[0] < period.isoformat() < data[-1]
            },
        }
        return {key: sorted(period.isoformat() for period in some) for key, some in lists.items() if some}

    def counts_lines(self, name: str) -> bool:
        """Whether the lines of a text source, or the rows of one with `unique`, are counted."""
        source = self.config.sources[name]
        return isinstance(source, TextSource) or bool(source.unique)

    def _lines(self, name: str) -> dict[str, int]:
        if not self.counts_lines(name):
            return {}
        counts, source = self.lines(name).values(), self.config.sources[name]
        facts = {"lines": sum(one.lines for one in counts)}
        if isinstance(source, TextSource):
            facts["malformed"] = sum(one.malformed for one in counts)
        return facts | ({"repeated": sum(one.repeated for one in counts)} if source.unique else {})


def tasks_of_logs(spark: SparkSession, sizes: Sequence[int | None]) -> int:
    """Return the number of tasks that join logs of some sizes in bytes, None for a table, whose size is unknown.

    ``spark.sql.shuffle.partitions`` counts if a size is unknown, or if it is set and larger, but a task has at least 1 MiB of
    known logs.
    """
    asked = int(spark.conf.get("spark.sql.shuffle.partitions", "1") or 1)
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return asked
    total, wanted = sum(known), max(spark.sparkContext.defaultParallelism, asked)
    return max(joining_tasks(total), min(wanted, total >> 20))


def joining_tasks(log_bytes: int) -> int:
    """Return the number of tasks that join logs of ``log_bytes``.

    Tasks stay small as long as there are at most 4,096. Beyond, they grow, since a shuffle has a piece for each pair of tasks.
    """
    return max(1, ceil(log_bytes / min(MOST, max(LEAST, log_bytes // _MANY))))


def lines_of(source: str) -> str:
    """Return the key of a source's line counts in a partial result, whose other keys are clock names."""
    return f"sources.{source}.lines"


def forward_reach(config: JobConfig, name: str) -> timedelta:
    """Return the time after a run during which rows of a source still matter: actions, and impressions that may claim them."""
    plans = plan_labels(config)
    own = [plan.label.window for plan in plans if plan.label.source == name]
    if config.impressions.source == name:
        own.append(label_reach(plans))
    return max(own, default=timedelta())


def reach_of(config: JobConfig, name: str, span: Span) -> Reach:
    """Return where rows of a source around a period matter to labels and to what is a repeat."""
    before = impression_reach(config, span).before if config.impressions.source == name else timedelta()
    return Reach(before, forward_reach(config, name))


def exploded(frame: DataFrame, lists: Mapping[str, str], where: str) -> DataFrame:
    """Explode the rows of a source, one per list element, adding the columns ``<name>`` and ``<name>_position``.

    ``lists`` maps the single name to the expression of its list. A row without a list remains, with a null element, so
    that it is counted; an empty list gives no rows. Lazy. Raises InputError if the value is not a list, or if the
    source already has either column.
    """
    ((name, text),) = lists.items()
    position = f"{name}_position"
    there = {column.lower() for column in frame.columns}
    for made in (name, position):
        if made.lower() in there:
            raise InputError(f"{where}: the source has a column {made!r} already; choose another name.")
    column, kind = typed_expression(frame, text, f"{where}.{name}")
    if not isinstance(kind, ArrayType):
        raise InputError(
            f"{where}.{name}: {text} is {kind.simpleString()}, expected a list: an array, or text that is split into one, "
            f"such as split({text}, ' ')."
        )
    elements = F.coalesce(column, F.array(F.lit(None).cast(kind.elementType)))
    own = [F.col(quoted(c)) for c in frame.columns]
    return frame.select(*own, F.posexplode(elements).alias(position, name))
