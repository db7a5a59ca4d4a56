"""What the tests of simulations share: running the job, telling files apart, and reading what a simulation holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ctr_samples.simulator import SimulationSpec, SimulationSummary
from tests.support.project import PROJECT

JOB = PROJECT / "jobs" / "simulate_logs.py"


@dataclass
class Simulated:
    """A simulation on disk, read without the simulator's own code."""

    spec: SimulationSpec
    out: Path
    summary: SimulationSummary

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a Parquet table, with the day of their partition, if any, as ``dt``."""
        rows = []
        for file in sorted((self.out / table).rglob("*.parquet")):
            day = file.parent.name.removeprefix("dt=")
            rows += [row | {"dt": day} for row in pq.ParquetFile(file).read().to_pylist()]
        return rows

    @cached_property
    def raw_lines(self) -> list[tuple[str, str]]:
        """(day of the directory, line), malformed ones included."""
        return [(file.parent.name.removeprefix("dt="), line) for file in self.log_files() for line in _lines(file)]

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """Sound lines as objects, with the day of their directory as ``dt``."""
        return [json.loads(line) | {"dt": day} for day, line in self.raw_lines if _is_json(line)]

    @cached_property
    def truth(self) -> list[dict[str, Any]]:
        """The truth, repeated exposures included."""
        return self.rows("truth")

    def log_files(self) -> list[Path]:
        """The files of the action log, in order."""
        return sorted((self.out / "user_action").rglob("*.json"))

    def actions(self, name: str) -> list[dict[str, Any]]:
        """Sound lines of one action."""
        return [line for line in self.lines if line["param"]["action"] == name]


def _lines(file: Path) -> Iterator[str]:
    yield from file.read_text(encoding="utf-8").splitlines()


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def digests(out: Path) -> dict[str, str]:
    """The digest of each file below a directory."""
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {str(path.relative_to(out)): sha256(path.read_bytes()).hexdigest() for path in files}


def job(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the job that simulates logs."""
    environment = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"} | {"COLUMNS": "200"}
    command = [sys.executable, str(JOB), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
