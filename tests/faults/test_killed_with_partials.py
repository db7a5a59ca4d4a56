"""A job that keeps partial results, killed again and again while it makes them and its samples."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

from ctr_samples.shards import latest_manifest, open_storage
from ctr_samples.shards.partials import drop_damaged
from tests.support.fault_plan import wait_until
from tests.support.project import PROJECT
from tests.support.tiny_days import write_days

DAY = date(2019, 6, 6)
KEPT = 7
"""What is made: of the day and the three before it what `hourly` counts, of those three what `clicked_before` lists."""

JOINED = """
views:
  hourly:
    source: log
    entity: user
    key: user
    event_time: t
    aggregates: {windows: [1h, 3d], step: 1h, counts: {rows: 'true'}, sums: {paid: price}, distinct: {items: item}}
histories:
  clicked_before: {source: log, where: kind = 'click', last: 5, within: 3d}
features:
  counted: {expr: 'to_json(struct(hourly.rows_1h, hourly.paid_3d, hourly.items_3d))', dtype: string, default: none}
  listed: {expr: to_json(clicked_before.items), dtype: string, default: none}
"""

MOMENTS = {
    "a first file": ("partials/*/*/*/*/*.parquet", 1),
    "a first partial result": ("partials/*/*/*/*.json", 1),
    "all but one": ("partials/*/*/*/*.json", KEPT - 1),
    "the last partial result": ("partials/*/*/*/*.json", KEPT),
    "a first shard, maybe not whole": ("kept/dt=*/data/*/*/*", 1),
}
"""When a run is killed, by files that appear; each run finds what those before it have left."""


def write_config(root: Path, out: str) -> Path:
    text = (root / "tiny_days.yaml").read_text().replace("days_after", "days_before: 4\n    days_after")
    text = text.replace("features:\n", JOINED.lstrip("\n")).replace(f"{root}/out", f"{root}/{out}")
    path = root / f"{out}.yaml"
    path.write_text(text if out == "plain" else f"{text}partials: {{path: {root}/partials}}\n")
    return path


def begin(config: Path, log: Path) -> subprocess.Popen[bytes]:
    """Begin to make the day, in a group of processes of its own."""
    job = [sys.executable, str(PROJECT / "jobs/generate_samples.py"), "--config", str(config), "--date", str(DAY)]
    with log.open("wb") as file:
        return subprocess.Popen(job, stdout=file, stderr=file, cwd=PROJECT, start_new_session=True)


def shards(root: Path, out: str, log: Path) -> list[bytes]:
    """The shards of the day, made now."""
    assert begin(root / f"{out}.yaml", log).wait(240) == 0, log.read_text()
    manifest = latest_manifest(open_storage(root / out), DAY)
    assert manifest is not None
    return [(root / out / shard.path).read_bytes() for shard in manifest.shards]


def test_runs_that_are_killed_leave_whole_partial_results_and_the_last_one_makes_the_samples_of_the_logs(
    tmp_path: Path,
) -> None:
    write_days(tmp_path, DAY - timedelta(days=3), 4)
    log, state = tmp_path / "log.txt", open_storage(tmp_path / "partials")
    config = write_config(tmp_path, "kept")
    for moment, (files, count) in MOMENTS.items():
        kill_when(tmp_path, config, log, moment, files, count)
        assert drop_damaged(state) == []
        assert latest_manifest(open_storage(tmp_path / "kept"), DAY) is None
    write_config(tmp_path, "plain")
    assert shards(tmp_path, "kept", log) == shards(tmp_path, "plain", log)
    assert len(list(tmp_path.glob("partials/*/*/*/*.json"))) == KEPT
    assert drop_damaged(state) == []


def kill_when(root: Path, config: Path, log: Path, moment: str, files: str, count: int) -> None:
    """Run the job until so many files are there, then kill all of its processes."""
    process = begin(config, log)

    def fail_if_ended() -> None:
        assert process.poll() is None, log.read_text()

    try:
        wait_until(lambda: len(list(root.glob(files))) >= count, moment, fail_if_ended)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, log.read_text()
