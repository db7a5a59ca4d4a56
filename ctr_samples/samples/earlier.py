"""Features from the shards of an earlier generation, for a run that makes the same samples with other labels or features.
Whole samples, for a run that leaves out or renames features.

The rows of a run and the records of the shards are partitioned and sorted by the same hash. So each task reads the shards of
its own partition from start to end. The next record holds the features of the next row and must have the same id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ctr_samples.codec import ExampleDecoder
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import ContractError, DamagedFile, StorageError, UnusableFeatures
from ctr_samples.records.read import records_of
from ctr_samples.samples.columnar.blocks import Item
from ctr_samples.samples.columnar.columns import flags, integers, shuffle_hashes
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.features.row import SHUFFLE, SPLIT, SPLITS
from ctr_samples.samples.sink import by_split
from ctr_samples.shards import Shard, Storage
from ctr_samples.sparksql.workers import current_task

_ID = "impression_id"


@dataclass(frozen=True, slots=True)
class EarlierFeatures:
    """Shards of an earlier generation that hold features of a run. Pickled and sent to the executors.

    ``names`` has the features that are taken, with the names they had then. None stands for all.
    """

    storage: Storage
    shards: Sequence[Shard]
    contract: ExampleContract
    names: Mapping[str, str] | None = None
    few: bool = False
    """Whether the run leaves out samples that the shards have."""

    def behind(self, rows: Stage) -> Stage:
        """Add the features to samples in final order. Lazy.

        Execution raises UnusableFeatures unless rows and records match one to one or, if there are ``few``, unless each row
        has a record.
        """
        return rows.then(partial(_beside, self), rows.kind)

    def samples(self, spark: SparkSession, partitions: int) -> Stage:
        """Return all samples of the generation, in their order, with their labels, split and hash. Lazy.

        Execution raises UnusableFeatures if a shard cannot be read.
        """
        every = spark.range(0, partitions, 1, partitions).toDF("partition")
        return Stage(every, StructType(), (partial(_all, self),))

    def records(self, partition: int, split: str, *, whole: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the ids and features of one split of a partition as written; with ``whole``, labels, masks and weights too."""
        names = self._names(whole=whole)
        specs = tuple(spec for spec in self.contract.features if spec.name in names.values())
        decoder = ExampleDecoder(ExampleContract(specs, self.contract.record))
        for shard in self.shards:
            if (shard.partition, shard.split) == (partition, split):
                for chunk in records_of(self.storage, shard):
                    batch = decoder.decode_frames(chunk.buffer, chunk.offsets)
                    yield batch.select([*names.values()]).rename_columns([*names])

    def _names(self, *, whole: bool) -> dict[str, str]:
        """Return the columns that are read, with the names they had then."""
        taken = {name: name for name in self.contract.names("feature")} if self.names is None else self.names
        others = [f.name for f in self.contract.features if f.role != "feature"]
        return {**taken, **{name: name for name in others if whole or name == _ID}}

    def splits(self, partition: int) -> set[str]:
        """Return the splits that have records in a partition."""
        return {shard.split for shard in self.shards if shard.partition == partition}


def _beside(earlier: EarlierFeatures, items: Iterable[Item]) -> Iterator[Item]:
    """Add features to the rows of one partition. Runs on an executor."""
    partition = current_task().partitionId()
    with _unusable():
        waiting = {split: _Records(earlier.records(partition, split)) for split in earlier.splits(partition)}
        for item in items:
            if not isinstance(item, pa.RecordBatch):
                yield item
                continue
            for split, rows in by_split(item):
                done = 0
                records = waiting.get(split, _Records(iter(())))
                ids = rows.column(_ID) if earlier.few else None
                for found in records.take(rows.num_rows, ids):
                    yield _with_features(rows.slice(done, found.num_rows), found)
                    done += found.num_rows
        if not earlier.few and not all(records.at_end() for records in waiting.values()):
            raise UnusableFeatures("it has impressions that are missing now")


def _all(earlier: EarlierFeatures, items: Iterable[Item]) -> Iterator[Item]:
    """Yield all samples of the task's partition. Runs on an executor."""
    partition = current_task().partitionId()
    yield from (item for item in items if not isinstance(item, pa.RecordBatch))
    with _unusable():
        for split in sorted(earlier.splits(partition)):
            for rows in earlier.records(partition, split, whole=True):
                places = pa.array(shuffle_hashes(integers(rows.column(_ID))))
                number = pa.scalar(SPLITS.index(split), pa.int8())
                yield rows.append_column(SPLIT, pa.repeat(number, len(places))).append_column(SHUFFLE, places)


@contextmanager
def _unusable() -> Iterator[None]:
    """Turn errors of shards that cannot be read into UnusableFeatures."""
    try:
        yield
    except (ContractError, DamagedFile, StorageError) as error:
        raise UnusableFeatures(str(error)) from error


class _Records:
    """Records of one split, read in sequence."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest = pa.RecordBatch.from_pydict({})

    def at_end(self) -> bool:
        """Return whether all records have been read."""
        while not self._rest.num_rows:
            following = next(self._batches, None)
            if following is None:
                return True
            self._rest = following
        return False

    def take(self, count: int, ids: pa.Array | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the next ``count`` records, of those with ``ids`` if given. Raises UnusableFeatures if there are fewer."""
        while count:
            if self.at_end():
                raise UnusableFeatures("it lacks some of the impressions")
            if ids is None:
                found, self._rest = self._rest.slice(0, count), self._rest.slice(count)
            else:
                places = np.flatnonzero(flags(pc.is_in(self._rest.column(_ID), value_set=ids)))[:count]
                found = self._rest.take(pa.array(places))
                self._rest = self._rest.slice(int(places[-1]) + 1 if len(places) == count else self._rest.num_rows)
            count -= found.num_rows
            yield found


def _with_features(rows: pa.RecordBatch, records: pa.RecordBatch) -> pa.RecordBatch:
    if not rows.column(_ID).equals(records.column(_ID)):
        raise UnusableFeatures("it has other impressions")
    columns = dict(zip(records.schema.names, records.columns, strict=True))
    return pa.RecordBatch.from_pydict(columns | dict(zip(rows.schema.names, rows.columns, strict=True)))
