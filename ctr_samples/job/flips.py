"""Counts the labels that flipped since the previous generation because of late actions.

Runs on the driver, without Spark, after the shards of a run are written and before its manifest. Decodes only ids and
labels. Keeps the previous generation as sorted arrays and reads the new generation shard by shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ctr_samples.codec import ExampleDecoder
from ctr_samples.config.base import mask_of
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import ContractError, DamagedFile, StorageError
from ctr_samples.records.read import records_of
from ctr_samples.shards import Manifest, Shard, Storage

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
