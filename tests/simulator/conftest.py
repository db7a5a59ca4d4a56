"""Simulations that many tests look at, made once."""

from __future__ import annotations

import pytest

from ctr_samples.simulator import SimulationSpec, simulate
from tests.simulator.simulated_files import Simulated


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
