"""Gate before publishing: converts the measures to a document and a page, and decides whether to publish the day.

A run passes what its tasks measured through :func:`pass_gate`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ctr_samples.config import Quality
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.errors import DamagedFile, GateRefused, StorageError, UsageError
from ctr_samples.periods import Period, days_before, parse_period
from ctr_samples.quality.checks import CHECKS, Days, findings
from ctr_samples.quality.checks.counts import alarms, filling_features
from ctr_samples.quality.drift import drifts
from ctr_samples.quality.measure.collecting import Wanted
from ctr_samples.quality.measure.merging import Measures
from ctr_samples.quality.metrics import (
    METRICS_FORMAT,
    STANDINGS,
    Actions,
    Finding,
    Funnel,
    Measured,
    Metrics,
    Reference,
    Shards,
    Spread,
)
from ctr_samples.quality.pseudonyms import Pseudonyms
from ctr_samples.quality.report import render
from ctr_samples.quality.statistics import statistics_pbtxt
from ctr_samples.shards import Manifest, Storage, latest_manifest
from ctr_samples.shards.naming import METRICS, REPORT, STATISTICS, run_directory

WEEK = 7
_WEEKS = 4


def check_accepted(accepted: Collection[str]) -> None:
    """Raise UsageError for an unknown check."""
    for name in accepted:
        if name not in CHECKS:
            raise UsageError(f"There is no check {name!r} to accept{end_sentence(nearest(name, CHECKS))}")


def pass_gate(
    storage: Storage,
    manifest: Manifest,
    measured: Measured,
    quality: Quality,
    accepted: Collection[str] = (),
    *,
    kept_for: timedelta = timedelta(hours=24),
    warn: Callable[[str], None] = lambda sentence: None,
) -> Manifest:
    """Return the manifest of a written, unpublished day with its verdict, after comparing it with two earlier days.

    ``metrics.json``, the page and the statistics for TensorFlow are written beside the shards, whatever the verdict. Raises
    GateRefused if a finding blocks publishing; other findings go to ``warn``. Runs on the driver.
    """
    days = compared_days(storage, manifest, measured)
    metrics = judge(days, quality, accepted, alarms(manifest, days.before))
    manifest = replace(manifest, quality=_in_manifest(metrics))
    directory = run_directory(manifest.day, manifest.run_id)
    _write(storage, directory, metrics, render(metrics, manifest, days.before))
    for finding in metrics.checks:
        if finding.standing in ("warns", "accepted"):  # a warning may explain another, blocking finding
            warn(finding.sentence)
    _refuse(storage.locate(f"{directory}/{REPORT}"), metrics.checks, kept_for)
    return manifest


def compared_days(storage: Storage, manifest: Manifest, measured: Measured) -> Days:
    """Return a day with the earlier days with which it is compared."""
    before = last_before(storage, manifest.day)
    filling = filling_features([manifest, *_manifest_of(storage, before)])
    return Days(measured, before, last_same_weekday(storage, manifest.day), filling)


def judge(days: Days, quality: Quality, accepted: Collection[str] = (), more: Iterable[Finding] = ()) -> Metrics:
    """Return the metrics of a day with its verdict. ``more`` are findings of another origin."""
    reference = Reference(
        days.before.named if days.before else None, days.same_weekday.named if days.same_weekday else None
    )
    drift = drifts(days.now, days.before) if days.before else {}
    found = sorted([*findings(days, quality, accepted), *more], key=lambda finding: STANDINGS.index(finding.standing))
    return Metrics.judged(days.now, found, reference, drift)


def describe_anew(
    storage: Storage,
    before: Manifest,
    manifest: Manifest,
    tasks: Iterable[str],
    wanted: Wanted,
    names: Pseudonyms | None,
) -> None:
    """Rewrite the metrics and the report page after samples were removed from a published day. Never refuses.

    Records do not hold all keys of their requests, so the figures of requests are those of the generation ``before``.
    """
    measured = measured_of(manifest, Measures.of(tasks), wanted)
    with suppress(FileNotFoundError, StorageError, DamagedFile):
        measured = replace(measured, requests=read_metrics(storage, before).requests)
    measured = measured if names is None else names.applied(measured)
    days = compared_days(storage, manifest, measured)
    metrics = judge(days, Quality(), CHECKS)
    _write(storage, run_directory(manifest.day, manifest.run_id), metrics, render(metrics, manifest, days.before))


def measured_of(manifest: Manifest, measures: Measures, wanted: Wanted) -> Measured:
    """Combine all numbers of a day, from the manifest and the measures."""
    users, requests = measures.users(), measures.requests(wanted)
    if requests is not None and manifest.order is not None:
        requests = replace(requests, largest=manifest.order.largest)
    graph = manifest.graph
    return Measured(
        format=METRICS_FORMAT,
        name=manifest.name,
        run_date=manifest.run_date,
        generation=manifest.generation,
        run_id=manifest.run_id,
        created_at=manifest.created_at,
        seconds=manifest.seconds,
        contract=wanted.contract.fingerprint,
        label_mature=manifest.label_mature,
        samples={name: split.rows for name, split in measures.splits.items()},
        accounting=dict(manifest.accounting),
        shards=Shards(
            len(manifest.shards),
            Spread.of([shard.bytes for shard in manifest.shards]),
            Spread.of([shard.records for shard in manifest.shards]),
        ),
        labels=measures.labels(wanted.contract),
        actions={name: _actions(counts) for name, counts in manifest.labels.items() if "actions" in counts},
        click_rate=measures.click_rate(wanted.label, hours=wanted.hour is not None),
        features={
            name: replace(feature, hashed=wanted.hashed.get(name), joined=graph.joined(name))
            for name, feature in measures.columns(wanted.contract, "feature").items()
        },
        views={name: dict(counts) for name, counts in manifest.views.items()},
        users=users and replace(users, key=wanted.user_key),
        duplicates=measures.duplicates(),
        baseline=measures.baseline(wanted.label),
        requests=requests,
        funnels={name: Funnel(**facts["funnel"]) for name, facts in manifest.labels.items() if "funnel" in facts},
    )


def _actions(counts: Mapping[str, Any]) -> Actions:
    return Actions(counts.get("actions", 0), counts.get("orphans", 0), counts.get("without_value", 0))


def _manifest_of(storage: Storage, metrics: Metrics | None) -> list[Manifest]:
    """Return the manifest of the generation with these metrics in a list, which is empty if either is missing."""
    if metrics is None:
        return []
    manifest = latest_manifest(storage, parse_period(metrics.run_date))
    return [] if manifest is None else [manifest]


def _in_manifest(metrics: Metrics) -> dict[str, Any]:
    """Return the verdict for the manifest, with the checks that did not pass and the accepted checks."""
    not_passed = [
        {
            "check": finding.check,
            "subject": finding.subject,
            "severity": "warn" if finding.standing == "warns" else "fail",
            "sentence": finding.sentence,
        }
        for finding in metrics.checks
        if finding.standing != "passed"
    ]
    return {"verdict": metrics.verdict, "found": not_passed, "accepted": list(metrics.accepted)}


def _write(storage: Storage, directory: str, metrics: Metrics, page: str) -> None:
    files = {
        METRICS: metrics.to_json(),
        STATISTICS: statistics_pbtxt(metrics.samples, metrics.features).encode(),
        REPORT: page.encode(),
    }
    for name, content in files.items():
        with storage.new_file(f"{directory}/{name}") as file:
            file.write(content)


def _refuse(page: str, checks: Sequence[Finding], kept_for: timedelta) -> None:
    """Raise GateRefused if a finding blocks publishing.

    The message names the finding and the report, and explains how to publish anyway.
    """
    blocking = [finding for finding in checks if finding.standing == "blocks"]
    if not blocking:
        return
    others = f" ({len(blocking) - 1} more in the report)" if len(blocking) > 1 else ""
    accept = " ".join(f"--accept {name}" for name in sorted({finding.check for finding in blocking}))
    raise GateRefused(
        f"Nothing was published: {blocking[0].sentence}{others}\n"
        f"See {page}; the samples are kept for {kept_for.total_seconds() / 3600:g} hours.\n"
        f"If the day is correct, run it again with {accept}, or change `quality` in the configuration."
    )


def last_before(storage: Storage, day: Period) -> Metrics | None:
    """Return the metrics of the last sound day before ``day``, at most a week back. For an hour, uses the same hour."""
    return _sound(storage, (days_before(day, back) for back in range(1, WEEK + 1)))


def last_same_weekday(storage: Storage, day: Period) -> Metrics | None:
    """Return the metrics of the last sound day on the same weekday, at most four weeks back. An hour uses the same
    hour.
    """
    return _sound(storage, (days_before(day, WEEK * back) for back in range(1, _WEEKS + 1)))


def _sound(storage: Storage, days: Iterable[Period | None]) -> Metrics | None:
    """Return the metrics of the newest published day that needed no acceptance. ``days`` are sorted newest first.

    Of two consecutive accepted days, returns the newer, since a change accepted twice is the new normal.
    """
    accepted = None
    for day in days:
        metrics = None if day is None else _of_day(storage, day)
        if metrics is None:
            continue
        if not metrics.accepted:
            return metrics
        if accepted is not None:
            return accepted
        accepted = metrics
    return None


def _of_day(storage: Storage, day: Period) -> Metrics | None:
    """Return the metrics of a day, or None if it is not published or its files cannot be read.

    The commands `verify` and `report` report damage to an earlier day. It must not stop this day.
    """
    try:
        manifest = latest_manifest(storage, day)
        return None if manifest is None else read_metrics(storage, manifest)
    except (FileNotFoundError, StorageError, DamagedFile):
        return None


def read_metrics(storage: Storage, manifest: Manifest, *, distributions: bool = True) -> Metrics:
    """Read ``metrics.json`` of a published generation. Raises FileNotFoundError if missing, and DamagedFile if
    invalid.

    See :meth:`Metrics.from_json` for ``distributions``.
    """
    metrics = metrics_of_run(storage, manifest.day, manifest.made_by, distributions=distributions)
    return replace(metrics, generation=manifest.generation)  # after a rollback, the metrics are of an older one


def metrics_of_run(storage: Storage, day: Period, run: str, *, distributions: bool = True) -> Metrics:
    """Read ``metrics.json`` of a published or refused run. Raises the errors of :func:`read_metrics`."""
    path = f"{run_directory(day, run)}/{METRICS}"
    return Metrics.from_json(storage.read(path), storage.locate(path), distributions=distributions)
