"""What the tests of simulations share: running the job, and telling files apart."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

JOB = Path(__file__).parents[2] / "jobs" / "simulate_logs.py"


def digests(out: Path) -> dict[str, str]:
    """The digest of each file below a directory."""
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {str(path.relative_to(out)): sha256(path.read_bytes()).hexdigest() for path in files}


def job(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the job that simulates logs."""
    environment = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"} | {"COLUMNS": "200"}
    command = [sys.executable, str(JOB), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
