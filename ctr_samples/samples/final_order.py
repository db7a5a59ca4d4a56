"""The final order of samples: by split, then by the hashes of the request and of the impression. One shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import LongType, StructField, StructType

from ctr_samples.samples.columnar.blocks import FINAL_ORDER, murmur3_of_longs
from ctr_samples.samples.columnar.columns import BATCH, Integers, in_order, integers, shuffle_hashes, whole
from ctr_samples.samples.columnar.counts import Counts
from ctr_samples.samples.columnar.stages import Shuffle, Stage
from ctr_samples.samples.features.row import IMPRESSION, SHUFFLE, SPLIT

_SPLITS = pa.array(["eval", "test", "train"])


def with_shuffle(impressions: Stage) -> Stage:
    """Add the hash of each impression's id that orders the samples."""
    kind = StructType([*impressions.kind, StructField(SHUFFLE, LongType())])
    return impressions.each(_hashed, kind)


def _hashed(rows: pa.RecordBatch) -> pa.RecordBatch:
    hashes = shuffle_hashes(integers(pc.struct_field(rows.column(IMPRESSION), "impression_id")))
    return rows.append_column(SHUFFLE, pa.array(hashes))


def in_final_order(rows: Stage, partitions: int, order: Sequence[str]) -> Stage:
    """Partition and sort rows by split and by the hashes of ``order``. The result is the same in every run.

    Ordered by their own hashes, samples of one user or hour end up far apart, so a reader needs only a small shuffle
    buffer. Ordered by request, samples of a request are adjacent, in one partition.
    """
    return Stage(
        Shuffle((rows,), (partial(_place_of_hash, order[0]),), partitions, _Sort(tuple(order)), FINAL_ORDER), rows.kind
    )


def _place_of_hash(name: str, rows: pa.RecordBatch) -> Integers:
    """Place samples by a hash, in the partition that Spark's ``repartition`` chooses. Runs on executors."""
    return murmur3_of_longs(integers(rows.column(name)))


@dataclass(frozen=True, slots=True)
class _Sort:
    """Sorts the samples of a partition. Runs on an executor."""

    order: tuple[str, ...]

    def __call__(self, tables: list[pa.Table], counts: Counts) -> Iterator[pa.RecordBatch]:
        rows = tables.pop().combine_chunks()
        split = integers(pc.index_in(whole(rows[SPLIT]), value_set=_SPLITS))
        ids = integers(pc.struct_field(whole(rows[IMPRESSION]), "impression_id"))
        places = in_order([split, *[integers(rows[name]) for name in self.order], ids])
        for start in range(0, rows.num_rows, BATCH):
            yield from rows.take(pa.array(places[start : start + BATCH])).combine_chunks().to_batches()
