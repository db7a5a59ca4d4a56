"""Publishes the next generation of a day without the samples of some users."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import UsageError
from ctr_samples.job.gate import describe_anew
from ctr_samples.periods import Period
from ctr_samples.quality.measure.collecting import Collector, Wanted
from ctr_samples.records.without import rows_matching, write_without
from ctr_samples.shards import DayOutput, Manifest, Receipt, Shard, Storage, require_manifest
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.manifest import FORGOTTEN
from ctr_samples.shards.naming import CONTRACT, SCHEMA, VOCABULARIES, run_directory
from ctr_samples.shards.publish import check_shards

_THREADS = 4


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What became of a day: how many samples went, and the manifest that readers now see."""

    manifest: Manifest
    samples: int


def forget(storage: Storage, day: Period, key: str, values: Sequence[str], retention: Retention) -> Forgotten:
    """Publish a day without the samples whose column ``key`` has one of ``values``. Runs on this machine, without Spark.

    A day that has none of them is left as it is. The records that stay keep their bytes and their order; the page and the
    metrics are made anew of them. Earlier generations, which still have the others, go when ``retention`` says.
    Raises UsageError for a column by which users cannot be told apart, and otherwise as a run does.
    """
    manifest = require_manifest(storage, day)
    contract = ExampleContract.from_dict(dict(manifest.contract))
    column = _column(contract, key)
    sought = _values(column, values)
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(
            partial(rows_matching, storage, contract=contract, column=key, values=sought), manifest.shards
        )
        if not sum(found):
            return Forgotten(manifest, 0)
    output = DayOutput.open(storage, day, manifest.name, retention)
    if output.current != manifest:  # a run was faster; its samples are the ones to look at
        return forget(storage, day, key, values, retention)
    run = output.begin(datetime.now(UTC), secrets.token_hex(4))
    wanted = _wanted(contract, manifest)

    def written(shards: Sequence[Shard]) -> tuple[Receipt, str]:
        collector = Collector(wanted, shards[0].partition)
        receipt = write_without(
            storage,
            run.directory,
            shards,
            contract,
            lambda rows: pc.invert(pc.is_in(rows.column(key), sought)),
            collector.observe,
        )
        return receipt, collector.close()

    with ThreadPoolExecutor(_THREADS) as threads:
        receipts, measures = zip(*threads.map(written, _partitions(manifest.shards)), strict=True)
    shards = tuple(shard for receipt in receipts for shard in receipt.shards)
    check_shards(storage, shards)
    run.write(_texts_beside(storage, manifest))
    made = replace(
        _without(manifest, shards),
        generation=output.generation,
        run_id=run.run_id,
        parent=manifest.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        rollback=None,
    )
    describe_anew(storage, made, measures, wanted)
    run.publish(made)
    return Forgotten(made, manifest.records - made.records)


def _column(contract: ExampleContract, key: str) -> FeatureSpec:
    specs = {spec.name: spec for spec in contract.features}
    spec = specs.get(key)
    if spec is None:
        names = ", ".join(specs)
        raise UsageError(
            f"The samples have no column {key!r}; they have {names}. Users can be forgotten by a column only."
        )
    if spec.shape != () or spec.buckets is not None or spec.dtype not in ("string", "bytes", "int64"):
        raise UsageError(
            f"The column {key!r} does not tell users apart: it is {_said(spec)}. Give one with an id as it is."
        )
    return spec


def _said(spec: FeatureSpec) -> str:
    if spec.buckets is not None:
        return f"one of {spec.buckets:,} numbers, which several users share"
    return f"a list of {spec.dtype}" if spec.shape != () else f"a {spec.dtype}"


def _values(spec: FeatureSpec, values: Sequence[str]) -> pa.Array:
    if spec.dtype == "int64":
        try:
            return pa.array([int(value) for value in values], pa.int64())
        except ValueError as error:
            raise UsageError(
                f"The column {spec.name!r} has whole numbers, but --values has another line: {error}."
            ) from None
    return pa.array([value.encode() for value in values], pa.binary())


def _partitions(shards: Sequence[Shard]) -> list[list[Shard]]:
    """The shards of each partition, in their order."""
    found: dict[int, list[Shard]] = defaultdict(list)
    for shard in shards:
        found[shard.partition].append(shard)
    return list(found.values())


def _wanted(contract: ExampleContract, manifest: Manifest) -> Wanted:
    flags = [name for name in contract.names("label") if name in manifest.labels]
    key = next(iter(contract.names("key")), None)
    return Wanted(contract, next(iter(flags), None), key=key, tasks=len({shard.partition for shard in manifest.shards}))


def _texts_beside(storage: Storage, manifest: Manifest) -> dict[str, str]:
    """The contract, the schema and the vocabularies, by name; no sample is in them."""
    directory = f"{run_directory(manifest.day, manifest.made_by)}/"
    names = [file.path.removeprefix(directory) for file in storage.files(directory.rstrip("/"))]
    return {
        name: storage.read(f"{directory}{name}").decode()
        for name in names
        if name in (CONTRACT, SCHEMA) or name.startswith(f"{VOCABULARIES}/")
    }


def _without(manifest: Manifest, shards: tuple[Shard, ...]) -> Manifest:
    """The manifest with fewer samples. Which matches of a view went is not known; there are at most as many as samples."""
    records = sum(shard.records for shard in shards)
    counts = dict(manifest.accounting)
    counts[FORGOTTEN] = counts.get(FORGOTTEN, 0) + manifest.records - records
    views = {
        name: {**counts, "matched": min(counts["matched"], records)} if "matched" in counts else counts
        for name, counts in manifest.views.items()
    }
    return replace(manifest, shards=shards, accounting={**counts, "samples": records}, views=views)
