"""The features of a sample set: since when each exists, what it takes of a record, and what it is made from. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ctr_samples.config.masking import digests_in
from ctr_samples.errors import DamagedFile, StorageError
from ctr_samples.job.gate import read_metrics
from ctr_samples.quality.feature_facts import FeatureFacts
from ctr_samples.quality.metrics import Metrics
from ctr_samples.shards import Manifest, Storage, latest_manifest, published_days


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
