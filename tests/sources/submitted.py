"""Runs of the job as users submit it: spark-submit jobs/generate_samples.py, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.project import PROJECT

_HOME = Path(pyspark.__file__).parent
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that came to its end."""

    code: int
    printed: str

    @property
    def error(self) -> str:
        """What it says last."""
        found = re.findall(r"^error: (.+)$", self.printed, re.MULTILINE)
        return found[-1] if found else self.printed[-3000:]


def command_of(config: Path, date: str, *submit: str, options: Sequence[str] = ()) -> list[str]:
    """The words of ``spark-submit``."""
    settings = [part for key, value in _SETTINGS.items() for part in ("--conf", f"{key}={value}")]
    job = [str(PROJECT / "jobs/generate_samples.py"), "--config", str(config), "--date", date, *options]
    return [str(_HOME / "bin/spark-submit"), "--master", "local[2]", *settings, *submit, *job]


def environ_of(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Where the job finds Spark, Python and the package."""
    own = {"SPARK_HOME": str(_HOME), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PROJECT)}
    return {**os.environ, **own, **(environ or {})}


def submitted(
    config: Path,
    date: str,
    *submit: str,
    environ: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Ended:
    """Submit a run and wait for its end. Runs in the directory of its configuration."""
    with started(config, date, *submit, environ=environ, options=options) as run:
        return ended(run)


@contextmanager
def started(
    config: Path,
    date: str,
    *submit: str,
    environ: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[subprocess.Popen[str]]:
    """Submit a run, which ends with the block at the latest."""
    with subprocess.Popen(
        command_of(config, date, *submit, options=options),
        cwd=config.parent,
        env=environ_of(environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            yield run
        finally:
            run.kill()


def ended(run: subprocess.Popen[str]) -> Ended:
    """Wait for the end of a run."""
    printed, _ = run.communicate(timeout=300)
    return Ended(run.returncode, printed)
