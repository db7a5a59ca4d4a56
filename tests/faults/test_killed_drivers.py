"""The driver dies while its tasks write: readers keep what they had, and the next run publishes as if nothing had been."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.faults.application import Application, Run
from tests.faults.disturbed_outputs import DisturbedOutput, DisturbedStream
from tests.faults.standalone_cluster import Cluster
from tests.faults.submitted_job import SubmittedJob, submitted_job
from tests.support.fault_plan import INJECTED, Fault


def _terminate(job: SubmittedJob) -> None:
    os.kill(job.java, signal.SIGTERM)


def _interrupt(job: SubmittedJob) -> None:
    os.killpg(job.java, signal.SIGINT)


def _kill_java(job: SubmittedJob) -> None:
    os.kill(job.java, signal.SIGKILL)


def _kill_python(job: SubmittedJob) -> None:
    os.kill(job.python, signal.SIGKILL)


@pytest.mark.parametrize(
    ("output", "end"),
    [
        pytest.param("day", _terminate, id="SIGTERM to spark-submit"),
        pytest.param("day", _interrupt, id="SIGINT to all processes, as Ctrl-C does"),
        pytest.param("day", _kill_java, id="SIGKILL to spark-submit"),
        pytest.param("day", _kill_python, id="SIGKILL to the script"),
        pytest.param("table", _kill_java, id="a table, SIGKILL to spark-submit"),
        pytest.param("stream", _kill_java, id="a stream, SIGKILL to spark-submit"),
    ],
    indirect=["output"],
)
def test_a_driver_that_ends_while_tasks_write_publishes_nothing_and_disturbs_no_later_run(
    application: Application, cluster: Cluster, output: DisturbedOutput, end: Callable[[SubmittedJob], None]
) -> None:
    output.faults.plan(Fault("hold", partition=0, at=256))
    with submitted_job(output, cluster.settings(output.path.with_name("events"))) as job:
        held = output.faults.wait_for("holding", 0, job.fail_if_ended)
        output.check_still_first()
        end(job)
        assert job.exit_code() != 0
    output.check_still_first()
    assert (0, held.attempt) in output.orphans()
    output.faults.forget()
    Run(application, output).finish()
    output.check_second()


def test_a_stream_that_is_killed_between_its_commit_and_sparks_note_of_it_has_the_batch_once(
    application: Application, cluster: Cluster, stream: DisturbedStream
) -> None:
    stream.faults.plan(Fault("hold", partition=1, at="committed"))
    settings = cluster.settings(stream.path.with_name("events"))
    with submitted_job(stream, settings, PYTHONPATH=str(INJECTED)) as job:
        stream.faults.wait_for("holding", 1, job.fail_if_ended)
        _kill_java(job)
        assert job.exit_code() != 0
    stream.check_batches(2)
    assert stream.batches_that_spark_knows() == {0}
    assert stream.orphans() == []
    stream.faults.forget()
    Run(application, stream).finish()
    stream.check_second()
    assert {partition for partition, _ in stream.orphans()} == set(range(8))  # the batch was run again, for nothing


def test_a_stream_that_is_killed_right_before_a_commit_has_the_batch_once(
    application: Application, cluster: Cluster, stream: DisturbedStream
) -> None:
    stream.faults.plan(Fault("hold", partition=2, at="committing"))
    settings = cluster.settings(stream.path.with_name("events"))
    with submitted_job(stream, settings, PYTHONPATH=str(INJECTED)) as job:
        stream.faults.wait_for("holding", 2, job.fail_if_ended)
        _kill_java(job)
        assert job.exit_code() != 0
    stream.check_batches(2)
    assert stream.batches_that_spark_knows() == {0, 1}
    assert {partition for partition, _ in stream.orphans()} == set(range(8))
    stream.faults.forget()
    Run(application, stream).finish()
    stream.check_second()
    assert stream.batches_that_spark_knows() == {0, 1, 2}
