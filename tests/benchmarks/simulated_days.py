"""Days of simulated logs."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

from tests.support.figures import size
from tests.support.project import PROJECT

IMPRESSIONS = size("STATE_IMPRESSIONS", 200_000, quick=3_000)
"""Of a day."""
FIRST = date(2019, 5, 1)


def simulated(place: Path, days: int) -> Path:
    """So many days of simulated logs."""
    how = ["--days", str(days), "--start", str(FIRST), "--impressions", str(IMPRESSIONS)]
    simulate = [sys.executable, str(PROJECT / "jobs/simulate_logs.py"), "--out", str(place), *how]
    subprocess.run(simulate, check=True, capture_output=True)
    return place
