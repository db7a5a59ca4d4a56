"""A driver in this process, for the faults that a driver survives."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tests.faults.disturbed_outputs import DisturbedOutput
from tests.faults.event_log import EventLog
from tests.faults.standalone_cluster import HOSTS
from tests.support.fault_plan import wait_until


@dataclass(frozen=True)
class Application:
    """A Spark application and the directory of its event log."""

    spark: SparkSession
    events: Path

    def await_executors(self) -> None:
        """One on each host; those that an earlier test killed are replaced."""
        wait_until(lambda: self.executors() == len(HOSTS), "an executor on each host")

    def executors(self) -> int:
        """How many Spark knows of; the driver's own block manager is none."""
        return int(self.spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1

    def has_only_one_task_left(self, tasks: int) -> bool:
        """Whether all others of a stage with so many tasks have ended, and Spark knows it."""
        tracker = self.spark.sparkContext.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(info and info.numTasks == tasks and info.numCompletedTasks == tasks - 1 for info in infos)

    def events_from_now(self) -> EventLog:
        """The events of the jobs that begin after this call."""
        return EventLog(self.events, int(time.time() * 1000))


class Run:
    """Writes the second generation in a thread, so that the test can watch it."""

    def __init__(self, application: Application, output: DisturbedOutput) -> None:
        self.events = application.events_from_now()
        pool = ThreadPoolExecutor(1)
        self._future = pool.submit(output.write, application.spark)
        pool.shutdown(wait=False)

    def fail_if_ended(self) -> None:
        """Raises when it has come to an end that the test did not expect."""
        if self._future.done():
            self._future.result()
            raise RuntimeError("The run ended before the test expected it.")

    def finish(self) -> None:
        """Wait for its end; raises what it raised."""
        self._future.result(240)
