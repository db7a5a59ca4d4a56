"""A session with room for the rows of a benchmark, two cores and 6 GB; and the table of all figures at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.figures import Figure, Figures, table, this_run, write
from tests.support.project import PROJECT

MEASURED = pytest.StashKey[list[Figure]]()
JSON = PROJECT / "build/bench.json"


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Iterator[Figures]:
    """Takes the figures of one benchmark; at the end all are printed, and written to ``build/bench.json``."""
    collected = Figures(request.path.stem.removeprefix("test_"))
    yield collected
    request.config.stash.setdefault(MEASURED, []).extend(collected.calibrated())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, also of a run that was interrupted."""
    if measured := terminalreporter.config.stash.get(MEASURED, []):
        run = this_run(measured)
        write(run, JSON)
        terminalreporter.write_line(f"\n{table(run)}\n\nwritten to {JSON.relative_to(PROJECT)}")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.pop("SPARK_SUBMIT_OPTS", None)  # of tests, whose JVMs end before the better compiler would pay
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    for key, value in {
        "spark.driver.memory": "6g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "16",
        # Spark makes 2 tasks of some data and 3 of others, which on two cores take turns.
        "spark.sql.adaptive.coalescePartitions.minPartitionNum": "16",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
