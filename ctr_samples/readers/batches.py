"""Read published samples in batches of NumPy arrays or torch tensors, without TensorFlow."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ctr_samples.arguments import names_in
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError, UsageError
from ctr_samples.periods import Period
from ctr_samples.readers.arrays import Ragged, Sparse
from ctr_samples.readers.batch_decoder import SPARSE
from ctr_samples.readers.resumable import Batch, Batches
from ctr_samples.readers.sample_set import SampleSet, open_samples
from ctr_samples.readers.stream import Reading, columns_of


def iter_batches(
    path: str | Path,
    *,
    date: Period | str | None = None,
    dates: Sequence[Period | str] | None = None,
    split: str,
    batch_size: int,
    shuffle: bool | int = False,
    seed: int = 0,
    shard: tuple[int, int] = (0, 1),
    epochs: int | None = 1,
    skip: int | Sequence[int] = 0,
    drop_remainder: bool = False,
    columns: Collection[str] | None = None,
    as_: Literal["numpy", "torch"] = "numpy",
    threads: int | None = None,
) -> Batches:
    """Iterate over batches of one split of one or several days, from any storage.

    A feature with a shape is an array ``[batch, *shape]``, a feature without a shape is a :class:`Ragged`, and the
    layout ``sparse`` gives a single :class:`Sparse` named ``features``. Strings are bytes objects. ``columns`` selects
    features; all other features are skipped without decoding. ``as_="torch"`` returns tensors over the same memory
    instead of arrays, except for strings.

    ``shuffle`` draws an order of the shards for each epoch and permutes that many records at a time (True: about 16
    MiB, or up to 64 MiB of samples ordered by request, so that a batch has samples of many requests). The order depends
    only on ``seed``. Worker ``index`` of ``shard=(index, count)`` reads its own part; all workers must use the same
    seed. ``epochs=None`` never ends. ``skip`` is the number of batches to skip at the start, mostly without reading
    them; the following batches are the same as without skipping. A list has the batches that each of the earlier
    workers read: the workers of now share the rest of the epoch, each sample once. ``drop_remainder`` drops the last
    batch of an epoch if it is smaller, or if another worker has no more. ``threads`` is the number of threads that
    decode ahead, with bounded memory; it does not affect the batches.

    The iterator has ``state_dict()`` and ``load_state_dict(state)``, which hand over its position, exact to the batch,
    also to another number of workers.

    Raises the errors of :func:`load_dataset` and, during iteration, DamagedFile for a record with a wrong checksum.
    """
    reading = Reading(batch_size, shuffle, seed, shard, epochs, skip, drop_remainder, threads)
    if as_ not in ("numpy", "torch"):
        raise UsageError(f"`as_` is {as_!r}; expected 'numpy' or 'torch'.")
    if as_ == "torch":
        import_torch()
    samples = open_samples(path, date=date, dates=dates, split=split)
    return Batches(samples, reading, partial(_batches, names=_chosen(samples.contract, columns), torch=as_ == "torch"))


def _batches(samples: SampleSet, reading: Reading, *, names: list[str] | None, torch: bool) -> Iterator[Batch]:
    roles = {SPARSE: "feature", **{f.name: f.role for f in samples.contract.features}}
    for columns in columns_of(samples, reading, names):
        by_role: dict[str, dict[str, Any]] = {"feature": {}, "label": {}, "mask": {}, "weight": {}, "key": {}}
        by_name = columns.by_name()
        for name, role in roles.items():
            if name in by_name:
                by_role[role][name] = as_torch(by_name[name]) if torch else by_name[name]
        weight = next(iter(by_role["weight"].values()), None)
        yield Batch(by_role["feature"], {**by_role["label"], **by_role["mask"]}, weight, by_role["key"])


def _chosen(contract: ExampleContract, columns: Collection[str] | None) -> list[str] | None:
    """Return the names in ``columns``, plus all columns that are not features."""
    if columns is None:
        return None
    features = contract.names("feature")
    there = [SPARSE] if contract.layout == "sparse" else features
    unknown = sorted(set(names_in("columns", columns)) - set(there))
    if unknown:
        raise InputError(f"There is no feature {unknown[0]!r}; the samples have {', '.join(there)}.")
    wanted = features if contract.layout == "sparse" and columns else columns
    return [f.name for f in contract.features if f.role != "feature" or f.name in wanted]


def import_torch() -> Any:
    """Import torch. Raises UsageError if it is not installed."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError("`as_='torch'` needs torch, which is not installed: pip install torch.") from None


def as_torch(column: Any) -> Any:
    """Convert arrays to tensors, including arrays in lists and sparse rows. Strings stay arrays, since torch has no
    string type.
    """
    if isinstance(column, Ragged):
        return Ragged(as_torch(column.values), import_torch().from_numpy(column.row_splits))
    if isinstance(column, Sparse):
        return replace(column, indices=as_torch(column.indices), values=as_torch(column.values))
    return column if column.dtype == object else import_torch().from_numpy(column)
