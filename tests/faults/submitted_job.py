"""A job as a scheduler starts it: spark-submit, a process of its own that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.disturbed_outputs import DisturbedOutput
from tests.faults.standalone_cluster import SPARK_HOME, environment
from tests.support.fault_plan import wait_until
from tests.support.project import PROJECT


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """spark-submit is the Java half of the driver; its child is the Python half, which runs the job's script."""

    process: subprocess.Popen[bytes]
    script: str
    log: Path

    @property
    def java(self) -> int:
        """Process id of spark-submit."""
        return self.process.pid

    @property
    def python(self) -> int:
        """Process id of the job's script. Workers that help to plan are children of spark-submit, too."""
        files = Path(f"/proc/{self.java}/task").glob("*/children")
        children = [int(pid) for file in files for pid in file.read_text().split()]
        (script,) = [pid for pid in children if self.script in Path(f"/proc/{pid}/cmdline").read_text().split("\0")]
        return script

    def fail_if_ended(self) -> None:
        """Raises when the job has come to an end that the test did not expect."""
        if self.process.poll() is not None:
            raise RuntimeError(f"The job ended early with exit code {self.process.returncode}: {self.said()[-3000:]}")

    def exit_code(self) -> int:
        """Waits for both halves to end; a signal's number is negative."""
        code = self.process.wait(240)
        wait_until(lambda: not _group_lives(self.java), "the end of all processes of the job", seconds=60)
        return code

    def said(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")


@contextmanager
def submitted_job(output: DisturbedOutput, settings: Mapping[str, str], **variables: str) -> Iterator[SubmittedJob]:
    """Writes the second generation. Runs until its end or the block's; nothing of it lives longer."""
    log = Path(f"{output.path}.log")
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command = [str(SPARK_HOME / "bin/spark-submit"), *options, *output.arguments]
    own = environment({"SPARK_LOCAL_IP": "127.0.0.1", **variables})
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=own, cwd=PROJECT, start_new_session=True)
    try:
        yield SubmittedJob(process, output.arguments[0], log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
