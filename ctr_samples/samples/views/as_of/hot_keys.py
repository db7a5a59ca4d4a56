"""Keys with too many impressions for one task: several tasks share them, each with a copy of the key's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.samples.columnar.blocks import PLACE
from ctr_samples.samples.columnar.columns import Integers
from ctr_samples.samples.columnar.stages import place_of
from ctr_samples.samples.views.as_of.matching import COPY, KEY

MOST_COPIES = 32
"""Maximum number of tasks that share a key."""


@dataclass(frozen=True, slots=True)
class HotKeys:
    """Hot keys, as text."""

    keys: tuple[str, ...] = ()

    def placed(self, rows: DataFrame, partitions: int) -> DataFrame:
        """Add the places of a view's rows. A row of a hot key has several, each with the number of the copy."""
        place = place_of([F.col(KEY)])
        if not self.keys:
            return rows.withColumn(PLACE, place)
        copies = F.when(F.col(KEY).cast("string").isin(*self.keys), F.lit(min(partitions, MOST_COPIES))).otherwise(
            F.lit(1)
        )
        each = rows.withColumn(COPY, F.explode(F.sequence(F.lit(0), copies - 1)))
        return each.withColumn(PLACE, F.pmod(place, F.lit(partitions)) + F.col(COPY))

    def spread(self, places: Integers, keys: pa.Array, ids: Integers, partitions: int) -> Integers:
        """Return the places of impressions, given those of their keys: one of the copies. Runs on executors."""
        if not self.keys:
            return places
        hot = pc.is_in(keys, value_set=pa.array(self.keys, keys.type)).to_numpy(zero_copy_only=False)
        return np.where(hot, places % partitions + ids % min(partitions, MOST_COPIES), places)


NONE_HOT = HotKeys()


def measure_hot_keys(
    frames: Sequence[tuple[DataFrame, str, float]], least_rows: int, most_keys: int = 1000
) -> tuple[str, ...]:
    """Return the keys with at least ``least_rows`` rows in all frames combined, as text, most frequent first.

    Runs a Spark job. Each frame comes with its key column and its sampling fraction: 1 for all rows, less for a sample.
    """
    counts = None
    for frame, key, share in frames:
        named = frame.select(F.col(key).cast("string").alias(KEY)).where(F.col(KEY).isNotNull())
        own = named.groupBy(KEY).agg((F.count(F.lit(1)) / F.lit(share)).alias("rows"))
        counts = own if counts is None else counts.unionByName(own)
    assert counts is not None
    total = counts.groupBy(KEY).agg(F.sum("rows").alias("rows")).where(F.col("rows") >= least_rows)
    top = total.orderBy(F.col("rows").desc(), KEY).limit(most_keys)
    return tuple(row[KEY] for row in top.collect())
