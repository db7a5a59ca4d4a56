"""Exact histograms by one aggregate, on whatever Spark is installed."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.sparksql.observations import Observations, Tally, counted
from tests.support.literal_frames import literal


@pytest.mark.parametrize("most", [1, 2, 3, 96, 777, 2048])
def test_each_number_has_its_own_count_however_rows_are_spread(spark: SparkSession, most: int) -> None:
    numbers = [n * n % most for n in range(5000)]
    rows = literal(spark, [(n,) for n in numbers] + [(None,)] * 3, "n int").repartition(7)
    assert counted(bytes(rows.agg(Tally(F.col("n"), most).column()).first()[0])) == Counter(numbers)


def test_of_several_places_each_number_has_its_greatest_count(spark: SparkSession) -> None:
    rows = literal(spark, [(1,), (1,), (2,)], "n int")
    observations = Observations()
    some = observations.on(rows.where("n = 1"), {"of": {"n": Tally(F.col("n"), 4), "rows": F.count(F.lit(1))}})
    some.union(observations.on(rows, {"of": {"n": Tally(F.col("n"), 4)}})).collect()
    assert observations.tallies("of") == {"n": {1: 2, 2: 1}}
    assert observations.counts("of") == {"rows": 2}


def test_the_greatest_of_negative_numbers_is_negative(spark: SparkSession) -> None:
    observations = Observations()
    observations.on(spark.range(5), {"of": {"first": F.min(F.col("id") - 9), "last": F.max(F.col("id") - 9)}}).collect()
    assert observations.counts("of") == {"first": -9, "last": -5}
