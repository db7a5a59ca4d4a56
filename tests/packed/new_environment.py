"""How a user runs programs whose only environment is a new one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")
"""What would let the environment of the tests into the new one."""


def variables_of(environment: Path) -> dict[str, str]:
    """The variables of that user."""
    own = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return own | {"PATH": f"{environment}:{os.environ['PATH']}"}


def run_in(environment: Path, program: str, *arguments: str) -> str:
    """What a program of the environment prints on stdout."""
    command = [str(environment / program), *arguments]
    return subprocess.run(command, env=variables_of(environment), check=True, stdout=subprocess.PIPE, text=True).stdout


def job_of(environment: Path) -> str:
    """The path of the job for spark-submit."""
    return run_in(environment, "ctr-samples", "where", "jobs/generate_samples.py").strip()
