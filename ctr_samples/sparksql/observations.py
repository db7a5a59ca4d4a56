"""Counts that Spark takes on the side while the one action of a run passes over the rows.

An observation is exact under task failure and retry. One whose part of the plan never ran, because Spark saw that it was
empty, has no values and counts zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame, Observation

from ctr_samples.sparksql.releases import observed
from ctr_samples.sparksql.tallies import counted

_NUMBERS = count()


class Observations:
    """What one watch observes, perhaps at several places of a plan. Lives on the driver.

    One that is not ``active`` leaves frames as they are and has counted nothing: for plans that run only in part, since
    Spark waits forever for an observation that nothing completes.
    """

    def __init__(self, *, active: bool = True) -> None:
        self._active = active
        self._observations: list[Observation] = []
        self._read: dict[Observation, dict[str, Any]] = {}

    def on(self, frame: DataFrame, aggregates: Mapping[str, Column]) -> DataFrame:
        """The frame, with aggregates taken as its rows pass."""
        if not self._active:
            return frame
        # Spark knows an observation by its name and the frame that it was put on, and forgets the second of two.
        observation = Observation(f"observation {next(_NUMBERS)}")
        self._observations.append(observation)
        return frame.observe(observation, *[column.alias(key) for key, column in aggregates.items()])

    def counts(self) -> dict[str, int]:
        """What was counted; call it after the action. Of a count that was taken at several places, the greatest."""
        counts: dict[str, int] = {}
        for values in self._values():
            for key, value in values.items():
                if not isinstance(value, list | bytes | bytearray):
                    counts[key] = max(counts.get(key, 0), int(value or 0))
        return counts

    def tallies(self) -> dict[str, dict[int, int]]:
        """What was counted by a :func:`tally`; call it after the action. Of a number at several places, the greatest count."""
        tallies: dict[str, dict[int, int]] = {}
        for values in self._values():
            for key, value in values.items():
                if isinstance(value, bytes | bytearray):
                    tally = tallies.setdefault(key, {})
                    for number, count in counted(bytes(value)).items():
                        tally[number] = max(tally.get(number, 0), count)
        return tallies

    def lists(self) -> dict[str, list[Any]]:
        """What was gathered by aggregates that give arrays; call it after the action."""
        return {key: value for values in self._values() for key, value in values.items() if isinstance(value, list)}

    def _values(self) -> Iterator[Mapping[str, Any]]:
        """The values of each observation, which never change once there are some: they cross from the JVM once."""
        for observation in self._observations:
            if not self._read.get(observation):
                self._read[observation] = observed(observation)
            yield self._read[observation]
