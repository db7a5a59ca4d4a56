"""A worker's stream of decoded records, and the options that decide which batches it is cut into."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from ctr_samples.arguments import check_whole
from ctr_samples.codec import EncodedBatch
from ctr_samples.codec.decoder import Messages
from ctr_samples.errors import UsageError
from ctr_samples.readers.arrays import Columns, joined
from ctr_samples.readers.batch_decoder import BatchDecoder
from ctr_samples.readers.lanes import Lane, Scratch
from ctr_samples.readers.order import LANES, Block, Epoch, Order, Rest, Span, cut, epochs_after, in_turn, share
from ctr_samples.readers.sample_set import SampleSet
from ctr_samples.shards import Shard, Storage

_BLOCK_RECORDS = 4096
_BLOCK_BYTES = 4 << 20
"""Approximate size of a decoding task, which holds at least one batch."""
_WINDOW_RECORDS = 8192
_WINDOW_BYTES = 16 << 20
"""Size of the window that ``shuffle=True`` permutes."""
_WINDOW_BATCHES = 0.8
"""Window of samples ordered by request, in batches times the size of a sample's request. A batch drawn from ``w`` times
as many requests as it has samples holds ``w * (1 - exp(-1 / w))`` requests per sample, here 0.57.
"""
_WINDOW_OF_REQUESTS = 64 << 20
"""Largest size of that window in bytes, or a quarter of it in compressed bytes."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Validated arguments of the public functions: options for reading a sample set."""

    batch_size: int
    shuffle: bool | int = False
    seed: int = 0
    shard: tuple[int, int] = (0, 1)
    epochs: int | None = 1
    skip: int | Sequence[int] = 0
    drop_remainder: bool = False
    threads: int | None = None
    rest: Rest | None = None
    """What the workers read instead of whole epochs: the rest of one. ``skip`` counts from where it begins."""

    def __post_init__(self) -> None:
        if not _is_share(self.shard):
            raise UsageError(f"`shard` is {self.shard!r}; expected (index, count) with 0 <= index < count.")
        least = {"batch_size": 1, "threads": 1, "seed": 0, "shuffle": 0, "epochs": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            number = int(value) if name == "shuffle" and isinstance(value, bool) else value
            check_whole(name, number, smallest, optional=name in ("threads", "epochs"))
        for skip in self.skip if isinstance(self.skip, Sequence) and self.skip else [self.skip]:
            check_whole("skip", skip, 0)

    @property
    def decoders(self) -> int:
        """Number of decoding threads: ``threads``, or one per processor available to this process, at most eight."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.threads or min(8, cores)

    def order_of(self, samples: SampleSet) -> Order:
        """Return the order of the samples, independent of ``threads``."""
        shards = samples.shards
        size = sum(shard.bytes for shard in shards) / max(1, samples.records)
        records, room = (_WINDOW_RECORDS, _WINDOW_BYTES) if self.shuffle else (_BLOCK_RECORDS, _BLOCK_BYTES)
        lanes = LANES
        if self.shuffle and samples.request_size > 1:
            records = max(records, int(_WINDOW_BATCHES * samples.request_size * self.batch_size))
            plain = all(manifest.compression == "none" for manifest in samples.manifests)
            room = _WINDOW_OF_REQUESTS if plain else _WINDOW_OF_REQUESTS // 4
        wanted = min(records, int(room / max(1, size)))
        if self.shuffle and self.shuffle is not True:
            wanted = self.shuffle
        window = max(1, -(-wanted // self.batch_size)) * self.batch_size
        if self.shuffle and samples.request_size > 1:
            # A lane that ends within its first window would mix fewer requests.
            lanes = max(1, min(LANES, share(samples.records, *self.shard) // window))
        counts = tuple(shard.records for shard in shards)
        most = self.steps_of(samples) * self.batch_size if self.drop_remainder else None
        return Order(counts, window, bool(self.shuffle), self.seed, *self.shard, most, lanes)

    def steps_of(self, samples: SampleSet) -> int:
        """Return the number of batches per epoch for this worker, or of the rest of one."""
        if self.rest is not None:
            return -(-sum(map(len, self.spans_of(samples))) // self.batch_size)
        return samples.steps(self.batch_size, self.shard, drop_remainder=self.drop_remainder)

    def spans_of(self, samples: SampleSet) -> list[Span]:
        """Return what this worker reads in an epoch, or of the rest of one."""
        if self.rest is not None:
            return self.rest.of(*self.shard, self.batch_size if self.drop_remainder else None)
        return [Span(*self.shard, 0, self.order_of(samples).records)]

    def begins(self, samples: SampleSet) -> Iterator[tuple[int, int]]:
        """Yield the number of each epoch, and how many batches of it to skip."""
        if self.rest is not None:
            yield self.rest.epoch, self._skip
        else:
            yield from epochs_after(self.steps_of(samples), self._skip, self.epochs)

    def epoch_of(self, samples: SampleSet, number: int, skip: int) -> Epoch:
        """Plan an epoch without its first ``skip`` batches."""
        if self.rest is None:
            return self.order_of(samples).epoch(number, skip * self.batch_size)
        spans = self.spans_of(samples)
        left = cut(spans, skip * self.batch_size, sum(map(len, spans)))
        orders = [replace(self, shard=(span.worker, span.workers), rest=None).order_of(samples) for span in left]
        return in_turn(order.epoch(number, span.first, span.stop) for order, span in zip(orders, left, strict=True))

    @property
    def _skip(self) -> int:
        assert isinstance(self.skip, int)
        return self.skip


def _is_share(shard: Any) -> bool:
    """Whether ``shard`` is a valid pair of worker index and number of workers."""
    if not isinstance(shard, tuple | list) or len(shard) != 2 or not all(isinstance(n, Integral) for n in shard):
        return False
    return bool(0 <= shard[0] < shard[1])


def columns_of(samples: SampleSet, reading: Reading, names: Collection[str] | None = None) -> Iterator[Columns]:
    """Yield batches as columns. Close the iterator to stop early."""
    decoder = BatchDecoder(samples.contract, None if names is None else list(names))
    stream = Stream(samples.storage, samples.shards, reading.order_of(samples), decoder, reading.decoders)
    epochs = ((number, reading.epoch_of(samples, number, skip)) for number, skip in reading.begins(samples))
    blocks = stream.blocks(epochs)
    try:
        yield from cut_into_batches(blocks, reading.batch_size)
    finally:
        blocks.close()  # type: ignore[attr-defined]


def cut_into_batches(blocks: Iterator[tuple[Columns, bool]], size: int) -> Iterator[Columns]:
    """Cut blocks into batches of ``size`` rows, with a smaller last batch per epoch. Copies only batches that span
    blocks.
    """
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


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a worker's decoded records. The number of ``threads`` that read and decode affects only the speed."""

    storage: Storage
    shards: tuple[Shard, ...]
    order: Order
    decoder: BatchDecoder
    threads: int

    def blocks(self, epochs: Iterable[tuple[int, Epoch]]) -> Iterator[tuple[Columns, bool]]:
        """Yield the columns of each block, and whether it ends an epoch. ``epochs`` has the plans of epochs by number.

        At most ``threads + 1`` blocks are in memory, raw or decoded. Close the iterator to stop early, which ends the
        threads. Raises DamagedFile for a damaged shard.
        """
        waiting: deque[tuple[Future[Columns], bool]] = deque()
        pool = ThreadPoolExecutor(self.threads, "ctr-samples-reader")
        opened: list[TakenInTurn] = []
        scratch = Scratch()
        try:
            for number, epoch in epochs:
                # The end of the previous epoch may still be in progress.
                ending = [lane for lane in opened if not lane.is_done]
                lanes = [TakenInTurn(Lane(self.storage, self.shards, pieces, scratch)) for pieces in epoch.lanes]
                opened = [*ending, *lanes]
                for block in epoch.blocks:
                    lane = lanes[block.lane]
                    done = pool.submit(self._decoded, lane, lane.turn(), number, block, scratch)
                    waiting.append((done, block is epoch.blocks[-1]))
                    if len(waiting) > self.threads:
                        yield _first(waiting)
            while waiting:
                yield _first(waiting)
        finally:
            for lane in opened:
                lane.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            for lane in opened:
                lane.close()

    def _decoded(self, lane: TakenInTurn, turn: int, epoch: int, block: Block, scratch: Scratch) -> Columns:
        """Wait for the block's turn in the lane, read it, and decode it while other threads read. Runs in a thread."""
        runs = lane.read(turn, block.records)
        order, (first, stop) = None, block.rows
        if self.order.shuffle:
            order = self.order.permutation(epoch, block.number, block.records)[first:stop]
        columns = self.decoder.decode(Messages(runs, order))
        scratch.give(runs)
        return columns


def _first(waiting: deque[tuple[Future[Columns], bool]]) -> tuple[Columns, bool]:
    future, ends = waiting.popleft()
    return future.result(), ends


class TakenInTurn:
    """A lane whose blocks are read in order, regardless of the timing of the threads.

    Tasks start in the order of submission, so the task whose turn it is has always started.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._turns = 0
        self._next = 0
        self._changed = threading.Condition()

    @property
    def is_done(self) -> bool:
        """Whether all submitted blocks have been read."""
        return self._next == self._turns

    def turn(self) -> int:
        """Return the number of the next block to be submitted."""
        self._turns += 1
        return self._turns - 1

    def read(self, turn: int, records: int) -> list[EncodedBatch]:
        """Read the records of a block. After an error or a stop, raises _StoppedError instead of reading."""
        with self._changed:
            self._changed.wait_for(lambda: self._next in (turn, -1))
            if self._next == -1:
                raise _StoppedError
        after = -1
        try:
            runs = self._lane.read(records)
            after = turn + 1
            return runs
        finally:
            with self._changed:
                self._next = -1 if self._next == -1 else after
                self._changed.notify_all()

    def stop(self) -> None:
        """Stop all threads that wait for their turn; they raise _StoppedError."""
        with self._changed:
            self._next = -1
            self._changed.notify_all()

    def close(self) -> None:
        """Close the file. Call only when no thread reads any more."""
        self._lane.close()


class _StoppedError(Exception):
    """Raised in a thread whose block is no longer needed."""
