"""Counts that Spark takes on the side while a run's single action processes the rows.

An observation is exact under task failure and retry. If its part of the plan never ran, because Spark saw that it was
empty, it has no values and counts zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame, Observation

from ctr_samples.sparksql.releases import observed
from ctr_samples.sparksql.tallies import counted

_NUMBERS = count()


class Observations:
    """Observations of one watch, possibly at several places of a plan. Lives on the driver.

    If not ``active``, it leaves frames unchanged and counts nothing: for plans that run only in part, since Spark waits
    forever for an observation that never completes.
    """

    def __init__(self, *, active: bool = True) -> None:
        self._active = active
        self._observations: list[Observation] = []

    def on(self, frame: DataFrame, aggregates: Mapping[str, Column]) -> DataFrame:
        """Return the frame with aggregates taken as its rows pass."""
        if not self._active:
            return frame
        # Spark identifies an observation by its name and its frame, and forgets the second of two equal ones.
        observation = Observation(f"observation {next(_NUMBERS)}")
        self._observations.append(observation)
        return frame.observe(observation, *[column.alias(key) for key, column in aggregates.items()])

    def counts(self) -> dict[str, int]:
        """Return the counts, after the action; for a count taken at several places, the largest."""
        counts: dict[str, int] = {}
        for observation in self._observations:
            for key, value in observed(observation).items():
                if not isinstance(value, list | bytes | bytearray):
                    counts[key] = max(counts.get(key, 0), int(value or 0))
        return counts

    def tallies(self) -> dict[str, dict[int, int]]:
        """Return the counts of each :func:`tally`, after the action; for a number at several places, the largest."""
        tallies: dict[str, dict[int, int]] = {}
        for observation in self._observations:
            for key, value in observed(observation).items():
                if isinstance(value, bytes | bytearray):
                    tally = tallies.setdefault(key, {})
                    for number, count in counted(bytes(value)).items():
                        tally[number] = max(tally.get(number, 0), count)
        return tallies

    def lists(self) -> dict[str, list[Any]]:
        """Return the results of array aggregates, after the action."""
        gathered = [observed(observation) for observation in self._observations]
        return {key: value for values in gathered for key, value in values.items() if isinstance(value, list)}
