"""What a run costs whatever the size of its day: the first in a session, later ones, and many days by one command."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path
from statistics import mean, median

from pyspark.sql import SparkSession
from tiny_days import write_days

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


DAYS, ALONE = 30, 5


def test_many_days_by_one_command(tmp_path: Path) -> None:
    first = date(2019, 6, 1)
    config = write_days(tmp_path, first, DAYS + 1)

    def seconds(output: str, *more: str) -> float:
        job = [sys.executable, str(PROJECT / "jobs/generate_samples.py"), "--config", str(config)]
        start = time.monotonic()
        subprocess.run([*job, "--set", f"output.path={tmp_path / output}", *more], check=True, capture_output=True)
        return time.monotonic() - start

    alone = DAYS * mean(seconds("alone", "--date", str(first + timedelta(days=n))) for n in range(ALONE))
    days = ["--from", str(first), "--to", str(first + timedelta(days=DAYS - 1))]
    one, unchanged = seconds("one", *days), seconds("one", *days)
    two = seconds("two", *days, "--parallel", "2")
    print(
        f"\n{DAYS} days of 24 impressions: {DAYS} commands {alone:.0f} s (from {ALONE}), one command {one:.0f} s "
        f"({one / alone:.2f}), two days at once {two:.0f} s ({two / alone:.2f}), all unchanged {unchanged:.0f} s"
    )
