"""Write samples as TFRecord shards in one pass over Arrow batches; each task returns one receipt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from ctr_samples.contract import ExampleContract
from ctr_samples.quality.measure.collecting import Collector, Wanted
from ctr_samples.records.write import shard_writer
from ctr_samples.samples.features import SHUFFLE, SPLIT
from ctr_samples.shards import Receipt, Storage
from ctr_samples.sparksql.observations import Progress

_RECEIPT = "receipt string"


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
    """Integer columns that order the rows of a split."""


def write_shards(samples: DataFrame, plan: SinkPlan, progress: Progress) -> list[Receipt]:
    """Run the job's single action over samples in final order, and return the receipts that reach the driver.

    The tasks run on executors, possibly several times per partition; Spark uses the result of one attempt per
    partition. Files of other attempts remain, but no receipt lists them.
    """
    rows = samples.mapInArrow(_Task(plan, progress), _RECEIPT).collect()
    return [Receipt.from_json(row["receipt"]) for row in rows]


@dataclass(frozen=True, slots=True)
class _Task:
    """Writes one partition. Runs on an executor, once per attempt.

    Any error fails the attempt and leaves its open files invisible; Spark then retries. The iterator also ends without
    an error if the JVM side of the task fails. So finishing here proves nothing; only a receipt that reaches the
    driver does.
    """

    plan: SinkPlan
    progress: Progress

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan, context = self.plan, TaskContext.get()
        assert context is not None
        names = plan.contract.names()
        collector = None if plan.wanted is None else Collector(plan.wanted, context.partitionId())
        last: tuple[Any, ...] = ("",)
        requests = 0
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
            for batch in batches:
                for split, rows in by_split(batch):
                    first, last = _in_order(split, [rows.column(name).to_numpy() for name in plan.order], last)
                    requests += first
                    writer.write(rows.select(names), split)
                    if collector is not None:
                        collector.observe(rows, split)
            receipt = writer.close()
        if len(plan.order) > 1:
            receipt = replace(receipt, requests=requests)
        if collector is not None:
            receipt = replace(receipt, measures=collector.close())
        self.progress.samples.add(sum(shard.records for shard in receipt.shards))
        self.progress.shards.add(len(receipt.shards))
        yield pa.RecordBatch.from_pydict({"receipt": [receipt.to_json()]})


def _in_order(
    split: str, places: Sequence[npt.NDArray[np.int64]], last: tuple[Any, ...]
) -> tuple[int, tuple[Any, ...]]:
    """Return how many values of the first column begin in these rows of a split, and the position of the last row.

    ``places`` are the columns of the order. Raises RuntimeError if the rows are not in final order after ``last``: Spark
    preserves row order through a broadcast join, but does not guarantee it.
    """
    begins, ends = ((split, *[int(column[row]) for column in places]) for row in (0, -1))
    below = np.zeros(len(places[0]) - 1, np.bool_)
    equal = ~below
    for column in places:
        below |= equal & (column[:-1] > column[1:])
        equal &= column[:-1] == column[1:]
    if begins < last or below.any():
        raise RuntimeError(
            "Samples are not in their final order, so the shards would change from run to run; report it."
        )
    changes = np.count_nonzero(places[0][1:] != places[0][:-1])
    return int(changes) + (begins[:2] != last[:2]), ends


def by_split(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split a batch into runs of rows with the same split. Sorted input has few runs, and slicing copies nothing."""
    if batch.num_rows == 0:
        return
    runs = pc.run_end_encode(batch.column(SPLIT))
    start = 0
    for end, split in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield split, batch.slice(start, end - start)
        start = end
