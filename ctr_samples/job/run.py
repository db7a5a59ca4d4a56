"""One run: from the logs of a day to a published generation of samples."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pyspark.sql import SparkSession

from ctr_samples import __version__
from ctr_samples.config import JobConfig, LoadedConfig
from ctr_samples.config.document import of_the_bytes
from ctr_samples.config.loading import loaded_of
from ctr_samples.config.masking import masked_tree
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedPartial, UnusableFeatures
from ctr_samples.job.accounting import Accounting
from ctr_samples.job.fit import state_of_run
from ctr_samples.job.gate import check_accepted, judge, wanted_of
from ctr_samples.job.looking_back import NOW, LookBack
from ctr_samples.job.manifest_facts import descriptions, label_facts, view_facts
from ctr_samples.job.maturing import OF_FEATURES, EarlierRun, earlier_run
from ctr_samples.job.refusals import balanced, check_sources
from ctr_samples.job.reporting import Reporter, Silent
from ctr_samples.periods import Period, check_period, period_of
from ctr_samples.quality.measure.collecting import Wanted
from ctr_samples.quality.metrics import Metrics
from ctr_samples.quality.pseudonyms import pseudonyms_of
from ctr_samples.samples.builder import SampleBuilder, SamplePlan
from ctr_samples.samples.executors import Places, check_executors
from ctr_samples.samples.features import HOUR, USER, contract_of
from ctr_samples.samples.inputs.databases import errors_of_sources
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.partials import Partials
from ctr_samples.samples.period import Day
from ctr_samples.samples.sampling import sampling_facts
from ctr_samples.samples.sink import SinkPlan, write_shards
from ctr_samples.samples.views.as_of import described
from ctr_samples.samples.watches.coverage import ends_of_windows
from ctr_samples.samples.watches.leak_canary import check_canaries
from ctr_samples.shards import DayOutput, DayRun, Manifest, Receipt, Shard, Storage, open_storage, require_generation
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.forgotten import last_forgotten
from ctr_samples.shards.naming import run_directory, run_id
from ctr_samples.shards.partials import drop_damaged
from ctr_samples.sparksql.releases import without_call_sites
from ctr_samples.sparksql.session import make_active, run_session
from ctr_samples.sparksql.software import versions
from ctr_samples.sparksql.written import Progress
from ctr_samples.vocabulary import FittedState


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run leaves: the manifest that readers now see, and whether this run published it."""

    manifest: Manifest
    published: bool


def run(
    spark: SparkSession,
    loaded: LoadedConfig | str | Path,
    run_date: Period | str,
    *,
    force: bool = False,
    accept: Sequence[str] = (),
    known_by: datetime | None = None,
    as_of_generation: int | None = None,
    reporter: Reporter | None = None,
    before_verdict: Callable[[], None] = lambda: None,
) -> RunResult:
    """Make and publish the samples of a day. Runs on the driver; one Spark action does all the work.

    ``loaded`` may be the path of a configuration, and ``run_date`` text, as in :func:`ctr_samples.preview`.

    A day that is already published from the same inputs, configuration and code is left as it is, unless ``force``. ``accept``
    names checks of the quality gate that may fail this time. With ``known_by``, the samples are those that a run would have
    made then; ``as_of_generation`` reads the inputs that this generation of the day was made from. ``before_verdict`` is called
    when all is written, right before the day is compared with those before it: of several days at once, each waits in it.
    Raises the errors of :mod:`ctr_samples.errors`; when it raises, nothing was published (but see PublishUnknown).
    """
    check_accepted(accept)
    reporter, checked, period = reporter or Silent(), loaded_of(loaded), period_of(run_date)
    warn_of_event_log(spark, checked, reporter)

    def once(anew: str) -> RunResult:
        with planning(spark, checked):
            back = look_back(checked.config, period, known_by, as_of_generation)
            return _run(spark, checked, period, force, accept, back, reporter, before_verdict, anew)

    def with_sound_partials(anew: str) -> RunResult:
        try:
            return once(anew)
        except DamagedPartial as error:
            reporter.warn(str(error))
            assert checked.config.state is not None
            drop_damaged(open_storage(checked.config.state.path))
        return once(anew)

    try:
        return with_sound_partials("`--force` was given" if force else "")
    except UnusableFeatures as error:
        reporter.warn(f"The features of the generation before cannot be used, so all is joined anew: {error}")
        return with_sound_partials(str(error))


@contextmanager
def planning(spark: SparkSession, loaded: LoadedConfig) -> Iterator[None]:
    """A block that plans or runs: its errors tell no secret of the configuration, and the caller's session stays active."""
    try:
        with loaded.masked_errors(), errors_of_sources(loaded.config.sources), without_call_sites():
            yield
    finally:
        make_active(spark)


def _run(
    spark: SparkSession,
    loaded: LoadedConfig,
    run_date: Period,
    force: bool,
    accept: Sequence[str],
    back: LookBack,
    reporter: Reporter,
    before_verdict: Callable[[], None],
    anew: str,
) -> RunResult:
    started, config = time.monotonic(), loaded.config
    loaded.refuse_secrets()

    reporter.stage("checking the inputs")
    storage = open_storage(config.output.path)
    prepared = Prepared.of(spark, loaded, run_date, reporter, back)
    output = DayOutput.open(storage, run_date, config.name, retention_of(config), reporter.warn)
    if not force and (manifest := output.published(prepared.fingerprint)):
        return RunResult(manifest, published=False)
    if forgotten := last_forgotten(storage, run_date):
        reporter.warn(
            f"Users were forgotten with generation {forgotten} of {run_date}; this run takes what the logs have of them. "
            "Remove them there too, or run `ctr-samples forget` again."
        )

    begins = datetime.now(UTC), secrets.token_hex(4)
    check_executors(spark, written_by_executors(config, storage, run_directory(run_date, run_id(*begins))))

    earlier, told = prepared.earlier(output, anew, reporter)
    partials = (
        Partials.there(prepared.inputs, run_date) if earlier else Partials.prepare(prepared.inputs, run_date, reporter)
    )
    prepared = replace(prepared, inputs=partials.applied(prepared.inputs))

    check_sources(prepared.inputs)  # as far as partial results know; the rest is counted while it is read

    reporter.stage("planning the joins")
    builder = SampleBuilder(prepared.inputs, prepared.state)
    plan = builder.build_on(earlier.features) if earlier else builder.build()

    reporter.stage("joining and writing")
    this_run = output.begin(*begins)
    receipts = prepared.write(plan, this_run, reporter)

    reporter.stage("checking and publishing")
    accounting = balanced(prepared.inputs, receipts, run_date)
    canaries = check_canaries(spark, config, prepared.inputs.day, plan.steps, prepared.inputs.watches.canary)
    cut = list(prepared.inputs.watches.coverage.cut()) if prepared.label_mature else []
    for sentence in cut:
        reporter.warn(sentence)
    prepared = replace(prepared, label_mature=prepared.label_mature and not cut)
    shards = this_run.shards(receipts, config.output.partitions)
    this_run.write(descriptions(prepared.contract, prepared.state))
    how = [*told, *([] if earlier else [*described(plan.steps), *partials.described()])]
    manifest = prepared.manifest(this_run, how, shards, accounting, canaries, time.monotonic() - started)
    manifest = earlier.completed(manifest) if earlier else manifest
    before_verdict()
    manifest = prepared.judged(this_run, manifest, receipts, accept, reporter, earlier.metrics if earlier else None)
    this_run.publish(manifest)
    partials.clean(datetime.now(UTC), reporter.warn)
    return RunResult(manifest, published=True)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run before any row is read: what it reads, what was fitted for it, and what it promises."""

    loaded: LoadedConfig
    inputs: Inputs
    state: FittedState | None
    contract: ExampleContract
    label_mature: bool
    fingerprint: str
    """See :func:`run_fingerprint`."""

    @classmethod
    def of(
        cls, spark: SparkSession, loaded: LoadedConfig, run_date: Period, reporter: Reporter, back: LookBack = NOW
    ) -> Self:
        """Check the inputs. Raises the errors of the inputs, of the fitted state and of the features."""
        config = loaded.config
        inputs = read_inputs(spark, config, run_date, reporter, back=back)
        back.check_inputs(inputs)
        state = state_of_run(config, run_date)
        contract = contract_of(config, state)
        mature = labels_are_mature(inputs, run_date, back.known_by or datetime.now(UTC))
        fingerprint = run_fingerprint(inputs, run_date, contract, mature)
        return cls(loaded, inputs, state, contract, mature, fingerprint)

    def earlier(self, output: DayOutput, anew: str, reporter: Reporter) -> tuple[EarlierRun | None, list[str]]:
        """The generation whose features the run takes, if only labels can be others than there; and a line for the plan.

        ``anew`` says why none may be taken.
        """
        current = output.current
        if self.inputs.config.state is None or current is None or current.label_mature:
            return None, []
        reporter.stage(f"comparing with generation {current.generation}")
        try:
            if anew:
                raise UnusableFeatures(anew)
            then = {name: facts.get("fingerprint") for name, facts in current.inputs.items()}
            # A cut log is only known once it was read: such a run began as one whose labels become final.
            fingerprints = {
                run_fingerprint(self.inputs, output.day, self.contract, mature, then) for mature in (False, True)
            }
            earlier = earlier_run(self.inputs, current, output.storage, fingerprints)
        except UnusableFeatures as error:
            return None, [f"{OF_FEATURES}not taken from generation {current.generation}: {error}"]
        return earlier, [earlier.described]

    @property
    def wanted(self) -> Wanted:
        """What to measure of the samples."""
        return wanted_of(self.loaded.config, self.contract, HOUR, USER)

    def write(self, plan: SamplePlan, run: DayRun, reporter: Reporter) -> list[Receipt]:
        """Run the job's one action."""
        output, progress = self.loaded.config.output, Progress.of(plan.samples.sparkSession)
        reporter.writing(progress)
        sink = SinkPlan(
            run.storage,
            run.directory,
            self.contract,
            output.compression,
            output.shard_size,
            output.engine,
            self.wanted,
        )
        return write_shards(plan.samples, sink, progress)

    def manifest(
        self,
        run: DayRun,
        plan: Sequence[str],
        shards: tuple[Shard, ...],
        accounting: Accounting,
        canaries: Mapping[str, Mapping[str, int]],
        seconds: float,
    ) -> Manifest:
        """The manifest of the run, not yet judged."""
        config, watches, output = self.loaded.config, self.inputs.watches, run.output
        return run.manifest(
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            fingerprint=self.fingerprint,
            compression=config.output.compression,
            contract={**self.contract.to_dict(), "fingerprint": self.contract.fingerprint},
            config=self.loaded.document,
            inputs=masked_tree(self.inputs.facts()),
            shards=shards,
            accounting=accounting.to_dict(),
            views=view_facts(self.inputs, canaries),
            labels=label_facts(self.inputs, output.current, run.storage, shards, self.contract, self.loaded.document),
            label_mature=self.label_mature,
            versions=versions(),
            seconds=round(seconds, 3),
            plan=masked_tree(tuple(plan)),
            sampling=sampling_facts(config, watches.sampling.result()),
            known_by=self.inputs.day.known_by and self.inputs.day.known_by.astimezone(UTC).isoformat(),
        )

    def judged(
        self,
        run: DayRun,
        manifest: Manifest,
        receipts: Sequence[Receipt],
        accept: Sequence[str],
        reporter: Reporter,
        same_features: Metrics | None = None,
    ) -> Manifest:
        """The manifest with its verdict, once its pages are written; GateRefused if it may not be published."""
        config = self.loaded.config
        measures = [receipt.measures for receipt in receipts if receipt.measures]
        return judge(
            run.storage,
            manifest,
            measures,
            self.wanted,
            config.quality,
            accept,
            names=pseudonyms_of(config),
            kept_for=config.output.retention.longest_run,
            warn=reporter.warn,
            same_features=same_features,
        )


def read_inputs(
    spark: SparkSession,
    config: JobConfig,
    run_date: Period,
    reporter: Reporter,
    *,
    watched: bool = True,
    back: LookBack = NOW,
) -> Inputs:
    """The inputs of a day, in a session of their own; warns of links, and of each optional source that is absent."""
    check_period(run_date, config.grain, config.timezone)
    session = run_session(spark, config.timezone)
    inputs = Inputs.read(session, config, run_date, watched=watched, known_by=back.known_by, pinned=back.pinned)
    for sentence in inputs.told():
        reporter.warn(sentence)
    return inputs


def look_back(config: JobConfig, run_date: Period, known_by: datetime | None, as_of_generation: int | None) -> LookBack:
    """What a run looks back at. UsageError for a time that cannot be, InputError for a generation that is not there."""
    earlier = None
    if as_of_generation is not None:
        earlier = require_generation(open_storage(config.output.path), run_date, as_of_generation)
    back = LookBack(known_by, earlier)
    back.check_time(Day.of(run_date, config.timezone), datetime.now(UTC), config.timezone)
    return back


def warn_of_event_log(spark: SparkSession, loaded: LoadedConfig, reporter: Reporter) -> None:
    """Spark writes its plans into the event log, with the values in its expressions, and redacts only some of them."""
    if loaded.in_plans and spark.sparkContext.getConf().get("spark.eventLog.enabled", "false") == "true":
        names = ", ".join(f"${{{name}}}" for name in loaded.in_plans)
        reporter.warn(
            f"Spark's event log will contain the values of {names}; put secrets only in `url`, `user` and `password` of "
            "databases, or set `spark.eventLog.enabled: false`."
        )


def written_by_executors(config: JobConfig, storage: Storage, directory: str) -> Places:
    """Where the tasks of a run write."""
    places = {"output.path": (storage, directory)}
    return places if config.state is None else {**places, "state.path": (open_storage(config.state.path), "")}


def retention_of(config: JobConfig) -> Retention:
    """What to keep of earlier runs of a day."""
    kept = config.output.retention
    return Retention(kept.generations, kept.longest_run)


def labels_are_mature(inputs: Inputs, run_date: Period, now: datetime) -> bool:
    """Whether all label windows of the run had closed, and the days that they reach into were there to be read.

    Whether those are complete is known once they were read: see :class:`CoverageWatch`. The whole log is taken as complete.
    """
    end = inputs.day.end
    if end is None:
        return True
    closed = now >= end + inputs.config.matures_after
    missing = {day for source in ends_of_windows(inputs.config, end) for day in inputs.sources[source].missing_days}
    return closed and not any(str(day) > str(run_date) for day in missing)


def run_fingerprint(
    inputs: Inputs,
    run_date: Period,
    contract: ExampleContract,
    mature: bool,
    files: Mapping[str, str | None] | None = None,
) -> str:
    """Equal for two runs that must give the same samples; empty when an input, such as a table, cannot be told apart.

    ``files`` are fingerprints of other inputs than those of now, by source.
    """
    if files is None:
        files = {name: source.snapshot["fingerprint"] for name, source in inputs.sources.items()}
    if None in files.values():
        return ""
    config = of_the_bytes(inputs.config.model_dump(mode="json", by_alias=True))
    fitted = contract.state and contract.state["fingerprint"]
    parts = [config, run_date.isoformat(), contract.fingerprint, fitted, files, mature, __version__]
    if inputs.day.known_by is not None:
        parts.append(inputs.day.known_by.astimezone(UTC).isoformat())
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
