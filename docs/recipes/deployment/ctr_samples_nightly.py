"""Make each night the samples that are due. What the job's exit code says decides what Airflow does next."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from datetime import timedelta

import pendulum
from airflow.sdk import BaseOperator, Context, CronTriggerTimetable, Param, dag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

COMMAND = os.environ.get("CTR_SAMPLES_COMMAND", "ctr-samples generate --config /etc/ctr_samples/feed_ctr.yaml")
"""May as well be ``spark-submit --master yarn ... generate_samples.py --config feed_ctr.yaml``, in client mode."""

ZONE = "UTC"
"""Of the schedule. Which day is due is told by ``timezone`` in the configuration."""

LONGEST = timedelta(hours=6)
"""A job that takes longer hangs. Keep it below ``output.retention.longest_run``."""

REFUSED = (2, 3)
"""Configuration and data. The next attempt would find the same, so a person is needed."""

ANOTHER_WAS_FIRST = 4


class GenerateSamples(BaseOperator):
    """Makes what is due, or the day in the parameter ``date``. Returns the paths of the manifests, the newest day last."""

    _job: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> list[str]:
        """Run the job, and turn its exit code into what Airflow knows."""
        date = context["params"]["date"]
        command = [*shlex.split(COMMAND), *(["--date", date] if date else ["--due"])]
        # A session of its own has all processes that the job starts, so that all can be ended.
        self._job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        said, _ = self._job.communicate()
        code = self._job.returncode
        if code == ANOTHER_WAS_FIRST:
            raise AirflowSkipException("Another run published first.")
        if code in REFUSED:
            raise AirflowFailException("The samples were refused; the sentence above says why.")
        if code != 0:  # a store or a cluster that failed, or a publish of unknown end: a new run finds out
            raise RuntimeError(f"The job ended with {code}.")
        return [line for line in said.splitlines() if line.endswith(".json")]

    def on_kill(self) -> None:
        """End Spark's driver too, and its executors with it, when the task is killed or takes too long."""
        if self._job is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._job.pid, signal.SIGTERM)


@dag(
    schedule=CronTriggerTimetable("0 2 * * *", timezone=ZONE),
    start_date=pendulum.datetime(2019, 6, 1, tz=ZONE),
    catchup=False,
    max_active_runs=1,  # days are compared with the day before
    params={"date": Param(None, type=["null", "string"], description="Make this day instead of those that are due.")},
)
def ctr_samples_nightly() -> None:
    """One task for each night; others may follow it, such as a training on the manifests that it returns."""
    GenerateSamples(task_id="generate", retries=3, retry_delay=timedelta(minutes=10), execution_timeout=LONGEST)


ctr_samples_nightly()
