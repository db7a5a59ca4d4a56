"""What must be true of a day at any time: whole generations, numbered without gaps, each by the run that claims it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from ctr_samples.crc32c import crc32c
from ctr_samples.errors import CtrSamplesError
from ctr_samples.shards import Manifest, Shard, Storage, latest_manifest, read_manifest
from ctr_samples.shards.naming import generation_name, manifests_directory, run_directory
from tests.storage.nightly_job import BATCHES, PARTITIONS, ROWS, content

KEPT = 3
"""Generations whose shards are read; clean-up keeps as many."""

Claim = tuple[int, str]
"""The generation and the run id that a job says it has published."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a day finds: the number of its generations, and every broken promise in words."""

    generations: int
    violations: list[str]


def watch(storage: Storage, day: date, stopped: Callable[[], bool]) -> list[str]:
    """Read the latest generation as soon as there is a new one, until ``stopped``; once more after that."""
    seen, found, last = 0, [], False
    while True:
        manifest = latest_manifest(storage, day)
        generation = manifest.generation if manifest else 0
        if generation < seen:
            found.append(f"a reader saw generation {seen} and then {generation}")
        if manifest is not None and generation > seen:
            found += _damage(storage, manifest)
        seen = generation
        if last:
            return found
        last = stopped()


def look_at_day(storage: Storage, day: date, claims: Sequence[Claim]) -> Look:
    """Read everything of a day; ``claims`` are those of all jobs so far. For moments when no job runs."""
    names = storage.names(manifests_directory(day))
    expected = [generation_name(g) for g in range(1, len(names) + 1)]
    if names != expected:
        return Look(len(names), [f"the manifests are {names}"])
    try:
        manifests = [read_manifest(storage, day, g) for g in range(1, len(names) + 1)]
        return Look(len(names), list(_violations(storage, manifests, claims)))
    except (CtrSamplesError, FileNotFoundError) as error:
        return Look(len(names), [f"{type(error).__name__}: {error}"])


def _violations(storage: Storage, manifests: Sequence[Manifest], claims: Sequence[Claim]) -> Iterator[str]:
    runs = [m.run_id for m in manifests]
    if len(set(runs)) < len(runs):
        yield f"a run published twice: {runs}"
    if [m.generation for m in manifests] != list(range(1, len(manifests) + 1)):
        yield f"manifests name other generations than their files: {[m.generation for m in manifests]}"
    yield from (
        f"generation {after.generation} follows {after.parent}, not {before.run_id}"
        for before, after in pairwise(manifests)
        if after.parent != before.run_id
    )
    for generation, run in claims:
        if runs[generation - 1 : generation] != [run]:
            yield f"{run} ended well as generation {generation}, which is not its own"
    for manifest in manifests[-KEPT:]:
        yield from _damage(storage, manifest)


def _damage(storage: Storage, manifest: Manifest) -> Iterator[str]:
    """The shards of a generation against its manifest, and their bytes against what its run wrote."""
    who = f"generation {manifest.generation} by {manifest.run_id}"
    if manifest.records != PARTITIONS * sum(BATCHES.values()) * ROWS:
        yield f"{who} has {manifest.records} records"
    for partition in range(PARTITIONS):
        for split in BATCHES:
            shards = [s for s in manifest.of_split(split) if s.partition == partition]
            whole = b"".join([_checked(storage, manifest, shard, who) for shard in shards])
            if whole != content(manifest.run_id, partition, split):
                yield f"{who}: partition {partition} of {split} is not what its run wrote"


def _checked(storage: Storage, manifest: Manifest, shard: Shard, who: str) -> bytes:
    """The bytes of a shard; nothing, and so a difference, where the manifest says something else about them."""
    with storage.open(shard.path) as file:
        data = file.read()
    right = (len(data), crc32c(data)) == (shard.bytes, shard.crc32c)
    own = shard.path.startswith(run_directory(manifest.day, manifest.run_id) + "/")
    return data if right and own else f"{who}: {shard} does not fit its {len(data)} bytes".encode()
