"""A new environment with the wheel alone, and how a user runs programs there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.project import PROJECT

_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")
"""What would let the environment of the tests into the new one."""


def installed(place: Path, extra: str) -> Path:
    """The programs of a new environment in ``place`` that has the wheel with an extra, and nothing else."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", str(PROJECT), "--no-deps", "--wheel-dir", str(place)], check=True)
    (wheel,) = place.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(place / "env")], check=True)
    constraints = ["--constraint", str(PROJECT / "constraints.txt")]
    run_in(place / "env/bin", "pip", "install", "--quiet", *constraints, f"ctr-samples[{extra}] @ {wheel.as_uri()}")
    return place / "env/bin"


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
