"""The inputs and contract of a run before it reads any row, and their changes since a day was published.

Also used by checks, previews and runs of many days.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

from pyspark.sql import SparkSession

from ctr_samples.config import JobConfig, LoadedConfig
from ctr_samples.config.document import of_the_bytes
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job.fit import state_of_run
from ctr_samples.job.origins import changed_parts, changed_values, fitted_in
from ctr_samples.periods import Period, calendar_day, check_period, in_zone
from ctr_samples.quality.measure.collecting import Wanted
from ctr_samples.samples.executors import check_executors, load_modules
from ctr_samples.samples.features.contracts import contract_of
from ctr_samples.samples.features.row import HOUR, REQUEST, SHUFFLE, USER, value_of
from ctr_samples.samples.inputs.databases import TableVersion, errors_of_sources
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.samples.watches.all import ends_of_windows
from ctr_samples.shards import DayOutput, Manifest, open_storage, require_generation
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.generations import last_forgotten
from ctr_samples.shards.manifest import RELEASE
from ctr_samples.shards.naming import run_directory
from ctr_samples.sparksql.observations import Reporter, Silent
from ctr_samples.sparksql.releases import without_call_sites
from ctr_samples.sparksql.session import make_active, run_session
from ctr_samples.sparksql.workers import share_workers, warm_workers
from ctr_samples.sparksql.zones import check_offsets
from ctr_samples.vocabulary import FittedState


@dataclass(frozen=True, slots=True)
class LookBack:
    """The inputs of a run: the inputs of ``earlier`` or the current inputs, limited to data known at ``known_by``."""

    known_by: datetime | None = None
    earlier: Manifest | None = None

    @classmethod
    def of(
        cls, config: JobConfig, period: Period, known_by: datetime | None = None, as_of_generation: int | None = None
    ) -> Self:
        """Validate and create the settings. Raises UsageError for an impossible time, and InputError for a missing
        generation.
        """
        storage = open_storage(config.output.path)
        earlier = None if as_of_generation is None else require_generation(storage, period, as_of_generation)
        back = cls(known_by, earlier)
        back.check_time(Span.of(period, config.timezone), datetime.now(UTC), config.timezone)
        return back

    @property
    def pinned(self) -> dict[str, TableVersion]:
        """The versions of lake tables that the generation read, by source."""
        inputs = self.earlier.inputs if self.earlier else {}
        return {name: TableVersion(**facts["snapshot"]) for name, facts in inputs.items() if "snapshot" in facts}

    def check_time(self, span: Span, now: datetime, zone: str) -> None:
        """Raise UsageError for a future time, or a time before the day began."""
        if self.known_by is None:
            return
        known_by = in_zone(self.known_by, zone)
        if self.known_by > now:
            raise UsageError(
                f"`--known-by` is {known_by}, which has not come yet; expected a time that is past, or none."
            )
        if span.start is not None and self.known_by < span.start:
            start = in_zone(span.start, zone)
            raise UsageError(
                f"`--known-by` is {known_by}, when the day had not begun ({start}); expected a time at which some of its "
                "impressions were known."
            )

    def check_inputs(self, inputs: Inputs) -> None:
        """Raise InputError unless the inputs equal those of the generation."""
        if self.earlier is None:
            return
        for name, source in inputs.sources.items():
            recorded = self.earlier.inputs.get(name, {})
            if recorded.get("fingerprint") is None or recorded["fingerprint"] != source.snapshot["fingerprint"]:
                raise InputError(
                    f"sources.{name} cannot be read as generation {self.earlier.generation} read it: {_why(recorded)}. "
                    "Run without `--as-of-generation`, or choose another generation."
                )


NOW = LookBack()
"""Settings of a run with the current inputs."""


def _why(recorded: Mapping[str, Any]) -> str:
    if not recorded:
        return "it was no source then"
    if recorded.get("fingerprint") is None:
        return "it was a table whose versions cannot be told apart"
    if "snapshot" in recorded:
        return f"the table is another one now than that whose version {recorded['snapshot']['version']} it read"
    return "its files are others now"


@contextmanager
def planning(spark: SparkSession, loaded: LoadedConfig) -> Iterator[None]:
    """Keep configured secrets out of a block's errors, and restore the caller's session afterwards."""
    try:
        with loaded.masked_errors(), errors_of_sources(loaded.config.sources), without_call_sites():
            yield
    finally:
        make_active(spark)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The state of a run before it reads any row: inputs, fitted state and contract."""

    loaded: LoadedConfig
    inputs: Inputs
    state: FittedState | None
    contract: ExampleContract
    label_mature: bool
    fingerprint: str
    """See :func:`run_fingerprint`."""

    @classmethod
    def of(
        cls, spark: SparkSession, loaded: LoadedConfig, period: Period, reporter: Reporter, back: LookBack = NOW
    ) -> Self:
        """Check the inputs. Raises the errors of the inputs, of the fitted state and of the features."""
        config = loaded.config
        inputs = read_inputs(spark, config, period, reporter, back=back)
        back.check_inputs(inputs)
        state = state_of_run(config, period)
        contract = contract_of(config, state)
        mature = labels_are_mature(inputs, period, inputs.span.clock)
        fingerprint = run_fingerprint(inputs, period, contract, mature)
        return cls(loaded, inputs, state, contract, mature, fingerprint)

    @property
    def fitted(self) -> str | None:
        """The fingerprint of the fitted state, or None if nothing is fitted."""
        return self.contract.state["fingerprint"] if self.contract.state else None

    @property
    def wanted(self) -> Wanted:
        """Measures to collect from the samples."""
        config, contract, features = self.loaded.config, self.contract, self.loaded.config.features
        names = contract.names("label")
        flags = [name for name, label in config.labels.items() if label.is_flag]
        main = next((name for name in flags if name in names), names[0] if flags and contract.parts else None)
        return Wanted(
            contract,
            main,
            HOUR if config.grain == "day" else None,
            None if config.measured_key is None else USER,
            next(iter(contract.names("key")), None),
            defaults={
                name: f.default_value
                for name, f in features.items()
                if f.nulls == "default" and not f.makes_ids and f.date_part is None  # midnight and Monday are 0
            },
            missing={name: id_ for name, f in features.items() if (id_ := f.missing_id) is not None},
            hashed={name: f.hash_buckets - 1 for name, f in features.items() if f.hash_buckets and not f.multi_hot},
            tasks=config.output.partitions,
            user_key=config.measured_key or "user",
            request=REQUEST if config.request_keys else None,
            place=SHUFFLE,
            request_keys=config.request_keys,
            by_request=config.output.by_request,
            by={name: value_of(name) for name in config.impressions.rates_by},
            biases=[name for name, feature in features.items() if feature.bias is not None],
            flags=[name for name in flags if name in names and name != main],
        )


def read_inputs(
    spark: SparkSession,
    config: JobConfig,
    period: Period,
    reporter: Reporter,
    *,
    watched: bool = True,
    back: LookBack = NOW,
) -> Inputs:
    """Read the inputs of a day, in a separate session. Warns about links and about each absent optional source."""
    check_period(period, config.grain, config.timezone)
    session = run_session(spark, config.timezone)
    share_workers(session)
    warm_workers(session, load_modules)
    inputs = Inputs.read(session, config, period, watched=watched, known_by=back.known_by, pinned=back.pinned)
    if days := list(_days_of(inputs, period)):
        check_offsets(session, config.timezone, min(days), max(days))
    for sentence in inputs.told():
        reporter.warn(sentence)
    return inputs


def _days_of(inputs: Inputs, period: Period) -> Iterator[date]:
    """Yield the days that are read, at least the first and the last one."""
    own = calendar_day(period)
    for name, source in inputs.config.sources.items():
        if own is not None:
            yield from (own - timedelta(days=source.days_before), own + timedelta(days=source.days_after))
        yield from filter(None, map(calendar_day, inputs.sources[name].there))


def warn_of_event_log(spark: SparkSession, loaded: LoadedConfig, reporter: Reporter) -> None:
    """Warn if secrets reach the event log. Spark logs its plans with values in expressions, and redacts only some."""
    if loaded.in_plans and spark.sparkContext.getConf().get("spark.eventLog.enabled", "false") == "true":
        names = ", ".join(f"${{{name}}}" for name in loaded.in_plans)
        reporter.warn(
            f"Spark's event log will contain the values of {names}; put secrets only in `url`, `user` and `password` of "
            "databases, or set `spark.eventLog.enabled: false`."
        )


def check_writable(spark: SparkSession, config: JobConfig, output: DayOutput, run: str) -> None:
    """Check that executors can write to the directory of a run and to `partials.path`. Raises ConfigError, StorageError."""
    places = {"output.path": (output.storage, run_directory(output.day, run))}
    if config.partials is not None:
        places["partials.path"] = (open_storage(config.partials.path), "")
    check_executors(spark, places)


def open_output(config: JobConfig, period: Period, reporter: Reporter) -> DayOutput:
    """Open the output of a day; warn if an earlier generation forgot users, whom the logs may still have."""
    storage = open_storage(config.output.path)
    output = DayOutput.open(storage, period, config.name, retention_of(config), reporter.warn)
    if forgotten := last_forgotten(storage, period):
        reporter.warn(
            f"Users were forgotten with generation {forgotten} of {period}; this run takes what the logs have of them. "
            "Remove them there too, or run `ctr-samples forget` again."
        )
    return output


def retention_of(config: JobConfig) -> Retention:
    """Return the retention settings for earlier runs of a day."""
    kept = config.output.retention
    return Retention(kept.generations, kept.longest_run)


def labels_are_mature(inputs: Inputs, period: Period, now: datetime) -> bool:
    """Whether all label windows of the run had closed, and all log days that they cover existed.

    Only reading these days shows whether they are complete: see :class:`CoverageWatch`. The whole log counts as
    complete.
    """
    end = inputs.span.end
    if end is None:
        return True
    closed = now >= end + inputs.config.matures_after
    missing = {day for source in ends_of_windows(inputs.config, end) for day in inputs.sources[source].missing_days}
    return closed and not any(str(day) > str(period) for day in missing)


def run_fingerprint(
    inputs: Inputs,
    period: Period,
    contract: ExampleContract,
    mature: bool,
) -> str:
    """Return a hash that is equal for runs that must give the same samples, or an empty string if an input lacks a
    fingerprint.

    Some tables lack a fingerprint.
    """
    files = inputs.fingerprints
    if None in files.values():
        return ""
    config = of_the_bytes(inputs.config.model_dump(mode="json", by_alias=True))
    fitted = contract.state and contract.state["fingerprint"]
    parts = [config, period.isoformat(), contract.fingerprint, fitted, files, mature, RELEASE]
    if inputs.span.known_by is not None:
        parts.append(inputs.span.known_by.astimezone(UTC).isoformat())
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def why_stale(spark: SparkSession, loaded: LoadedConfig, manifest: Manifest) -> tuple[str, ...]:
    """Describe the changes since a day was published. Empty if a run would find it unchanged.

    Runs on the driver. Lists the inputs of the day and compares names, sizes and times. Raises the errors of the
    configuration.
    """
    with planning(spark, loaded):
        try:
            known_by = None if manifest.known_by is None else datetime.fromisoformat(manifest.known_by)
            now = Prepared.of(spark, loaded, manifest.day, Silent(), LookBack(known_by))
        except InputError as error:
            return (f"a run would be refused: {error}",)
    if not now.fingerprint:
        return ("it reads tables, whose changes cannot be told",)
    if now.fingerprint == manifest.fingerprint:
        return ()
    return tuple(_changes(now, manifest)) or ("the configuration changed",)


def _changes(now: Prepared, manifest: Manifest) -> Iterator[str]:
    """Yield the detectable changes."""
    for name, fingerprint in now.inputs.fingerprints.items():
        if fingerprint != manifest.inputs.get(name, {}).get("fingerprint"):
            yield f"the input {name} changed"
    others = changed_values(manifest, now.loaded.values)
    if others:
        yield f"the value of {', '.join(f'${{{name}}}' for name in others)} changed, or is not known of then"
    if others or of_the_bytes(now.loaded.document) != of_the_bytes(manifest.config):
        parts = changed_parts(now.loaded, manifest)
        yield "the configuration changed" + (f": {', '.join(parts)}" if parts else "")
    if now.fitted != fitted_in(manifest):
        yield "the fitted state changed"
    if manifest.release != RELEASE:
        yield "the release changed"
    if now.label_mature and not manifest.label_mature:
        yield "the labels are final now"
