"""Keys with too many impressions for one task: several tasks share them, each with a copy of the key's rows."""

from __future__ import annotations

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

_MOST_KEYS = 1000


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


def measure_hot_keys(keys: DataFrame, share: float, least_rows: int) -> tuple[str, ...]:
    """Return the keys with at least ``least_rows`` rows, as text, most frequent first, given the keys of a ``share`` of the
    rows in the column ``key``. Runs a Spark job.
    """
    named = keys.select(F.col(KEY).cast("string")).where(F.col(KEY).isNotNull())
    counts = named.groupBy(KEY).agg((F.count(F.lit(1)) / F.lit(share)).alias("rows")).where(F.col("rows") >= least_rows)
    return tuple(row[KEY] for row in counts.orderBy(F.col("rows").desc(), KEY).limit(_MOST_KEYS).collect())
