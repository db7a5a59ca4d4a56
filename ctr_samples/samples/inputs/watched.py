"""The sources of a run over the days that it needs, and the watches that count their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import reduce
from typing import Any, Self
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.periods import Period, local_days
from ctr_samples.samples.inputs.elements import exploded
from ctr_samples.samples.inputs.lake_tables import TableVersion
from ctr_samples.samples.inputs.log_days import LOG_DAY
from ctr_samples.samples.inputs.malformed import LineCounts
from ctr_samples.samples.inputs.sources import MALFORMED, SourceFrame, read_source
from ctr_samples.samples.labels import impression_reach, plan_labels
from ctr_samples.samples.period import Day
from ctr_samples.samples.watches.all import Watches
from ctr_samples.samples.watches.times import Clock, ClockCounts, Use, clocks_of, of_interest, texts_of_times
from ctr_samples.sparksql.columns import with_parsed_times


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of a view or history that were kept, and the ``later`` days of its source, which must be read.

    ``counts`` are those of the log of each day of which rows were kept.
    """

    rows: DataFrame
    later: tuple[date, ...]
    counts: Mapping[date, Mapping[str, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The sources of a configuration on one day. Lives on the driver."""

    config: JobConfig
    day: Day
    sources: Mapping[str, SourceFrame]
    watches: Watches
    near: Mapping[str, Collection[date]] = field(default_factory=dict)
    """The days of a source that hold all that impressions and labels need of it, where that is known; else all are read."""
    kept: Mapping[str, KeptRows] = field(default_factory=dict)
    """What views and histories have from partial results."""

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        config: JobConfig,
        run_date: Period,
        *,
        watched: bool = True,
        known_by: datetime | None = None,
        pinned: Mapping[str, TableVersion] | None = None,
    ) -> Self:
        """Find the data; lists files, and reads at most a row per day of a table. Raises as :func:`read_source` does.

        Unless it is ``watched``, nothing is counted: for plans that run only in part. What was not known at ``known_by`` is not
        read. ``pinned`` are the versions in which lake tables are read, by source; others are read in their current one.
        """
        day, pins = Day.of(run_date, config.timezone, known_by), pinned or {}
        sources = {
            name: read_source(spark, name, source, run_date, forward_reach(config, name), pins.get(name))
            for name, source in config.sources.items()
        }
        return cls(config, day, sources, Watches.of(config, day, active=watched))

    def plain(self, name: str, days: Collection[date] | None = None) -> DataFrame:
        """The rows of a source, or of some of its days, not counted: for quick looks while a run is planned."""
        return self._exploded(name, self._rows(name, days)).drop(LOG_DAY)

    def shown(self) -> SourceFrame:
        """The source of the impressions, over the days that may hold them."""
        name = self.config.impressions.source
        source, days = self.sources[name], self.near.get(name)
        return source if days is None else self._only(source, days)

    def sample_shown(self, share: float) -> DataFrame:
        """A share of the rows of :meth:`shown`, by chance, not counted. Lines of JSON that are left out are not parsed."""
        return self._exploded(self.config.impressions.source, self.shown().sample(share))

    def watched(self, name: str, *uses: Use, days: Collection[date] | None = None) -> DataFrame:
        """The rows of a source for some uses, with its malformed lines and implausible times counted; of some ``days`` only.

        Of a log by day all rows are counted. Of other files and tables, which may be large, only those that matter are read.
        """
        by_time = set(uses) <= {"impressions", "labels"}
        if days is None and by_time:
            days = self.near.get(name)
        frame, logged = self._rows(name, days), self.days_of_log(name)
        is_text = MALFORMED in frame.columns
        rows = self._exploded(name, self.watches.lines[name].on(frame, logged) if is_text else frame)
        rows = with_parsed_times(rows, texts_of_times(self.config, name))
        clocks = [clock for use in uses for clock in clocks_of(self.config, self.day, name, use, rows)]
        if not is_text and not logged:
            rows = rows.where(
                of_interest(clocks)
            )  # before anything is counted, so that Spark passes it on to the files
        if by_time:
            rows = self.watches.coverage.on(rows, name, clocks)
            clocks = [clock.within(self.days_around(name)) for clock in clocks] if logged else clocks
        rows = self.watches.clocks.on(rows, clocks, logged)
        return (rows.where(self._is_own(clocks)) if by_time and logged else rows).drop(LOG_DAY)

    def days_of_log(self, name: str) -> Collection[date]:
        """The days of a source whose path names the day, as far as they are there; none of other sources."""
        by_day = self.sources[name].by_day
        return () if by_day is None else by_day.files

    def days_around(self, name: str) -> list[date]:
        """The days of a log by day that a run reads for impressions and labels: its own, and as far around as these reach."""
        start, end = self.day.start, self.day.end
        if start is None or end is None:
            return list(self.days_of_log(name))
        reach = impression_reach(self.config)
        days = local_days(start - reach, end + max(reach, forward_reach(self.config, name)), self.config.timezone)
        return [day for day in days if day in self.days_of_log(name)]

    def _is_own(self, clocks: Sequence[Clock]) -> Column:
        """Whether a row may belong to the run by its time, or lies in the run's own log: without a time it belongs to that."""
        near = reduce(Column.__or__, [F.coalesce(clock.applies & clock.near, F.lit(False)) for clock in clocks])
        if self.day.start is None:
            return F.lit(True)
        own = self.day.start.astimezone(ZoneInfo(self.config.timezone)).date()
        return near | (F.col(LOG_DAY) == F.lit(own))

    def with_kept(
        self, name: str, source: str, use: Use, cut: Callable[[DataFrame], DataFrame], *, watched: bool = True
    ) -> DataFrame:
        """What a view or history has from partial results, and what ``cut`` makes of the rows that only the log has."""
        kept = self.kept.get(name)
        days = None if kept is None else kept.later
        if kept is not None and not days:
            return kept.rows
        rows = cut(self.watched(source, use, days=days) if watched else self.plain(source, days))
        return rows if kept is None else kept.rows.unionByName(rows)

    def lines(self, name: str) -> dict[date | None, LineCounts]:
        """The lines of a source of text by day of its log, as this run or an earlier one counted them; after the action."""
        kept = {day: LineCounts(*counts) for key, day, counts in self._kept_counts() if key == lines_of(name)}
        return kept | self.watches.lines[name].result()

    def clocks(self) -> dict[str, dict[date | None, ClockCounts]]:
        """The times of all sources, by the name of the clock and the day of the log; after the action."""
        clocks = self.watches.clocks.result()
        for key, day, counts in self._kept_counts():
            if not key.startswith("sources."):
                clocks.setdefault(key, {})[day] = ClockCounts(*counts)
        return clocks

    def _kept_counts(self) -> Iterator[tuple[str, date, Sequence[int]]]:
        for kept in self.kept.values():
            yield from ((key, day, counts) for day, of_day in kept.counts.items() for key, counts in of_day.items())

    def facts(self) -> dict[str, dict[str, Any]]:
        """What the manifest says of each source; call it after the action."""
        return {name: {**source.snapshot, **self._lines(name)} for name, source in self.sources.items()}

    def told(self) -> Iterator[str]:
        """What a person must know of the sources: symbolic links, what is no file, and optional ones that are absent."""
        for source in self.sources.values():
            yield from source.told
        for name, source in self.sources.items():
            if source.absent is not None:
                yield f"sources.{name}: there is no {source.absent}; the source is optional and is read as empty."

    def _rows(self, name: str, days: Collection[date] | None) -> DataFrame:
        source = self.sources[name]
        return source.rows if days is None else self._only(source, days).rows

    @staticmethod
    def _only(source: SourceFrame, days: Collection[date]) -> SourceFrame:
        assert source.by_day is not None, "only days of dated files are told apart"
        return source.by_day.only(days)

    def _exploded(self, name: str, frame: DataFrame) -> DataFrame:
        source = self.config.sources[name]
        return exploded(frame, source.explode, f"sources.{name}.explode") if source.explode else frame

    def _lines(self, name: str) -> dict[str, int]:
        if name not in self.watches.lines:
            return {}
        counts = self.lines(name).values()
        return {"lines": sum(one.lines for one in counts), "malformed": sum(one.malformed for one in counts)}


def lines_of(source: str) -> str:
    """The key of the lines of a source among the counts of a partial result, whose other keys are names of clocks."""
    return f"sources.{source}.lines"


def forward_reach(config: JobConfig, name: str) -> timedelta:
    """How long after a run rows of a source can still matter: actions, and the impressions that may take them."""
    plans = plan_labels(config)
    own = [plan.label.window for plan in plans if plan.label.source == name]
    if config.impressions.source == name:
        own.append(impression_reach(config))
    return max(own, default=timedelta())
