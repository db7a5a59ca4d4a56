"""Choose the records of each worker and their order, from the counts in the manifest alone. Pure functions.

An epoch is a sequence of *blocks*. A block is a run of records of one *lane*, and a lane is a list of pieces of shards
to read in sequence. Without shuffling there is one lane: the published order. With shuffling, each epoch draws an order
of the shards and deals them to a few lanes (so that several shards are read at once); the lanes take turns, and each
block is permuted. Nothing here depends on threads or on timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
class Block:
    """The next ``records`` records of a lane. ``number`` counts the blocks of an epoch.

    After the permutation, the first ``drop`` rows are dropped: a reader that resumes within the epoch has already seen
    them.
    """

    lane: int
    records: int
    number: int
    drop: int = 0


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

    def epoch(self, number: int, skip: int = 0) -> Epoch:
        """Plan epoch ``number`` without its first ``skip`` records."""
        shards = np.arange(len(self.counts))
        if self.shuffle:
            shards = _draws(self.seed, number).permutation(shards)
        total = sum(self.counts)
        first, stop = (total * n // self.workers for n in (self.worker, self.worker + 1))
        if self.most is not None:
            stop = min(stop, first + self.most)
        pieces = cut([Piece(int(s), 0, self.counts[s]) for s in shards], first, stop)
        if not self.shuffle:
            pieces, skip = cut(pieces, skip, stop - first), 0
        lanes = deal(pieces, self.lanes if self.shuffle else 1)
        return after(Epoch(lanes, take_turns([sum(map(len, lane)) for lane in lanes], self.window)), skip)

    def permutation(self, epoch: int, block: int, records: int) -> npt.NDArray[np.int64]:
        """Return the source positions of the rows of a block."""
        return _draws(self.seed, epoch, block).permutation(records)


def share(total: int, worker: int, workers: int) -> int:
    """Return how many of ``total`` records a worker gets. The numbers differ by at most one between workers."""
    return total * (worker + 1) // workers - total * worker // workers


def cut(pieces: Sequence[Piece], first: int, stop: int) -> list[Piece]:
    """Return the pieces for records ``first`` to ``stop`` of the concatenated pieces."""
    kept, begin = [], 0
    for piece in pieces:
        low, high = max(first - begin, 0), min(stop - begin, len(piece))
        if low < high:
            kept.append(Piece(piece.shard, piece.first + low, piece.first + high))
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
