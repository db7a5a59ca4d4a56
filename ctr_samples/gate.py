"""Between writing and publishing: what was measured becomes a document and a page, and decides whether the day is published."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from statistics import median
from typing import Any

from ctr_samples.config import JobConfig, Quality
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile, GateRefused, StorageError, UsageError
from ctr_samples.quality.checks import CHECKS, Days, Outcome, outcomes
from ctr_samples.quality.collecting import Wanted
from ctr_samples.quality.drift import drifts
from ctr_samples.quality.merging import Measures
from ctr_samples.quality.pseudonyms import Pseudonyms
from ctr_samples.quality.report import render
from ctr_samples.quality.statistics import statistics_pbtxt
from ctr_samples.shards import Manifest, Storage, latest_manifest
from ctr_samples.shards.naming import METRICS, METRICS_FORMAT, REPORT, STATISTICS, run_directory

WEEK = 7
_WEEKS = 4


@dataclass(frozen=True, slots=True)
class Inspection:
    """A day's metrics document and what the checks found in it."""

    metrics: Mapping[str, Any]
    found: Sequence[Outcome]
    accepted: Sequence[str]
    before: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def refusing(self) -> list[Outcome]:
        """What forbids to publish."""
        return [one for one in self.found if one.severity == "fail" and one.check not in self.accepted]

    @property
    def warnings(self) -> list[Outcome]:
        """What is to be said, and what would forbid to publish if it had not been accepted."""
        return [one for one in self.found if not one.passed and one not in self.refusing]


def wanted_of(config: JobConfig, contract: ExampleContract, hour: str, user: str) -> Wanted:
    """What a run of a configuration measures; ``hour`` and ``user`` are columns of its samples beside the contract's."""
    labels = [name for name, label in config.labels.items() if label.reduce == "any"]
    names = contract.names("label")
    main = next((name for name in labels if name in names), names[0] if labels and contract.parts else None)
    defaults = {
        name: f.default_value for name, f in config.features.items() if f.nulls == "default" and not f.makes_ids
    }
    key = next(iter(contract.names("key")), None)
    return Wanted(
        contract, main, hour, user if config.impressions.user else None, key, defaults, config.output.partitions
    )


def check_accepted(accepted: Collection[str]) -> None:
    """Raise UsageError for the name of a check that there is not."""
    for name in accepted:
        if name not in CHECKS:
            raise UsageError(f"There is no check {name!r} to accept; there are {', '.join(CHECKS)}.")


def inspect(
    storage: Storage,
    manifest: Manifest,
    tasks: Iterable[str],
    wanted: Wanted,
    limits: Quality,
    accepted: Sequence[str] = (),
    names: Pseudonyms | None = None,
) -> Inspection:
    """Judge a day that is written and not yet published. Runs on the driver; reads the metrics of two days before it.

    Ids of users stand in none of it as they are, if there are other ``names`` for them.
    """
    metrics = metrics_of(manifest, Measures.of(tasks), wanted)
    metrics = metrics if names is None else names.applied(metrics)
    before, same_weekday = last_before(storage, manifest.day), last_same_weekday(storage, manifest.day)
    found = outcomes(Days(metrics, before, same_weekday), limits)
    inspection = Inspection(metrics, found, accepted, before)
    verdict = "refused" if inspection.refusing else "warned" if inspection.warnings else "passed"
    metrics |= {
        "checks": [one.to_dict() for one in found],
        "reference": {"previous_day": _said(before), "same_weekday": _said(same_weekday)},
        "drift": {} if before is None else drifts(metrics, before),
        "verdict": verdict,
        "accepted": sorted({one.check for one in found if one.severity == "fail" and one.check in accepted}),
    }
    return inspection


def write_pages(storage: Storage, directory: str, manifest: Manifest, inspection: Inspection) -> None:
    """Write the numbers, the page and the statistics for TensorFlow beside the shards, whatever the verdict."""
    texts = {
        METRICS: json.dumps(inspection.metrics, ensure_ascii=False, allow_nan=False) + "\n",
        STATISTICS: statistics_pbtxt(inspection.metrics),
        REPORT: render(inspection.metrics, asdict(manifest), inspection.before),
    }
    for name, text in texts.items():
        with storage.new_file(f"{directory}/{name}") as file:
            file.write(text.encode())


def with_verdict(manifest: Manifest, inspection: Inspection) -> Manifest:
    """The manifest with the verdict, what was found, and what was accepted all the same."""
    metrics = inspection.metrics
    found = [{"check": one.check, "subject": one.subject, "severity": one.severity, "sentence": one.sentence}
             for one in inspection.found if not one.passed]  # fmt: skip
    return replace(manifest, quality={"verdict": metrics["verdict"], "found": found, "accepted": metrics["accepted"]})


def refuse(storage: Storage, directory: str, inspection: Inspection, kept_for: timedelta) -> None:
    """Raise GateRefused if something forbids to publish: what, by how much, and how to publish all the same."""
    refusing = inspection.refusing
    if not refusing:
        return
    first, more = refusing[0], len(refusing) - 1
    names = sorted({one.check for one in refusing})
    others = f" ({more} more in the report)" if more else ""
    accept = " ".join(f"--accept {name}" for name in names)
    raise GateRefused(
        f"Nothing was published: {first.sentence}{others}\n"
        f"Look at {storage.locate(f'{directory}/{REPORT}')}; the samples stay for {kept_for.total_seconds() / 3600:g} hours.\n"
        f"If the day is right as it is, run it again with {accept}, or change `quality` in the configuration."
    )


def metrics_of(manifest: Manifest, measures: Measures, wanted: Wanted) -> dict[str, Any]:
    """All numbers of a day: those that the manifest has, and those that were measured."""
    contract = wanted.contract
    labels = measures.columns(contract, "label")
    return {
        "format": METRICS_FORMAT,
        "name": manifest.name,
        "run_date": manifest.run_date,
        "generation": manifest.generation,
        "run_id": manifest.run_id,
        "created_at": manifest.created_at,
        "seconds": manifest.seconds,
        "contract": contract.fingerprint,
        "label_mature": manifest.label_mature,
        "samples": {name: split.rows for name, split in measures.splits.items()},
        "accounting": dict(manifest.accounting),
        "shards": {
            "count": len(manifest.shards),
            "bytes": _spread([shard.bytes for shard in manifest.shards]),
            "records": _spread([shard.records for shard in manifest.shards]),
        },
        "labels": {
            name: {
                "binary": facts["dtype"] == "int64",
                "splits": {
                    split: {
                        "count": _count(one),
                        "sum": _label_sum(one, facts["dtype"]),
                        "mean": one["mean"],
                        "std": one["std"],
                    }
                    for split, one in facts["splits"].items()
                },
            }
            for name, facts in labels.items()
        },
        "actions": {
            name: {key: value for key, value in counts.items() if key in ("actions", "orphans", "without_value")}
            for name, counts in manifest.labels.items()
        },
        "click_rate": measures.click_rate(wanted.label, hours=wanted.hour is not None),
        "features": measures.columns(contract, "feature"),
        "views": {name: dict(counts) for name, counts in manifest.views.items()},
        "users": measures.users(),
        "duplicates": measures.duplicates(),
        "baseline": measures.baseline(wanted.label),
    }


def _count(label: Mapping[str, Any]) -> int:
    return int(label["values"] - label["nan"] - label["infinite"])


def _label_sum(label: Mapping[str, Any], dtype: str) -> float:
    total = (label["mean"] or 0.0) * _count(label)
    return round(total) if dtype == "int64" else total


def _spread(sizes: Sequence[int]) -> dict[str, float]:
    if not sizes:
        return {"total": 0, "min": 0, "median": 0, "max": 0}
    return {"total": sum(sizes), "min": min(sizes), "median": median(sizes), "max": max(sizes)}


def last_before(storage: Storage, day: date) -> Mapping[str, Any] | None:
    """The metrics of the last sound day before ``day``, at most a week back."""
    return _sound(storage, (day - timedelta(days=back) for back in range(1, WEEK + 1)))


def last_same_weekday(storage: Storage, day: date) -> Mapping[str, Any] | None:
    """The metrics of the last sound day of the same weekday, at most four weeks back."""
    return _sound(storage, (day - timedelta(weeks=back) for back in range(1, _WEEKS + 1)))


def _sound(storage: Storage, days: Iterable[date]) -> Mapping[str, Any] | None:
    """The metrics of the first published one of these days, newest first, that nobody had to accept.

    Of two in a row that were accepted the newer is taken: what was accepted twice is how days are from now on.
    """
    accepted = None
    for day in days:
        found = _of_day(storage, day)
        if found is None:
            continue
        if not found.get("accepted"):
            return found
        if accepted is not None:
            return accepted
        accepted = found
    return None


def _of_day(storage: Storage, day: date) -> Mapping[str, Any] | None:
    try:
        manifest = latest_manifest(storage, day)
    except (StorageError, DamagedFile):  # another day's damage is told by `verify`, and is no reason to lose this one
        return None
    return None if manifest is None else metrics_of_run(storage, manifest)


def metrics_of_run(storage: Storage, manifest: Manifest) -> Mapping[str, Any] | None:
    """``metrics.json`` of a published generation; None where it has none that this release reads."""
    path = f"{run_directory(manifest.day, manifest.made_by)}/{METRICS}"
    try:
        found = json.loads(storage.read(path))
    except (FileNotFoundError, StorageError, DamagedFile, ValueError):
        return None
    if not isinstance(found, dict) or found.get("format") != METRICS_FORMAT:
        return None
    return {**found, "generation": manifest.generation}  # a rollback has the metrics of an earlier one


def _said(metrics: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if metrics is None else {key: metrics[key] for key in ("run_date", "generation")}
