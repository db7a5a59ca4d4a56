"""What a run costs whatever the size of its day: in a session, by a command, and for many days by one command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from tests.support.figures import Figures, at_most, size
from tests.support.project import PROJECT
from tests.support.tiny_days import write_days

LATER = size("RUNS", 8, quick=2)
COMMANDS = size("COMMANDS", 5, quick=1)
DATA = PROJECT / "data/open_bandit"
DAY_OF_DATA = date(2019, 11, 26)
CONFIG = PROJECT / "conf/open_bandit.yaml"
SOURCES = [f"sources.log.path={DATA / 'log.parquet'}", f"sources.items.path={DATA / 'items.parquet'}"]


def test_a_run_in_a_warm_session(figures: Figures, spark: SparkSession, tmp_path: Path) -> None:
    loaded = load_config(CONFIG, [*SOURCES, f"output.path={tmp_path}"])
    seconds = []
    for _ in range(1 + LATER):
        start = time.monotonic()
        result = job.run(spark, loaded, DAY_OF_DATA, force=True)
        seconds.append(time.monotonic() - start)
    assert (result.published, result.manifest.records) == (True, 1300)
    figures.add("a day of 1,300 impressions, first run of a session", seconds[:1], "s")
    figures.add("a day of 1,300 impressions, later runs", seconds[1 + LATER // 2 :], "s", at_most(3))


def test_a_command_from_its_start_to_its_end(figures: Figures, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "ctr_samples",
        "generate",
        "--config",
        str(CONFIG),
        "--date",
        str(DAY_OF_DATA),
        "--force",
    ]
    for setting in [*SOURCES, f"output.path={tmp_path / 'samples'}"]:
        command += ["--set", setting]
    # The first command of a user also compiles the kernels, and writes the classes from which later ones start.
    environment = {**os.environ, "CTR_SAMPLES_CACHE_DIR": str(tmp_path / "cache")}
    seconds = []
    for _ in range(1 + COMMANDS):
        start = time.monotonic()
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=PROJECT, env=environment
        ) as one:
            assert one.wait() == 0
            seconds.append(time.monotonic() - start)
            one.communicate()  # until its JVM has ended, which may still write the classes
    figures.add("a day of 1,300 impressions, first command of a user", seconds[:1], "s")
    figures.add("a day of 1,300 impressions, later commands", seconds[1:], "s", at_most(8))


DAYS, ALONE = size("DAYS", 30, quick=3), size("DAYS_ALONE", 5, quick=2)


def test_many_days_by_one_command(figures: Figures, tmp_path: Path) -> None:
    first = date(2019, 6, 1)
    config = write_days(tmp_path, first, DAYS + 1)

    def seconds(output: str, *more: str) -> float:
        job = [sys.executable, str(PROJECT / "jobs/generate_samples.py"), "--config", str(config)]
        start = time.monotonic()
        subprocess.run([*job, "--set", f"output.path={tmp_path / output}", *more], check=True, capture_output=True)
        return time.monotonic() - start

    alone = [DAYS * seconds("alone", "--date", str(first + timedelta(days=n))) for n in range(ALONE)]
    days = ["--from", str(first), "--to", str(first + timedelta(days=DAYS - 1))]
    one, unchanged = seconds("one", *days), seconds("one", *days)
    two = seconds("two", *days, "--parallel", "2")
    what = f"{DAYS} days of 24 impressions"
    figures.add(f"{what}, {DAYS} commands", alone, "s")
    figures.add(f"{what}, one command", [one], "s")
    figures.add(f"{what}, one command, time vs. {DAYS} commands", [one / each for each in alone], "x", at_most(0.25))
    figures.add(f"{what}, two days at once", [two], "s")
    figures.add(f"{what}, two days at once, time vs. {DAYS} commands", [two / each for each in alone], "x")
    figures.add(f"{what}, all unchanged", [unchanged], "s")
