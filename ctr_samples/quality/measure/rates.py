"""Samples and positives for each value of a column, as for the arms of an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ctr_samples.quality.measure.numbers import named

MOST_VALUES = 1_000
"""Maximum number of values that a task tells apart. The samples of all others are counted together."""


class ValueCounts:
    """Counts by value. None is the value of rows without one."""

    def __init__(self) -> None:
        self.values: dict[str | None, list[int]] = {}
        self.others = [0, 0]

    def observe(self, values: pa.Array, positive: npt.NDArray[Any]) -> None:
        """Count a batch. Runs on an executor."""
        encoded = values.dictionary_encode(null_encoding="encode")
        places, names = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.cast(pa.binary()).to_pylist()
        samples = np.bincount(places, minlength=len(names)).tolist()
        positives = np.bincount(places, positive, len(names)).astype(np.int64).tolist()
        self.add(zip(map(named, names), samples, positives, strict=True))

    def add(self, counts: Iterable[Sequence[Any]]) -> None:
        """Add samples and positives of values."""
        for value, samples, positives in counts:
            there = self.values.get(value)
            if there is None and len(self.values) < MOST_VALUES:
                there = self.values[value] = [0, 0]
            kept = self.others if there is None else there
            kept[0] += samples
            kept[1] += positives

    def merge(self, task: Sequence[Any]) -> None:
        """Add the counts of a task."""
        others, values = task
        self.add(values)
        self.others = [self.others[0] + others[0], self.others[1] + others[1]]

    def to_list(self) -> list[Any]:
        """Return what :meth:`merge` takes."""
        return [self.others, [[value, *counts] for value, counts in self.values.items()]]
