"""The whole job against one that is written by hand for the same samples: each a spark-submit of its own, in turns.

``CTR_SAMPLES_BENCH_IMPRESSIONS`` of one day, with as many on the days before and after, or ``CTR_SAMPLES_BENCH_DAYS=1`` alone,
in lists of ``CTR_SAMPLES_BENCH_LIST_SIZE``, or of the simulator's own sizes for 0.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.support.figures import Figures, at_most, size
from tests.support.project import PROJECT

IMPRESSIONS = size("IMPRESSIONS", 1_000_000, quick=50_000)
ROUNDS = size("WHOLE_ROUNDS", 3, quick=1)
DAYS = size("DAYS", 3, quick=3)
LIST_SIZE = size("LIST_SIZE", 0, quick=0)
DAY = "2019-06-05" if DAYS > 1 else "2019-06-04"
PARTS = 8 if IMPRESSIONS <= 1_000_000 else 32
MEMORY = "8g" if IMPRESSIONS <= 1_000_000 else "10g"


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
    """Write the logs of the days."""
    simulate = [sys.executable, str(PROJECT / "jobs/simulate_logs.py"), "--out", str(logs), "--days", str(DAYS)]
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
            taken.append(submitted(program, tmp_path / f"events of {order}").seconds)
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
    simulated(logs, *(["--list-size", str(LIST_SIZE)] if LIST_SIZE else []))
    job = job_of(configuration(tmp_path))
    by_hand = [str(Path(__file__).with_name("by_hand.py")), str(logs), str(tmp_path / "parquet"), DAY]
    ours: list[Submitted] = []
    theirs: list[Submitted] = []
    for _ in range(ROUNDS):
        shutil.rmtree(tmp_path / "samples", ignore_errors=True)  # nothing to compare labels with, as on a usual night
        theirs.append(submitted(by_hand, tmp_path / "events by hand"))
        ours.append(submitted(job, tmp_path / "events of the job"))
    what = f"{IMPRESSIONS:,} impressions" + (f" in lists of {LIST_SIZE}" if LIST_SIZE else "")
    for part, unit, goal in (("seconds", "s", 0.6), ("processor", "s", 0.55), ("shuffled", "MB", 0.3)):
        pairs = [(getattr(own, part), getattr(other, part)) for own, other in zip(ours, theirs, strict=True)]
        figures.add(f"{what}, {part}, by hand", [other for _, other in pairs], unit)
        figures.add(f"{what}, {part}, the job", [own for own, _ in pairs], unit)
        figures.add(f"{what}, {part} vs. by hand", [own / other for own, other in pairs], "x", at_most(goal))


class Submitted(NamedTuple):
    """Seconds from a command to its end, processor seconds of all its processes, and megabytes that it shuffled."""

    seconds: float
    processor: float
    shuffled: float


def submitted(program: list[str], events: Path) -> Submitted:
    """Run a program by spark-submit."""
    events.mkdir(exist_ok=True)
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": MEMORY,
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
    with (events.parent / "output.txt").open("w") as output:
        process = subprocess.Popen(
            [*submit, *program], stdout=output, stderr=output, env=environment, start_new_session=True
        )
        used: dict[str, float] = {}
        while process.poll() is None:
            used |= processor_seconds(process.pid)
            time.sleep(0.1)
    seconds = time.monotonic() - start
    assert process.returncode == 0, (events.parent / "output.txt").read_text()[-3000:]
    stages_of = runpy.run_path(str(PROJECT / "tools/stages"))["stages_of"]
    newest = max(events.iterdir(), key=lambda file: file.stat().st_mtime)
    with newest.open() as lines:
        return Submitted(seconds, sum(used.values()), sum(stage.shuffled for stage in stages_of(lines)) / 1e6)


def processor_seconds(session: int) -> dict[str, float]:
    """Return the processor seconds of each process of a session, by its number. Python workers of Spark have no parent that
    waits for them, so what the system adds up for the command lacks them.
    """
    used = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                used[process.name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used
