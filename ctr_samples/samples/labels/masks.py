"""Masks of labels: whether a label is final, and whether the label that it comes after is 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.config import ActionLabel, JobConfig, Label
from ctr_samples.config.base import after_of, final_of
from ctr_samples.periods import span_of
from ctr_samples.samples.columnar.columns import Flags, flags, integers
from ctr_samples.samples.columnar.counts import Counts
from ctr_samples.samples.inputs.sources import SourceFrame
from ctr_samples.samples.period import Span
from ctr_samples.sparksql.columns import micros_at, micros_of

_ALL, _FINAL, _POSITIVES, _WITHOUT = "all", "final", "positives", "without_after"


@dataclass(frozen=True, slots=True)
class LabelMasks:
    """The masks of a run's labels. Pickled for executors.

    ``last`` has the time of the latest impression, in microseconds, whose window of a label had closed. ``after`` has the
    label that another one comes after, and ``written`` the columns of the record.
    """

    last: Mapping[str, int]
    after: Mapping[str, str]
    written: tuple[str, ...]

    @classmethod
    def of(cls, config: JobConfig, span: Span, sources: Mapping[str, SourceFrame]) -> LabelMasks:
        """Return the masks that a configuration asks for."""
        last = {
            name: _closed_by(label, config, span, sources) - micros_of(label.matures_after)
            for name, label in config.labels.items()
            if "final" in label.masks
        }
        after = {name: label.after for name, label in config.labels.items() if label.after is not None}
        written = [after_of(name) for name, label in config.labels.items() if "after" in label.masks]
        return cls(last, after, (*map(final_of, last), *written))

    def columns(self, rows: pa.RecordBatch, times: pa.Array, hours: pa.Array, counts: Counts) -> dict[str, pa.Array]:
        """Return the masks of labelled samples, and count them. Runs on executors.

        ``times`` are those of the impressions, and ``hours`` their hours of the day.
        """
        found = {}
        for name, last in self.last.items():
            final = integers(times) <= last
            found[final_of(name)] = final
            for hour in np.unique(integers(hours)):
                here = integers(hours) == hour
                counts.add(f"{name}.{_ALL}.{hour}", here.sum())
                counts.add(f"{name}.{_FINAL}.{hour}", (here & final).sum())
        for name, other in self.after.items():
            is_after, positive = _is_positive(rows, other), _is_positive(rows, name)
            found[after_of(name)] = is_after
            counts.add(f"{name}.{_POSITIVES}", positive.sum())
            counts.add(f"{name}.{_WITHOUT}", (positive & ~is_after).sum())
        return {name: pa.array(found[name].astype(np.int64)) for name in self.written}


def _closed_by(label: Label, config: JobConfig, span: Span, sources: Mapping[str, SourceFrame]) -> int:
    """Return the time until which a label's actions are known: the clock of the run or, if earlier, the first later day
    without a log.
    """
    logs = {config.impressions.source, label.source if isinstance(label, ActionLabel) else config.impressions.source}
    missing = [span_of(day, config.timezone) for log in logs for day in sources[log].missing_days]
    begins = [of_day[0] for of_day in missing if of_day is not None and span.end is not None and of_day[0] >= span.end]
    return micros_at(min([span.clock, *begins]))


def _is_positive(rows: pa.RecordBatch, label: str) -> Flags:
    return flags(pc.greater(rows.column(label), pa.scalar(0, rows.column(label).type)))


def mask_facts(config: JobConfig, counts: Counts) -> dict[str, dict[str, Any]]:
    """Return the manifest entries about masks, by label: ``final`` has the samples and those that are final, as a whole and
    by hour of the day, and ``funnel`` the positives and those of them without the label that they come after.
    """
    facts: dict[str, dict[str, Any]] = {}
    for name, label in config.labels.items():
        facts[name] = {}
        if "final" in label.masks:
            hours = {
                str(hour): [counts.sums[f"{name}.{_ALL}.{hour}"], counts.sums.get(f"{name}.{_FINAL}.{hour}", 0)]
                for hour in range(24)
                if f"{name}.{_ALL}.{hour}" in counts.sums
            }
            whole = [sum(of_hour[place] for of_hour in hours.values()) for place in (0, 1)]
            facts[name]["final"] = {"samples": whole[0], "final": whole[1], "by_hour": hours}
        if label.after is not None:
            positives, without = (counts.sums.get(f"{name}.{key}", 0) for key in (_POSITIVES, _WITHOUT))
            facts[name]["funnel"] = {"after": label.after, "positives": positives, "without": without}
    return facts
