"""Features from the shards of an earlier generation, for a run that makes the same samples with other labels or features.

The rows of a run and the records of the shards are partitioned and sorted by the same hash. So each task reads the
shards of its own partition from start to end. The next record holds the features of the next row and must have the same
id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import StructType

from ctr_samples.codec import ExampleDecoder
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, DamagedFile, StorageError, UnusableFeatures
from ctr_samples.records.read import records_of
from ctr_samples.samples.columnar.blocks import Item
from ctr_samples.samples.columnar.counts import Counts
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.sink import by_split
from ctr_samples.shards import Shard, Storage
from ctr_samples.sparksql.releases import arrow_schema
from ctr_samples.sparksql.workers import current_task

_ID = "impression_id"


@dataclass(frozen=True, slots=True)
class EarlierFeatures:
    """Shards of an earlier generation that hold the features of a run. Pickled and sent to the executors."""

    storage: Storage
    shards: Sequence[Shard]
    contract: ExampleContract
    names: Collection[str] | None = None
    """The features that are taken. None stands for all."""

    def behind(self, rows: Stage, schema: StructType) -> Stage:
        """Add the features to samples in final order, with the types of ``schema``. Lazy.

        Execution raises UnusableFeatures unless rows and records match one to one.
        """
        return rows.then(_Task(self, schema), schema)

    def records(self, partition: int, split: str, types: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the ids and features of one split of a partition, in the order they were written."""
        specs = tuple(spec for spec in self.contract.features if self._takes(spec))
        decoder = ExampleDecoder(ExampleContract(specs, self.contract.record))
        for shard in self.shards:
            if (shard.partition, shard.split) == (partition, split):
                for chunk in records_of(self.storage, shard):
                    batch = decoder.decode_frames(chunk.buffer, chunk.offsets)
                    columns = [_as_type(batch.column(spec.name), types.field(spec.name).type) for spec in specs]
                    yield pa.RecordBatch.from_arrays(columns, [spec.name for spec in specs])

    def _takes(self, spec: FeatureSpec) -> bool:
        """Whether a column is read: the id, and the features that are taken."""
        if spec.name == _ID:
            return True
        return spec.role == "feature" and (self.names is None or spec.name in self.names)

    def splits(self, partition: int) -> set[str]:
        """Return the splits that have records in a partition."""
        return {shard.split for shard in self.shards if shard.partition == partition}


@dataclass(frozen=True, slots=True)
class _Task:
    """Adds features to the rows of one partition. Runs on an executor."""

    earlier: EarlierFeatures
    schema: StructType

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        try:
            yield from self._joined(items)
        except (ContractError, DamagedFile, StorageError) as error:
            raise UnusableFeatures(str(error)) from error

    def _joined(self, items: Iterable[Item]) -> Iterator[Item]:
        earlier, partition, types = self.earlier, current_task().partitionId(), arrow_schema(self.schema)
        waiting = {split: _Records(earlier.records(partition, split, types)) for split in earlier.splits(partition)}
        for item in items:
            if isinstance(item, Counts):
                yield item
                continue
            for split, rows in by_split(item):
                done = 0
                for found in waiting.get(split, _Records(iter(()))).take(rows.num_rows):
                    yield _with_features(rows.slice(done, found.num_rows), found, types)
                    done += found.num_rows
        if not all(records.at_end() for records in waiting.values()):
            raise UnusableFeatures("it has impressions that are missing now")


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

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the next ``count`` records in batches. Raises UnusableFeatures if there are fewer."""
        while count:
            if self.at_end():
                raise UnusableFeatures("it lacks some of the impressions")
            found, self._rest = self._rest.slice(0, count), self._rest.slice(count)
            count -= found.num_rows
            yield found


def _with_features(rows: pa.RecordBatch, records: pa.RecordBatch, types: pa.Schema) -> pa.RecordBatch:
    if not rows.column(_ID).equals(records.column(_ID)):
        raise UnusableFeatures("it has other impressions")
    own = set(rows.schema.names)
    columns = [(rows if name in own else records).column(name) for name in types.names]
    return pa.RecordBatch.from_arrays(columns, schema=types)


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a decoded column to the type that the joins produce. Unchecked, because Spark text may not be UTF-8."""
    while _levels(column.type) > _levels(kind):  # a multi-dimensional shape stored as one flat list in the source
        size = column.type.list_size * column.type.value_type.list_size
        column = pa.FixedSizeListArray.from_arrays(column.values.values, size, mask=column.is_null())
    return column.cast(kind, safe=False)


def _levels(kind: pa.DataType) -> int:
    return 1 + _levels(kind.value_type) if pt.is_nested(kind) else 0
