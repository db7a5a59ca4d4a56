"""Time coverage of impression and action logs. Labels are final only if the logs cover the label windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil

from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.config.label import actions_among
from ctr_samples.periods import in_zone
from ctr_samples.samples.inputs.clocks import Clock, together, which_apply
from ctr_samples.samples.period import Span
from ctr_samples.sparksql.columns import micros_at, micros_of
from ctr_samples.sparksql.observations import Aggregates, Observations, Tally

STEP = timedelta(minutes=15)
ENOUGH = 10
"""Minimum number of rows in the same hours of the run's own day to treat an empty log as truncated, not sparse."""


def ends_of_windows(config: JobConfig, end: datetime) -> dict[str, datetime]:
    """Return the time until which each source may hold a row that changes a label of a day with this ``end``.

    An action belongs to the last impression before it, so impressions matter as long as actions do.
    """
    ends: dict[str, datetime] = {}
    for label in actions_among(config.labels).values():
        for source in (label.source, config.impressions.source):
            ends[source] = max(ends.get(source, end), end + label.window)
    return ends


class CoverageWatch:
    """Counts the rows of impressions and actions by quarter-hour, up to the end of the windows. Lives on the driver."""

    def __init__(self, config: JobConfig, span: Span, *, active: bool = True) -> None:
        self._span, self._zone, self._observations = span, config.timezone, Observations(active=active)
        self._ends = {} if span.end is None else ends_of_windows(config, span.end)

    def on(self, source: str, clocks: Sequence[Clock]) -> tuple[Observations, Aggregates]:
        """Return what counts the rows of a source for impressions and labels, for :func:`observe`."""
        if self._span.start is None or source not in self._ends:
            return self._observations, {}
        start, steps = self._span.start, _steps(self._span.start, self._ends[source])
        tallies = {}
        for some in together(clocks):
            step = F.floor((F.unix_micros(some[0].time) - micros_at(start)) / micros_of(STEP))
            number = which_apply([clock.applies for clock in some]) * steps + F.when(step.between(0, steps - 1), step)
            tallies[f"{source}|{steps}|{some[0].name}"] = Tally(number, steps << len(some))
        return self._observations, tallies

    def cut(self) -> Iterator[str]:
        """Yield a sentence for each source whose log ends before the windows do. Call it after the action.

        A log is truncated if it has no later rows up to the end of the windows, while the same hours of the run's own
        period had at least ten rows.
        """
        if self._span.start is None or self._span.end is None:
            return
        start, own = self._span.start, _steps(self._span.start, self._span.end)
        for source, counts in self._by_source().items():
            steps, last = _steps(start, self._ends[source]), max(counts, default=-1)
            expected = sum(counts.get(step % own, 0) for step in range(last + 1, steps))
            if expected >= ENOUGH:
                latest = in_zone(start + (last + 1) * STEP, self._zone)
                end = in_zone(self._ends[source], self._zone)
                yield (
                    f"sources.{source}: no row is later than {latest}, but the label windows end at {end}, and "
                    f"the same hours of the day itself have {expected:,} rows. The log is cut, so the labels are not final; "
                    "run again when it is complete."
                )

    def _by_source(self) -> Mapping[str, Mapping[int, int]]:
        """Return the number of rows of each source by step, for all its uses together."""
        sources: dict[str, dict[int, int]] = {}
        for key, numbers in self._observations.tallies().items():
            source, steps, _ = key.split("|")
            counts = sources.setdefault(source, {})
            for number, count in numbers.items():
                which, step = divmod(number, int(steps))
                counts[step] = counts.get(step, 0) + count * which.bit_count()
        return sources


def _steps(start: datetime, end: datetime) -> int:
    return ceil((end - start) / STEP)
