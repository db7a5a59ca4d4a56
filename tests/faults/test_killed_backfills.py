"""Many days by one command, ended in the middle: what is published stays, and a second call makes the others.

The same holds for days that take features from their generations before, or from those of another set.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest

from ctr_samples.records.read import damage_of
from ctr_samples.shards import Manifest, latest_manifest, open_storage
from tests.support.fault_plan import wait_until
from tests.support.project import PROJECT
from tests.support.tiny_days import write_days

DAYS = [date(2019, 6, day) for day in range(3, 9)]


def command(config: Path, log: Path) -> subprocess.Popen[bytes]:
    """Begin to make all days, two at once, in a group of processes of its own."""
    job = [sys.executable, str(PROJECT / "jobs/generate_samples.py"), "--config", str(config)]
    days = ["--from", str(DAYS[0]), "--to", str(DAYS[-1]), "--parallel", "2"]
    with log.open("wb") as file:
        return subprocess.Popen([*job, *days], stdout=file, stderr=file, cwd=PROJECT, start_new_session=True)


@pytest.mark.parametrize("is_second_set", [False, True], ids=["in the same set", "in a second set"])
def test_a_killed_backfill_that_reads_features_back_ends_with_the_shards_of_a_full_run(
    tmp_path: Path, is_second_set: bool
) -> None:
    config, log = write_days(tmp_path, DAYS[0], len(DAYS)), tmp_path / "log.txt"
    assert command(config, log).wait(240) == 0, log.read_text()
    more = config.read_text().replace(
        "features:", "features:\n  hour: {expr: hour(impression.impression_time), dtype: int64}"
    )
    second = more.replace("/out,", "/tried,") + f"from_samples: {tmp_path}/out\n"
    changed, whole = tmp_path / "changed.yaml", tmp_path / "whole.yaml"
    changed.write_text(second if is_second_set else more)
    whole.write_text(more.replace("/out,", "/whole,"))
    storage = open_storage(tmp_path / ("tried" if is_second_set else "out"))
    first = 0 if is_second_set else 1

    def made() -> list[Manifest]:
        """The new generations; all bytes of each, and of those that they replace, are there."""
        there = [manifest for day in DAYS if (manifest := latest_manifest(storage, day)) is not None]
        assert [damage for manifest in there for damage in damage_of(storage, manifest.shards)] == []
        assert {manifest.generation for manifest in there} <= {1, first + 1}
        return [manifest for manifest in there if manifest.generation > first]

    def fail_if_ended() -> None:
        assert process.poll() is None, log.read_text()

    process = command(changed, log)
    try:
        wait_until(lambda: len(made()) >= 2, "two changed days", fail_if_ended)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert 2 <= len(made()) < len(DAYS)
    assert command(changed, log).wait(240) == 0, log.read_text()
    assert command(whole, log).wait(240) == 0, log.read_text()
    assert [manifest.features_from and manifest.features_from.features for manifest in made()] == [("price",)] * len(
        DAYS
    )
    full = [latest_manifest(open_storage(tmp_path / "whole"), day) for day in DAYS]
    assert [[s.crc32c for s in m.shards] for m in made()] == [
        [s.crc32c for s in m.shards] for m in full if m is not None
    ]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(signal.SIGKILL, -signal.SIGKILL, id="SIGKILL"),
        pytest.param(signal.SIGINT, 130, id="SIGINT, as Ctrl-C does"),
    ],
)
def test_a_backfill_that_is_ended_loses_nothing_and_the_second_call_makes_the_other_days(
    tmp_path: Path, end: signal.Signals, code: int
) -> None:
    config, log, storage = (
        write_days(tmp_path, DAYS[0], len(DAYS)),
        tmp_path / "log.txt",
        open_storage(tmp_path / "out"),
    )

    def made() -> dict[date, str]:
        """The run of each published day, all of whose bytes are there."""
        manifests = {day: latest_manifest(storage, day) for day in DAYS}
        there = {day: manifest for day, manifest in manifests.items() if manifest is not None}
        assert [damage for manifest in there.values() for damage in damage_of(storage, manifest.shards)] == []
        assert {(manifest.generation, manifest.records) for manifest in there.values()} <= {(1, 24)}
        return {day: manifest.run_id for day, manifest in there.items()}

    def fail_if_ended() -> None:
        assert process.poll() is None, log.read_text()

    process = command(config, log)
    try:
        wait_until(lambda: len(made()) >= 2, "two published days", fail_if_ended)
        os.killpg(process.pid, end)
        assert process.wait(120) == code, log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    before = made()
    assert 2 <= len(before) < len(DAYS)
    assert list(before) == DAYS[: len(before)]
    again = command(config, log)
    assert again.wait(240) == 0, log.read_text()
    after = made()
    assert list(after) == DAYS
    assert {day: after[day] for day in before} == before
