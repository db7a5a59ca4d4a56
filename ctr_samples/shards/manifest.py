"""Task receipts, which list the shards of a task, and the manifest that publishes a day. Only data classes."""

from __future__ import annotations

import builtins
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Required, Self, TypedDict

from ctr_samples import __version__
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile
from ctr_samples.graph import Graph
from ctr_samples.periods import Period, parse_period
from ctr_samples.shards.naming import (
    Compression,
    GenerationNumber,
    Instant,
    RunDate,
    RunId,
    compression_of,
    is_shard_name,
    partition_of,
    run_directory,
)
from ctr_samples.shards.sealed import Form, read_sealed, sealed
from ctr_samples.typed import Count, Finite, Like, Positive, Such, Within

MANIFEST_FORMAT = 1
_SAME_SAMPLES = ("0.1.0", __version__)
"""Releases that make the same samples and partial results, but for what reuse tells apart by other facts, the oldest first. A
release that makes others stands here alone, so that it takes nothing that an earlier one made.
"""
RELEASE = _SAME_SAMPLES[0]
"""The release in fingerprints and definitions: the oldest one that makes the same as this one."""
REMEDY = "restore it, or move it away and run the day again"
"""Remedy for a manifest that readers reject."""
FORGOTTEN = "forgotten"
"""Drop reason for samples whose users asked to be forgotten."""
_FORM = Form(MANIFEST_FORMAT, "a manifest", REMEDY)

_SAMPLE_SET = Such(re.compile(r"[a-z][a-z0-9_-]{0,63}").fullmatch, "a name of small letters, digits, - and _")
_SALTED = Such(re.compile(r"[0-9a-f]{32}:[0-9a-f]{32}").fullmatch, "a salt and a hash")
_DIGEST = Such(re.compile(r"([0-9a-f]{64})?").fullmatch, "64 hex digits, or nothing")


@dataclass(frozen=True, slots=True)
class Shard:
    """One closed TFRecord file. ``path`` is relative to the output directory. ``crc32c`` covers the whole file."""

    path: str
    split: str
    partition: Count
    records: Positive
    bytes: Positive
    crc32c: Annotated[int, Within(0, 2**32 - 1)]
    label_sums: Mapping[str, Finite] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Number of requests, sum of the squares of their sizes, and size of the largest."""

    requests: int
    squares: int
    largest: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The output of one task, with no shards if its partition was empty. The driver gets one receipt per partition.

    ``measures`` holds the task's measurements, if any, as opaque text. ``requests`` is set if samples are
    ordered by request.
    """

    partition: int
    attempt: int
    shards: tuple[Shard, ...]
    measures: str | None = None
    requests: RequestCounts | None = None

    def to_json(self) -> str:
        """Serialize to one line that :meth:`from_json` reads back."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the output of :meth:`to_json`."""
        value = json.loads(text)
        shards = tuple(Shard(**s) for s in value["shards"])
        requests = value.get("requests") and RequestCounts(**value["requests"])
        return cls(value["partition"], value["attempt"], shards, value.get("measures"), requests)


class _Flips(TypedDict, total=False):
    """Label changes since the generation ``against``."""

    against: Required[int]
    flipped_to_1: int
    flipped_to_0: int
    changed: int
    new: int
    gone: int
    not_compared: str
    final: bool


class _Label(TypedDict, total=False):
    """Manifest entry for a label."""

    actions: int
    orphans: int
    without_value: int
    delays: Mapping[str, int]
    flips: _Flips


class _Snapshot(TypedDict):
    """The version of a lake table that was read."""

    format: str
    version: str
    table: str


class _Input(TypedDict, total=False):
    """Manifest entry for a source, limited to the fields that this package reads back."""

    files: int | None
    bytes: int | None
    lines: int
    malformed: int
    missing_days: tuple[str, ...]
    fingerprint: str | None
    snapshot: _Snapshot


class _Sampling(TypedDict, total=False):
    """Manifest entry for down-sampling, limited to the fields that this package reads back."""

    rate: Annotated[float, Within(0, 1)]
    weights: Mapping[str, Any]


class _Verdict(TypedDict, total=False):
    """Manifest entry for the quality gate."""

    verdict: str
    found: tuple[Mapping[str, str], ...]
    accepted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rollback:
    """The generation that a rollback restored, and the run whose directory holds its samples."""

    to: GenerationNumber
    run_id: RunId


@dataclass(frozen=True, slots=True)
class FeaturesFrom:
    """The earlier generation of the day whose features a run reused. If the run joined all features again instead,
    ``why`` is the reason. ``features`` has those that were reused, if some were made anew. ``labels`` is true if the labels
    were reused, too. ``path`` is the directory of another sample set that has the generation, or empty.
    """

    generation: GenerationNumber
    why: str = ""
    features: tuple[str, ...] = ()
    labels: bool = False
    path: str = ""

    @property
    def described(self) -> str:
        """Origin of the features, as text for users."""
        which = f"generation {self.generation}" + (f" of {self.path}" if self.path else "")
        if self.why:
            return f"features are not taken from {which}: {self.why}"
        if self.features:
            some = f"{len(self.features)} feature{'s are' if len(self.features) > 1 else ' is'}"
            return f"{some} taken from {which}; the others are made anew"
        if self.labels:
            return f"features and labels are those of {which}; nothing is joined"
        return f"features are those of {which}; only labels are made anew"


@dataclass(frozen=True, slots=True)
class RequestOrder:
    """Order by request: samples with equal keys ``by`` are adjacent.

    ``requests`` is their number, and ``largest`` the size of the largest. ``size`` is the mean size of a sample's
    request, so that a request of ten counts ten times. All describe the samples before any were forgotten.
    """

    by: tuple[str, ...]
    requests: Count
    size: Finite
    largest: Count


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation of one day.

    ``accounting`` maps ``impressions``, ``samples`` and each drop reason to a count. ``fingerprint`` is equal for two
    runs that must produce the same samples (config, code, inputs, contract), or empty if changes of an input cannot be
    detected. ``features_from`` is None if no earlier generation was eligible. If ``rollback`` is set, the samples are
    from an earlier generation: ``run_id`` and ``created_at`` describe the rollback, all other fields come from that
    generation. ``known_by`` is the time as of which the run read its inputs, or None if it used all data available when
    it ran. ``order`` is None if a hash of the impression orders the samples. ``tied_repeats`` counts the repeats that only
    their content tells from the impression that stays, or is None if an older release did not count them. ``environment`` has
    a salted hash of the value of each ``${NAME}`` that samples are made from. ``reads`` has what each part of the configuration
    reads of the others, with its columns, or null for all. ``checksum`` is the value read, or empty
    if an older release wrote none; :meth:`to_json` recomputes it.
    """

    name: Annotated[str, _SAMPLE_SET]
    run_date: RunDate
    generation: GenerationNumber
    run_id: RunId
    parent: RunId | None
    created_at: Instant
    fingerprint: Annotated[str, _DIGEST]
    compression: Compression
    contract: Mapping[str, Any]
    config: Mapping[str, Any]
    inputs: Mapping[str, Annotated[Mapping[str, Any], Like(_Input)]]
    shards: tuple[Shard, ...]
    accounting: Mapping[str, Count]
    views: Mapping[str, Mapping[str, Finite]]
    labels: Mapping[str, Annotated[Mapping[str, Any], Like(_Label)]]
    label_mature: bool
    versions: Mapping[str, str]
    seconds: Annotated[float, Within(0, 1e12)] = 0.0
    plan: tuple[str, ...] = ()
    sampling: Annotated[Mapping[str, Any], Like(_Sampling)] = field(default_factory=dict)
    quality: Annotated[Mapping[str, Any], Like(_Verdict)] = field(default_factory=dict)
    features_from: FeaturesFrom | None = None
    rollback: Rollback | None = None
    known_by: Instant | None = None
    order: RequestOrder | None = None
    tied_repeats: Count | None = None
    environment: Mapping[str, Annotated[str, _SALTED]] = field(default_factory=dict)
    reads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    format: int = MANIFEST_FORMAT
    checksum: str = field(default="", compare=False)

    @property
    def graph(self) -> Graph:
        """What each part of the configuration reads: as the run found it, or found anew for an older release."""
        return Graph.from_dict(self.reads) if self.reads else Graph.of(self.config)

    @property
    def release(self) -> str:
        """The oldest release that makes the same as the one that made this generation, as far as that is known."""
        own = self.versions.get("ctr_samples", "")
        return RELEASE if own in _SAME_SAMPLES else own

    @property
    def made_by(self) -> str:
        """ID of the run that produced the samples. Its directory contains the shards and reports."""
        return self.rollback.run_id if self.rollback else self.run_id

    @property
    def records(self) -> int:
        """Number of samples over all splits."""
        return sum(s.records for s in self.shards)

    @property
    def forgotten(self) -> int:
        """Number of samples dropped because users asked to be forgotten."""
        return self.accounting.get(FORGOTTEN, 0)

    @property
    def bytes(self) -> int:
        """Total size of all shards in bytes."""
        return sum(s.bytes for s in self.shards)

    @property
    def day(self) -> Period:
        """Period of the samples: a day, an hour or the whole log."""
        return parse_period(self.run_date)

    @property
    def splits(self) -> list[str]:
        """Names of the splits that have shards, train first."""
        return sorted({s.split for s in self.shards}, key=lambda name: (name != "train", name))

    def of_split(self, split: str | None) -> tuple[Shard, ...]:
        """Return the shards of one split, or of all splits if ``split`` is None."""
        return tuple(s for s in self.shards if split in (None, s.split))

    def label_sum(self, label: str, split: str | None = None) -> float:
        """Return the sum of a label over a split. For a 0/1 label this is the number of positives."""
        return sum(s.label_sums.get(label, 0) for s in self.of_split(split))

    def to_json(self) -> builtins.bytes:
        """Serialize to sealed, indented JSON in declared order. Reproduces the bytes of a manifest that was read."""
        return sealed(asdict(self))

    @classmethod
    def from_json(cls, data: builtins.bytes, location: str) -> Self:
        """Parse the output of :meth:`to_json`. Raises DamagedFile, naming ``location``, for an unknown or altered
        manifest.
        """
        return read_sealed(cls, data, location, _FORM)


def check_receipts(receipts: Sequence[Receipt], partitions: int) -> None:
    """Raise DamagedFile unless each partition 0..n-1 has exactly one receipt. A failure is a bug in the engine."""
    seen = Counter(r.partition for r in receipts)
    missing = [p for p in range(partitions) if p not in seen]
    repeated = sorted(p for p, times in seen.items() if times > 1)
    unknown = sorted(p for p in seen if not 0 <= p < partitions)
    if missing or repeated or unknown:
        raise DamagedFile(
            f"Expected one receipt for each of {partitions} partitions; missing: {missing}, repeated: {repeated}, "
            f"unknown: {unknown}. Nothing was published; run the day again."
        )


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
