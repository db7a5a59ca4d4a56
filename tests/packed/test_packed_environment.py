"""An archive is all that the hosts of a cluster need beside Spark: their samples have the bytes of those made in local mode."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from ctr_samples.shards import open_storage, require_manifest
from tests.packed.bare_hosts import Cluster
from tests.support import ceph
from tests.support.fault_plan import INJECTED, Fault, Faults, Note, wait_until
from tests.support.known_day import DAY
from tests.support.new_environment import job_of, variables_of

_QUICK = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "700m",
    "spark.executor.memory": "600m",
    "spark.executor.cores": "2",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",  # many batches in each partition: there is a middle
}


@dataclass(frozen=True, slots=True)
class Destination:
    """Where samples go, and the variables that lead a process there."""

    url: str
    variables: dict[str, str]


@pytest.fixture(params=["S3", "HDFS"])
def destination(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Destination:
    name = request.node.originalname
    if request.param == "S3":
        made = Destination(f"s3://{ceph.BUCKET}/{name}", request.getfixturevalue("gateway").environ)
    else:
        # The files of a run belong to one user, whoever runs its executors.
        url = f"{request.getfixturevalue('file_system').url}/{name}"
        made = Destination(url, {"HADOOP_USER_NAME": "root"})
    for variable, value in made.variables.items():
        monkeypatch.setenv(variable, value)
    return made


@pytest.fixture(scope="module")
def made_locally(environment: Path, config: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    output = tmp_path_factory.mktemp("local") / "samples"
    day = ["--config", str(config), "--date", str(DAY), "--set", f"output.path={output}"]
    subprocess.run([str(environment / "ctr-samples"), "generate", *day], env=variables_of(environment), check=True)
    return shards_of(str(output))


@pytest.fixture
def faults(shared: Path, request: pytest.FixtureRequest) -> Faults:
    """A task holds in mid-run. The plan lies where another user can note what happens."""
    made = Faults(shared / request.node.name.replace("[", "-").rstrip("]"))
    made.plan(Fault("hold", partition=4, at=64))
    made.place.chmod(0o777)
    if not (shared / "injected").exists():
        shutil.copytree(INJECTED, shared / "injected")
    return made


def test_a_standalone_cluster_without_python_packages_loses_a_worker_and_makes_the_bytes_of_local_mode(
    environment: Path,
    archive: Path,
    config: Path,
    standalone: Cluster,
    destination: Destination,
    faults: Faults,
    made_locally: list[bytes],
    tmp_path: Path,
) -> None:
    settings = {
        "spark.master": standalone.url,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "environment/bin/python",
        "spark.pyspark.driver.python": str(environment / "python"),
        **variables_of_executors(destination, faults),
    }
    log = tmp_path / "submit.log"
    with log.open("wb") as file:
        job = submit(environment, settings, [job_of(environment), "--config", str(config)], destination, file)
        killed = wait_for_hold(job, faults, log)
        worker = parent_of(killed.executor)
        assert "worker.Worker" in Path(f"/proc/{worker}/cmdline").read_text()
        for process in (worker, killed.executor, killed.worker):
            os.kill(process, signal.SIGKILL)
        assert job.wait(300) == 0, log.read_text()[-3000:]
    assert faults.notes("written", partition=4)[-1].executor != killed.executor
    assert shards_of(destination.url) == made_locally != []


def test_yarn_without_python_packages_runs_the_driver_too_loses_an_executor_and_makes_the_bytes_of_local_mode(
    environment: Path,
    archive: Path,
    config: Path,
    yarn_conf: Path,
    spark_home: Path,
    destination: Destination,
    faults: Faults,
    made_locally: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    settings = {
        "spark.master": "yarn",
        "spark.submit.deployMode": "cluster",
        "spark.executor.instances": "2",
        "spark.yarn.jars": f"local:{spark_home}/jars/*",
        "spark.yarn.dist.archives": f"{archive}#environment",
        "spark.yarn.dist.files": str(config),
        "spark.pyspark.python": "environment/bin/python",
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in destination.variables.items()},
        **variables_of_executors(destination, faults),
    }
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn_conf))
    log = tmp_path / "submit.log"
    with log.open("wb") as file:
        job = submit(environment, settings, [job_of(environment), "--config", config.name], destination, file)
        killed = wait_for_hold(job, faults, log)
        for process in (killed.executor, killed.worker):
            os.kill(process, signal.SIGKILL)
        assert job.wait(300) == 0, log.read_text()[-3000:]
    assert faults.notes("written", partition=4)[-1].executor != killed.executor
    assert shards_of(destination.url) == made_locally != []


def submit(
    environment: Path, settings: dict[str, str], job: list[str], destination: Destination, log: BinaryIO
) -> subprocess.Popen[bytes]:
    options = [part for key, value in (_QUICK | settings).items() for part in ("--conf", f"{key}={value}")]
    command = [str(environment / "spark-submit"), *options, *job, "--date", str(DAY)]
    command += ["--set", f"output.path={destination.url}"]
    own = {**variables_of(environment), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.Popen(command, env=own, stdout=log, stderr=log, cwd="/")


def variables_of_executors(destination: Destination, faults: Faults) -> dict[str, str]:
    own = {"PYTHONPATH": str(faults.place.parent / "injected"), "FAULTS": str(faults.place), **destination.variables}
    return {f"spark.executorEnv.{name}": value for name, value in own.items()}


def wait_for_hold(job: subprocess.Popen[bytes], faults: Faults, log: Path) -> Note:
    def fail_if_ended() -> None:
        assert job.poll() is None, log.read_text()[-3000:]

    return wait_until(lambda: faults.notes("holding", 4), "a task that holds", fail_if_ended, seconds=240)[0]


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def shards_of(url: str) -> list[bytes]:
    """The bytes of a day's shards, in the order of its manifest."""
    storage = open_storage(url)
    found = []
    for shard in require_manifest(storage, DAY).shards:
        with storage.open(shard.path) as file:
            found.append(file.read())
    return found
