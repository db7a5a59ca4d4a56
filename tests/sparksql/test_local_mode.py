"""Spark on one machine, as it is shipped: what `spark-submit` and `ctr-samples` start there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from ctr_samples.sparksql.session import JVM_OPTIONS
from ctr_samples.sparksql.workers import DAEMON
from tests.support.project import PROJECT

SUBMIT = str(Path(sys.executable).with_name("spark-submit"))
ON_A_LAPTOP = [SUBMIT, "--properties-file", "conf/spark-local.conf"]


def output_of(command: list[str], text: str, directory: Path) -> str:
    """Return what a program prints that a command runs."""
    program = directory / "program.py"
    program.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [*command, str(program)], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


DIES_ONCE = """
import os, signal, sys
from pathlib import Path
from ctr_samples.sparksql.session import session_of_command

def rows(batches):
    died = Path(sys.argv[1])
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    yield from batches

with session_of_command("dies once") as spark:
    print("rows:", spark.range(10).mapInArrow(rows, "id long").count())
"""


def test_the_settings_for_spark_submit_have_the_jvm_options_of_a_local_command() -> None:
    lines = (PROJECT / "conf/spark-local.conf").read_text().splitlines()
    (options,) = [line.split()[1:] for line in lines if line.startswith("spark.driver.extraJavaOptions")]
    assert options[1:] == JVM_OPTIONS.split()


@pytest.mark.slow
@pytest.mark.parametrize("command", [ON_A_LAPTOP, [sys.executable]], ids=["spark-submit", "ctr-samples"])
def test_a_python_worker_that_is_killed_costs_a_local_run_one_try(tmp_path: Path, command: list[str]) -> None:
    died = tmp_path / "died"
    assert "rows: 10" in output_of(command, DIES_ONCE.replace("sys.argv[1]", repr(str(died))), tmp_path)
    assert died.exists()


IMPORTED = """
import sys
from ctr_samples.sparksql.session import session_of_command

def imported(_):
    yield sys.modules["__main__"].__spec__.name, "ctr_samples.samples.builder" in sys.modules

with session_of_command("imported") as spark:
    print(spark.sparkContext.parallelize([0], 1).mapPartitions(imported).collect())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [[sys.executable], ON_A_LAPTOP, [SUBMIT, "--master", "local[2]"]],
    ids=["ctr-samples", "spark-submit with the settings for a laptop", "spark-submit alone"],
)
def test_a_python_worker_of_a_local_run_begins_with_the_modules_of_tasks(tmp_path: Path, command: list[str]) -> None:
    assert f"[('{DAEMON}', True)]" in output_of(command, IMPORTED, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given", [["--py-files", "packages.zip"], ["--conf", "spark.python.daemon.module=pyspark.daemon"]]
)
def test_spark_forks_the_workers_itself_if_packages_come_with_the_job_or_the_user_says_so(
    tmp_path: Path, given: list[str]
) -> None:
    packages = tmp_path / "packages.zip"
    with ZipFile(packages, "w") as archive:
        archive.writestr("a_package.py", "")
    given = [part.replace("packages.zip", str(packages)) for part in given]
    assert "[('pyspark.daemon', False)]" in output_of([SUBMIT, "--master", "local[2]", *given], IMPORTED, tmp_path)


INTERRUPTED = """
import os, signal
from ctr_samples.sparksql.session import session_of_command

driver = os.getpid()

def interrupt(batches):
    os.kill(driver, signal.SIGINT)
    yield from batches

try:
    with session_of_command("interrupted") as spark:
        spark.range(1, numPartitions=1).mapInArrow(interrupt, "id long").collect()
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.thorough
def test_an_interrupted_call_to_the_jvm_prints_no_stack_trace(tmp_path: Path) -> None:
    program = tmp_path / "interrupted.py"
    program.write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, "Traceback" in done.stderr) == ("stopped\n", False), done.stderr
