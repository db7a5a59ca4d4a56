"""Hosts with Spark and nothing else of ours: processes of another user, in another directory, with an empty environment."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.daemons import Daemons, daemons_in

NOBODY = 65534
HOSTS = ("127.0.0.2", "127.0.0.3")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A standalone cluster: where its master listens, and the directory with the logs of all processes."""

    url: str
    directory: Path


def as_nobody(command: list[str], **variables: str) -> list[str]:
    """A command without rights and without this environment; it ends with the tests."""
    own = {"PATH": "/usr/local/bin:/usr/bin:/bin", **variables}
    identity = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--pdeathsig", "KILL"]
    return ["setpriv", *identity, "env", "-i", *(f"{name}={value}" for name, value in own.items()), *command]


def owned_by_nobody(directory: Path) -> Path:
    """A new directory that these processes may write to."""
    directory.mkdir()
    os.chown(directory, NOBODY, NOBODY)
    return directory


def copy_of_spark(directory: Path) -> Path:
    """Spark as it is installed on hosts of a cluster: its jars and scripts, and no Python packages beside it."""
    source, target = Path(pyspark.__file__).parent, directory / "spark"
    for name in ("bin", "jars", "python/lib"):
        shutil.copytree(source / name, target / name)
    return target


@contextmanager
def running_cluster(directory: Path, spark: Path) -> Iterator[Cluster]:
    """A master and two workers, on addresses of their own."""
    with daemons_in(directory) as daemons:
        master = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        _start(daemons, spark, "master.Master", "master", "127.0.0.1", master)
        url = _await(daemons, directory / "master.log", r"Starting Spark master at (spark://\S+)", 1)
        for host in HOSTS:
            work = owned_by_nobody(directory / f"work-{host}")
            worker = ["--host", host, "--webui-port", "0", "-c", "2", "-m", "2G", "-d", str(work), url]
            _start(daemons, spark, "worker.Worker", f"worker-{host}", host, worker)
        _await(daemons, directory / "master.log", r"(Registering worker) \S+", len(HOSTS))
        yield Cluster(url, directory)


def _start(daemons: Daemons, spark: Path, program: str, name: str, host: str, arguments: list[str]) -> None:
    """``spark-class`` becomes the Java process, so that its id is the one to end."""
    options = "-Dspark.master.rest.enabled=false -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    own = {"SPARK_HOME": str(spark), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"}
    command = [str(spark / "bin/spark-class"), f"org.apache.spark.deploy.{program}", *arguments]
    daemons.start(name, as_nobody(command, SPARK_DAEMON_JAVA_OPTS=options, **own))


def _await(daemons: Daemons, log: Path, pattern: str, times: int) -> str:
    daemons.wait_until(lambda: len(re.findall(pattern, log.read_text(errors="replace"))) >= times, pattern)
    return re.findall(pattern, log.read_text(errors="replace"))[0]
