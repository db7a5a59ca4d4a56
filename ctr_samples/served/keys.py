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

from ctr_samples.contract import FeatureSpec
from ctr_samples.samples.impressions import DROPPED, cut_impressions
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.served.columns import Column, together

_TIME_BITS = 38
"""Bits of a time within the days of the impressions, in microseconds: three days."""

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class ImpressionIndex:
    """The impressions of a day by key and time. ``far`` and ``tied`` count the lines that found none: whose time is too far
    from each impression of their keys, or as near to two.
    """

    codes: npt.NDArray[np.uint64]
    places: Numbers
    ids: Numbers
    start: int
    within: int
    far: int = 0
    tied: int = 0
    nearest: int = 0
    """How far the time of the last line that was too far is from an impression of its keys, in microseconds."""

    @classmethod
    def of(cls, inputs: Inputs, names: Sequence[str], within: timedelta) -> Self:
        """Collect the ids, keys and times of the impressions of a day, about 40 bytes each. Runs a Spark job."""
        shown = inputs.config.impressions
        cut = cut_impressions(inputs.plain(shown.source), shown, inputs.span, timedelta())
        mine = cut.where(F.col(DROPPED).isNull() & inputs.span.contains(F.col("impression_time")))
        keys = [F.col(name).cast("string").alias(f"_{name}") for name in names]
        table = mine.select("impression_id", F.unix_micros("impression_time").alias("at"), *keys).toArrow()
        times = np.asarray(table.column("at").to_numpy(), np.int64)
        start = int(times.min()) if len(times) else 0
        codes = _codes([table.column(f"_{name}") for name in names])
        known = np.unique(codes)
        places = (np.searchsorted(known, codes).astype(np.int64) << _TIME_BITS) + (times - start)
        order = np.argsort(places, kind="stable")
        ids = np.asarray(table.column("impression_id").to_numpy(), np.int64)
        return cls(known, places[order], ids[order], start, within // timedelta(microseconds=1))

    def find(self, keys: Sequence[pa.Array], times: Numbers | None) -> pa.Array:
        """Return the id of each line, or null. Without times, keys must be those of one impression of the day."""
        codes = _codes(keys)
        rank = np.minimum(np.searchsorted(self.codes, codes), max(0, len(self.codes) - 1))
        there = self.codes[rank] == codes if len(self.codes) else np.zeros(len(codes), np.bool_)
        first = rank.astype(np.int64) << _TIME_BITS
        low, high = np.searchsorted(self.places, first), np.searchsorted(self.places, first + (1 << _TIME_BITS))
        if times is None:
            single = there & (high - low == 1)
            self.tied += int((there & (high - low > 1)).sum())
            return pa.array(self.ids[np.where(single, low, 0)], mask=~single)
        at = times - self.start
        after = np.clip(np.searchsorted(self.places, first + np.clip(at, 0, (1 << _TIME_BITS) - 1)), low, high)
        apart = [self._apart(np.clip(place, low, np.maximum(high - 1, low)), first, at) for place in (after - 1, after)]
        chosen = np.where(apart[0] < apart[1], np.maximum(after - 1, low), np.minimum(after, np.maximum(high - 1, low)))
        distance = np.minimum(apart[0], apart[1])
        two = (apart[0] == apart[1]) & (after > low) & (after < high)
        near = there & (distance <= self.within)
        far = there & ~near
        self.far += int(far.sum())
        self.tied += int((near & two).sum())
        if far.any():
            self.nearest = int(np.median(distance[far]))
        good = near & ~two
        return pa.array(self.ids[np.where(good, chosen, 0)], mask=~good)

    def _apart(self, places: Numbers, first: Numbers, at: Numbers) -> Numbers:
        within = np.clip(places, 0, max(0, len(self.places) - 1))
        return np.abs(self.places[within] - first - at) if len(self.places) else np.full(len(at), 1 << 62)


def _codes(keys: Sequence[pa.Array | pa.ChunkedArray]) -> npt.NDArray[np.uint64]:
    text = FeatureSpec("key", "bytes")
    return together([Column.of(key.cast(pa.string()), text, "served.keys") for key in keys])
