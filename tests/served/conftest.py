"""The published day of these tests."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.served.served_day import Day, published


@pytest.fixture(scope="session")
def day(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Day:
    """6,000 samples, whose true values a service can serve."""
    return published(spark, tmp_path_factory.mktemp("served"))
