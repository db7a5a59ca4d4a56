"""All side counters of a run. A watch declares its counts with ``on``, and reads them back with ``result``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ctr_samples.config import JobConfig, TextSource
from ctr_samples.samples.columnar.stages import TaskCounts
from ctr_samples.samples.impressions import ImpressionsWatch
from ctr_samples.samples.inputs.log_days import DaysWatch
from ctr_samples.samples.inputs.malformed import LinesWatch
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.counts import RowsWatch
from ctr_samples.samples.watches.coverage import CoverageWatch
from ctr_samples.samples.watches.leak_canary import LeakCanary
from ctr_samples.samples.watches.log_offsets import OffsetsWatch
from ctr_samples.samples.watches.times import ClocksWatch


@dataclass(frozen=True, slots=True)
class Watches:
    """The watches of one run, in the order in which its rows pass them."""

    tasks: TaskCounts
    """Counts of the tasks between reading and writing."""
    lines: Mapping[str, LinesWatch]
    days: DaysWatch
    clocks: ClocksWatch
    coverage: CoverageWatch
    offsets: OffsetsWatch
    impressions: ImpressionsWatch
    rows: RowsWatch
    canary: LeakCanary

    @classmethod
    def of(cls, config: JobConfig, span: Span, *, active: bool = True) -> Self:
        """Create the watches of a configuration for a day. Unless ``active``, they count nothing."""
        tasks = TaskCounts(active=active)
        keys = dict.fromkeys(part for view in config.views.values() for part in view.joined_on if "." not in part)
        return cls(
            tasks,
            {n: LinesWatch(active=active) for n, s in config.sources.items() if isinstance(s, TextSource) or s.unique},
            DaysWatch(active=active),
            ClocksWatch(active=active),
            CoverageWatch(config, span, active=active),
            OffsetsWatch(config, span, active=active),
            ImpressionsWatch(config.impressions, tasks, active=active),
            RowsWatch(config, tasks, active=active),
            LeakCanary(tuple(keys), tasks),
        )
