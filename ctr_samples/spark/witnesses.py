"""Counts that Spark takes on the side while the one action of a run passes over the rows.

An observation is exact under task failure and retry. One whose part of the plan never ran, because Spark saw that it was
empty, has no values and counts zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame, Observation

from ctr_samples.spark.versions import observed

_NUMBERS = count()


class Witnesses:
    """The observations of one run, by name. Lives on the driver."""

    def __init__(self) -> None:
        self._observations: list[tuple[str, Observation]] = []

    def watch(self, frame: DataFrame, name: str, counts: Mapping[str, Column]) -> DataFrame:
        """The frame with counts taken as its rows pass; ``counts`` are aggregates."""
        # Spark knows an observation by its name and the frame that it was put on, and forgets the second of two.
        observation = Observation(f"{name} {next(_NUMBERS)}")
        self._observations.append((name, observation))
        return frame.observe(observation, *[column.alias(key) for key, column in counts.items()])

    def counts(self, name: str) -> dict[str, int]:
        """What was counted under a name; call it after the action. Where one name was watched twice, the greater count."""
        found: dict[str, int] = {}
        for own_name, observation in self._observations:
            if own_name == name:
                for count, value in observed(observation).items():
                    if not isinstance(value, list):
                        found[count] = max(found.get(count, 0), int(value or 0))
        return found

    def lists(self, name: str) -> dict[str, list[Any]]:
        """What was gathered under a name by aggregates that give arrays; call it after the action."""
        gathered = [observed(observation) for own_name, observation in self._observations if own_name == name]
        return {key: value for values in gathered for key, value in values.items() if isinstance(value, list)}


class Unwatched(Witnesses):
    """For a plan that never runs: Spark would wait for observations that nothing completes."""

    def watch(self, frame: DataFrame, name: str, counts: Mapping[str, Column]) -> DataFrame:
        """The frame as it is; what would be counted is checked against its columns."""
        frame.select(*[column.alias(key) for key, column in counts.items()])
        return frame
