"""What has arrived in the sources of a day since it was published, and whether the samples of the day could see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Self

from pyspark.sql import Column
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.clocks import Clock, Use, clocks_of, texts_of_times
from ctr_samples.samples.inputs.sources import SourceFrame, fingerprint_of
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.samples.watches.times import ClocksByDay, by_clock, check_clocks, clock_counts
from ctr_samples.shards import Manifest
from ctr_samples.sparksql.columns import with_parsed_times
from ctr_samples.sparksql.observations import Aggregates, aggregated, counted

_USES: tuple[Use, ...] = ("impressions", "views", "histories")


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Days that were added to sources since a generation.

    ``files`` has the fingerprints of the sources; of a source whose new rows no impression of the day could see, that of
    the generation. ``clocks`` counts the new rows, and ``reasons`` says why other sources count as changed.
    """

    files: Mapping[str, Any]
    clocks: ClocksByDay = field(default_factory=dict)
    reasons: Sequence[str] = ()

    @classmethod
    def since(cls, inputs: Inputs, generation: Manifest) -> Self:
        """Compare the sources with those of a generation. Runs a Spark job over the days that were added to a source."""
        config, reasons = inputs.config, []
        clocks: dict[str, Any] = {}
        files = inputs.fingerprints
        joined = [*config.views.values(), *config.histories.values()]
        for name in dict.fromkeys([config.impressions.source, *[one.source for one in joined]]):
            recorded = generation.inputs.get(name)
            if recorded is None or files[name] == recorded.get("fingerprint"):
                continue
            why, found = _unseen(inputs, name, recorded)
            if why:
                reasons.append(why)
            else:
                files[name] = recorded["fingerprint"]
                clocks |= found
        return cls(files, clocks, reasons)


def _unseen(inputs: Inputs, name: str, recorded: Mapping[str, Any]) -> tuple[str, ClocksByDay]:
    """Return why the new rows of a source matter, or an empty text and their counts by clock."""
    days = _days_added(inputs.sources[name], recorded)
    if days is None:
        return f"the source {name} has changed by more than new days", {}
    if inputs.config.looking_up:
        return f"the source {name} has new days, and a view with `look_up` may see rows that no impression sees", {}
    try:
        why, clocks = _looked_at(inputs, name, days)
        check_clocks(inputs.config, clocks)
    except InputError as error:
        return str(error).rstrip("."), {}
    return why, clocks


def _days_added(source: SourceFrame, recorded: Mapping[str, Any]) -> Collection[date] | None:
    """Return the days of a source that had no files then. Return None if anything else changed or if changes cannot be
    detected.
    """
    if source.by_day is None:
        return None
    missing, files, lead = set(recorded["missing_days"]), source.by_day.files, source.by_day.lead
    then = [file for day, of_day in {**files, **(lead or {})}.items() if str(day) not in missing for file in of_day]
    added = [day for day in files if str(day) in missing] if fingerprint_of(then) == recorded["fingerprint"] else None
    if added and lead is not None and {day + timedelta(days=1) for day in added} & {*files} - {*added}:
        return None  # rows of a day that was there may repeat rows of a day before it that came since
    return added


def _looked_at(inputs: Inputs, name: str, days: Collection[date]) -> tuple[str, ClocksByDay]:
    """Count the timestamps of each clock on some days of a source. Returns a text if an impression of the run could see a
    counted row.
    """
    config, span = inputs.config, inputs.span
    rows = with_parsed_times(inputs.plain(name, days), texts_of_times(config, name))
    clocks = [clock for use in _USES for clock in clocks_of(config, span, name, use, rows)]
    seen = {key: F.count_if(those) for key, those in seen_on(span, config, clocks).items()}
    counts: Aggregates = {**seen, **clock_counts(clocks)}
    found = rows.agg(*[aggregated(column).alias(key) for key, column in counts.items()]).collect()[0].asDict()
    for key in seen:
        if found[key]:
            return f"{found[key]:,} row(s) that came to the source {name} since then matter to `{key}`", {}
    tallies = {key: counted(bytes(value)) for key, value in found.items() if isinstance(value, bytes | bytearray)}
    return "", by_clock({key: value or 0 for key, value in found.items() if key not in tallies}, tallies)


def seen_on(span: Span, config: JobConfig, clocks: Sequence[Clock]) -> dict[str, Column]:
    """Return conditions for rows that an impression of the day may see or repeat, for impressions, views and histories."""
    by_name = {clock.name: clock for clock in clocks}
    delays = {"impressions.time": timedelta()}
    delays |= {f"views.{name}.event_time": view.delay for name, view in config.views.items()}
    delays |= {f"histories.{name}.time": history.delay for name, history in config.histories.items()}
    seen = {}
    for key, delay in delays.items():
        if (clock := by_name.get(key)) is not None:
            name = key.rpartition(".")[0]
            rows = clock.applies & clock.looked_at & ~clock.is_missing & span.is_before_end(clock.time, -delay)
            known = by_name.get(f"{name}.available_time")
            seen[name] = rows if known is None else rows & span.is_before_end(known.time)
    return seen
