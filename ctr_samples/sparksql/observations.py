"""Counts that Spark collects as a by-product of a run's single action, and who is told of its progress.

Observations are exact even if tasks fail and are retried. If Spark skips a part of the plan because it is empty, its
observation has no values and counts as zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol, Self

import numpy as np
from pyspark import Accumulator
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ctr_samples.sparksql.columns import quoted
from ctr_samples.sparksql.releases import observed

_NUMBERS = count()


class Observations:
    """What several watches count of rows, possibly at several places in a plan. Runs on the driver.

    If not ``active``, it leaves frames unchanged and counts nothing. This is required for plans that run only in part,
    since Spark waits forever for an observation that never completes.
    """

    def __init__(self, *, active: bool = True) -> None:
        self._active = active
        self._read: dict[Observation, Mapping[str, Any]] = {}

    def on(self, frame: DataFrame, aggregates: Mapping[str, Aggregates]) -> DataFrame:
        """Return the frame with one observation of its rows for several watches, since each one copies all rows."""
        every = {f"{watch}|{key}": one for watch, of_watch in aggregates.items() for key, one in of_watch.items()}
        if not self._active or not every:
            return frame
        # Spark identifies an observation by its name and frame, and drops the second of two equal observations.
        observation = Observation(f"observation {next(_NUMBERS)}")
        self._read[observation] = {}
        # Spark would interpret the expression in the aggregate, and compiles that of a column.
        tallies = {key: one for key, one in every.items() if isinstance(one, Tally)}
        names = {key: f"_number {place} of {observation._name}" for place, key in enumerate(tallies)}
        columns = every | {key: replace(tally, number=F.col(quoted(names[key]))) for key, tally in tallies.items()}
        numbers = {names[key]: tally.number for key, tally in tallies.items()}
        observed = [aggregated(column).alias(key) for key, column in columns.items()]
        return frame.withColumns(numbers).observe(observation, *observed).drop(*numbers)

    def counts(self, watch: str) -> dict[str, int]:
        """Return the counts after the action. For a count observed at several places, return the maximum."""
        counts: dict[str, int] = {}
        for values in self.values(watch):
            for key, value in values.items():
                if not isinstance(value, list | bytes | bytearray):
                    counts[key] = max(counts.get(key, int(value or 0)), int(value or 0))
        return counts

    def tallies(self, watch: str) -> dict[str, dict[int, int]]:
        """Return the counts of each :class:`Tally` after the action, or the maximum if observed at several places."""
        tallies: dict[str, dict[int, int]] = {}
        for values in self.values(watch):
            for key, value in values.items():
                if isinstance(value, bytes | bytearray):
                    tally = tallies.setdefault(key, {})
                    for number, count in counted(bytes(value)).items():
                        tally[number] = max(tally.get(number, 0), count)
        return tallies

    def values(self, watch: str) -> Iterator[Mapping[str, Any]]:
        """Yield the values of each observation. Available values are final, so they are read from the JVM only once."""
        for observation in self._read:
            every = self._read[observation] = self._read[observation] or observed(observation)
            prefix = f"{watch}|"
            yield {key.removeprefix(prefix): value for key, value in every.items() if key.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress counters, updated at the end of each task. For display only, since retried tasks count twice."""

    samples: Accumulator[int]
    shards: Accumulator[int]

    @classmethod
    def of(cls, spark: SparkSession) -> Self:
        """Create both counters at zero."""
        return cls(spark.sparkContext.accumulator(0), spark.sparkContext.accumulator(0))


class Reporter(Protocol):
    """Receives the progress of a run. Called on the driver."""

    def stage(self, text: str) -> None:
        """Report the start of a stage."""

    def writing(self, progress: Progress) -> None:
        """Report that tasks begin to write. ``progress`` grows while they do."""

    def warn(self, text: str) -> None:
        """Report a problem that does not stop the run."""


class Silent:
    """A reporter that shows nothing."""

    def stage(self, text: str) -> None:
        """Do nothing."""

    def writing(self, progress: Progress) -> None:
        """Do nothing."""

    def warn(self, text: str) -> None:
        """Do nothing."""


_SEED = 1_003_792_688
"""Seed for which Java's random generator first draws 1, so that Spark's sketch hashes a number to itself."""
_HEADER = struct.Struct(">iqiiq")
"""Header of Spark's count-min sketch: version, total, rows, width and the multiplier of the row."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts each integer from 0 to ``most - 1``, for :func:`counted`. Ignores nulls."""

    number: Column
    most: int

    def column(self) -> Column:
        """Return the aggregate: a count-min sketch with a single row and a separate counter for each number."""
        width = max(2, self.most)
        return F.count_min_sketch(self.number.cast("int"), F.lit(2 / (width - 0.5)), F.lit(0.4), F.lit(_SEED))


Aggregates = Mapping[str, Column | Tally]


def aggregated(aggregate: Column | Tally) -> Column:
    """Return an aggregate as a column."""
    return aggregate.column() if isinstance(aggregate, Tally) else aggregate


def counted(sketch: bytes) -> dict[int, int]:
    """Decode the sketch of :class:`Tally` into the counts of all numbers that occur."""
    _, _, rows, width, multiplier = _HEADER.unpack_from(sketch)
    assert (rows, multiplier) == (1, 1), "a sketch of a Tally has a counter for each number"
    counters = np.frombuffer(sketch, ">i8", width, _HEADER.size)
    return {int(number): int(counters[number]) for number in np.flatnonzero(counters)}
