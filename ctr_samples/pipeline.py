"""One run: from the logs of a day to a published generation of samples."""

from __future__ import annotations

import hashlib
import json
import platform
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Protocol

import numpy
import pyarrow
import pyspark
from pyspark.sql import SparkSession

from ctr_samples import __version__
from ctr_samples.config import JobConfig, LoadedConfig, TextSource
from ctr_samples.config.problems import end_sentence
from ctr_samples.contract import ExampleContract
from ctr_samples.descriptions import contract_json, schema_pbtxt
from ctr_samples.errors import DamagedFile, InputError, StorageError, UsageError
from ctr_samples.fitting import state_of_run
from ctr_samples.gate import Inspection, check_accepted, inspect, refuse, wanted_of, with_verdict, write_pages
from ctr_samples.quality.accounting import Accounting
from ctr_samples.quality.pseudonyms import pseudonyms_of
from ctr_samples.shards import (
    Manifest,
    Receipt,
    Shard,
    Storage,
    check_age,
    check_directory,
    check_receipts,
    check_shards,
    check_store,
    latest_manifest,
    mark_success,
    open_storage,
    publish,
)
from ctr_samples.shards.clean import Retention, carry_out, cleanup_of_day
from ctr_samples.shards.generations import following
from ctr_samples.shards.naming import manifests_directory, run_directory, run_id
from ctr_samples.spark.as_of import described
from ctr_samples.spark.canary import CanaryWitness, check_canaries
from ctr_samples.spark.clocks import check_clocks, counts_of_view
from ctr_samples.spark.day import Day
from ctr_samples.spark.evidence import Evidence, Sought, Witness
from ctr_samples.spark.failures import expected_errors
from ctr_samples.spark.features import HOUR, USER, contract_of
from ctr_samples.spark.impressions import NO_ARTICLE, NO_TIME, SKIP_ABOVE, UNREADABLE
from ctr_samples.spark.joining import ViewJoiner
from ctr_samples.spark.labels import flips_since, labels_counted, plan_labels
from ctr_samples.spark.malformed import reasons
from ctr_samples.spark.samples import SampleBuilder
from ctr_samples.spark.sampling import drops_of_sampling, sampling_counted
from ctr_samples.spark.session import make_active, run_session
from ctr_samples.spark.sink import Progress, SinkPlan, in_final_order, write_shards
from ctr_samples.spark.sources import SourceFrame, read_source
from ctr_samples.spark.witnesses import Witnesses
from ctr_samples.vocabulary import FittedState


class Reporter(Protocol):
    """Is told how a run gets on; called on the driver."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def writing(self, progress: Progress) -> None:
        """Tasks begin to write; ``progress`` grows while they do."""

    def warn(self, text: str) -> None:
        """Something is wrong that does not stop the run."""


class Silent:
    """The reporter of a run that nobody watches."""

    def stage(self, text: str) -> None:
        """Say nothing."""

    def writing(self, progress: Progress) -> None:
        """Say nothing."""

    def warn(self, text: str) -> None:
        """Say nothing."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run leaves: the manifest that readers now see, and whether this run published it."""

    manifest: Manifest
    published: bool


def run(
    spark: SparkSession,
    loaded: LoadedConfig,
    run_date: date,
    *,
    force: bool = False,
    accept: Sequence[str] = (),
    reporter: Reporter | None = None,
) -> RunResult:
    """Make and publish the samples of a day. Runs on the driver; one Spark action does all the work.

    A day that is already published from the same inputs, configuration and code is left as it is, unless ``force``. ``accept``
    names checks of the quality gate that may fail this time. Raises the errors of :mod:`ctr_samples.errors`; when it raises,
    nothing was published (but see PublishUnknown).
    """
    check_accepted(accept)
    warn_of_event_log(spark, loaded, reporter or Silent())
    try:
        with loaded.masked_errors(), expected_errors(loaded.config.sources):
            return _run(spark, loaded, run_date, force, accept, reporter or Silent())
    finally:
        make_active(spark)


def _run(
    spark: SparkSession, loaded: LoadedConfig, run_date: date, force: bool, accept: Sequence[str], told: Reporter
) -> RunResult:
    started = time.monotonic()
    config = loaded.config
    loaded.refuse_secrets()
    session = run_session(spark, config.timezone)
    storage = open_storage(config.output.path)
    day = Day.of(run_date, config.timezone)

    told.stage("looking at the inputs")
    sources = {name: read_source(session, name, source, run_date) for name, source in config.sources.items()}
    warn_of_absent(sources, told)
    state = state_of_run(config, run_date)
    contract = contract_of(config, state)
    mature = labels_are_mature(config, sources, run_date, datetime.now(UTC))
    fingerprint = run_fingerprint(config, run_date, contract, sources, mature)
    current, number = current_and_next(storage, run_date, config.name)
    clean_up(storage, run_date, config, told)
    if current is not None and not force and fingerprint == current.fingerprint != "" and is_intact(storage, current):
        mark_success(storage, current)
        return RunResult(current, published=False)

    told.stage("planning the joins")
    witnesses, canaries = Witnesses(), CanaryWitness()
    builder = SampleBuilder(config, sources, day, witnesses, canaries, state)
    builder.check()
    steps = ViewJoiner(config, sources, day).plan()
    samples = builder.build(steps)

    told.stage("joining and writing")
    progress = Progress.of(session)
    told.writing(progress)
    this_run = run_id(datetime.now(UTC), secrets.token_hex(4))
    output, directory = config.output, run_directory(run_date, this_run)
    began = check_store(storage, directory)
    wanted = wanted_of(config, contract, HOUR, USER)
    plan = SinkPlan(storage, directory, contract, output.compression, output.shard_size, output.engine, wanted)
    receipts = write_shards(in_final_order(samples, output.partitions), plan, progress)

    told.stage("checking and publishing")
    accounting = account(witnesses, receipts)
    check_malformed(config, witnesses, sources)
    check_clocks(config, witnesses.counts("clocks"))
    check_impressions(config, accounting, run_date)
    check_receipts(receipts, output.partitions)
    accounting.check()
    looked_at = check_canaries(session, config, day, steps, canaries)
    shards = all_shards(storage, receipts)
    write_descriptions(storage, directory, contract, state)
    flips = flips_since(current, storage, shards, contract)
    manifest = Manifest(
        name=config.name,
        run_date=run_date.isoformat(),
        generation=number,
        run_id=this_run,
        parent=current.run_id if current else None,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        fingerprint=fingerprint,
        compression=output.compression,
        contract={**contract.to_dict(), "fingerprint": contract.fingerprint},
        config=loaded.document,
        inputs={name: {**source.snapshot, **witnesses.counts(f"source {name}")} for name, source in sources.items()},
        shards=shards,
        accounting=accounting.to_dict(),
        views=views_counted(config, witnesses, looked_at),
        labels=labels_of(config, witnesses, flips),
        label_mature=mature,
        versions=versions(),
        seconds=round(time.monotonic() - started, 3),
        plan=tuple(described(steps)),
        sampling=sampling_counted(config, witnesses.counts("sampling")),
    )
    measures = [receipt.measures for receipt in receipts if receipt.measures]
    inspection = inspect(storage, manifest, measures, wanted, config.quality, accept, pseudonyms_of(config))
    manifest = judged(storage, manifest, inspection, config, told)
    check_age(storage, directory, began, config.output.retention.longest_run)
    publish(storage, manifest)
    return RunResult(manifest, published=True)


def all_shards(storage: Storage, receipts: Sequence[Receipt]) -> tuple[Shard, ...]:
    """The shards of all receipts, each of which is there with its size."""
    shards = tuple(shard for receipt in receipts for shard in receipt.shards)
    check_shards(storage, shards)
    return shards


def judged(storage: Storage, manifest: Manifest, inspection: Inspection, config: JobConfig, told: Reporter) -> Manifest:
    """The manifest with its verdict, once its pages are written; GateRefused if it may not be published."""
    manifest = with_verdict(manifest, inspection)
    directory = run_directory(manifest.day, manifest.run_id)
    write_pages(storage, directory, manifest, inspection)
    refuse(storage, directory, inspection, config.output.retention.longest_run)
    for one in inspection.warnings:
        told.warn(one.sentence)
    return manifest


def warn_of_absent(sources: Mapping[str, SourceFrame], told: Reporter) -> None:
    """Say of each optional source that is not there that it has no rows: its path may be wrong."""
    for name, source in sources.items():
        if source.absent is not None:
            told.warn(f"sources.{name}: there is no {source.absent}; it is optional and read as empty.")


def warn_of_event_log(spark: SparkSession, loaded: LoadedConfig, told: Reporter) -> None:
    """Spark writes its plans into the event log, with the values in its expressions, and redacts only some of them."""
    if loaded.in_plans and spark.sparkContext.getConf().get("spark.eventLog.enabled", "false") == "true":
        names = ", ".join(f"${{{name}}}" for name in loaded.in_plans)
        told.warn(
            f"Spark's event log will hold what {names} was filled with; let secrets stand in `url`, `user` and `password` of "
            "databases only, or set `spark.eventLog.enabled: false`."
        )


def write_descriptions(storage: Storage, directory: str, contract: ExampleContract, state: FittedState | None) -> None:
    """What readers without this package need, beside the shards: the contract, TensorFlow's schema and the vocabularies."""
    files = {"contract.json": contract_json(contract), "schema.pbtxt": schema_pbtxt(contract)}
    for name, vocabulary in (state.vocabularies if state else {}).items():
        if not any("\n" in token for token in vocabulary.tokens):
            files[f"vocabularies/{name}.txt"] = "".join(f"{token}\n" for token in vocabulary.tokens)
    for name, text in files.items():
        with storage.new_file(f"{directory}/{name}") as file:
            file.write(text.encode())


def current_and_next(storage: Storage, run_date: date, name: str) -> tuple[Manifest | None, int]:
    """What readers of a day see, if anything, and the number of the generation behind it; refuses a day of others."""
    current = latest_manifest(storage, run_date)
    check_directory(storage, run_date)
    check_name(storage, current, name)
    return current, following(current.generation, storage.locate(manifests_directory(run_date))) if current else 1


def check_name(storage: Storage, current: Manifest | None, name: str) -> None:
    """Refuse to put a sample set behind the generations of another one."""
    if current is not None and current.name != name:
        raise UsageError(
            f"{storage.url} holds the samples of {current.name!r} on {current.run_date}, and this configuration is {name!r}; "
            "give each sample set an `output.path` of its own."
        )


def clean_up(storage: Storage, run_date: date, config: JobConfig, told: Reporter) -> None:
    """Remove what earlier runs of the day left behind; a store that does not let us is no reason to stop."""
    kept = config.output.retention
    retention = Retention(kept.generations, kept.longest_run)
    try:
        carry_out(storage, cleanup_of_day(storage, run_date, retention))
    except (StorageError, DamagedFile) as error:
        told.warn(f"Could not clean up after earlier runs of {run_date}: {error}")


def evidence_of(
    spark: SparkSession,
    config: JobConfig,
    run_date: date,
    sought: Sought,
    *,
    reporter: Reporter | None = None,
) -> Evidence:
    """All that a run of the day would look at for one impression. Runs on the driver; writes nothing."""
    told = reporter or Silent()
    session = run_session(spark, config.timezone)
    told.stage("looking at the inputs")
    sources = {name: read_source(session, name, source, run_date) for name, source in config.sources.items()}
    warn_of_absent(sources, told)
    told.stage("looking for the impression")
    with expected_errors(config.sources):
        return Witness(config, sources, Day.of(run_date, config.timezone)).gather(sought)


def labels_are_mature(config: JobConfig, sources: Mapping[str, SourceFrame], run_date: date, now: datetime) -> bool:
    """Whether all label windows of the day had closed, and the days into which they reach were there to be read."""
    longest = max(label.window for label in config.labels.values())
    closed = now >= Day.of(run_date, config.timezone).end + longest
    missing = {day for label in config.labels.values() for day in sources[label.source].missing_days}
    return closed and not any(day > run_date for day in missing)


def run_fingerprint(
    config: JobConfig, run_date: date, contract: ExampleContract, sources: Mapping[str, SourceFrame], mature: bool
) -> str:
    """Equal for two runs that must give the same samples; empty when an input, such as a table, cannot be told apart."""
    inputs = {name: source.snapshot["fingerprint"] for name, source in sources.items()}
    if None in inputs.values():
        return ""
    said = config.model_dump(mode="json", by_alias=True)
    for key in (
        "path",
        "retention",
        "ids",
        "ids_salt",
    ):  # neither changes a byte of the samples, nor does what is refused
        said["output"].pop(key)
    said.pop("quality")
    fitted = contract.state and contract.state["fingerprint"]
    parts = [said, run_date.isoformat(), contract.fingerprint, fitted, inputs, mature, versions()["ctr_samples"]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def account(witnesses: Witnesses, receipts: list[Receipt]) -> Accounting:
    """The counts of the witnesses beside those of the receipts."""
    counted = {
        **witnesses.counts("impressions"),
        **witnesses.counts(SKIP_ABOVE),
        **drops_of_sampling(witnesses.counts("sampling")),
    }
    impressions = counted.pop("impressions", 0)
    written = sum(shard.records for receipt in receipts for shard in receipt.shards)
    return Accounting(impressions, counted, witnesses.counts("joined").get("rows", 0), written)


def check_malformed(config: JobConfig, witnesses: Witnesses, sources: Mapping[str, SourceFrame]) -> None:
    """Refuse a run whose text sources have more malformed lines than their configuration allows, and say what is wrong."""
    for name, source in config.sources.items():
        counted = witnesses.counts(f"source {name}")
        lines, malformed = counted.get("lines", 0), counted.get("malformed", 0)
        allowed = source.bad_records.max_rate
        if isinstance(source, TextSource) and malformed > allowed * lines:
            why = reasons(sources[name], source, lines)
            raise InputError(
                f"sources.{name}: {malformed:,} of {lines:,} lines are malformed ({malformed / lines:.2%}), more than "
                f"`bad_records.max_rate: {allowed:g}` allows: {end_sentence(why)} Look at the file, or raise the rate."
            )


def check_impressions(config: JobConfig, accounting: Accounting, run_date: date) -> None:
    """A day without impressions, or with too many that cannot be read, is a broken input, not a sample set."""
    shown, counted = config.impressions, accounting
    which = f"sources.{shown.source} has {counted.impressions or 'no'} impressions on {run_date}"
    if counted.impressions == 0:
        where = f" where {shown.where}" if shown.where else ""
        raise InputError(f"{which}{where}; check the date, the time zone ({config.timezone}) and `impressions`.")
    unreadable = {reason: counted.dropped.get(reason, 0) for reason in UNREADABLE}
    allowed = config.sources[shown.source].bad_records.max_rate
    if sum(unreadable.values()) > allowed * counted.impressions:
        raise InputError(
            f"{which}, of which {unreadable[NO_TIME]:,} have no readable time and {unreadable[NO_ARTICLE]:,} no readable "
            f"article, more than `bad_records.max_rate: {allowed:g}` of that source allows. Look at the log and at "
            "`impressions.time` and `impressions.article`, or raise the rate."
        )


def is_intact(storage: Storage, manifest: Manifest) -> bool:
    """Whether the shards that a manifest lists are all there, with their sizes."""
    try:
        check_shards(storage, manifest.shards)
    except DamagedFile:
        return False
    return True


def versions() -> dict[str, str]:
    """What ran."""
    return {
        "ctr_samples": __version__,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pyarrow.__version__,
        "numpy": numpy.__version__,
    }


def labels_of(
    config: JobConfig, witnesses: Witnesses, flips: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """For each label what was counted of its actions and, where it was compared, what flipped since the generation before."""
    counted = labels_counted(plan_labels(config), witnesses.counts("labels"), witnesses.lists("labels"))
    names = pseudonyms_of(config)
    counted = counted if names is None else names.in_labels(counted)
    return {name: {**counts, **({"flips": flips[name]} if name in flips else {})} for name, counts in counted.items()}


def views_counted(
    config: JobConfig, witnesses: Witnesses, canaries: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, float]]:
    """For each view how many samples found a row, how old those were, and what the view's rows were like."""
    clocks, joined = witnesses.counts("clocks"), witnesses.counts("joined")
    views: dict[str, dict[str, float]] = {}
    for name, counted in _by_first_part(joined, config.views).items():
        matched = counted.pop("matched", 0)
        rate = round(matched / joined["rows"], 6) if joined.get("rows") else 0.0
        ages = counted if matched else {}
        views[name] = {"matched": matched, "match_rate": rate, **ages, **counts_of_view(clocks, name)}
        views[name].update(canaries.get(name, {}))
    return views


def _by_first_part(counts: Mapping[str, int], names: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """``{"item.matched": 3}`` -> ``{"item": {"matched": 3}}``."""
    found: dict[str, dict[str, int]] = {name: {} for name in names}
    for key, value in counts.items():
        name, _, what = key.partition(".")
        if name in found:
            found[name][what] = value
    return found
