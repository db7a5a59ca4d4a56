"""A packed environment, hosts that have no other, and stores that they can reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packed import yarn
from tests.packed.bare_hosts import Cluster, copy_of_spark, running_cluster
from tests.support.hadoop import FileSystem
from tests.support.known_day import write_known_day
from tests.support.new_environment import installed, run_in
from tests.support.server_fixtures import file_system, gateway

__all__ = ["file_system", "gateway"]


@pytest.fixture(scope="session")
def shared() -> Iterator[Path]:
    """A directory that every user may read; those of pytest are for their owner alone."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can start processes of another user")
    with tempfile.TemporaryDirectory(prefix="packed-", ignore_cleanup_errors=True) as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with the wheel, where users pack and submit."""
    return installed(tmp_path_factory.mktemp("environment"), "hdfs")


@pytest.fixture(scope="session")
def archive(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``ctr-samples pack`` makes."""
    path = tmp_path_factory.mktemp("archive") / "environment.tar.gz"
    run_in(environment, "ctr-samples", "pack", "--output", str(path))
    return path


@pytest.fixture(scope="session")
def unpacked(archive: Path, shared: Path) -> Path:
    """The archive as a host has it."""
    place = shared / "unpacked"
    place.mkdir()
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(place)], check=True)
    return place


@pytest.fixture(scope="session")
def config(shared: Path) -> Path:
    """Its inputs are files of this machine, whatever the cluster's file system is."""
    root = shared / "known_day"
    root.mkdir()
    path = write_known_day(root)
    path.write_text(path.read_text().replace(f"path: {root}", f"path: file:{root}"))
    return path


@pytest.fixture(scope="session")
def spark_home(shared: Path) -> Path:
    return copy_of_spark(shared)


@pytest.fixture
def standalone(shared: Path, spark_home: Path) -> Iterator[Cluster]:
    """A new one for each test, since it loses a worker."""
    place = Path(tempfile.mkdtemp(dir=shared))
    place.chmod(0o755)
    with running_cluster(place, spark_home) as running:
        yield running


@pytest.fixture(scope="session")
def yarn_conf(shared: Path, spark_home: Path, file_system: FileSystem) -> Iterator[Path]:
    if reason := yarn.missing():
        pytest.skip(reason)
    place = shared / "yarn"
    place.mkdir()
    with yarn.running_yarn(place, spark_home, file_system.url) as conf:
        yield conf
