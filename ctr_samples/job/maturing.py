"""Reuse features in a run that only makes a day's labels final, if a full run would compute the same features.

Reuse requires that configuration, release, fitted state and inputs are those of the first run, and that new input data
holds no row visible to an impression of the day. The shards of that run hold the features, so nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile, InputError, StorageError, UnusableFeatures
from ctr_samples.job.gate import read_metrics
from ctr_samples.job.planning import Prepared, run_fingerprint
from ctr_samples.job.reporting import Reporter
from ctr_samples.quality.metrics import Metrics
from ctr_samples.samples.earlier import EarlierFeatures
from ctr_samples.samples.inputs.clocks import Clock, Use, clocks_of, texts_of_times
from ctr_samples.samples.inputs.sources import SourceFrame, fingerprint_of
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.samples.watches.times import ClocksByDay, by_clock, check_clocks, clock_counts, counts_of_view
from ctr_samples.shards import DayOutput, FeaturesFrom, Manifest, Storage, check_shards
from ctr_samples.sparksql.columns import with_parsed_times
from ctr_samples.sparksql.observations import Aggregates, aggregated, counted

_USES: tuple[Use, ...] = ("impressions", "views", "histories")


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A generation whose features a run reuses, and counts of the rows that have arrived for its views since then."""

    manifest: Manifest
    storage: Storage
    clocks: ClocksByDay
    kept: tuple[str, ...] | None = None
    """The features that are reused. None stands for all of them, in a run that makes only labels anew."""
    joined: frozenset[str] = frozenset()
    """The views that are joined for the other features."""

    @property
    def features(self) -> EarlierFeatures:
        """Features of the generation."""
        contract = ExampleContract.from_dict(dict(self.manifest.contract))
        return EarlierFeatures(self.storage, self.manifest.shards, contract, self.kept)

    @property
    def metrics(self) -> Metrics | None:
        """Metrics of the features that are reused, or None if they are gone."""
        try:
            metrics = read_metrics(self.storage, self.manifest)
        except (FileNotFoundError, StorageError, DamagedFile):
            return None
        kept = metrics.features if self.kept is None else self.kept
        return replace(metrics, features={name: one for name, one in metrics.features.items() if name in kept})

    def completed(self, manifest: Manifest) -> Manifest:
        """Complete the run's manifest with counts that require joins, and with line counts of unread sources."""
        before = {name: {**facts, **self._rows_of(name, facts)} for name, facts in self.manifest.views.items()}
        views = {
            name: manifest.views[name] if name in self.joined else before[name]
            for name in manifest.config.get("views") or {}
        }
        inputs = {name: {**facts, **self._lines_of(name, facts)} for name, facts in manifest.inputs.items()}
        return replace(manifest, views=views, inputs=inputs)

    def _rows_of(self, view: str, facts: Mapping[str, float]) -> dict[str, float]:
        """Count the bad rows of a view, including rows that have arrived since then."""
        return {key: facts.get(key, 0) + count for key, count in counts_of_view(self.clocks, view).items()}

    def _lines_of(self, name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        before = self.manifest.inputs.get(name, {})
        same = before.get("fingerprint") == facts["fingerprint"]
        return {key: before[key] for key in ("lines", "malformed") if same and key in before}


def earlier_run(
    prepared: Prepared, output: DayOutput, why_joined: str, reporter: Reporter
) -> tuple[EarlierRun | None, FeaturesFrom | None]:
    """Return the current generation if this run can reuse its features, and the manifest entry that records the
    decision.

    ``why_joined`` is a reason to rejoin the views, or empty. Both results are None if the configuration keeps no
    partials or the generation's labels are final.
    """
    current = output.current
    if prepared.inputs.config.partials is None or current is None or current.label_mature:
        return None, None
    reporter.stage(f"comparing with generation {current.generation}")
    try:
        if why_joined:
            raise UnusableFeatures(why_joined)
        return usable_run(prepared, output, current), FeaturesFrom(current.generation)
    except UnusableFeatures as error:
        return None, FeaturesFrom(current.generation, str(error))


def usable_run(prepared: Prepared, output: DayOutput, current: Manifest) -> EarlierRun:
    """Return the generation ``current`` if only its labels can differ from those of a full run.

    Runs a Spark job over days added to the sources of features since then. Raises UnusableFeatures, with the reason,
    if joins are needed.
    """
    inputs = prepared.inputs
    if inputs.config.joins_anew is not None:
        raise UnusableFeatures(inputs.config.joins_anew)
    if not current.fingerprint:
        raise UnusableFeatures("a source is a table that cannot be compared")
    if not _made_alike(prepared, current):
        raise UnusableFeatures("the configuration, the fitted state or the release is another one")
    added = dict(_added(inputs, current))
    try:
        check_shards(output.storage, current.shards, "so its features are gone")
        clocks = {name: of for source, days in added.items() for name, of in _looked_at(inputs, source, days).items()}
        check_clocks(inputs.config, clocks)
    except (DamagedFile, InputError) as error:
        raise UnusableFeatures(str(error).rstrip(".")) from None
    return EarlierRun(current, output.storage, clocks)


def _made_alike(prepared: Prepared, current: Manifest) -> bool:
    """Whether a run over the generation's inputs would publish nothing new.

    Checks both with and without final labels: a truncated log is only detected while it is read, so the run of such a
    log began as a run with final labels.
    """
    day, then = current.day, {name: facts.get("fingerprint") for name, facts in current.inputs.items()}
    return current.fingerprint in {
        run_fingerprint(prepared.inputs, day, prepared.contract, mature, then) for mature in (False, True)
    }


def _added(inputs: Inputs, current: Manifest) -> Iterator[tuple[str, Collection[date]]]:
    """Yield the days added to the sources of impressions, views and histories. All other files must be unchanged."""
    config = inputs.config
    joined = [*config.views.values(), *config.histories.values()]
    for name in dict.fromkeys([config.impressions.source, *[one.source for one in joined]]):
        source, recorded = inputs.sources[name], current.inputs[name]
        if source.snapshot["fingerprint"] != recorded["fingerprint"]:
            days = _days_added(source, recorded)
            if days is None:
                raise UnusableFeatures(f"the source {name} has changed by more than new days")
            yield name, days


def _days_added(source: SourceFrame, recorded: Mapping[str, Any]) -> Collection[date] | None:
    """Return the days of a source that had no files then. Return None if anything else changed or if changes cannot be
    detected.
    """
    if source.by_day is None:
        return None
    missing, files = set(recorded["missing_days"]), source.by_day.files
    then = [file for day, of_day in files.items() if str(day) not in missing for file in of_day]
    return [day for day in files if str(day) in missing] if fingerprint_of(then) == recorded["fingerprint"] else None


def _looked_at(inputs: Inputs, name: str, days: Collection[date]) -> ClocksByDay:
    """Count the timestamps of each clock on some days of a source. Raises UnusableFeatures if an impression of the run
    could see a counted row.
    """
    config, span = inputs.config, inputs.span
    rows = with_parsed_times(inputs.plain(name, days), texts_of_times(config, name))
    clocks = [clock for use in _USES for clock in clocks_of(config, span, name, use, rows)]
    seen = {key: F.count_if(those) for key, those in seen_on(span, config, clocks).items()}
    counts: Aggregates = {**seen, **clock_counts(clocks)}
    found = rows.agg(*[aggregated(column).alias(key) for key, column in counts.items()]).collect()[0].asDict()
    for key in seen:
        if found[key]:
            raise UnusableFeatures(f"{found[key]:,} row(s) that came to the source {name} since then matter to `{key}`")
    tallies = {key: counted(bytes(value)) for key, value in found.items() if isinstance(value, bytes | bytearray)}
    return by_clock({key: value or 0 for key, value in found.items() if key not in tallies}, tallies)


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
