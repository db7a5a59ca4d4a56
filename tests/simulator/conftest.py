"""Two small simulations that many tests look at, made once, and readers of what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ctr_samples.simulator import SimulationSpec, SimulationSummary, simulate


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


@pytest.fixture(scope="session")
def two_days(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Two days of 10,000 impressions with many traps."""
    spec = SimulationSpec(
        days=2, impressions=10_000, seed=7, malformed_rate=0.02, repeat_rate=0.1, orphan_click_rate=0.05
    )
    out = tmp_path_factory.mktemp("two_days") / "simulated"
    return Simulated(spec, out, simulate(spec, out))


@pytest.fixture(scope="session")
def sixty_thousand(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """Two days of 30,000 impressions, all knobs at their defaults."""
    spec = SimulationSpec(days=2, impressions=30_000)
    out = tmp_path_factory.mktemp("sixty_thousand") / "simulated"
    return Simulated(spec, out, simulate(spec, out))


@pytest.fixture(scope="session")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """A day in which twenty users see the same sixty articles over and over, and click late."""
    spec = SimulationSpec(
        days=1, impressions=4_000, users=20, articles=60, late_click_rate=0.4, orphan_click_rate=0.5, repeat_rate=0.1
    )
    out = tmp_path_factory.mktemp("crowded") / "simulated"
    return Simulated(spec, out, simulate(spec, out))
