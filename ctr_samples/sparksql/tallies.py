"""Exact histogram of small integers by one aggregate, the same however rows are spread over tasks."""

from __future__ import annotations

import struct

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

_SEED = 1_003_792_688
"""Seed for which Java's generator draws 1 first, so that Spark's sketch hashes a number to itself."""
_HEADER = struct.Struct(">iqiiq")
"""Header of Spark's count-min sketch: version, total, rows, width and the multiplier of the row."""


def tally(number: Column, most: int) -> Column:
    """Aggregate: count each integer from 0 to ``most - 1``, for :func:`counted`; nulls do not count.

    It is a count-min sketch with a single row that has room for each number, so that no two share a counter.
    """
    width = max(2, most)
    return F.count_min_sketch(number.cast("int"), F.lit(2 / (width - 0.5)), F.lit(0.4), F.lit(_SEED))


def counted(sketch: bytes) -> dict[int, int]:
    """Return the numbers that occur, with their counts."""
    _, _, rows, width, multiplier = _HEADER.unpack_from(sketch)
    assert (rows, multiplier) == (1, 1), "a sketch of tally() has a counter for each number"
    counters = np.frombuffer(sketch, ">i8", width, _HEADER.size)
    return {int(number): int(counters[number]) for number in np.flatnonzero(counters)}
