"""The final order of samples, by split and then by the hashes of the request and of the impression, and their TFRecord shards,
written in one pass over Arrow batches; each task returns one receipt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ctr_samples.contract import ExampleContract
from ctr_samples.quality.measure.collecting import Collector, Wanted
from ctr_samples.records.write import shard_writer
from ctr_samples.samples.columnar.blocks import FINAL_ORDER, Counts, Item, murmur3_of_longs
from ctr_samples.samples.columnar.columns import BATCH, Integers, in_order, integers, shuffle_hashes
from ctr_samples.samples.columnar.stages import Shuffle, Stage, TaskCounts
from ctr_samples.samples.features.row import IMPRESSION, SHUFFLE, SPLIT, SPLITS
from ctr_samples.shards import Receipt, RequestCounts, Storage
from ctr_samples.sparksql.observations import Progress


def with_shuffle(impressions: Stage) -> Stage:
    """Add the hash of each impression's id that orders the samples."""
    return impressions.each(_hashed, _with_hash(impressions.kind))


def _with_hash(kind: StructType) -> StructType:
    return StructType([*kind, StructField(SHUFFLE, LongType())])


def _hashed(rows: Any) -> Any:
    """Return a batch or table with the hashes of its ids."""
    return rows.append_column(SHUFFLE, pa.array(shuffle_hashes(_ids(rows))))


def _ids(rows: pa.RecordBatch | pa.Table) -> Integers:
    return integers(pc.struct_field(rows.column(IMPRESSION), "impression_id"))


def in_final_order(rows: Stage, partitions: int, order: Sequence[str]) -> Stage:
    """Partition and sort rows by split and by the hashes of ``order``. The result is the same in every run. Adds the hash of
    each id, which two tasks compute, so that the shuffle is smaller.

    Ordered by their own hashes, samples of one user or hour end up far apart, so a reader needs only a small shuffle
    buffer. Ordered by request, samples of a request are adjacent, in one partition.
    """
    place = partial(_place_of_hash, order[0])
    return Stage(Shuffle((rows,), (place,), partitions, _Sort(tuple(order)), FINAL_ORDER), _with_hash(rows.kind))


def _place_of_hash(name: str, rows: pa.RecordBatch) -> Integers:
    """Place samples by a hash, in the partition that Spark's ``repartition`` chooses. Runs on executors."""
    return murmur3_of_longs(shuffle_hashes(_ids(rows)) if name == SHUFFLE else integers(rows.column(name)))


@dataclass(frozen=True, slots=True)
class _Sort:
    """Sorts the samples of a partition. Runs on an executor."""

    order: tuple[str, ...]

    def __call__(self, tables: list[pa.Table], counts: Counts) -> Iterator[pa.RecordBatch]:
        rows = _hashed(tables.pop().combine_chunks())
        places = in_order([*[integers(rows.column(name)) for name in (SPLIT, *self.order)], _ids(rows)])
        for start in range(0, rows.num_rows, BATCH):
            yield from rows.take(pa.array(places[start : start + BATCH])).combine_chunks().to_batches()


_RECEIPT = StructType([StructField("receipt", StringType())])


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """Settings that every task needs. Pickled and sent to the executors."""

    storage: Storage
    directory: str
    contract: ExampleContract
    compression: Literal["none", "gzip", "zlib"]
    shard_size: int
    engine: Literal["native", "tensorflow"] = "native"
    wanted: Wanted | None = None
    """Measurements of the samples to collect, if any."""
    order: tuple[str, ...] = (SHUFFLE,)
    """Integer columns that order the rows of a split. Without any, rows stay in their order."""


def write_shards(
    samples: Stage, plan: SinkPlan, progress: Progress, counted: TaskCounts | None = None
) -> list[Receipt]:
    """Run the job's single action over samples in final order, and return the receipts that reach the driver.

    ``counted`` receives the counts of the tasks.

    The tasks run on executors, possibly several times per partition; Spark uses the result of one attempt per
    partition. Files of other attempts remain, but no receipt lists them.
    """
    rows = samples.then(_Task(plan, progress), _RECEIPT).rows(counted).collect()
    return [Receipt.from_json(row["receipt"]) for row in rows]


@dataclass(frozen=True, slots=True)
class _Task:
    """Writes one partition. Runs on an executor, once per attempt.

    Any error fails the attempt and leaves its open files invisible; Spark then retries. The iterator also ends without an error
    if the JVM side of the task fails. So finishing here proves nothing; only a receipt that reaches the driver does.
    """

    plan: SinkPlan
    progress: Progress

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        plan, context = self.plan, TaskContext.get()
        assert context is not None
        names = plan.contract.names()
        collector = None if plan.wanted is None else Collector(plan.wanted, context.partitionId())
        in_order, requests = InOrder(), Runs()
        by_request = len(plan.order) > 1
        with shard_writer(
            plan.storage,
            plan.directory,
            plan.contract,
            compression=plan.compression,
            shard_size=plan.shard_size,
            partition=context.partitionId(),
            attempt=context.taskAttemptId(),
            engine=plan.engine,
        ) as writer:
            for item in items:
                if not isinstance(item, pa.RecordBatch):
                    yield item
                    continue
                for split, rows in by_split(item):
                    places = [rows.column(name).to_numpy() for name in plan.order]
                    if places:
                        in_order.check(split, places)
                    if by_request:
                        requests.add(split, places[0])
                    writer.write(rows.select(names), split)
                    if collector is not None:
                        collector.observe(rows, split)
            receipt = writer.close()
        if by_request:
            receipt = replace(receipt, requests=requests.closed())
        if collector is not None:
            receipt = replace(receipt, measures=collector.close())
        self.progress.samples.add(sum(shard.records for shard in receipt.shards))
        self.progress.shards.add(len(receipt.shards))
        yield pa.RecordBatch.from_pydict({"receipt": [receipt.to_json()]})


class InOrder:
    """Check that the rows of a task are in their final order, which Spark keeps in a broadcast join but does not guarantee."""

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ("",)

    def check(self, split: str, places: Sequence[npt.NDArray[np.int64]]) -> None:
        """Raise RuntimeError unless the rows of a split are in order, after those before. ``places`` has their hashes."""
        begins, ends = ((split, *[int(column[row]) for column in places]) for row in (0, -1))
        below = np.zeros(len(places[0]) - 1, np.bool_)
        equal = ~below
        for column in places:
            below |= equal & (column[:-1] > column[1:])
            equal &= column[:-1] == column[1:]
        if begins < self._last or below.any():
            raise RuntimeError(
                "Samples are not in their final order, so the shards would change from run to run; report it."
            )
        self._last = ends


class Runs:
    """Runs of adjacent rows with the same request, in all batches of a task."""

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()
        self._open = 0
        self._count = self._squares = self._largest = 0

    def add(self, split: str, requests: npt.NDArray[np.int64]) -> None:
        """Add the hashes of the requests of the rows of a split, in order."""
        if (split, requests[0]) != self._last:
            self._end()
        limits = np.flatnonzero(requests[1:] != requests[:-1]) + 1
        lengths = np.diff(np.r_[0, limits, len(requests)])
        lengths[0] += self._open
        self._close(lengths[:-1])
        self._open = int(lengths[-1])
        self._last = (split, requests[-1])

    def _end(self) -> None:
        if self._open:
            self._close(np.array([self._open]))
        self._open = 0

    def _close(self, lengths: npt.NDArray[np.int64]) -> None:
        self._count += len(lengths)
        self._squares += int(np.square(lengths).sum())
        self._largest = max(self._largest, int(lengths.max(initial=0)))

    def closed(self) -> RequestCounts:
        """End the last run, and return the counts."""
        self._end()
        return RequestCounts(self._count, self._squares, self._largest)


def by_split(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split a batch into runs of rows with the same split. Sorted input has few runs, and slicing copies nothing."""
    if batch.num_rows == 0:
        return
    runs = pc.run_end_encode(batch.column(SPLIT))
    start = 0
    for end, split in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield SPLITS[split], batch.slice(start, end - start)
        start = end
