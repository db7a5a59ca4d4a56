"""Progress of the tasks that write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pyspark import Accumulator
from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of tasks, updated as each one ends. For display only: a retried task counts twice."""

    samples: Accumulator[int]
    shards: Accumulator[int]

    @classmethod
    def of(cls, spark: SparkSession) -> Self:
        """Start both at zero."""
        return cls(spark.sparkContext.accumulator(0), spark.sparkContext.accumulator(0))
