"""Published samples as batches of NumPy arrays or torch tensors. No TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ctr_samples.arguments import check_whole, names_in
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError, UsageError
from ctr_samples.periods import Period
from ctr_samples.readers.arrays import Columns, joined
from ctr_samples.readers.batch_decoder import SPARSE, BatchDecoder
from ctr_samples.readers.order import Order, epochs_after
from ctr_samples.readers.sample_set import SampleSet, open_samples
from ctr_samples.readers.stream import Stream
from ctr_samples.readers.torch_tensors import as_torch, import_torch

_BLOCK_RECORDS = 4096
_BLOCK_BYTES = 4 << 20
"""A task decodes about so much, or one batch if that is more."""
_WINDOW_RECORDS = 8192
_WINDOW_BYTES = 16 << 20
"""What ``shuffle=True`` permutes at a time."""


class Batch(NamedTuple):
    """Columns by name: what a model sees, what it shall predict with the masks of that, how much each sample counts (None where
    nothing was sampled), and what only identifies a sample."""

    features: dict[str, Any]
    labels: dict[str, Any]
    weight: Any
    keys: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a sample set is read; the arguments of the public functions, checked."""

    batch_size: int
    shuffle: bool | int = False
    seed: int = 0
    shard: tuple[int, int] = (0, 1)
    epochs: int | None = 1
    skip: int = 0
    drop_remainder: bool = False
    threads: int | None = None

    def __post_init__(self) -> None:
        if not _is_share(self.shard):
            raise UsageError(f"`shard` is {self.shard!r}; expected (index, count) with 0 <= index < count.")
        least = {"batch_size": 1, "threads": 1, "skip": 0, "seed": 0, "shuffle": 0, "epochs": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            number = int(value) if name == "shuffle" and isinstance(value, bool) else value
            check_whole(name, number, smallest, optional=name in ("threads", "epochs"))

    @property
    def decoders(self) -> int:
        """Threads that decode: ``threads``, or one for each processor that this process may use, but not more than eight."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.threads or min(8, cores)

    def order_of(self, samples: SampleSet) -> Order:
        """The order of the samples, which ``threads`` does not change."""
        shards = samples.shards
        size = sum(shard.bytes for shard in shards) / max(1, samples.records)
        records, room = (_WINDOW_RECORDS, _WINDOW_BYTES) if self.shuffle else (_BLOCK_RECORDS, _BLOCK_BYTES)
        wanted = min(records, int(room / max(1, size)))
        if self.shuffle and self.shuffle is not True:
            wanted = self.shuffle
        window = max(1, -(-wanted // self.batch_size)) * self.batch_size
        counts = tuple(shard.records for shard in shards)
        most = self.steps_of(samples) * self.batch_size if self.drop_remainder else None
        return Order(counts, window, bool(self.shuffle), self.seed, *self.shard, most)

    def steps_of(self, samples: SampleSet) -> int:
        """Batches of an epoch of this worker."""
        return samples.steps(self.batch_size, self.shard, drop_remainder=self.drop_remainder)


def _is_share(shard: Any) -> bool:
    """Whether it is a worker's index and the number of workers."""
    if not isinstance(shard, tuple | list) or len(shard) != 2 or not all(isinstance(n, Integral) for n in shard):
        return False
    return bool(0 <= shard[0] < shard[1])


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
    skip: int = 0,
    drop_remainder: bool = False,
    columns: Collection[str] | None = None,
    as_: Literal["numpy", "torch"] = "numpy",
    threads: int | None = None,
) -> Iterator[Batch]:
    """Batches of one split of a day, or of several days, over any storage.

    A feature with a shape is an array ``[batch, *shape]``, one without a :class:`Ragged`, and what the layout ``sparse`` holds
    one :class:`Sparse` named ``features``; texts are objects of bytes. ``columns`` are the features to read, all others are
    skipped without decoding. ``as_="torch"`` gives tensors over the same memory instead of arrays, except for texts.

    ``shuffle`` draws an order of the shards for each epoch and permutes as many records at a time as it says (True: about 16
    MiB), by ``seed`` alone. Worker ``index`` of ``shard=(index, count)`` reads its own part; all workers must use one seed.
    ``epochs=None`` never ends. ``skip`` is the number of batches to skip at the start, mostly without reading them; the rest
    come as if these had been taken. ``drop_remainder`` leaves out the last batch of an epoch if it is smaller, or if another
    worker has no more. ``threads`` decode ahead, with a bound on memory; batches do not depend on it.

    Raises as :func:`load_dataset`; DamagedFile while it is iterated for a record whose checksum is wrong.
    """
    reading = Reading(batch_size, shuffle, seed, shard, epochs, skip, drop_remainder, threads)
    if as_ not in ("numpy", "torch"):
        raise UsageError(f"`as_` is {as_!r}; expected 'numpy' or 'torch'.")
    if as_ == "torch":
        import_torch()
    samples = open_samples(path, date=date, dates=dates, split=split)
    return _batches(samples, reading, _chosen(samples.contract, columns), as_ == "torch")


def _batches(samples: SampleSet, reading: Reading, names: list[str] | None, torch: bool) -> Iterator[Batch]:
    roles = {SPARSE: "feature", **{f.name: f.role for f in samples.contract.features}}
    for columns in columns_of(samples, reading, names):
        by_role: dict[str, dict[str, Any]] = {"feature": {}, "label": {}, "mask": {}, "weight": {}, "key": {}}
        by_name = columns.by_name()
        for name, role in roles.items():
            if name in by_name:
                by_role[role][name] = as_torch(by_name[name]) if torch else by_name[name]
        weight = next(iter(by_role["weight"].values()), None)
        yield Batch(by_role["feature"], {**by_role["label"], **by_role["mask"]}, weight, by_role["key"])


def columns_of(samples: SampleSet, reading: Reading, names: Collection[str] | None = None) -> Iterator[Columns]:
    """The columns of batches. Whoever stops early closes the iterator."""
    steps = reading.steps_of(samples)
    order = reading.order_of(samples)
    decoder = BatchDecoder(samples.contract, None if names is None else list(names))
    stream = Stream(samples.storage, samples.shards, order, decoder, reading.decoders)
    epochs = ((e, skip * reading.batch_size) for e, skip in epochs_after(steps, reading.skip, reading.epochs))
    blocks = stream.blocks(epochs)
    try:
        yield from cut_into_batches(blocks, reading.batch_size)
    finally:
        blocks.close()  # type: ignore[attr-defined]


def cut_into_batches(blocks: Iterator[tuple[Columns, bool]], size: int) -> Iterator[Columns]:
    """Batches of ``size`` rows from blocks of any; at the end of an epoch what is left. Copies where a batch has two blocks."""
    waiting: list[Columns] = []
    have = 0
    for columns, ends in blocks:
        rows, first = len(columns), 0
        while have + rows - first >= size:
            stop = first + size - have
            yield joined([*waiting, columns.rows(first, stop)])
            waiting, have, first = [], 0, stop
        if first < rows:
            waiting, have = [*waiting, columns.rows(first, rows)], have + rows - first
        if ends and have:
            yield joined(waiting)
            waiting, have = [], 0


def _chosen(contract: ExampleContract, columns: Collection[str] | None) -> list[str] | None:
    """The features of ``columns`` and all that are no features."""
    if columns is None:
        return None
    features = contract.names("feature")
    there = [SPARSE] if contract.layout == "sparse" else features
    unknown = sorted(set(names_in("columns", columns)) - set(there))
    if unknown:
        raise InputError(f"There is no feature {unknown[0]!r}; the samples have {', '.join(there)}.")
    wanted = features if contract.layout == "sparse" and columns else columns
    return [f.name for f in contract.features if f.role != "feature" or f.name in wanted]
