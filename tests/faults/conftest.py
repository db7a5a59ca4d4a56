"""One cluster for all tests, one long-lived application on it, and a published first generation to start from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from tests.faults.application import Application
from tests.faults.disturbed_outputs import DisturbedDay, DisturbedOutput, DisturbedStream, DisturbedTable
from tests.faults.event_log import EventLog
from tests.faults.published_day import check_whole_day
from tests.faults.rows_to_append import FIRST, append
from tests.faults.standalone_cluster import Cluster, running_cluster
from tests.support.known_day import DAY, write_known_day

_TAIL = 3_000


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_known_day(tmp_path_factory.mktemp("known_day"))


@pytest.fixture(scope="session")
def long_lived(cluster: Cluster) -> Iterator[Application]:
    events = cluster.directory / "events"
    builder = SparkSession.builder.appName("faults")
    for key, value in cluster.settings(events).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # it would print the stack trace of every planned fault
    yield Application(spark, events)
    spark.stop()


@pytest.fixture
def application(long_lived: Application) -> Application:
    long_lived.await_executors()
    return long_lived


@pytest.fixture(scope="session")
def first_day(long_lived: Application, config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "day"
    long_lived.await_executors()
    job.run(long_lived.spark, load_config(config, [f"output.path={path}"]), DAY)
    check_whole_day(path, generation=1)
    return path


@pytest.fixture(scope="session")
def first_table(long_lived: Application, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "table"
    long_lived.await_executors()
    append(long_lived.spark, path, FIRST)
    return path


@pytest.fixture
def day(first_day: Path, config: Path, tmp_path: Path) -> DisturbedDay:
    return DisturbedDay(shutil.copytree(first_day, tmp_path / "day"), config)


@pytest.fixture
def table(first_table: Path, tmp_path: Path) -> DisturbedTable:
    return DisturbedTable(shutil.copytree(first_table, tmp_path / "table"))


@pytest.fixture
def stream(long_lived: Application, tmp_path: Path) -> DisturbedStream:
    """Not copied from one that all tests share, as a checkpoint names its files by their paths."""
    long_lived.await_executors()
    return DisturbedStream(tmp_path / "stream", long_lived.spark)


@pytest.fixture(params=["day", "table"])
def output(request: pytest.FixtureRequest) -> DisturbedOutput:
    """Of the nightly job, and of the format tfrecord; a test of streams names ``stream`` itself."""
    return request.getfixturevalue(request.param)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Adds the ends of the logs to the report of a failed test."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        running = item.funcargs.get("cluster")
        logs = [*running.directory.glob("*.log"), *running.executor_logs()[-4:]] if running else []
        if "tmp_path" in item.funcargs:
            logs += item.funcargs["tmp_path"].glob("*.log")
        for log in logs:
            report.sections.append((f"end of {log}", log.read_text(errors="replace")[-_TAIL:]))
        if "long_lived" in item.funcargs:
            report.sections.append(
                ("tasks that failed", EventLog(item.funcargs["long_lived"].events).summary()[-_TAIL:])
            )
    return report
