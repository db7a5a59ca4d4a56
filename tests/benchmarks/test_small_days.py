"""What a run costs whatever the size of its day: the first in a session, and later ones, on 1,300 impressions of real logs."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job

PROJECT = Path(__file__).parent.parent.parent
LATER = 8


def test_a_run_in_a_warm_session(spark: SparkSession, tmp_path: Path) -> None:
    data = PROJECT / "data/open_bandit"
    sources = [f"sources.log.path={data / 'log.parquet'}", f"sources.items.path={data / 'items.parquet'}"]
    loaded = load_config(PROJECT / "conf/open_bandit.yaml", [*sources, f"output.path={tmp_path}"])
    seconds = []
    for _ in range(1 + LATER):
        start = time.monotonic()
        result = job.run(spark, loaded, date(2019, 11, 26), force=True)
        seconds.append(time.monotonic() - start)
    assert (result.published, result.manifest.records) == (True, 1300)
    first, *later = seconds
    print(
        f"\na day of 1,300 impressions: first run {first:.2f} s, later runs {median(later[LATER // 2 :]):.2f} s (median)"
    )
