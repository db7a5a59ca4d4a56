"""One run: from the logs of a day to a published generation of samples."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig
from ctr_samples.config.loading import loaded_of
from ctr_samples.config.masking import masked_tree
from ctr_samples.errors import DamagedPartial, UnusableFeatures
from ctr_samples.job.accounting import check_sources
from ctr_samples.job.gate import check_accepted, measured_of, pass_gate
from ctr_samples.job.kinds import Kind
from ctr_samples.job.manifest_facts import descriptions, facts_of_run, order_fact
from ctr_samples.job.planning import LookBack, Prepared, check_writable, open_output, planning, warn_of_event_log
from ctr_samples.job.reuse import kind_of_run
from ctr_samples.periods import Period, period_of
from ctr_samples.quality.measure.collecting import Wanted
from ctr_samples.quality.measure.merging import Measures
from ctr_samples.quality.pseudonyms import pseudonyms_of
from ctr_samples.quality.words import with_words, words_of
from ctr_samples.samples.builder import SampleBuilder, SamplePlan
from ctr_samples.samples.partials import Partials
from ctr_samples.samples.sink import SinkPlan, write_shards
from ctr_samples.samples.views.as_of.planning import described
from ctr_samples.samples.watches.all import crowded
from ctr_samples.samples.watches.leak_canary import check_canaries
from ctr_samples.shards import DayOutput, DayRun, Manifest, Receipt, open_storage
from ctr_samples.shards.naming import run_id
from ctr_samples.shards.partials import drop_damaged
from ctr_samples.sparksql.observations import Progress, Reporter, Silent


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: the manifest that readers now see, and whether this run published it."""

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
    """Build and publish the samples of a day. Runs on the driver; one Spark action does all the work.

    ``loaded`` may be the path of a configuration, and ``run_date`` text, as in :func:`ctr_samples.preview`.

    A day that is already published from the same inputs, configuration and code remains unchanged, unless ``force``.
    ``accept`` names checks of the quality gate that may fail this time. With ``known_by``, the samples are those of a
    run at that time. ``as_of_generation`` reads the inputs of that generation of the day. ``before_verdict`` is called
    after everything is written, right before the day is compared with earlier days; concurrent days wait there for
    their turn. Raises the errors of :mod:`ctr_samples.errors`; when it raises, nothing was published (but see
    PublishUnknown).
    """
    check_accepted(accept)
    reporter, checked, period = reporter or Silent(), loaded_of(loaded), period_of(run_date)
    warn_of_event_log(spark, checked, reporter)
    with checked.masked_errors():
        back = LookBack.of(checked.config, period, known_by, as_of_generation)
    return _Run(spark, checked, period, back, accept, reporter, before_verdict).result(force)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The inputs and joins of a run, and its kind."""

    prepared: Prepared
    kind: Kind
    partials: Partials
    samples: SamplePlan

    @property
    def wanted(self) -> Wanted:
        """Measures to collect."""
        return self.kind.wanted(self.prepared.wanted)

    @property
    def described(self) -> list[str]:
        """The join steps and the use of partial results, in words."""
        return [*described(self.samples.steps), *self.partials.described()] if self.kind.joins else []


@dataclass(frozen=True, slots=True)
class _Run:
    """The run of a day, from its inputs to its manifest. The methods are in call order."""

    spark: SparkSession
    loaded: LoadedConfig
    period: Period
    back: LookBack
    accept: Sequence[str]
    reporter: Reporter
    before_verdict: Callable[[], None]

    def result(self, force: bool) -> RunResult:
        """Run the day. Starts over at most once without damaged partial results, and at most once without earlier
        features.
        """
        why_joined = "`--force` was given" if force else ""
        damaged = False
        while True:
            try:
                with planning(self.spark, self.loaded):
                    return self._once(force, why_joined)
            except DamagedPartial as error:
                if damaged:
                    raise
                damaged = True
                self._drop_damaged(error)
            except UnusableFeatures as error:
                if why_joined:
                    raise
                self.reporter.warn(
                    f"The features of the generation before cannot be used, so all is joined anew: {error}"
                )
                why_joined, damaged = str(error), False

    def _drop_damaged(self, error: DamagedPartial) -> None:
        self.reporter.warn(str(error))
        assert self.loaded.config.partials is not None
        drop_damaged(open_storage(self.loaded.config.partials.path))

    def _once(self, force: bool, why_joined: str) -> RunResult:
        started = time.monotonic()
        self.loaded.refuse_secrets()

        self.reporter.stage("checking the inputs")
        prepared = Prepared.of(self.spark, self.loaded, self.period, self.reporter, self.back)
        output = open_output(self.loaded.config, self.period, self.reporter)
        if not force and (manifest := output.published(prepared.fingerprint)):
            return RunResult(manifest, published=False)

        begins = datetime.now(UTC), secrets.token_hex(4)
        check_writable(self.spark, self.loaded.config, output, run_id(*begins))
        plan = self._planned(prepared, output, why_joined)

        self.reporter.stage("joining and writing")
        this_run = output.begin(*begins)
        receipts = self._written(plan, this_run)

        self.reporter.stage("checking and publishing")
        manifest = self._manifest(plan, this_run, receipts, started)
        self.before_verdict()
        manifest = self._judged(plan, this_run, manifest, receipts)
        this_run.publish(manifest)
        plan.partials.clean(datetime.now(UTC), self.reporter.warn)
        return RunResult(manifest, published=True)

    def _planned(self, prepared: Prepared, output: DayOutput, why_joined: str) -> _Plan:
        """Decide whether to reuse features, and plan the joins. Raises the errors of sources that are already counted."""
        reporter = self.reporter
        if output.current is not None:
            reporter.stage(f"comparing with generation {output.current.generation}")
        kind = kind_of_run(prepared, output, why_joined)
        partials = Partials.prepare(prepared.inputs, self.period, reporter, build=kind.joins)
        prepared = replace(prepared, inputs=partials.applied(prepared.inputs))
        check_sources(prepared.inputs)  # covers only partial results; the rest is counted during reading
        reporter.stage("planning the joins")
        return _Plan(prepared, kind, partials, kind.plan(SampleBuilder(prepared.inputs, prepared.state)))

    def _written(self, plan: _Plan, run: DayRun) -> list[Receipt]:
        """Run the job's single action."""
        output, progress = self.loaded.config.output, Progress.of(plan.prepared.inputs.spark)
        self.reporter.writing(progress)
        contract = plan.prepared.contract
        sink = SinkPlan(
            run.storage,
            run.directory,
            contract,
            output.compression,
            output.shard_size,
            output.engine,
            plan.wanted,
            plan.samples.order,
        )
        return write_shards(plan.samples.samples, sink, progress, plan.prepared.inputs.watches.tasks)

    def _manifest(self, plan: _Plan, run: DayRun, receipts: Sequence[Receipt], started: float) -> Manifest:
        """Build the manifest, not yet judged. Raises the errors of inputs and of counts that do not balance."""
        prepared, config = plan.prepared, self.loaded.config
        inputs, watches = prepared.inputs, prepared.inputs.watches
        accounting = plan.kind.accounting(inputs, receipts, self.period)
        canaries = check_canaries(config, plan.samples.steps, watches.canary)
        cut = list(watches.cut_logs()) if prepared.label_mature and plan.kind.reads_logs else []
        for sentence in cut:
            self.reporter.warn(sentence)
        for sentence in crowded(watches.tasks.result(), inputs.partitions(), config.output.partitions):
            self.reporter.warn(sentence)
        shards = run.shards(receipts, config.output.partitions)
        run.write(descriptions(prepared.contract, prepared.state))
        manifest = run.manifest(
            **facts_of_run(prepared, run, shards, canaries),
            accounting=accounting.to_dict(),
            order=order_fact(config, receipts),
            label_mature=prepared.label_mature and not cut,
            plan=masked_tree(tuple(plan.described)),
            features_from=plan.kind.features_from,
            seconds=round(time.monotonic() - started, 3),
        )
        return plan.kind.completed(manifest)

    def _judged(self, plan: _Plan, run: DayRun, manifest: Manifest, receipts: Sequence[Receipt]) -> Manifest:
        """Add the verdict to the manifest after writing its pages. Raises GateRefused if it may not be published."""
        config = self.loaded.config
        measures = Measures.of(receipt.measures for receipt in receipts if receipt.measures)
        measured = measured_of(manifest, measures, plan.wanted)
        measured = replace(measured, features=with_words(measured.features, words_of(config, plan.prepared.state)))
        if (names := pseudonyms_of(config)) is not None:
            measured = names.applied(measured)
        return pass_gate(
            run.storage,
            manifest,
            plan.kind.measured(measured),
            config.quality,
            self.accept,
            kept_for=config.output.retention.longest_run,
            warn=self.reporter.warn,
        )
