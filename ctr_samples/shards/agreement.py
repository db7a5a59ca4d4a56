"""Check the consistency of a manifest. Pure functions that describe an inconsistency in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ctr_samples.contract import ExampleContract
from ctr_samples.shards.manifest import Manifest, Shard
from ctr_samples.shards.naming import compression_of, is_shard_name, partition_of, run_directory


def disagreement(manifest: Manifest) -> str | None:
    """Describe a contradiction between a day's accounting, shards and contract, or return None.

    Raises ContractError if the contract is invalid.
    """
    contract = ExampleContract.from_dict(dict(manifest.contract))
    if (fingerprint := manifest.contract.get("fingerprint")) != contract.fingerprint:
        return f"its contract has the fingerprint {fingerprint!r}, but hashes to {contract.fingerprint}"
    if manifest.rollback and manifest.rollback.to >= manifest.generation:
        return f"generation {manifest.generation} cannot be a rollback to {manifest.rollback.to}"
    return (
        _of_counts(manifest)
        or disagreement_of_shards(manifest.shards, run_directory(manifest.day, manifest.made_by), manifest.compression)
        or _of_labels(manifest, set(contract.names("label")))
        or _of_sizes(manifest, contract)
    )


def disagreement_of_shards(shards: Sequence[Shard], directory: str, compression: str | None = None) -> str | None:
    """Describe the first shard that is listed twice or has a path that contradicts its split and partition, if any."""
    for path, times in Counter(shard.path for shard in shards).items():
        if times > 1:
            return f"it lists {path} {times} times"
    for shard in shards:
        parent, _, name = shard.path.rpartition("/")
        if parent != "/".join(part for part in (directory, shard.split) if part) or not is_shard_name(name):
            return f"{shard.path} is not where a task puts a shard of split {shard.split!r}"
        if partition_of(name) != shard.partition:
            return f"{shard.path} was not written by the task of partition {shard.partition}"
        if compression is not None and compression_of(name) != compression:
            return f"the compression is {compression}, but the name of {shard.path} says otherwise"
    return None


def _of_counts(manifest: Manifest) -> str | None:
    counts = dict(manifest.accounting)
    impressions, samples = counts.pop("impressions", None), counts.pop("samples", None)
    if samples != manifest.records:
        return f"the accounting has {samples} samples, but the shards hold {manifest.records}"
    if impressions != manifest.records + sum(counts.values()):
        total = manifest.records + sum(counts.values())
        return f"the accounting has {impressions} impressions, but samples and drops add up to {total}"
    for name, view in manifest.views.items():
        if not 0 <= view.get("matched", 0) <= manifest.records:
            return f"view {name} matched {view['matched']} of {manifest.records} samples"
    return None


def _of_labels(manifest: Manifest, labels: set[str]) -> str | None:
    for shard in manifest.shards:
        if set(shard.label_sums) != labels:
            return (
                f"the contract has the labels {sorted(labels)}, but {shard.path} has sums of {sorted(shard.label_sums)}"
            )
    return None


def _of_sizes(manifest: Manifest, contract: ExampleContract) -> str | None:
    """Check sizes: each required value takes at least a byte, and deflate compresses by a factor of at most 1032."""
    most = 1 if manifest.compression == "none" else 1032
    for spec in contract.features:
        if spec.size is None or spec.nulls == "omit" or spec.sequence:
            continue
        for shard in manifest.shards:
            if shard.records * spec.size > shard.bytes * most:
                return (
                    f"{shard.path} has {shard.bytes:,} bytes, too few for {shard.records:,} times {spec.size:,} values of "
                    f"the feature {spec.name!r}"
                )
    return None
