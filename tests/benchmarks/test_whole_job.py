"""The whole job against one that is written by hand for the same samples: each a spark-submit of its own, in turns.

``CTR_SAMPLES_BENCH_IMPRESSIONS`` of one day, with as many on the days before and after.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import yaml

from tests.support.figures import Figures, at_most, size
from tests.support.project import PROJECT

IMPRESSIONS = size("IMPRESSIONS", 1_000_000, quick=50_000)
ROUNDS = size("WHOLE_ROUNDS", 3, quick=1)
DAY = "2019-06-05"
PARTS = 8


def configuration(directory: Path) -> Path:
    """conf/simulated.yaml without what is counted from a log, and without histories."""
    config = yaml.safe_load(
        (PROJECT / "conf/simulated.yaml").read_text().replace("build/simulated", f"{directory}/logs")
    )
    del config["histories"], config["views"]["article_clicks"]
    counted = ("article_clicks", "article_read", "article_readers", "article_collect", "recent")
    config["features"] = {name: f for name, f in config["features"].items() if not name.startswith(counted)}
    config["output"]["path"] = f"{directory}/samples"
    path = directory / "job.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def simulated(logs: Path, *options: str) -> None:
    """Write three days of logs."""
    simulate = [sys.executable, str(PROJECT / "jobs/simulate_logs.py"), "--out", str(logs), "--days", "3"]
    subprocess.run([*simulate, "--impressions", str(IMPRESSIONS), *options], check=True, capture_output=True)


def job_of(config: Path, *options: str) -> list[str]:
    generate = str(PROJECT / "jobs/generate_samples.py")
    return [generate, "--config", str(config), "--date", DAY, "--force", *options]


def test_the_whole_job_by_request(figures: Figures, tmp_path: Path) -> None:
    simulated(tmp_path / "logs", "--list-size", "10")
    config = configuration(tmp_path)
    seconds: dict[str, list[float]] = {"impression": [], "request": []}
    sizes: dict[str, int] = {}
    for _ in range(ROUNDS):
        for order, taken in seconds.items():
            out = tmp_path / order
            sets = [f"output.path={out}", "output.compression=gzip", f"output.order={order}", "split={by: request}"]
            program = job_of(config, *[part for one in sets for part in ("--set", one)])
            taken.append(submitted(program, tmp_path / f"events of {order}")[0])
            manifest = max(out.glob("dt=*/manifests/*.json"))
            sizes[order] = sum(shard["bytes"] for shard in json.loads(manifest.read_text())["shards"])
    what = f"{IMPRESSIONS:,} impressions in lists of ten, gzip"
    figures.add(f"{what}, by impression", seconds["impression"], "s")
    figures.add(f"{what}, by request", seconds["request"], "s")
    ratios = [ours / theirs for ours, theirs in zip(seconds["request"], seconds["impression"], strict=True)]
    figures.add(f"{what}, time by request", ratios, "x by impression", at_most(1))
    figures.add(f"{what}, size by request", [sizes["request"] / sizes["impression"]], "x by impression")


def test_the_whole_job_against_one_that_is_written_by_hand(figures: Figures, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    simulated(logs)
    job = job_of(configuration(tmp_path))
    by_hand = [str(Path(__file__).with_name("by_hand.py")), str(logs), str(tmp_path / "parquet"), DAY]
    seconds: dict[str, list[float]] = {"job": [], "by hand": []}
    shuffled: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, program in {"by hand": by_hand, "job": job}.items():
            taken, shuffled[name] = submitted(program, tmp_path / f"events of {name}")
            seconds[name].append(taken)
    what = f"{IMPRESSIONS:,} impressions"
    ratios = [ours / theirs for ours, theirs in zip(seconds["job"], seconds["by hand"], strict=True)]
    figures.add(f"{what}, by hand", seconds["by hand"], "s")
    figures.add(f"{what}, the job", seconds["job"], "s")
    figures.add(f"{what}, time vs. by hand", ratios, "x", at_most(0.6))
    figures.add(f"{what}, bytes shuffled vs. by hand", [shuffled["job"] / shuffled["by hand"]], "x", at_most(0.6))


def submitted(program: list[str], events: Path) -> tuple[float, float]:
    """Seconds from the command to its end, and the bytes that it shuffled."""
    events.mkdir(exist_ok=True)
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "8g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(PARTS),
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    submit = [str(Path(sys.executable).with_name("spark-submit"))]
    for key, value in settings.items():
        submit += ["--conf", f"{key}={value}"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PROJECT)}
    environment.pop("SPARK_SUBMIT_OPTS", None)
    start = time.monotonic()
    subprocess.run([*submit, *program], check=True, capture_output=True, env=environment)
    seconds = time.monotonic() - start
    stages_of = runpy.run_path(str(PROJECT / "tools/stages"))["stages_of"]
    newest = max(events.iterdir(), key=lambda file: file.stat().st_mtime)
    with newest.open() as lines:
        return seconds, sum(stage.shuffled for stage in stages_of(lines))
