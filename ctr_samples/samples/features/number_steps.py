"""Steps for numbers: clip, logarithm, scaling by fitted moments, and bucket ids."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType

from ctr_samples.config import Feature
from ctr_samples.samples.features.values import Value

MISSING_BUCKET = 0
"""Bucket id of a missing value and of NaN."""


def before_scaling(value: Value, feature: Feature) -> Value:
    """Apply `clip` and `log1p`. Moments and quantiles are fitted on the result. NaN and null remain unchanged."""
    if feature.clip is not None:
        low, high = feature.clip
        value = value.each(
            lambda x: _unless_missing(x, F.when(x < low, low).when(x > high, high).otherwise(x)), DoubleType()
        )
    if feature.log1p:
        value = value.each(lambda x: _unless_missing(x, _log1p(x, value.where)), DoubleType())
    return value


def scaled(value: Value, shift: Sequence[float], scale: Sequence[float]) -> Value:
    """Return ``(x - shift) / scale``. A vector has moments per position; all items of a variable-length list share
    them.
    """
    if len(shift) == 1:
        return value.each(lambda x: (x - shift[0]) / scale[0], DoubleType())
    shifts, scales = F.lit(list(shift)), F.lit(list(scale))
    # A list may be shorter or longer than its shape; it is padded or cut later.
    column = F.transform(value.column, lambda x, i: (x - F.get(shifts, i)) / F.get(scales, i))
    return Value(column, value.kind, value.where)


def bucketised(value: Value, boundaries: Sequence[float]) -> Value:
    """Return bucket ids: 0 for a missing value, else 1 plus the number of boundaries at or below the value."""

    def bucket(x: Column) -> Column:
        number = _searched(x, boundaries, MISSING_BUCKET + 1)
        return F.when(x.isNull() | F.isnan(x), MISSING_BUCKET).otherwise(number).cast("bigint")

    return value.each(bucket, LongType())


def _searched(x: Column, boundaries: Sequence[float], first: int) -> Column:
    """Return a binary search as an expression. It is shallow, and compares each row with few boundaries."""
    if not boundaries:
        return F.lit(first)
    middle = len(boundaries) // 2
    below = _searched(x, boundaries[:middle], first)
    return F.when(x < boundaries[middle], below).otherwise(_searched(x, boundaries[middle + 1 :], first + middle + 1))


def _unless_missing(x: Column, changed: Column) -> Column:
    return F.when(x.isNull() | F.isnan(x), x).otherwise(changed)


def _log1p(x: Column, where: str) -> Column:
    # Spark returns null where log1p is undefined, which would pass for a missing value.
    problem = F.concat(
        F.lit(f"{where}: found "),
        x.cast("string"),
        F.lit(", expected a number above -1 for `log1p`; set `clip: [0, ...]`."),
    )
    return F.when(x > -1, F.log1p(x)).otherwise(F.raise_error(problem).cast("double"))
