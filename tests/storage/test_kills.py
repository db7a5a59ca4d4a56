"""Jobs that are killed at random moments, alone and racing: readers see the old or the complete new generation.

``KILL_ROUNDS=full`` runs 1,000 rounds on disk and 200 on each server, about a quarter of an hour; ``KILL_SEED`` gives other
moments.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FULL = {"disk": 1_000, "S3": 200, "HDFS": 200}
ROUNDS = FULL if os.environ.get("KILL_ROUNDS") == "full" else {"disk": 60, "S3": 20, "HDFS": 20}
SEED = os.environ.get("KILL_SEED", "1")


def harness(url: str, rounds: int, layout: str) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "tests.storage.kill_harness",
        "--url",
        url,
        "--rounds",
        str(rounds),
        "--seed",
        SEED,
        "--layout",
        layout,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    counts: dict[str, Any] = json.loads(done.stdout)
    print(url, counts)  # noqa: T201 (seen with -rP, and when a test fails)
    return counts


def wrong(counts: dict[str, Any]) -> int:
    """What no round may show: torn data, seen by a reader or by the next job, which then fails."""
    return int(counts["violations"] + counts["violations_before"] + counts["failed"])


@pytest.mark.parametrize("layout", ["published", "with-state"])
@pytest.mark.parametrize("store", ["disk", "S3", "HDFS"])
def test_whenever_a_job_is_killed_readers_see_whole_generations_and_runs_whole_partial_results(
    store: str, layout: str, place_in: Callable[[str], str]
) -> None:
    rounds = ROUNDS[store]
    counts = harness(place_in(store), rounds, layout)
    assert (counts["rounds"], wrong(counts)) == (rounds, 0), counts["examples"]
    assert counts["killed"] > rounds / 4  # the moments hit
    assert counts["published"] > rounds / 4
    assert counts["conflicts"] > 0 or rounds < 60  # the races were races
    assert counts["unknown"] == 0


@pytest.mark.parametrize("layout", ["in-place", "overwrite", "state-put-first"])
def test_the_harness_sees_a_layout_that_breaks(layout: str, tmp_path: Path) -> None:
    counts = harness(str(tmp_path / "samples"), 18, layout)
    assert counts["rounds"] == 18
    assert wrong(counts) > 0
