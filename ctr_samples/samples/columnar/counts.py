"""Counts of tasks. They travel with the rows of a stage, so a task that is retried counts once."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(slots=True)
class Counts:
    """Sums, extremes, and samples of rows by rank. Those of several tasks add up in any order."""

    sums: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[tuple[int, list[Any]]]] = field(default_factory=dict)
    """The rows with the greatest ranks, which are hashes, and of equal ranks by their values, so that every run samples the
    same rows.
    """
    most: dict[str, int] = field(default_factory=dict)
    """Maximum number of rows in each sample."""
    extremes: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The least and the greatest of some numbers."""

    def add(self, name: str, number: int) -> None:
        """Add to a sum."""
        self.sums[name] = self.sums.get(name, 0) + int(number)

    def sample(self, name: str, rows: Iterable[tuple[int, Sequence[Any]]], most: int) -> None:
        """Add rows with their ranks to a sample, which keeps at most ``most``. Values are text, numbers or None."""
        self.most[name] = most
        every = [*self.samples.get(name, ()), *((int(rank), list(row)) for rank, row in rows)]
        self.samples[name] = heapq.nlargest(most, every, key=lambda one: (one[0], repr(one[1])))

    def extend(self, name: str, least: float, greatest: float) -> None:
        """Add to the range of some numbers."""
        low, high = self.extremes.get(name, (least, greatest))
        self.extremes[name] = (min(low, least), max(high, greatest))

    def include(self, other: Self) -> None:
        """Add the counts of another task."""
        for name, number in other.sums.items():
            self.add(name, number)
        for name, rows in other.samples.items():
            self.sample(name, rows, other.most[name])
        for name, (least, greatest) in other.extremes.items():
            self.extend(name, least, greatest)

    def to_json(self) -> str:
        """Return the counts as text."""
        return json.dumps([self.sums, self.samples, self.most, self.extremes], sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the counts of :meth:`to_json`."""
        sums, samples, most, extremes = json.loads(text)
        of_rank = {name: [(rank, row) for rank, row in rows] for name, rows in samples.items()}
        return cls(sums, of_rank, most, {name: (least, greatest) for name, (least, greatest) in extremes.items()})
