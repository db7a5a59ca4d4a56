"""A real standalone cluster on loopback: a master and two workers that stand for two hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.fault_plan import INJECTED, wait_until

SPARK_HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.2", "127.0.0.3")
"""Speculation starts a second attempt on another host only."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java processes that end before a better compiler would pay."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the master listens, and the directory with the logs of all processes."""

    url: str
    directory: Path

    def settings(self, event_log: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Settings of an application with one executor of two cores on each host."""
        event_log.mkdir(parents=True, exist_ok=True)
        return {
            "spark.master": self.url,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "700m",
            "spark.driver.extraJavaOptions": _SHORT_LIVED,
            "spark.executor.extraJavaOptions": _SHORT_LIVED,
            "spark.executor.memory": "600m",
            "spark.executor.cores": "2",
            "spark.cores.max": "4",
            "spark.executorEnv.PYTHONPATH": str(INJECTED),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": event_log.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.locality.wait": "0s",  # tasks go to both hosts at once
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # no task before both executors are there
            "spark.shuffle.io.retryWait": "200ms",  # a lost executor does not come back
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",  # both hosts have a part of each shuffle
            "spark.sql.execution.arrow.maxRecordsPerBatch": "64",  # many batches in each partition
            **(more or {}),
        }

    def executor_logs(self) -> list[Path]:
        """What executors wrote to stderr, the latest last."""
        return sorted(self.directory.glob("w*/app-*/*/stderr"), key=lambda log: log.stat().st_mtime)


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """Started when both workers are registered; its processes are ended by their ids."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        log = directory / "master.log"
        arguments = ["master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        started.append(_start(log, arguments, {"SPARK_LOCAL_IP": "127.0.0.1"}))
        found = _await_line(log, r"Starting Spark master at (spark://\S+)", 1, started)
        for host in HOSTS:
            own = ["worker.Worker", "--host", host, "--webui-port", "0", "-c", "4", "-m", "4G"]
            own += ["-d", str(directory / f"w-{host}"), found[0]]
            started.append(_start(directory / f"w-{host}.log", own, {"SPARK_LOCAL_IP": host}))
        _await_line(log, r"Registering worker (\S+)", len(HOSTS), started)
        yield Cluster(found[0], directory)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Of a Spark process; everyone uses this interpreter, or workers find no pyarrow."""
    own = {
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _SHORT_LIVED,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # a fixed port that nobody needs
    }
    return {**os.environ, **own, **more}


def _start(log: Path, arguments: list[str], more: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """``spark-class`` becomes the Java process, so that its id is the one to end."""
    command = [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, env=environment(more), start_new_session=True)


def _await_line(log: Path, pattern: str, times: int, alive: list[subprocess.Popen[bytes]]) -> list[str]:
    def lines() -> list[str]:
        found = re.findall(pattern, log.read_text(errors="replace"))
        return found if len(found) >= times else []

    def fail_if_dead() -> None:
        for process in alive:
            if process.poll() is not None:
                raise RuntimeError(f"A process of the cluster ended early: {process.args}. {log.read_text()[-2000:]}")

    return list(wait_until(lines, pattern, fail_if_dead))
