"""Executors that die with tasks or with shuffle files, and tasks that run twice at the same time."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from tests.faults.application import Application, Run
from tests.faults.disturbed_outputs import DisturbedDay, DisturbedOutput
from tests.faults.event_log import EventLog
from tests.faults.standalone_cluster import Cluster
from tests.faults.submitted_job import submitted_job
from tests.support.fault_plan import Fault, Note, wait_until
from tests.support.known_day import PARTITIONS


def test_an_executor_that_is_killed_in_mid_task_costs_the_job_no_sample(cluster: Cluster, day: DisturbedDay) -> None:
    day.faults.plan(Fault("hold", partition=4, at=256))
    log = day.path.with_name("events")
    with submitted_job(day, cluster.settings(log)) as job:
        killed = kill_executor_in_mid_task(day, job.fail_if_ended)
        assert job.exit_code() == 0
    check_second_after(killed, day, EventLog(log))


@pytest.mark.parametrize("output", ["table", "stream"], indirect=True)
def test_an_executor_that_is_killed_in_mid_task_costs_a_table_no_row(
    application: Application, output: DisturbedOutput
) -> None:
    output.faults.plan(Fault("hold", partition=4, at=256))
    run = Run(application, output)
    killed = kill_executor_in_mid_task(output, run.fail_if_ended)
    run.finish()
    check_second_after(killed, output, run.events)


def kill_executor_in_mid_task(output: DisturbedOutput, unless: Callable[[], None]) -> Note:
    killed = output.faults.wait_for("holding", 4, unless)
    output.check_still_first()
    os.kill(killed.executor, signal.SIGKILL)
    return killed


def check_second_after(killed: Note, output: DisturbedOutput, events: EventLog) -> None:
    output.check_second()
    assert output.faults.notes("written", partition=4)[-1].executor != killed.executor
    assert (4, killed.attempt) in output.orphans()
    assert events.reasons()["ExecutorLostFailure"] >= 1


def test_shuffle_files_that_are_lost_with_their_executor_are_made_again(
    application: Application, output: DisturbedOutput
) -> None:
    held = PARTITIONS - 1
    output.faults.plan(Fault("hold", held, at=256), Fault("raise", held, at=256))
    run = Run(application, output)
    first = output.faults.wait_for("holding", held, run.fail_if_ended)
    wait_until(lambda: application.has_only_one_task_left(PARTITIONS), "the other partitions", run.fail_if_ended)
    (other,) = {note.executor for note in output.faults.notes("started")} - {first.executor}
    os.kill(other, signal.SIGKILL)  # it runs no task and has half of the map outputs
    wait_until(lambda: application.executors() == 1, "Spark to miss the executor")
    output.faults.release()  # the task fails, and the next attempt must fetch again
    run.finish()
    output.check_second()
    ends = run.events.task_ends()
    assert Counter(end.reason for end in ends)["FetchFailed"] >= 1
    assert {end.stage_attempt for end in ends if end.reason == "Success"} == {0, 1}
    assert set(output.orphans()) == {(held, first.attempt)}  # no task that had ended was run again


def test_of_two_attempts_that_both_finish_one_counts(cluster: Cluster, output: DisturbedOutput) -> None:
    output.faults.plan(Fault("meet", partition=6, at="written", times=2))
    log = output.path.with_name("events")
    eager = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "500ms",
    }
    with submitted_job(output, cluster.settings(log, eager)) as job:
        assert job.exit_code() == 0
    second = output.check_second()
    both = output.faults.notes("written", partition=6)
    assert len({note.executor for note in both}) == 2
    named = [shard["path"] for shard in second if shard["partition"] == 6]
    (loser,) = {note.attempt for note in both} - {int(path.split("-")[-2]) for path in named}
    assert output.orphans().count((6, loser)) == len(named)
    assert any(end.speculative for end in EventLog(log).task_ends())
