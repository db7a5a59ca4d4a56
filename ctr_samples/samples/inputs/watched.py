"""The sources of a run over the days that it needs, and the watches that count their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from ctr_samples.config import JobConfig
from ctr_samples.periods import Period
from ctr_samples.samples.inputs.elements import exploded
from ctr_samples.samples.inputs.lake_tables import TableVersion
from ctr_samples.samples.inputs.sources import MALFORMED, SourceFrame, read_source
from ctr_samples.samples.labels import impression_reach, plan_labels
from ctr_samples.samples.period import Day
from ctr_samples.samples.watches.all import Watches
from ctr_samples.samples.watches.times import Use, clocks_of, of_interest, texts_of_times
from ctr_samples.sparksql.columns import with_parsed_times


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of a view or history that were kept, and the ``later`` days of its source, which must be read."""

    rows: DataFrame
    later: tuple[date, ...]


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
        return self._exploded(name, self._rows(name, days))

    def shown(self) -> SourceFrame:
        """The source of the impressions, over the days that may hold them."""
        name = self.config.impressions.source
        source, days = self.sources[name], self.near.get(name)
        return source if days is None else self._only(source, days)

    def sample_shown(self, share: float) -> DataFrame:
        """A share of the rows of :meth:`shown`, by chance, not counted. Lines of JSON that are left out are not parsed."""
        return self._exploded(self.config.impressions.source, self.shown().sample(share))

    def watched(self, name: str, *uses: Use, days: Collection[date] | None = None) -> DataFrame:
        """The rows of a source for some uses, with its malformed lines and implausible times counted; of some ``days`` only."""
        if days is None and set(uses) <= {"impressions", "labels"}:
            days = self.near.get(name)
        frame = self._rows(name, days)
        is_text = MALFORMED in frame.columns  # all of its lines are counted; of others the files may be pruned
        rows = self._exploded(name, self.watches.lines[name].on(frame) if is_text else frame)
        rows = with_parsed_times(rows, texts_of_times(self.config, name))
        clocks = [clock for use in uses for clock in clocks_of(self.config, self.day, name, use, rows)]
        return self.watches.clocks.on(rows if is_text else rows.where(of_interest(clocks)), clocks)

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

    def facts(self) -> dict[str, dict[str, Any]]:
        """What the manifest says of each source; call it after the action."""
        return {name: {**source.snapshot, **self._lines(name)} for name, source in self.sources.items()}

    def absent(self) -> Iterator[tuple[str, str]]:
        """The optional sources that do not exist, each with its path or table."""
        return ((name, source.absent) for name, source in self.sources.items() if source.absent is not None)

    def told(self) -> Iterator[str]:
        """What the sources say of symbolic links, and of what is no file."""
        return (sentence for source in self.sources.values() for sentence in source.told)

    def _rows(self, name: str, days: Collection[date] | None) -> DataFrame:
        source = self.sources[name]
        return source.frame if days is None else self._only(source, days).frame

    @staticmethod
    def _only(source: SourceFrame, days: Collection[date]) -> SourceFrame:
        assert source.by_day is not None, "only days of dated files are told apart"
        return source.by_day.only(days)

    def _exploded(self, name: str, frame: DataFrame) -> DataFrame:
        source = self.config.sources[name]
        return exploded(frame, source.explode, f"sources.{name}.explode") if source.explode else frame

    def _lines(self, name: str) -> dict[str, int]:
        watch = self.watches.lines.get(name)
        return {} if watch is None else asdict(watch.result())


def forward_reach(config: JobConfig, name: str) -> timedelta:
    """How long after a run rows of a source can still matter: actions, and the impressions that may take them."""
    plans = plan_labels(config)
    own = [plan.label.window for plan in plans if plan.label.source == name]
    if config.impressions.source == name:
        own.append(impression_reach(config))
    return max(own, default=timedelta())
