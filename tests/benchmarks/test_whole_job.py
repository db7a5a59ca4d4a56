"""The whole job against those that are written by hand for the same samples: each a spark-submit of its own, in turns.

One writes TFRecord in Python, as tutorials do, which is what the job replaces; the other one lets Spark write Parquet.

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
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
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


def configuration(directory: Path, form: str = "json") -> Path:
    """conf/simulated.yaml without what is counted from a log, and without histories, for a log of JSON or Parquet."""
    config = yaml.safe_load(
        (PROJECT / "conf/simulated.yaml").read_text().replace("build/simulated", f"{directory}/logs")
    )
    del config["histories"], config["views"]["article_clicks"]
    counted = ("article_clicks", "article_read", "article_readers", "article_collect", "recent")
    config["features"] = {name: f for name, f in config["features"].items() if not name.startswith(counted)}
    if form == "parquet":
        log = config["sources"]["actions"]
        del log["schema"], log["bad_records"]
        log["format"] = "parquet"
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


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_the_whole_job_against_those_that_are_written_by_hand(figures: Figures, tmp_path: Path, form: str) -> None:
    logs = tmp_path / "logs"
    simulated(logs, *(["--list-size", str(LIST_SIZE)] if LIST_SIZE else []))
    if form == "parquet":
        as_parquet(logs / "user_action")
    job = job_of(configuration(tmp_path, form))
    hand = str(Path(__file__).with_name("by_hand.py"))
    taken: dict[str, list[Submitted]] = {"tfrecord": [], "parquet": [], "the job": []}
    for _ in range(ROUNDS):
        shutil.rmtree(tmp_path / "samples", ignore_errors=True)  # nothing to compare labels with, as on a usual night
        for way, rounds in taken.items():
            by_hand = [hand, str(logs), str(tmp_path / way), DAY, way]
            rounds.append(submitted(job if way == "the job" else by_hand, tmp_path / f"events of {way}"))
    what = f"{IMPRESSIONS:,} impressions" + (f" in lists of {LIST_SIZE}" if LIST_SIZE else "") + f", {form} logs"
    ours = taken.pop("the job")
    for part, unit in (("seconds", "s"), ("processor", "s"), ("shuffled", "MB")):
        own = [getattr(one, part) for one in ours]
        figures.add(f"{what}, {part}, the job", own, unit)
        for way, rounds in taken.items():
            others = [getattr(one, part) for one in rounds]
            figures.add(f"{what}, {part}, {way} by hand", others, unit)
            ratios = [one / other for one, other in zip(own, others, strict=True)]
            figures.add(f"{what}, {part} vs. {way} by hand", ratios, "x", at_most(GOALS[way, part]))


GOALS = {
    ("tfrecord", "seconds"): 0.35,
    ("tfrecord", "processor"): 0.35,
    ("tfrecord", "shuffled"): 0.3,
    ("parquet", "seconds"): 0.7,
    ("parquet", "processor"): 0.7,
    ("parquet", "shuffled"): 0.3,
}


def as_parquet(directory: Path) -> None:
    """Write the lines of a log again as Parquet, without malformed ones, in their place."""
    texts = ("action", "userId", "articleId", "algorithmCombine")
    param = pa.struct([(name, pa.string()) for name in texts])
    schema = pa.schema(
        [("actionTime", pa.string()), ("readTime", pa.string()), ("channelId", pa.int32()), ("param", param)]
    )
    for file in sorted(directory.glob("*/*.json")):
        with file.open() as lines, pq.ParquetWriter(file.with_suffix(".parquet"), schema) as writer:
            while some := list(islice(lines, 200_000)):
                writer.write_table(pa.Table.from_pylist([*filter(None, map(object_in, some))], schema))
        file.unlink()


def object_in(line: str) -> dict[str, object] | None:
    """The object that a line is, or None for a malformed one."""
    with suppress(ValueError):
        row = json.loads(line)
        return row if isinstance(row, dict) else None
    return None


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
