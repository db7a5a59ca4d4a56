"""Samples that are counted from partial results: the same bytes as from the logs, whatever happens to logs and partials."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from partial_days import shards_of, write_config, write_log
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job.run import run
from ctr_samples.quality.checks import CHECKS

DAY = date(2019, 6, 5)
DAYS = (-45, -41, -40, -39, -38, -32, -31, -30, -29, -7, -2, -1, 0, 1, 2)
"""Around a run: those at whose edges windows begin, and gaps between them."""


def samples(spark: SparkSession, path: Path, day: date) -> list[bytes]:
    """The shards of a day, made now."""
    config = load_config(path)
    made = run(spark, config, day, force=True, accept=CHECKS)
    return shards_of(made.manifest, Path(config.config.output.path))


@pytest.mark.parametrize(
    ("zone", "day", "step", "windows", "delay"),
    [
        pytest.param("UTC", DAY, "1m", ["1m", "1h", "1d", "30d"], "0s", marks=pytest.mark.slow),
        ("Europe/Stockholm", date(2019, 3, 31), "1h", ["3h", "7d", "39d"], "10m"),
        pytest.param("America/New_York", date(2019, 11, 3), "1d", ["1d", "2d", "30d"], "26h", marks=pytest.mark.slow),
        pytest.param("Asia/Kolkata", DAY, "15m", ["15m", "40d"], "3d", marks=pytest.mark.slow),
    ],
)
def test_samples_from_partial_results_have_the_bytes_of_samples_from_the_logs(
    spark: SparkSession, tmp_path: Path, zone: str, day: date, step: str, windows: list[str], delay: str
) -> None:
    for n in DAYS:
        write_log(tmp_path, day + timedelta(days=n), zone)
    form = {"zone": zone, "step": step, "windows": windows, "delay": delay, "before": 45}
    plain, kept = (write_config(tmp_path, out, **form) for out in ("plain", "kept"))
    for night in (day, day + timedelta(days=1)):
        assert samples(spark, kept, night) == samples(spark, plain, night)
