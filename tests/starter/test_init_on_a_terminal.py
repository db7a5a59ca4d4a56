"""``ctr-samples init`` on a terminal: what it asks, and that the answers stand in the file."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from ctr_samples.config import JobConfig, load_config
from tests.starter.truths_of_others import SETS
from tests.support.project import PROJECT

pytestmark = pytest.mark.thorough


def on_a_terminal(root: Path, *inputs: Path, answers: str) -> tuple[JobConfig, str]:
    """What the command drafts, and all that stands on a terminal on which somebody types the answers."""
    terminal, own = pty.openpty()
    command = [sys.executable, "-m", "ctr_samples", "init", *map(str, inputs), "--output", str(root / "mine.yaml")]
    running = subprocess.Popen(command, stdin=own, stdout=own, stderr=own, env={**os.environ, "TERM": "dumb"})
    os.close(own)
    os.write(terminal, answers.encode())
    seen = b""
    try:
        while part := os.read(terminal, 4096):
            seen += part
    except OSError:  # the program has closed its side
        pass
    os.close(terminal)
    assert running.wait() == 0, seen.decode()
    return load_config(root / "mine.yaml").config, seen.decode()


def test_the_log_of_the_tutorial_leaves_nothing_to_ask(tmp_path: Path) -> None:
    for name in ("log", "items"):
        table = parquet.ParquetFile(PROJECT / f"data/open_bandit/{name}.parquet").read().to_pandas()
        table.drop(columns="user_item_affinity", errors="ignore").to_csv(tmp_path / f"{name}.csv", index=False)
    config, seen = on_a_terminal(tmp_path, tmp_path / "log.csv", tmp_path / "items.csv", answers="")
    assert "Number" not in seen
    assert set(config.labels) == {"click"}
    assert set(config.impressions.keys) == {"item"}, "the log has no users"


def test_the_zone_of_the_ads_is_asked_with_what_each_answer_means(tmp_path: Path) -> None:
    SETS["ads"].write(tmp_path)
    inputs = [tmp_path / one for one in SETS["ads"].inputs]
    config, seen = on_a_terminal(tmp_path, *inputs, answers="2\n")
    assert "In which zone does a day begin?" in seen
    assert "1  UTC: at UTC+00:00; all rows are of the days that their paths say" in seen
    assert "2  Etc/GMT+3: at UTC-03:00; 14% of the rows of eventos would be of another day than their path says" in seen
    assert seen.count("Number") == 1
    assert config.timezone == "Etc/GMT+3"


def test_an_encoding_that_bytes_leave_open_is_asked_and_stands_in_the_file(tmp_path: Path) -> None:
    rows = [f"u{n % 9};ł{n % 7};2022-04-22 {n % 24:02}:00:00;{n % 4 // 3}" for n in range(60)]
    (tmp_path / "log.csv").write_bytes("\n".join(["user_id;item_id;at;click", *rows, ""]).encode("windows-1250"))
    config, seen = on_a_terminal(tmp_path, tmp_path / "log.csv", answers="17\n2\n")
    assert "In which encoding is log?" in seen
    assert "2  windows-1250: reads ł0, ł1" in seen
    assert "There is no 17; expected a number from 1 to" in seen
    assert config.sources["log"].encoding == "windows-1250"
