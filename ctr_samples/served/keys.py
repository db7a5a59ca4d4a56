"""Find the impressions of served lines that have keys and a time in place of an id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F

from ctr_samples.samples.impressions import DROPPED, cut_impressions
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.labels.plans import impression_reach
from ctr_samples.served.columns import Ints, hashes_of_text


@dataclass(slots=True)
class ImpressionIndex:
    """The impressions of a day by key and time. ``far`` and ``tied`` count the lines that found none: whose time is too far
    from each impression of their keys, or as near to two.
    """

    codes: npt.NDArray[np.uint64]
    begins: Ints
    """Where the impressions of each code begin, and where the last ones end."""
    times: Ints
    ids: Ints
    within: int
    far: int = 0
    tied: int = 0
    unknown: int = 0
    """Lines whose keys no impression has."""
    nearest: int = 0
    """How far the time of the last line that was too far is from an impression of its keys, in microseconds."""

    @classmethod
    def of(cls, inputs: Inputs, names: Sequence[str], within: timedelta) -> Self:
        """Collect the ids, keys and times of the impressions of a day, about 40 bytes each. Runs a Spark job."""
        shown = inputs.config.impressions
        cut = cut_impressions(
            inputs.uncounted(shown.source),
            shown,
            inputs.span,
            inputs.partitions(),
            impression_reach(inputs.config, inputs.span),
        )
        mine = cut.where(F.col(DROPPED).isNull() & inputs.span.contains(F.col("impression_time")))
        keys = [F.col(name).cast("string").alias(f"_{name}") for name in names]
        table = mine.select("impression_id", F.unix_micros("impression_time").alias("at"), *keys).toArrow()
        times = np.asarray(table.column("at").to_numpy(), np.int64)
        codes = codes_of([table.column(f"_{name}").combine_chunks() for name in names])
        known, rank = np.unique(codes, return_inverse=True)
        order = np.lexsort((times, rank))
        begins = np.searchsorted(rank[order], np.arange(len(known) + 1))
        ids = np.asarray(table.column("impression_id").to_numpy(), np.int64)
        return cls(known, begins, times[order], ids[order], within // timedelta(microseconds=1))

    @property
    def lost(self) -> int:
        """Lines that found no impression."""
        return self.far + self.tied + self.unknown

    def find(self, keys: Sequence[pa.Array], times: Ints | None) -> pa.Array:
        """Return the id of each line, or null. Without times, keys must be those of one impression of the day."""
        codes = codes_of(keys)
        if not len(self.codes):
            self.unknown += len(codes)
            return pa.nulls(len(codes), pa.int64())
        rank = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        there = self.codes[rank] == codes
        self.unknown += int((~there).sum())
        low, high = self.begins[rank], self.begins[rank + 1]
        if times is None:
            single = there & (high - low == 1)
            self.tied += int((there & (high - low > 1)).sum())
            return pa.array(self.ids[np.where(single, low, 0)], mask=~single)
        after = self._first_at(times, low, high)
        earlier, later = np.maximum(after - 1, low), np.minimum(after, high - 1)
        apart = [np.abs(self.times[place] - times) for place in (earlier, later)]
        chosen = np.where(apart[0] < apart[1], earlier, later)
        distance = np.minimum(*apart)
        two = (apart[0] == apart[1]) & (earlier != later)
        near = there & (distance <= self.within)
        far = there & ~near
        self.far += int(far.sum())
        self.tied += int((near & two).sum())
        if far.any():
            self.nearest = int(np.median(distance[far]))
        good = near & ~two
        return pa.array(self.ids[np.where(good, chosen, 0)], mask=~good)

    def _first_at(self, times: Ints, low: Ints, high: Ints) -> Ints:
        """Return the place of the first impression at or after each time, among those from ``low`` to ``high``: by halving
        all intervals at once.
        """
        low, high = low.copy(), high.copy()
        while (open_ := low < high).any():
            middle = (low + high) // 2
            below = open_ & (self.times[np.minimum(middle, len(self.times) - 1)] < times)
            low = np.where(below, middle + 1, low)
            high = np.where(open_ & ~below, middle, high)
        return low


def codes_of(keys: Sequence[pa.Array]) -> npt.NDArray[np.uint64]:
    """Return a number for the keys of each row: different keys have different ones, up to collisions of 64 bits."""
    codes = np.zeros(len(keys[0]), np.uint64)
    with np.errstate(over="ignore"):
        for key in keys:
            codes = codes * np.uint64(0x9E3779B97F4A7C15) + hashes_of_text(key)
    return codes
