"""Make the samples of each day when its night is over. What the job's exit code says decides what Airflow does next."""

from __future__ import annotations

import os
import shlex
import subprocess
from datetime import timedelta

import pendulum
from airflow.sdk import CronTriggerTimetable, dag, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

COMMAND = os.environ.get("CTR_SAMPLES_COMMAND", "ctr-samples generate --config /etc/ctr_samples/feed_ctr.yaml")
"""May as well be ``spark-submit --master yarn ... generate_samples.py --config feed_ctr.yaml``, in client mode."""

ZONE = "UTC"
"""As ``timezone`` in the configuration."""

REFUSED = (2, 3)
"""Configuration and data. The next attempt would find the same, so a person is needed."""

ANOTHER_WAS_FIRST = 4


@dag(
    schedule=CronTriggerTimetable("0 2 * * *", timezone=ZONE),
    start_date=pendulum.datetime(2019, 6, 1, tz=ZONE),
    catchup=False,
    max_active_runs=1,  # days are compared with the day before
)
def ctr_samples_nightly() -> None:
    """One task for each night; others may follow it, such as a training on the manifest that it returns."""

    @task(retries=3, retry_delay=timedelta(minutes=10))
    def generate(logical_date: pendulum.DateTime) -> str:
        """Give the path of the day's manifest."""
        day = logical_date.in_timezone(ZONE).subtract(days=1).to_date_string()
        done = subprocess.run([*shlex.split(COMMAND), "--date", day], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == ANOTHER_WAS_FIRST:
            raise AirflowSkipException(f"Another run published {day} first.")
        if done.returncode in REFUSED:
            raise AirflowFailException(f"The samples of {day} were refused; the sentence above says why.")
        if done.returncode != 0:  # a store or a cluster that failed, or a publish of unknown end: a new run finds out
            raise RuntimeError(f"The job for {day} ended with {done.returncode}.")
        return done.stdout.split()[-1]

    generate()


ctr_samples_nightly()
