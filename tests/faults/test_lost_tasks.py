"""Tasks that fail or lose their Python worker, while executors and driver live."""

from __future__ import annotations

import pytest

from ctr_samples.sparksql.failures import SPARK_FAILURES
from tests.faults.application import Application, Run
from tests.faults.disturbed_outputs import DisturbedDay, DisturbedOutput, DisturbedTable
from tests.faults.standalone_cluster import Cluster
from tests.faults.submitted_job import submitted_job
from tests.support.fault_plan import Fault


@pytest.mark.parametrize("output", ["day", "table", "stream"], indirect=True)
def test_a_task_that_fails_once_is_run_again_and_its_first_files_are_named_nowhere(
    application: Application, output: DisturbedOutput
) -> None:
    output.faults.plan(Fault("raise", partition=2, at=256))
    run = Run(application, output)
    run.finish()
    output.check_second()
    (struck,) = output.faults.notes("struck", partition=2)
    failures = run.events.failures()
    assert "InjectedFault" in failures[struck.attempt].detail
    assert (2, struck.attempt) in output.orphans()
    assert {attempt for _, attempt in output.orphans()} <= set(failures)


def test_a_python_worker_that_is_killed_is_replaced(application: Application, output: DisturbedOutput) -> None:
    output.faults.plan(Fault("kill", partition=3, at=256))
    run = Run(application, output)
    run.finish()
    output.check_second()
    (killed,) = output.faults.notes("struck", partition=3)
    failures = run.events.failures()
    assert "Python worker exited unexpectedly" in failures[killed.attempt].detail
    assert output.faults.notes("written", partition=3)[-1].worker != killed.worker
    assert (3, killed.attempt) in output.orphans()
    assert {attempt for _, attempt in output.orphans()} <= set(failures)


def test_a_task_that_fails_four_times_fails_the_job_and_publishes_nothing(cluster: Cluster, day: DisturbedDay) -> None:
    day.faults.plan(Fault("raise", partition=1, at=256, times=10))
    with submitted_job(day, cluster.settings(day.path.with_name("events"))) as job:
        assert job.exit_code() == 1
        assert "InjectedFault" in job.said()
    check_four_attempts_and_nothing_published(day)


def test_a_task_that_fails_four_times_fails_the_write_of_a_table(
    application: Application, table: DisturbedTable
) -> None:
    table.faults.plan(Fault("raise", partition=1, at=256, times=10))
    run = Run(application, table)
    with pytest.raises(SPARK_FAILURES, match="InjectedFault"):
        run.finish()
    check_four_attempts_and_nothing_published(table)


def check_four_attempts_and_nothing_published(output: DisturbedOutput) -> None:
    output.check_still_first()
    attempts = {note.attempt for note in output.faults.notes("struck", partition=1)}
    assert len(attempts) == output.faults.fired() == 4
    assert attempts == {attempt for partition, attempt in output.orphans() if partition == 1}
