"""Read and decode ahead in threads, in an order independent of the threads, with bounded memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ctr_samples.codec import EncodedBatch
from ctr_samples.codec.decoder import Messages
from ctr_samples.readers.arrays import Columns
from ctr_samples.readers.batch_decoder import BatchDecoder
from ctr_samples.readers.lanes import Lane, Scratch
from ctr_samples.readers.order import Block, Order
from ctr_samples.shards import Shard, Storage


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a worker's decoded records. The number of ``threads`` that read and decode affects only the speed."""

    storage: Storage
    shards: tuple[Shard, ...]
    order: Order
    decoder: BatchDecoder
    threads: int

    def blocks(self, epochs: Iterable[tuple[int, int]]) -> Iterator[tuple[Columns, bool]]:
        """Yield the columns of each block, and whether it ends an epoch. ``epochs`` has epoch numbers and records to
        skip.

        At most ``threads + 1`` blocks are in memory, raw or decoded. Close the iterator to stop early, which ends the
        threads. Raises DamagedFile for a damaged shard.
        """
        waiting: deque[tuple[Future[Columns], bool]] = deque()
        pool = ThreadPoolExecutor(self.threads, "ctr-samples-reader")
        opened: list[TakenInTurn] = []
        scratch = Scratch()
        try:
            for number, skip in epochs:
                epoch = self.order.epoch(number, skip)
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
        order = None
        if self.order.shuffle:
            order = self.order.permutation(epoch, block.number, block.records)[block.drop :]
        columns = self.decoder.decode(Messages(runs, order))
        scratch.give(runs)
        if order is None and block.drop:
            return columns.rows(block.drop, block.records)
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
