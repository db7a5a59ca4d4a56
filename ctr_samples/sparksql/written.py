"""What the tasks of an action have written so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pyspark import Accumulator
from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Progress:
    """What tasks have written so far, known as each one ends. For display only: a task that is retried counts twice."""

    samples: Accumulator[int]
    shards: Accumulator[int]

    @classmethod
    def of(cls, spark: SparkSession) -> Self:
        """Both at zero."""
        return cls(spark.sparkContext.accumulator(0), spark.sparkContext.accumulator(0))
