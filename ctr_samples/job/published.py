"""What is known of published days: metrics as a document, for Prometheus and as a comparison of two days, and the features of a
sample set: since when each exists, what it takes of a record, and what it is made from. No Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ctr_samples.config.masking import digests_in
from ctr_samples.errors import DamagedFile, StorageError
from ctr_samples.job.gate import metrics_of_run, read_metrics
from ctr_samples.periods import Period
from ctr_samples.quality.drift import drifts
from ctr_samples.quality.feature_facts import FeatureFacts
from ctr_samples.quality.metrics import Metrics
from ctr_samples.quality.prometheus import prometheus_text, refused_text
from ctr_samples.quality.report import render
from ctr_samples.shards import Manifest, Storage, latest_manifest, published_days
from ctr_samples.shards.naming import METRICS
from ctr_samples.shards.published import (
    absent,
    chosen_manifest,
    file_of_run,
    last_refused_day,
    refused_after,
    refused_run,
)


def metrics_of(storage: Storage, manifest: Manifest) -> Metrics:
    """Read the metrics of a generation. Raises InputError if it has none."""
    try:
        return read_metrics(storage, manifest)
    except FileNotFoundError:
        raise absent(storage, manifest, METRICS) from None


def metrics_text(storage: Storage, manifest: Manifest) -> str:
    """Return ``metrics.json`` as it is, even if its format is unknown."""
    path = file_of_run(manifest.day, manifest.made_by, METRICS)
    try:
        return storage.read(path).decode()
    except FileNotFoundError:
        raise absent(storage, manifest, METRICS) from None
    except UnicodeDecodeError:
        raise DamagedFile(f"{storage.locate(path)} is not text; run the day again with --force.") from None


def for_prometheus(storage: Storage) -> str:
    """Return the metrics of the last published day, and the newest refused day.

    The refused day is later than the published day, or any day if none is published.
    """
    if not published_days(storage) and (days := last_refused_day(storage)):
        return refused_text(_name_of_refused(storage, days[-1]), days[-1])
    manifest = chosen_manifest(storage, None, None)
    refused = [day for day, _ in refused_after(storage, manifest, of_its_day=False)]
    return prometheus_text(metrics_of(storage, manifest)) + (
        refused_text(manifest.name, refused[-1]) if refused else ""
    )


def _name_of_refused(storage: Storage, day: Period) -> str:
    """Return the sample set of the newest refused run, or an empty string if its metrics cannot be read."""
    try:
        return metrics_of_run(storage, day, refused_run(storage, day, "") or "").name
    except (FileNotFoundError, DamagedFile):
        return ""


def compared(a: Metrics, storage: Storage, manifest: Manifest) -> str:
    """Render the page that compares a manifest with ``a``. The run itself may have used a different day for comparison."""
    b = metrics_of(storage, manifest)
    same_day = a.run_date == b.run_date
    names = [f"generation {day.generation}" if same_day else day.run_date for day in (a, b)]
    title = f"{b.name} {b.run_date + ', ' if same_day else ''}{names[1]} compared with {names[0]}"
    return render(replace(b, drift=drifts(b, a)), manifest, a, title=title)


@dataclass(frozen=True, slots=True)
class ListedFeature:
    """A feature of the newest day. ``since`` is the first day of the days in a row that have it, ``same_since`` the first one
    that defines it as now. ``share`` is its share of the bytes of a record, ``coverage`` the share of samples with a value
    of their own, and ``drift`` the PSI against the day before; each is None if it is not known. ``joined`` has the views and
    histories that it needs.
    """

    name: str
    since: str
    same_since: str
    share: float | None
    coverage: float | None
    drift: float | None
    made_from: str
    joined: tuple[str, ...]


def listed_features(storage: Storage, newest: Manifest) -> list[ListedFeature]:
    """List the features of a day. Reads the manifests of all days before, and the metrics of the day."""
    before = [latest_manifest(storage, day) for day in published_days(storage) if str(day) <= newest.run_date]
    manifests = [one for one in reversed(before) if one is not None]
    metrics: Metrics | None = None
    with suppress(FileNotFoundError, StorageError, DamagedFile):
        metrics = read_metrics(storage, newest, distributions=False)
    features: Mapping[str, Mapping[str, Any]] = newest.config.get("features") or {}
    graph = newest.graph
    found = []
    for name, feature in features.items():
        since = same_since = newest.run_date
        same = True
        for manifest in manifests:
            then = (manifest.config.get("features") or {}).get(name)
            if then is None:
                break
            since = manifest.run_date
            values = digests_in(feature, newest.environment)
            same = same and then == feature and digests_in(then, manifest.environment) == values
            same_since = since if same else same_since
        drift = None if metrics is None else metrics.drift.get(name)
        facts = None if metrics is None else metrics.features.get(name)
        share, coverage = (None, None) if facts is None else (facts.share, _coverage(facts))
        joined = graph.joined(name)
        found.append(ListedFeature(name, since, same_since, share, coverage, drift, _made_from(feature), joined))
    return found


def _made_from(feature: Mapping[str, Any]) -> str:
    value = feature.get("from") or feature.get("expr") or " x ".join(feature.get("cross") or ())
    ids = feature.get("vocabulary") or feature.get("hash_buckets")
    return " ".join(str(value).split()) + (f", ids of {ids}" if ids else "")


def _coverage(facts: FeatureFacts) -> float | None:
    splits = facts.splits.values()
    rows = sum(split.rows for split in splits)
    return 1 - sum(split.nulls + split.defaults for split in splits) / rows if rows else None
