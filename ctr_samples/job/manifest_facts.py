"""Facts in a manifest besides its shards: inputs, views, labels, and descriptions for readers without this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from ctr_samples.codec import ExampleDecoder
from ctr_samples.config import JobConfig, LoadedConfig
from ctr_samples.config.base import mask_of
from ctr_samples.config.masking import digests, masked_tree
from ctr_samples.contract import ExampleContract
from ctr_samples.descriptions import contract_json, schema_pbtxt
from ctr_samples.errors import ContractError, DamagedFile, StorageError
from ctr_samples.graph import Graph
from ctr_samples.job.origins import changed_values
from ctr_samples.job.planning import Prepared
from ctr_samples.quality.checks.counts import FEWEST_ACTIONS
from ctr_samples.quality.pseudonyms import pseudonyms_of
from ctr_samples.records.read import records_of
from ctr_samples.samples.impressions import TIED_REPEATS, time_not_read
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.labels.counts import best_shift, label_counts, mask_facts
from ctr_samples.samples.labels.plans import LabelPlan, plan_labels, rows_among
from ctr_samples.samples.period import Span
from ctr_samples.samples.sampling import sampling_facts
from ctr_samples.samples.views.counts import match_facts
from ctr_samples.samples.watches.times import counts_of_view
from ctr_samples.shards import DayRun, Manifest, Receipt, RequestOrder, Shard, Storage
from ctr_samples.shards.naming import CONTRACT, SCHEMA, VOCABULARIES
from ctr_samples.sparksql.releases import versions
from ctr_samples.sparksql.zones import zone_releases
from ctr_samples.vocabulary import FittedState


def facts_of_run(
    prepared: Prepared, run: DayRun, shards: tuple[Shard, ...], canaries: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Return the manifest fields about the inputs, counts and outputs of a run. Call it after the action."""
    inputs, loaded, contract = prepared.inputs, prepared.loaded, prepared.contract
    known_by = inputs.span.known_by
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "fingerprint": prepared.fingerprint,
        "compression": loaded.config.output.compression,
        "contract": {**contract.to_dict(), "fingerprint": contract.fingerprint},
        "config": loaded.document,
        "inputs": masked_tree(inputs.facts()),
        "shards": shards,
        "views": view_facts(inputs, canaries),
        "labels": label_facts(prepared, run, shards),
        "versions": {**versions(), **zone_releases(inputs.spark, loaded.config.timezone)},
        "sampling": sampling_facts(loaded.config, inputs.watches.tasks.result()),
        "known_by": known_by and known_by.astimezone(UTC).isoformat(),
        "tied_repeats": inputs.watches.tasks.result().sums.get(TIED_REPEATS, 0),
        "reads": Graph.of(loaded.document).to_dict(),
        "environment": digests(loaded.deciding, loaded.config.name),
    }


def order_fact(config: JobConfig, receipts: Sequence[Receipt]) -> RequestOrder | None:
    """Return the order by request, with the number of requests, or None if samples have no such order."""
    if not config.output.by_request:
        return None
    counts = [receipt.requests for receipt in receipts if receipt.requests is not None]
    samples = sum(shard.records for receipt in receipts for shard in receipt.shards)
    size = sum(count.squares for count in counts) / max(1, samples)
    largest = max((count.largest for count in counts), default=0)
    return RequestOrder(config.request_keys, sum(count.requests for count in counts), size, largest)


def view_facts(inputs: Inputs, canaries: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, float]]:
    """Return, for each view, the number of matched samples, the ages of the matched rows, and counts of irregular rows."""
    clocks, rows = inputs.clocks(), inputs.watches.irregular_rows()
    matches = match_facts(inputs.config.views, inputs.watches.tasks.result())
    return {
        name: {**of_view, **counts_of_view(clocks, name), **rows.get(name, {}), **canaries.get(name, {})}
        for name, of_view in matches.items()
    }


def label_facts(prepared: Prepared, run: DayRun, shards: Sequence[Shard]) -> dict[str, dict[str, Any]]:
    """Return, for each label, the counts of its actions and, if compared, its flips since the previous generation."""
    inputs, current = prepared.inputs, run.output.current
    config, of_tasks = inputs.config, inputs.watches.tasks.result()
    plans, names = plan_labels(config), pseudonyms_of(config)
    counts = label_counts(plans, rows_among(config.labels), of_tasks)
    counts = counts if names is None else names.in_labels(counts)
    for plan in plans:
        counts[plan.name] |= _of_times(inputs, plan, counts[plan.name])
    for name, facts in mask_facts(config, of_tasks).items():
        counts[name] |= facts
    final = _were_final(current, prepared.loaded, inputs.span)
    flips = flips_since(current, run.storage, shards, prepared.contract, final=final)
    return {
        name: {**of_label, **({"flips": flips[name]} if name in flips else {})} for name, of_label in counts.items()
    }


def _of_times(inputs: Inputs, plan: LabelPlan, counts: Mapping[str, int]) -> dict[str, Any]:
    """Count actions without a readable time, with an example, and find the time shift that would match most orphans.

    Computes the shift only if most actions match no impression.
    """
    days = inputs.clocks().get(f"labels.{plan.name}.time", {})
    own = None if inputs.span.start is None else inputs.span.start.astimezone(ZoneInfo(inputs.config.timezone)).date()
    mine = {day: of_day for day, of_day in days.items() if day is None or day == own or own is None}
    without_time = sum(of_day.unusable for of_day in mine.values())
    facts: dict[str, Any] = {}
    if without_time:
        log = inputs.uncounted(plan.label.source, [day for day in mine if day is not None] or None)
        said = time_not_read(log, f"labels.{plan.name}", plan.label.where, "time", plan.time)
        facts = {"without_time": without_time, **({"time_not_read": said.strip()} if said else {})}
    if counts["actions"] >= FEWEST_ACTIONS and counts["orphans"] > counts["actions"] / 2:
        shift = best_shift(inputs.uncounted, inputs.config, plan, inputs.span)
        facts["shift"] = None if shift is None else asdict(shift)
    return facts


def _were_final(current: Manifest | None, loaded: LoadedConfig, span: Span) -> bool:
    """Whether labels of the previous generation were final, and neither their configuration nor the clock of the run has
    changed.
    """
    made_by = ("timezone", "sources", "impressions", "labels")
    return (
        current is not None
        and current.label_mature
        and (current.known_by is None) == (span.known_by is None)
        and all(current.config.get(key) == loaded.document.get(key) for key in made_by)
        and not changed_values(current, loaded.values)
    )


def descriptions(contract: ExampleContract, state: FittedState | None) -> dict[str, str]:
    """Return files to write beside the shards, by name: contract, TensorFlow schema, vocabularies (a token
    per line).
    """
    files = {CONTRACT: contract_json(contract), SCHEMA: schema_pbtxt(contract)}
    for name, vocabulary in (state.vocabularies if state else {}).items():
        if not any("\n" in token for token in vocabulary.tokens):
            files[f"{VOCABULARIES}/{name}.txt"] = "".join(f"{token}\n" for token in vocabulary.tokens)
    return files


MOST_COMPARED = 10_000_000
"""Maximum number of samples compared. The ids, and each label, need about a hundred megabytes."""

_THREADS = 8
_ID = "impression_id"

Columns = dict[str, npt.NDArray[Any]]


def flips_since(
    before: Manifest | None,
    storage: Storage,
    shards: Sequence[Shard],
    contract: ExampleContract,
    *,
    final: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the changes of each label since the generation ``before``. Empty if that generation had different labels.

    ``final`` records that the earlier labels were final, so that none should have changed. ``flipped_to_1`` and
    ``flipped_to_0`` count impressions of both generations whose label appeared or disappeared. ``changed`` counts
    reduced values that differ. ``new`` and ``gone`` count impressions of only one generation, and ``against`` is the
    number of the earlier generation. If old shards cannot be read or there are too many samples, ``not_compared``
    holds the reason, and the run does not fail.
    """
    if before is None or _ID not in contract.names():
        return {}
    since = {"against": before.generation, **({"final": True} if final else {})}
    reduced = _ids_and_labels(contract)
    names = reduced.names("label")
    most = max(before.records, sum(shard.records for shard in shards))
    if most > MOST_COMPARED:
        why = f"{most:,} samples are more than the {MOST_COMPARED:,} that are compared"
        return {name: {**since, "not_compared": why} for name in names}
    try:
        if reduced != _ids_and_labels(ExampleContract.from_dict(dict(before.contract))):
            return {}
        comparison = _compared(_Generation.read(storage, before.shards, reduced), storage, shards, reduced)
    except (DamagedFile, StorageError, ContractError) as error:
        return {name: {**since, "not_compared": str(error)} for name in names}
    return {name: {**counts, **since} for name, counts in comparison.items()}


def _ids_and_labels(contract: ExampleContract) -> ExampleContract:
    labels = contract.names("label")
    wanted = {_ID, *labels, *map(mask_of, labels)}
    return ExampleContract(tuple(f for f in contract.features if f.name in wanted), contract.record)


@dataclass(frozen=True, slots=True)
class _Generation:
    """The ids of a generation in ascending order, and its labels in the same order."""

    ids: npt.NDArray[np.int64]
    labels: Columns

    @classmethod
    def read(cls, storage: Storage, shards: Sequence[Shard], contract: ExampleContract) -> _Generation:
        parts = list(_columns(storage, shards, contract))
        nothing = np.empty(0, np.int8)
        every = {f.name: np.concatenate([nothing, *(part[f.name] for part in parts)]) for f in contract.features}
        ids = every.pop(_ID)
        order = np.argsort(ids)
        return cls(ids[order], {name: values[order] for name, values in every.items()})


def _compared(
    old: _Generation, storage: Storage, shards: Sequence[Shard], contract: ExampleContract
) -> dict[str, dict[str, int]]:
    counts = {
        name: {"flipped_to_1": 0, "flipped_to_0": 0, **({"changed": 0} if mask_of(name) in old.labels else {})}
        for name in contract.names("label")
    }
    new = both = 0
    for now in _columns(storage, shards, contract):
        rows = np.searchsorted(old.ids, now[_ID])
        known = rows < len(old.ids)
        known[known] = old.ids[rows[known]] == now[_ID][known]
        rows = rows[known]
        new, both = new + int((~known).sum()), both + len(rows)
        for name, flips in counts.items():
            presence = mask_of(name) if "changed" in flips else name
            was, is_now = old.labels[presence][rows] != 0, now[presence][known] != 0
            flips["flipped_to_1"] += int((is_now & ~was).sum())
            flips["flipped_to_0"] += int((was & ~is_now).sum())
            if "changed" in flips:
                flips["changed"] += int((was & is_now & (old.labels[name][rows] != now[name][known])).sum())
    return {name: {**flips, "new": new, "gone": len(old.ids) - both} for name, flips in counts.items()}


def _columns(storage: Storage, shards: Sequence[Shard], contract: ExampleContract) -> Iterator[Columns]:
    """Yield the ids and labels of each shard, with 0/1 labels and masks as bytes. Reads several shards at once."""
    with ThreadPoolExecutor(_THREADS) as threads:
        yield from threads.map(partial(_columns_of, storage, contract), shards)


def _columns_of(storage: Storage, contract: ExampleContract, shard: Shard) -> Columns:
    decoder = ExampleDecoder(contract)
    batches = [decoder.decode_frames(chunk.buffer, chunk.offsets) for chunk in records_of(storage, shard)]
    columns = {}
    for spec in contract.features:
        narrow = spec.name != _ID and spec.dtype == "int64"
        parts = [batch.column(spec.name).to_numpy(zero_copy_only=False) for batch in batches]
        columns[spec.name] = np.concatenate([part.astype(np.int8) if narrow else part for part in parts])
    return columns
