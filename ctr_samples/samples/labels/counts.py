"""What is counted of labels: actions and orphans, masks that say whether a label is final, and how far clocks are apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import ActionLabel, JobConfig, Label, RowLabel
from ctr_samples.config.base import after_of, final_of
from ctr_samples.config.units import format_duration
from ctr_samples.errors import InputError
from ctr_samples.periods import span_of
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.columnar.columns import Flags, Integers, flags, greatest, integers, mixed, texts
from ctr_samples.samples.inputs.listing import SourceFrame
from ctr_samples.samples.labels.attribution import Events
from ctr_samples.samples.labels.events import ACTION, AT, IS_ACTION, all_events, key_of_action
from ctr_samples.samples.labels.plans import LabelPlan, keys_among
from ctr_samples.samples.period import Span
from ctr_samples.sparksql.columns import micros_at, micros_of

_MICROSECOND = timedelta(microseconds=1)
_EDGES = tuple(timedelta(seconds=s) for s in (1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600))
_UNITS = tuple(timedelta(seconds=s) for s in (1, 60, 3600))
"""Units to which clocks cut times, from fine to coarse."""
_WITHOUT_VALUE, _NO_FLAG = "without_value", "no_flag"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_SAMPLED = 100
"""Maximum number of orphans per label listed in the manifest."""


def delay_ends(plan: LabelPlan) -> dict[str, timedelta]:
    """Return the upper end of each delay range up to the window, by name. Includes ``before`` if clocks may differ."""
    early = {"before": -_MICROSECOND} if plan.label.skew else {}
    edges = [edge for edge in _EDGES if edge < plan.label.window]
    return early | {format_duration(edge): edge for edge in (*edges, plan.label.window)}


def check_row_labels(labels: Mapping[str, RowLabel], counts: Counts) -> None:
    """Raise InputError if a row label that must be 0 or 1 has any other value."""
    for name, label in labels.items():
        if others := counts.sums.get(f"{name}.{_NO_FLAG}", 0):
            raise InputError(
                f"labels.{name}.expr: {label.expr} is neither 0 nor 1 for {others:,} impressions; write a condition, such "
                f"as `{label.expr} > 0`, or say `dtype: float32` for the number itself."
            )


def count_row_labels(values: Mapping[str, pa.Array], labels: Mapping[str, RowLabel], counts: Counts) -> None:
    """Count the values of row labels of the period's impressions. Runs on executors."""
    for name, label in labels.items():
        counts.add(f"{name}.{_WITHOUT_VALUE}", values[name].null_count)
        if label.is_flag:
            neither = pc.invert(pc.is_in(values[name].drop_null(), value_set=pa.array([0, 1], values[name].type)))
            counts.add(f"{name}.{_NO_FLAG}", pc.sum(neither).as_py() or 0)


def count_actions(events: Events, mine: Flags, keys: Mapping[str, pa.ChunkedArray], counts: Counts) -> None:
    """Count the actions among events that are ``mine``, by label and delay. Runs on executors.

    ``mine`` and the columns ``keys``, from which orphans are listed, have an entry for each action.
    """
    first = events.shown
    labels, found, delays = events.labels[first:], events.found[first:], events.delays[first:]
    for plan in events.plans:
        own = mine & (labels == events.number(plan))
        counts.add(f"{plan.name}.orphans", (own & ~found).sum())
        for unit in _UNITS:
            name, micros = f"{plan.name}.{format_duration(unit)}", micros_of(unit)
            counts.add(f"{name}.early", (own & ~found & (events.until[first:] < micros)).sum())
            counts.add(f"{name}.finer", (own & events.timed[first:] & (events.at[first:] % micros != 0)).sum())
        ends = delay_ends(plan)
        places = np.searchsorted([micros_of(end) for end in ends.values()], delays[own & found])
        for name, number in zip(ends, np.bincount(places, minlength=len(ends)), strict=True):
            counts.add(f"{plan.name}.delay.{name}", number)
        if plan.label.value is not None:
            counts.add(f"{plan.name}.{_WITHOUT_VALUE}", (own & ~events.valued[first:]).sum())
        if plan.label.orphans == "quarantine":
            rows = np.flatnonzero(own & ~found)
            counts.sample(f"{plan.name}.sample", _ranked(events, rows, keys), MOST_SAMPLED)


def _ranked(events: Events, rows: Integers, keys: Mapping[str, pa.ChunkedArray]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the orphans that may be listed. Ranked by hash, so every run lists the same, regardless of log order."""
    at = rows + events.shown
    hashes = mixed(events.at[at] ^ events.values[at].view(np.int64)) & (2**53 - 1)
    best = greatest(hashes, MOST_SAMPLED)
    rows, hashes, at = rows[best], hashes[best], at[best]
    taken = [texts(column.take(pa.array(rows))) for column in keys.values()]
    times = [int(micros) if timed else None for micros, timed in zip(events.at[at], events.timed[at], strict=True)]
    for rank, time, own in zip(hashes, times, zip(*taken, strict=True), strict=True):
        yield int(rank), [time, *own]


def label_counts(plans: Sequence[LabelPlan], rows: Iterable[str], counts: Counts) -> dict[str, dict[str, Any]]:
    """Return the manifest entry of each label: the day's ``actions``, ``orphans``, ``without_value`` and ``delays``,
    and ``early_orphans`` if there are any. The row labels, ``rows``, have only ``without_value``.

    ``orphan_sample`` lists some orphans with their keys, unless the configuration drops orphans. ``delays`` maps the
    end of each range (``"10s"``: more than a second, at most ten) to the number of actions in it.
    """
    labels: dict[str, dict[str, Any]] = {}
    names = keys_among(plans)
    for plan in plans:
        orphans = counts.sums.get(f"{plan.name}.orphans", 0)
        delays = {name: counts.sums.get(f"{plan.name}.delay.{name}", 0) for name in delay_ends(plan)}
        labels[plan.name] = {
            "actions": orphans + sum(delays.values()),
            "orphans": orphans,
            "without_value": counts.sums.get(f"{plan.name}.{_WITHOUT_VALUE}", 0),
            "delays": delays,
            **_early_orphans(plan.name, counts),
        }
        if plan.label.orphans == "quarantine":
            some = counts.samples.get(f"{plan.name}.sample", ())
            labels[plan.name]["orphan_sample"] = sorted(
                (_orphan(names, row) for _, row in some), key=lambda orphan: [value or "" for value in orphan.values()]
            )
    return labels | {name: {_WITHOUT_VALUE: counts.sums.get(f"{name}.{_WITHOUT_VALUE}", 0)} for name in rows}


def _early_orphans(label: str, counts: Counts) -> dict[str, Any]:
    """Return the manifest entry of orphans less than a second, or their clock's unit, before an impression with their keys."""
    names = [format_duration(unit) for unit in _UNITS]
    whole = [name for name in names[1:] if not counts.sums.get(f"{label}.{name}.finer", 0)]
    unit = [names[0], *whole][-1]
    early = counts.sums.get(f"{label}.{unit}.early", 0)
    return {"early_orphans": {"within": unit, "count": early}} if early else {}


def _orphan(names: Sequence[str], row: Sequence[Any]) -> dict[str, str | None]:
    micros, *keys = row
    time = None if micros is None else (_EPOCH + micros * _MICROSECOND).isoformat()
    return {"time": time, **dict(zip(names, keys, strict=True))}


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
    """Return until when a label's actions are known: the clock of the run or, if earlier, the first later day without a log."""
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


_STEP = timedelta(minutes=15)
"""Time zones differ by multiples of this step."""
_FURTHEST = timedelta(hours=14)
_LOOKED_AT = 2000
_MOST = 0.5


@dataclass(frozen=True, slots=True)
class Shift:
    """Seconds to add to action times, and the share of actions that would then match."""

    seconds: int
    share: float


def best_shift(source_of: Callable[[str], DataFrame], config: JobConfig, plan: LabelPlan, span: Span) -> Shift | None:
    """Find the shift with which most actions of a label on a day would match. Runs a Spark job over the logs.

    Among equally good shifts, returns the shift with the shortest delays. Returns None if no shift lets more than half
    of the actions match.
    """
    events, time = all_events(source_of, config, [plan]), F.timestamp_micros(AT)
    for tried in plan.tried:
        keys = [key_of_action(name) for name in tried]
        own = F.col(IS_ACTION) & (F.col(f"{ACTION}.label") == plan.name) & span.contains(time)
        actions = events.where(own).select(*keys, F.col(AT).alias("_done")).orderBy(F.xxhash64(*keys, "_done"))
        few = actions.limit(_LOOKED_AT).withColumn("_number", F.monotonically_increasing_id())
        near = ~F.col(IS_ACTION) & span.reaches(time, _FURTHEST + plan.label.window, _FURTHEST)
        shown = events.where(near).select(*keys, F.col(AT).alias("_at")).distinct()
        matching = few.join(shown, keys).select("_number", _steps(plan).alias("_steps"))
        counted = matching.select("_number", F.explode("_steps").alias("_step")).distinct().groupBy("_step").count()
        counts = {row[0]: row[1] for row in counted.collect()}
        if counts and (best := max(counts, key=lambda step: (counts[step], -step))) != 0:
            share = counts[best] / few.count()
            if share > _MOST:
                return Shift(best * round(_STEP.total_seconds()), share)
    return None


def _steps(plan: LabelPlan) -> Column:
    """Return the shifts, in steps, at which an action matches an impression."""
    step, most = micros_of(_STEP), micros_of(_FURTHEST) // micros_of(_STEP)
    apart = F.col("_at") - F.col("_done")
    first = F.greatest(F.ceil((apart - micros_of(plan.label.skew)) / step), F.lit(-most))
    last = F.least(F.floor((apart + micros_of(plan.label.window)) / step), F.lit(most))
    return F.when(first <= last, F.sequence(first, last))
