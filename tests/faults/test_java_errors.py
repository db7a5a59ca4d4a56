"""The Java half of a task fails in mid-partition: the Python half sees its input end as if that were all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples import register
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.features.row import TRAIN
from ctr_samples.samples.sink import Progress, SinkPlan, write_shards
from ctr_samples.shards import check_receipts, check_shards, open_storage, publish, require_manifest
from ctr_samples.shards.naming import run_directory
from tests.faults.application import Application
from tests.faults.disturbed_outputs import DisturbedDay, DisturbedOutput, DisturbedTable
from tests.faults.shard_files import manifests_in, numbers_in
from tests.support.fault_plan import Fault, Faults
from tests.support.known_day import DAY

FILES, LINES = 4, 6_000  # more than the pipe between the two halves holds
NUMBERS = range(FILES * LINES)
BAD_NUMBER = 2 * LINES + 5_000
RUN = "20190606T020000-0000000b"


class Write(Protocol):
    """Writes and publishes a DataFrame with a column ``n``, in as many tasks as it has partitions."""

    def __call__(self, rows: DataFrame, output: DisturbedOutput) -> None: ...


def write_with_sink(rows: DataFrame, output: DisturbedOutput) -> None:
    """As the job does once its samples are planned; the second generation of the day gets these instead."""
    storage = open_storage(output.path)
    vector = FeatureSpec("vector", "float32", (64,))
    contract = ExampleContract((FeatureSpec("n", "int64"), vector))
    plan = SinkPlan(storage, run_directory(DAY, RUN), contract, "none", 32 * 1024)
    samples = rows.withColumns({"_split": F.lit(TRAIN), "_shuffle": F.monotonically_increasing_id()})
    receipts = write_shards(Stage.of(samples), plan, Progress.of(rows.sparkSession))
    check_receipts(receipts, FILES)
    shards = tuple(shard for receipt in receipts for shard in receipt.shards)
    check_shards(storage, shards)
    count = sum(shard.records for shard in shards)
    second = replace(
        require_manifest(storage, DAY),
        generation=2,
        run_id=RUN,
        shards=shards,
        contract={**contract.to_dict(), "fingerprint": contract.fingerprint},
        accounting={"impressions": count, "samples": count},
        views={},
    )
    publish(storage, second)


def write_with_format(rows: DataFrame, output: DisturbedOutput) -> None:
    register(rows.sparkSession)
    rows.sparkSession.createDataFrame([], "n bigint")  # makes the session the active one, where Spark looks for formats
    rows.write.format("tfrecord").mode("append").option("shardSize", "32KiB").save(str(output.path))


@pytest.fixture
def bad_file(tmp_path: Path) -> Path:
    """Of four files the third has a line that is no number; a sound one of the same size lies beside it."""
    (tmp_path / "lines").mkdir()
    for part in range(FILES):
        own = NUMBERS[part * LINES : (part + 1) * LINES]
        text = "".join(f"{n:08d}\n" for n in own)
        (tmp_path / f"lines/part-{part}.txt").write_text(text)
        if BAD_NUMBER in own:
            (tmp_path / "lines/_sound").write_text(text)  # Spark does not read files of such names
            (tmp_path / f"lines/part-{part}.txt").write_text(text.replace(f"{BAD_NUMBER:08d}", "no num. "))
            bad = tmp_path / f"lines/part-{part}.txt"
    return bad


@pytest.fixture(params=[("day", write_with_sink), ("table", write_with_format)], ids=["sink", "format"])
def target(request: pytest.FixtureRequest) -> tuple[DisturbedOutput, Write]:
    name, write = request.param
    return request.getfixturevalue(name), write


def rows_of(application: Application, bad_file: Path, faults: Faults) -> tuple[DataFrame, int]:
    """The lines as numbers, one partition for each file, and the partition that will fail.

    The line that is no number passes once the writer, which is a process behind it, has told that it has written.
    """
    lines = application.spark.read.text(str(bad_file.parent))
    (found,) = lines.where("value like 'no%'").select(F.spark_partition_id()).collect()
    gate = wait_for_the_writer(faults.place, found[0])
    number = F.col("value").cast("bigint")
    numbers = lines.mapInArrow(gate, "value string").select(number.alias("n"))
    return numbers.withColumn("vector", F.array_repeat(F.col("n").cast("float"), 64)), found[0]


def wait_for_the_writer(place: Path, partition: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that executors can run, though they do not know this module."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        note = place / f"struck-{partition}-{context.taskAttemptId()}.json"
        for batch in batches:
            deadline = time.monotonic() + 60
            while "no num. " in batch.column(0).to_pylist() and not note.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            yield batch

    return pass_on


def shards_of_second(output: DisturbedOutput) -> list[dict[str, object]]:
    place = {DisturbedDay: f"dt={DAY}/manifests", DisturbedTable: "_manifests"}[type(output)]
    return manifests_in(output.path / place)[2]["shards"]


def test_an_error_that_happens_once_costs_no_row(
    application: Application, target: tuple[DisturbedOutput, Write], bad_file: Path
) -> None:
    output, write = target
    rows, failing = rows_of(application, bad_file, output.faults)
    output.faults.plan(Fault("swap", failing, at=128, file=str(bad_file)), Fault("tell", failing, at=128))
    events = application.events_from_now()
    write(rows, output)
    assert numbers_in(output.path, shards_of_second(output)) == Counter(NUMBERS)
    assert any("CAST_INVALID_INPUT" in end.detail for end in events.task_ends())
    (failed, *_) = output.faults.notes("struck", failing)
    assert (failing, failed.attempt) in output.orphans()
    assert all(note.rows < LINES for note in output.faults.notes("ended", failing) if note.attempt == failed.attempt)


def test_an_error_in_every_attempt_publishes_nothing_though_tasks_may_seem_to_end_well(
    application: Application, target: tuple[DisturbedOutput, Write], bad_file: Path
) -> None:
    output, write = target
    rows, failing = rows_of(application, bad_file, output.faults)
    output.faults.plan(Fault("tell", failing, at=128, times=10))
    events = application.events_from_now()
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        write(rows, output)
    output.check_still_first()
    assert events.reasons()["ExceptionFailure"] == 4
    attempts = {note.attempt for note in output.faults.notes("struck", failing)}
    assert len(attempts) == 4
    assert attempts == {attempt for partition, attempt in output.orphans() if partition == failing}
    # Spark ends the workers of a failed task; one that is faster sees the end of its input and closes its shards.
    assert all(note.rows < LINES for note in output.faults.notes("ended", failing))
