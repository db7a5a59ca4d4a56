"""The features of a sample set: since when each exists, what it takes of a record, and what it is made from. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile, StorageError
from ctr_samples.job.gate import read_metrics
from ctr_samples.quality.metrics import Metrics
from ctr_samples.records.read import records_of
from ctr_samples.shards import Manifest, Storage, latest_manifest, published_days

_RECORDS = 1000
"""Records whose bytes are looked at."""


@dataclass(frozen=True, slots=True)
class ListedFeature:
    """A feature of the newest day. ``since`` is the first day of the days in a row that have it, ``same_since`` the first one
    that defines it as now. ``share`` is its share of the bytes of a record, ``coverage`` the share of samples with a value
    of their own, and ``drift`` the PSI against the day before; each is None if it is not known.
    """

    name: str
    since: str
    same_since: str
    share: float | None
    coverage: float | None
    drift: float | None
    made_from: str


def listed_features(storage: Storage, newest: Manifest) -> list[ListedFeature]:
    """List the features of a day. Reads the manifests of all days before, and some records of the day."""
    before = [latest_manifest(storage, day) for day in published_days(storage) if str(day) <= newest.run_date]
    manifests = [one for one in reversed(before) if one is not None]
    metrics: Metrics | None = None
    with suppress(FileNotFoundError, StorageError, DamagedFile):
        metrics = read_metrics(storage, newest, distributions=False)
    shares = _shares(storage, newest)
    features: Mapping[str, Mapping[str, Any]] = newest.config.get("features") or {}
    found = []
    for name, feature in features.items():
        since = same_since = newest.run_date
        same = True
        for manifest in manifests:
            then = (manifest.config.get("features") or {}).get(name)
            if then is None:
                break
            since = manifest.run_date
            same = same and then == feature
            same_since = since if same else same_since
        drift = None if metrics is None else metrics.drift.get(name)
        found.append(
            ListedFeature(
                name, since, same_since, shares.get(name), _coverage(metrics, name), drift, _made_from(feature)
            )
        )
    return found


def _made_from(feature: Mapping[str, Any]) -> str:
    value = feature.get("from") or feature.get("expr") or " x ".join(feature.get("cross") or ())
    ids = feature.get("vocabulary") or feature.get("hash_buckets")
    return " ".join(str(value).split()) + (f", ids of {ids}" if ids else "")


def _coverage(metrics: Metrics | None, name: str) -> float | None:
    if metrics is None or name not in metrics.features:
        return None
    splits = metrics.features[name].splits.values()
    rows = sum(split.rows for split in splits)
    return 1 - sum(split.nulls + split.defaults for split in splits) / rows if rows else None


def _shares(storage: Storage, manifest: Manifest) -> dict[str, float]:
    """Return the share of each feature of the bytes of some records: how much shorter they are without it."""
    from ctr_samples.codec import ExampleDecoder, ExampleEncoder

    contract = ExampleContract.from_dict(dict(manifest.contract))
    if contract.parts or not manifest.shards:
        return {}
    shard = max(manifest.shards, key=lambda one: one.records)
    try:
        first = next(iter(records_of(storage, shard)), None)
    except (StorageError, DamagedFile):
        return {}
    if first is None:
        return {}
    rows = ExampleDecoder(contract).decode_frames(first.buffer, first.offsets).slice(0, _RECORDS)

    def size(contract: ExampleContract) -> int:
        return len(ExampleEncoder(contract).encode(rows.select(contract.names())).buffer)

    whole = size(contract)
    without = {
        name: replace(contract, features=tuple(spec for spec in contract.features if spec.name != name))
        for name in contract.names("feature")
    }
    return {name: 1 - size(rest) / whole for name, rest in without.items()}
