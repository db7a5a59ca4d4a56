"""Choose the records of each worker and their order, from the counts in the manifest alone. Pure functions.

An epoch is a sequence of *blocks*. A block is a run of records of one *lane*, and a lane is a list of pieces of shards
to read in sequence. Without shuffling there is one lane: the published order. With shuffling, each epoch draws an order
of the shards and deals them to a few lanes (so that several shards are read at once); the lanes take turns, and each
block is permuted. Nothing here depends on threads or on timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

LANES = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Records ``first`` to ``stop`` of a shard, identified by its index in the list of shards."""

    shard: int
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Span:
    """Records ``first`` to ``stop`` of those that ``worker`` of ``workers`` reads in an epoch, in its order."""

    worker: int
    workers: int
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Block:
    """The next ``records`` records of a lane. ``number`` counts the blocks of an epoch.

    After the permutation, only the rows from ``drop`` to ``keep`` remain: a reader that resumes within the epoch has
    already seen the ones before, and another worker reads the ones behind. ``keep=None`` keeps all of them.
    """

    lane: int
    records: int
    number: int
    drop: int = 0
    keep: int | None = None

    @property
    def rows(self) -> tuple[int, int]:
        """The first row that remains, and the one behind the last."""
        return self.drop, self.records if self.keep is None else self.keep


@dataclass(frozen=True, slots=True)
class Epoch:
    """The pieces and blocks that a worker reads in one epoch."""

    lanes: tuple[tuple[Piece, ...], ...]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """The order of all epochs. ``counts`` has the number of records per shard.

    ``window`` is the number of records per block, and ``most`` is the maximum number of records per epoch if the
    remainder is dropped.
    """

    counts: tuple[int, ...]
    window: int
    shuffle: bool = False
    seed: int = 0
    worker: int = 0
    workers: int = 1
    most: int | None = None
    lanes: int = LANES

    @property
    def records(self) -> int:
        """Number of records of the worker in an epoch."""
        own = share(sum(self.counts), self.worker, self.workers)
        return own if self.most is None else min(own, self.most)

    def epoch(self, number: int, skip: int = 0, stop: int | None = None) -> Epoch:
        """Plan epoch ``number`` from record ``skip`` of the worker to record ``stop``, the last one if it is None."""
        shards = np.arange(len(self.counts))
        if self.shuffle:
            shards = _draws(self.seed, number).permutation(shards)
        total = sum(self.counts)
        first, stop = total * self.worker // self.workers, self.records if stop is None else stop
        pieces = cut([Piece(int(s), 0, self.counts[s]) for s in shards], first, first + self.records)
        if not self.shuffle:
            pieces, skip, stop = cut(pieces, skip, stop), 0, stop - skip
        lanes = deal(pieces, self.lanes if self.shuffle else 1)
        epoch = Epoch(lanes, take_turns([sum(map(len, lane)) for lane in lanes], self.window))
        return after(up_to(epoch, stop), skip)

    def permutation(self, epoch: int, block: int, records: int) -> npt.NDArray[np.int64]:
        """Return the source positions of the rows of a block."""
        return _draws(self.seed, epoch, block).permutation(records)


def share(total: int, worker: int, workers: int) -> int:
    """Return how many of ``total`` records a worker gets. The numbers differ by at most one between workers."""
    return total * (worker + 1) // workers - total * worker // workers


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of an epoch that another number of workers began: spans of theirs, to be shared in this order."""

    epoch: int
    spans: tuple[Span, ...]

    def of(self, worker: int, workers: int, batch: int | None = None) -> list[Span]:
        """Return the spans of one worker. With a ``batch`` size, only full batches, the same number for each."""
        total = sum(map(len, self.spans))
        first = total * worker // workers
        records = share(total, worker, workers) if batch is None else total // workers // batch * batch
        return cut(self.spans, first, first + records)


_Part = TypeVar("_Part", Piece, Span)


def cut(pieces: Sequence[_Part], first: int, stop: int) -> list[_Part]:
    """Return the pieces, or spans, for records ``first`` to ``stop`` of the concatenated ones."""
    kept, begin = [], 0
    for piece in pieces:
        low, high = max(first - begin, 0), min(stop - begin, len(piece))
        if low < high:
            kept.append(replace(piece, first=piece.first + low, stop=piece.first + high))
        begin += len(piece)
    return kept


def deal(pieces: Sequence[Piece], lanes: int) -> tuple[tuple[Piece, ...], ...]:
    """Deal the pieces in turn to at most ``lanes`` lanes."""
    lanes = min(lanes, len(pieces))
    return tuple(tuple(pieces[lane::lanes]) for lane in range(lanes))


def take_turns(records: Sequence[int], window: int) -> tuple[Block, ...]:
    """Return blocks of ``window`` records from each lane in turn, then the remainder of each lane."""
    whole = [count // window for count in records]
    turns = [lane for turn in range(max(whole, default=0)) for lane, count in enumerate(whole) if turn < count]
    sizes = [(lane, window) for lane in turns]
    sizes += [(lane, count % window) for lane, count in enumerate(records) if count % window]
    return tuple(Block(lane, size, number) for number, (lane, size) in enumerate(sizes))


def after(epoch: Epoch, skip: int) -> Epoch:
    """Drop the first ``skip`` records of an epoch, and all pieces that only they need."""
    passed = [0] * len(epoch.lanes)
    left = list(epoch.blocks)
    while left and skip >= left[0].records:
        skip -= left[0].records
        passed[left[0].lane] += left.pop(0).records
    if left and skip:
        left[0] = replace(left[0], drop=skip)
    lanes = [cut(lane, gone, sum(map(len, lane))) for lane, gone in zip(epoch.lanes, passed, strict=True)]
    return Epoch(tuple(map(tuple, lanes)), tuple(left))


def up_to(epoch: Epoch, records: int) -> Epoch:
    """Keep only the first ``records`` records of an epoch that nothing was dropped from."""
    read, kept = [0] * len(epoch.lanes), []
    for block in epoch.blocks:
        if records <= 0:
            break
        kept.append(block if records >= block.records else replace(block, keep=records))
        read[block.lane] += block.records
        records -= block.records
    return Epoch(tuple(tuple(cut(lane, 0, some)) for lane, some in zip(epoch.lanes, read, strict=True)), tuple(kept))


def in_turn(epochs: Iterable[Epoch]) -> Epoch:
    """Return several plans as one: each in turn, with lanes of its own."""
    lanes: list[tuple[Piece, ...]] = []
    blocks: list[Block] = []
    for epoch in epochs:
        blocks += [replace(block, lane=len(lanes) + block.lane) for block in epoch.blocks]
        lanes += epoch.lanes
    return Epoch(tuple(lanes), tuple(blocks))


def epochs_after(steps_per_epoch: int, skip: int, epochs: int | None) -> Iterator[tuple[int, int]]:
    """Yield the remaining epochs after ``skip`` batches, each with the number of batches to skip at its start."""
    if not steps_per_epoch:
        return
    number, skip = divmod(skip, steps_per_epoch)
    while epochs is None or number < epochs:
        yield number, skip
        number, skip = number + 1, 0


def _draws(*key: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))
