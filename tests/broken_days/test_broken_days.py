"""For each way in which a night goes wrong: the gate refuses it, by the check that names it, and publishes nothing."""

from __future__ import annotations

import os
import shutil
from datetime import date, timedelta
from pathlib import Path

import broken_logs
import pytest
from broken_logs import BEFORE, DAY, WAYS, Break, config_of
from pyspark.sql import SparkSession

from ctr_samples import pipeline
from ctr_samples.errors import GateRefused
from ctr_samples.shards import latest_manifest, open_storage
from ctr_samples.simulator import SimulationSpec, simulate

pytestmark = pytest.mark.slow

CLEAN_DAYS = int(os.environ.get("CTR_SAMPLES_CLEAN_DAYS", "5"))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six days of logs."""
    root = tmp_path_factory.mktemp("logs")
    simulate(SimulationSpec(start=date(2019, 6, 2), days=6, impressions=12_000, seed=11), root)
    return root


@pytest.fixture(scope="module")
def published(spark: SparkSession, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the day before is published."""
    out = tmp_path_factory.mktemp("samples")
    result = pipeline.run(spark, config_of(logs, out), date.fromisoformat(BEFORE))
    assert result.manifest.quality["verdict"] == "passed"
    return out


@pytest.mark.parametrize(("way", "check"), WAYS, ids=lambda one: getattr(one, "__name__", None))
def test_a_broken_day_is_refused(
    spark: SparkSession, logs: Path, published: Path, tmp_path: Path, way: Break, check: str
) -> None:
    root, out = tmp_path / "logs", tmp_path / "samples"
    shutil.copytree(logs, root)
    shutil.copytree(published, out)
    way(root)
    with pytest.raises(GateRefused) as refusal:
        pipeline.run(spark, config_of(root, out), date.fromisoformat(DAY))
    assert f"--accept {check}" in str(refusal.value), str(refusal.value)
    assert latest_manifest(open_storage(out), date.fromisoformat(DAY)) is None


def test_the_clean_day_passes(spark: SparkSession, logs: Path, published: Path, tmp_path: Path) -> None:
    out = tmp_path / "samples"
    shutil.copytree(published, out)
    result = pipeline.run(spark, config_of(logs, out), date.fromisoformat(DAY))
    assert result.manifest.quality == {"verdict": "passed", "found": [], "accepted": []}


def test_a_broken_day_is_published_when_it_is_accepted(
    spark: SparkSession, logs: Path, published: Path, tmp_path: Path
) -> None:
    root, out = tmp_path / "logs", tmp_path / "samples"
    shutil.copytree(logs, root)
    shutil.copytree(published, out)
    broken_logs.half_of_the_clicks_missing(root)
    result = pipeline.run(spark, config_of(root, out), date.fromisoformat(DAY), accept=["rate"])
    assert result.manifest.quality["verdict"] == "warned"
    assert result.manifest.quality["accepted"] == ["rate"]


def test_clean_days_pass_one_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    """CTR_SAMPLES_CLEAN_DAYS says how many; thirty were run for docs/quality.md."""
    root, first = tmp_path / "logs", date(2019, 6, 5)
    simulate(SimulationSpec(start=first - timedelta(days=3), days=CLEAN_DAYS + 4, impressions=12_000, seed=5), root)
    loaded = config_of(root, tmp_path / "samples")
    alarms = []
    for n in range(CLEAN_DAYS):
        result = pipeline.run(spark, loaded, first + timedelta(days=n))
        alarms += [(result.manifest.run_date, found["sentence"]) for found in result.manifest.quality["found"]]
    assert alarms == []
