"""The published days of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.served.served_day import Day, published
from tests.support import small_days

CONFIG = """
name: tiny
timezone: UTC
sources: {log: {format: json, path: log.json, schema: "at BIGINT, u STRING"}}
impressions: {source: log, time: timestamp_seconds(at), keys: {user: u}}
labels: {clicked: {expr: "false"}}
features: {number: {from: impression.user, dtype: float32}}
output: {path: DIR/out}
"""


@pytest.fixture(scope="session")
def day(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Day:
    """6,000 samples, whose true values a service can serve."""
    return published(spark, tmp_path_factory.mktemp("served"))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """500 samples that nobody made, in ``out``, and their configuration, ``c.yaml``."""
    small_days.published(tmp_path / "out")
    (tmp_path / "c.yaml").write_text(CONFIG.replace("DIR", str(tmp_path)))
    return tmp_path
