"""Publishes the next generation of a day without the samples of some users, and vocabularies without their ids."""

from __future__ import annotations

import os
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from ctr_samples.config import JobConfig, LoadedConfig
from ctr_samples.config.document import filled
from ctr_samples.config.masking import digests, digests_in
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import DamagedFile, UsageError
from ctr_samples.graph import SqlName, log_names, meet
from ctr_samples.job.gate import describe_anew
from ctr_samples.periods import Period
from ctr_samples.quality.measure.collecting import Collector, Wanted
from ctr_samples.quality.pseudonyms import ORPHAN_SAMPLE, Pseudonyms, pseudonyms_of
from ctr_samples.records.without import values_among, write_without
from ctr_samples.samples.columnar.columns import integers, shuffle_hashes
from ctr_samples.shards import (
    DayOutput,
    Manifest,
    Receipt,
    Shard,
    Storage,
    generations,
    latest_manifest,
    read_manifest,
    require_manifest,
)
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.generations import last_forgotten, mark_forgotten
from ctr_samples.shards.manifest import FORGOTTEN
from ctr_samples.shards.naming import CONTRACT, SCHEMA, VOCABULARIES, manifests_directory, run_directory
from ctr_samples.shards.publish import check_shards

_THREADS = 4
_PLACE = "_shuffle"
_LONGEST = 60
_INT64 = range(-(2**63), 2**63)
_OF_IDS = ("source", "time", "keys", "user", "article", "request", "position", "explode", "identity")
"""Keys of ``impressions`` that an impression id depends on."""


@dataclass(frozen=True, slots=True)
class Found:
    """The values found in a day's samples: in the published ``manifest`` and in earlier generations."""

    manifest: Manifest
    now: frozenset[str]
    before: frozenset[str]


@dataclass(frozen=True, slots=True)
class Users:
    """Users by the ``ids`` of a ``key`` of impressions, such as ``user``, where the samples do not say whose they are."""

    key: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The result for a day: the number of removed samples, and the published manifest."""

    manifest: Manifest
    samples: int


def find(storage: Storage, day: Period, key: str, values: Sequence[str]) -> Found:
    """Search the column ``key`` of a day's samples for values, including earlier generations that could be restored.

    Runs on this machine, without Spark. An earlier generation whose impression ids are made otherwise counts as having
    all ids. Raises UsageError for a column that does not identify users, or for a value that the column cannot contain.
    """
    manifest = require_manifest(storage, day)
    now = among_samples(storage, manifest, manifest.shards, key, values)
    seen = {shard.path for shard in manifest.shards}
    before: set[str] = set()
    for earlier in _restorable(storage, manifest):
        if key in id_columns(manifest) and ids_made_of(earlier) != ids_made_of(manifest):
            before.update(values)
        unseen = [shard for shard in earlier.shards if shard.path not in seen]
        seen.update(shard.path for shard in unseen)
        with suppress(UsageError, DamagedFile):  # the column does not identify users, or a shard cannot be read
            before |= among_samples(storage, earlier, unseen, key, values)
    return Found(manifest, now, frozenset(before))


def forget(
    storage: Storage,
    found: Found,
    key: str,
    values: Sequence[str],
    retention: Retention,
    users: Users | None = None,
) -> Forgotten:
    """Publish a day without the samples whose column ``key`` has one of ``values``.

    Runs on this machine, without Spark. ``found`` is the result of :func:`find` for the day. Vocabularies lose the
    tokens of ``users``, or else the values. A day without such
    samples remains unchanged. Remaining records keep their bytes and order; the page and the metrics are recomputed
    from them. Earlier generations still have the removed samples. They can no longer be restored, and are deleted
    according to ``retention``. Raises the errors of :func:`find` and of a run.
    """
    manifest, day = found.manifest, found.manifest.day
    contract = ExampleContract.from_dict(dict(manifest.contract))
    if not found.now.intersection(values):
        if found.before.intersection(values):
            mark_forgotten(storage, day, manifest.generation)
            if latest_manifest(storage, day) != manifest:
                return forget(storage, find(storage, day, key, values), key, values, retention, users)
        return Forgotten(manifest, 0)
    sought = pa.array(_ids(contract[key], values), _type(contract[key]))
    output = DayOutput.open(storage, day, manifest.name, retention)
    if output.current != manifest:  # a concurrent run has published; use its samples
        return forget(storage, find(storage, day, key, values), key, values, retention, users)
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
            lambda rows, split: collector.observe(_with_place(rows, wanted), split),
        )
        return receipt, collector.close()

    with ThreadPoolExecutor(_THREADS) as threads:
        receipts, measures = zip(*threads.map(written, _partitions(manifest.shards)), strict=True)
    shards = tuple(shard for receipt in receipts for shard in receipt.shards)
    check_shards(storage, shards)
    tokens = values if users is None else users.ids
    run.write(_texts_beside(storage, manifest, _without_tokens(vocabularies_of(manifest.config, key, users), tokens)))
    made = replace(
        _without(manifest, shards),
        generation=output.generation,
        run_id=run.run_id,
        parent=manifest.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        rollback=None,
    )
    describe_anew(storage, manifest, made, measures, wanted, _pseudonyms(manifest, contract))
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
    if spec.role not in ("feature", "key"):
        raise UsageError(f"The column {key!r} is a {spec.role}, which is no id. Give a column with an id as it is.")
    if spec.shape != () or spec.buckets is not None or spec.dtype not in ("string", "bytes", "int64"):
        raise UsageError(
            f"The column {key!r} does not tell users apart: it is {_said(spec)}. Give one with an id as it is."
        )
    return spec


def _said(spec: FeatureSpec) -> str:
    if spec.buckets is not None:
        return f"one of {spec.buckets:,} numbers, which several users share"
    return f"a list of {spec.dtype}" if spec.shape != () else f"a {spec.dtype}"


def among_samples(
    storage: Storage, manifest: Manifest, shards: Sequence[Shard], key: str, values: Sequence[str]
) -> frozenset[str]:
    """Return the values that the column ``key`` of a generation's shards has. Raises the errors of :func:`find`."""
    if not values:
        return frozenset()
    contract = ExampleContract.from_dict(dict(manifest.contract))
    spec = _column(contract, key)
    ids = _ids(spec, values)
    look = partial(values_among, storage, contract=contract, column=key, values=pa.array(ids, _type(spec)))
    with ThreadPoolExecutor(_THREADS) as threads:
        there = set().union(*threads.map(look, shards))
    return frozenset(value for value, of_samples in zip(values, ids, strict=True) if of_samples in there)


def _restorable(storage: Storage, manifest: Manifest) -> Iterator[Manifest]:
    """Yield the earlier generations of a day that may still be restored and whose shards exist."""
    there = storage.names(run_directory(manifest.day, "").rstrip("/"))
    first = last_forgotten(storage, manifest.day)
    for number in generations.numbers(storage, manifests_directory(manifest.day)):
        if first <= number < manifest.generation:
            with suppress(DamagedFile):
                earlier = read_manifest(storage, manifest.day, number)
                if earlier.made_by in there:
                    yield earlier


def _type(spec: FeatureSpec) -> pa.DataType:
    return pa.int64() if spec.dtype == "int64" else pa.binary()


def _ids(spec: FeatureSpec, values: Sequence[str]) -> list[int] | list[bytes]:
    """Convert values to the type of the column. Raises UsageError for a value that the column cannot contain."""
    if spec.dtype != "int64":
        return [value.encode() for value in values]
    for value in values:
        if not re.fullmatch(r"-?[0-9]{1,19}", value) or int(value) not in _INT64:
            raise UsageError(
                f"The column {spec.name!r} has whole numbers of 64 bits, but a line of `--values` is {in_quotes(value)}. "
                "Expected digits alone. Nothing was published; correct the file and run again."
            )
    return [int(value) for value in values]


def in_quotes(value: str) -> str:
    """Return a value of the file as quoted in errors."""
    return repr(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…")


def id_columns(manifest: Manifest) -> list[str]:
    """Return the column with the impression id of each sample, in a list, which is empty if the layout has none."""
    return ExampleContract.from_dict(dict(manifest.contract)).names("key")[:1]


def ids_made_of(made_by: Manifest, loaded: LoadedConfig | None = None) -> dict[str, Any]:
    """Return the part of a generation's configuration that impression ids are made from, or of another configuration of its
    sample set. Equal logs then have equal ids.
    """
    config, environment = made_by.config, made_by.environment
    if loaded is not None:
        config = loaded.document
        environment = digests({n: v for n, v in loaded.deciding.items() if n in environment}, made_by.name)
    shown = config.get("impressions") or {}
    made = {key: shown.get(key) for key in _OF_IDS}
    whole_row = shown.get("identity") == "row"
    made |= {"again": shown.get("dedup") is not None and shown.get("request") is not None}
    made |= {"timezone": config.get("timezone"), "sources": config.get("sources") if whole_row else None}
    return {**made, "environment": digests_in(made, environment)}


def _partitions(shards: Sequence[Shard]) -> list[list[Shard]]:
    """Group the shards by partition, in order."""
    found: dict[int, list[Shard]] = defaultdict(list)
    for shard in shards:
        found[shard.partition].append(shard)
    return list(found.values())


def _wanted(contract: ExampleContract, manifest: Manifest) -> Wanted:
    flags = [name for name in contract.names("label") if name in manifest.labels]
    key = next(iter(contract.names("key")), None)
    tasks = len({shard.partition for shard in manifest.shards})
    wanted = Wanted(contract, next(iter(flags), None), key=key, tasks=tasks)
    return replace(wanted, place=_PLACE, by_request=True) if manifest.order is not None and key is not None else wanted


def _with_place(rows: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    """Add the hash of the impression to samples ordered by request, whose first rows are but a few requests."""
    if wanted.place is None:
        return rows
    return rows.append_column(wanted.place, pa.array(shuffle_hashes(integers(rows.column(wanted.key)))))


def _texts_beside(storage: Storage, manifest: Manifest, without: Callable[[str, str], str]) -> dict[str, str]:
    """Return the contract, schema and vocabularies as text, by file name. ``without`` maps a vocabulary's name and
    lines to the remaining lines.
    """
    directory = f"{run_directory(manifest.day, manifest.made_by)}/"
    names = [file.path.removeprefix(directory) for file in storage.files(directory.rstrip("/"))]
    texts = {
        name: storage.read(f"{directory}{name}").decode()
        for name in names
        if name in (CONTRACT, SCHEMA) or name.startswith(f"{VOCABULARIES}/")
    }
    return {name: text if name in (CONTRACT, SCHEMA) else without(_stem(name), text) for name, text in texts.items()}


def _stem(name: str) -> str:
    return name.removeprefix(f"{VOCABULARIES}/").removesuffix(".txt")


def _pseudonyms(manifest: Manifest, contract: ExampleContract) -> Pseudonyms | None:
    """Return the pseudonyms of the run's configuration, or of all features if it is unreadable without its environment.

    The salt may be lost.
    """

    def value_of(name: str, _: object) -> str:
        return os.environ.get(name) or secrets.token_hex()

    try:
        return pseudonyms_of(JobConfig.model_validate(filled(dict(manifest.config), value_of)))
    except ValidationError:
        return Pseudonyms(secrets.token_hex(), frozenset(contract.names("feature")))


def _without(manifest: Manifest, shards: tuple[Shard, ...]) -> Manifest:
    """Return a manifest with fewer samples, and without examples of orphans, whose actions may belong to any user.

    The number of removed view matches is unknown; there are at most as many matches as samples.
    """
    records = sum(shard.records for shard in shards)
    counts = dict(manifest.accounting)
    counts[FORGOTTEN] = counts.get(FORGOTTEN, 0) + manifest.records - records
    views = {
        name: {**counts, "matched": min(counts["matched"], records)} if "matched" in counts else counts
        for name, counts in manifest.views.items()
    }
    labels = {
        name: {what: facts for what, facts in label.items() if what not in (ORPHAN_SAMPLE, "final", "funnel")}
        for name, label in manifest.labels.items()
    }
    sampling = {name: facts for name, facts in manifest.sampling.items() if name != "weights"}  # they count the removed
    accounting = {**counts, "samples": records}
    return replace(manifest, shards=shards, accounting=accounting, views=views, labels=labels, sampling=sampling)


def _without_tokens(theirs: Collection[str], values: Sequence[str]) -> Callable[[str, str], str]:
    """Return a function that removes values from the vocabularies ``theirs``, given a vocabulary's name and lines.

    In other vocabularies, an equal token has a different meaning. Each value is replaced with a line that no token can
    equal, so that all other tokens keep their ids.
    """
    gone = set(values)

    def without(name: str, text: str) -> str:
        if name not in theirs:
            return text
        lines = text.split("\n")
        return "\n".join(f"\0forgotten {n}" if line in gone else line for n, line in enumerate(lines, 1))

    return without


def remaining(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each other location that may still contain the values, with instructions to remove them."""
    if config.get("fitted") and config.get("vocabularies"):
        yield (
            f"The fitted state in {_path(config, 'fitted')} may have them as tokens: once the logs lack them, run "
            "`ctr-samples fit --afresh`, then remove what older versions have below `data/` there."
        )
    if config.get("partials"):
        yield (
            f"What is kept of finished days in {_path(config, 'partials')} may have them: once the logs lack them, remove that "
            "directory, and the next run makes it anew."
        )


def _path(config: Mapping[str, Any], section: str) -> str:
    return str(config[section]["path"]) if isinstance(config[section], Mapping) else f"`{section}.path`"


def vocabularies_of(config: Mapping[str, Any], column: str, users: Users | None) -> set[str]:
    """Return the vocabularies with a feature of the same input as a column of the samples, or as the key of ``users``."""
    sought, features = read_for(config, column, users), config.get("features") or {}
    return {
        feature["vocabulary"]
        for feature in features.values()
        if feature.get("vocabulary") and meet(sought, log_names(config, *_texts(feature)))
    }


def read_for(config: Mapping[str, Any], column: str, users: Users | None) -> set[SqlName]:
    """Return what is read of the log, or of views, for a column of the samples, or for the key of ``users``."""
    texts = _texts((config.get("features") or {}).get(column) or {}) if users is None else [f"impression.`{users.key}`"]
    return log_names(config, *texts)


def _texts(feature: Mapping[str, Any]) -> list[str]:
    return [feature[key] for key in ("from", "expr", "at") if feature.get(key)]
