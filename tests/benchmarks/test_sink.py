"""The sink and the ``tfrecord`` format against what else Spark could do with the same rows, measured in one run.

A million rows of 650 bytes, from the memory of the JVM. CTR_SAMPLES_BENCH_ROWS changes their number, and
CTR_SAMPLES_BENCH_MIB the size of the partition of which a worker's memory is measured.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import ctr_samples
from ctr_samples.codec import machine_code
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.measure.collecting import Wanted
from ctr_samples.records.read import damage_of
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.features.row import HOUR, SHUFFLE, SPLIT, SPLITS, TRAIN, USER
from ctr_samples.samples.sink import SinkPlan, write_shards
from ctr_samples.shards import Table, open_storage
from ctr_samples.sparksql.observations import Progress
from ctr_samples.sparksql.session import run_session
from tests.support.figures import Figures, at_least, at_most, in_turns, size

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test

ROWS = size("ROWS", 1_000_000, quick=20_000)
ROUNDS = size("ROUNDS", 5, quick=2)
MIB = size("MIB", 10_240, quick=128)
PARTITIONS = 8

CONTRACT = ExampleContract(
    (
        FeatureSpec("article_vector", "float32", (121,)),
        FeatureSpec("user_id", "int64"),
        FeatureSpec("article_id", "int64"),
        FeatureSpec("channel_id", "int64"),
        FeatureSpec("history", "int64", None),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
    )
)


def generated(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    """Rows of 121 floats, 3 ids, a history of 0 to 19 ids and a label; a tenth is for eval."""
    base = spark.range(rows, numPartitions=partitions)
    share = max(1, rows // partitions)
    noise = F.array([((F.xxhash64("id", F.lit(i)) % 2048) / 1024.0).cast("float") for i in range(11)])
    return base.select(
        F.flatten(F.array_repeat(noise, 11)).alias("article_vector"),
        F.abs(F.xxhash64("id")).alias("user_id"),
        F.col("id").alias("article_id"),
        (F.col("id") % 25).alias("channel_id"),
        F.transform(F.sequence(F.lit(1), (F.col("id") % 20).cast("int")), lambda i: F.col("id") + i).alias("history"),
        (F.col("id") % 20 == 0).cast("long").alias("clicked"),
        # In each partition one split after the other, as the job sorts them.
        F.when(F.col("id") % share < share // 10, SPLITS.index("eval")).otherwise(TRAIN).alias(SPLIT),
        F.col("id").alias(SHUFFLE),
    )


def plan(directory: Path, wanted: Wanted | None = None) -> SinkPlan:
    return SinkPlan(open_storage(directory), "", CONTRACT, "none", 128 * 2**20, wanted=wanted)


def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"receipt": [""]})


def with_tensorflow(directory: str) -> Callable[[Iterator[Any]], Iterator[int]]:
    """What people write by hand: an Example object for each row of an RDD, and TensorFlow's writer."""

    def write(rows: Iterator[Any]) -> Iterator[int]:
        import tensorflow as tf

        def feature(value: Any) -> Any:
            if isinstance(value, list) and value and isinstance(value[0], float):
                return tf.train.Feature(float_list=tf.train.FloatList(value=value))
            values = value if isinstance(value, list) else [value]
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

        count = 0
        with tf.io.TFRecordWriter(f"{directory}/{os.getpid()}-{time.time_ns()}.tfrecord") as writer:
            for row in rows:
                features = {name: feature(value) for name, value in row.asDict().items() if name in CONTRACT.names()}
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
                count += 1
        yield count

    return write


def test_the_sink_against_handing_over_the_same_rows(figures: Figures, spark: SparkSession, tmp_path: Path) -> None:
    ctr_samples.register(spark)
    with_more = generated(spark, ROWS, PARTITIONS).withColumns(
        {HOUR: (F.col("article_id") % 24).cast("tinyint"), USER: (F.col("user_id") % 50_000).cast("string")}
    )
    with_more = with_more.persist()
    with_more.count()
    rows = with_more.drop(HOUR, USER)
    out = tmp_path / "out"

    def sink() -> None:
        receipts = write_shards(Stage.of(rows), plan(out), Progress.of(spark))
        assert sum(shard.records for receipt in receipts for shard in receipt.shards) == ROWS

    def measured() -> None:
        wanted = Wanted(CONTRACT, "clicked", HOUR, USER, "article_id", {"article_vector": 0.0, "channel_id": 0})
        receipts = write_shards(Stage.of(with_more), plan(out, wanted), Progress.of(spark))
        assert all(receipt.measures for receipt in receipts)

    def data_source() -> None:
        rows.drop(SPLIT, SHUFFLE).write.format("tfrecord").mode("append").save(str(out))

    def by_hand() -> None:
        out.mkdir()
        assert sum(rows.rdd.mapPartitions(with_tensorflow(str(out))).collect()) == ROWS

    ways: dict[str, Callable[[], object]] = {
        "dropped": lambda: rows.mapInArrow(drop, "receipt string").collect(),
        "sink": sink,
        "sink that measures": measured,
        "data source": data_source,
        "Parquet": lambda: rows.write.parquet(str(out)),
        "noop": lambda: rows.write.format("noop").mode("overwrite").save(),
    }

    def without_files() -> None:
        shutil.rmtree(out, ignore_errors=True)
        os.sync()

    slow = {"RDD and TensorFlow": by_hand, "sink": sink, "data source": data_source}
    seconds = in_turns(ways, ROUNDS, without_files)
    slowly = in_turns(slow, min(ROUNDS, 2), without_files)  # half a minute each
    for name, some in [*seconds.items(), ("RDD and TensorFlow", slowly["RDD and TensorFlow"])]:
        figures.add(f"{ROWS:,} rows: {name}", some, "s")
    for ours in ("sink", "data source"):
        figures.add(f"{ours}, time vs. dropping the rows", seconds[ours] / seconds["dropped"], "x", at_most(1.25))
        figures.add(f"{ours}, time vs. Parquet", seconds[ours] / seconds["Parquet"], "x", at_most(0.5))
        faster = slowly["RDD and TensorFlow"] / slowly[ours]
        figures.add(f"{ours}, speed vs. RDD and TensorFlow", faster, "x", at_least(9))
    figures.add("sink that measures, time vs. sink", seconds["sink that measures"] / seconds["sink"], "x", at_most(1.1))
    with_more.unpersist()


def test_what_the_data_source_wrote_is_whole(spark: SparkSession, tmp_path: Path) -> None:
    ctr_samples.register(spark)
    rows = generated(spark, 10_000, 4).drop(SPLIT, SHUFFLE)
    rows.write.format("tfrecord").mode("append").save(str(tmp_path / "out"))
    table = Table(open_storage(tmp_path / "out"))
    current = table.current()
    assert current is not None
    assert current.records == 10_000
    assert list(damage_of(table.storage, current.shards)) == []


def test_a_worker_stays_small_whatever_its_partition_holds(
    figures: Figures, spark: SparkSession, tmp_path: Path
) -> None:
    machine_code.kernels()  # compiled now, not in a worker
    task = write_shards.__globals__["_Task"](plan(tmp_path / "out"), Progress.of(spark))

    def peak(batches: Iterator[pa.RecordBatch], write: bool) -> Iterator[pa.RecordBatch]:
        largest = 0

        def watched() -> Iterator[pa.RecordBatch]:
            nonlocal largest
            for batch in batches:
                largest = max(largest, batch.nbytes)
                yield batch

        for _ in task(watched()) if write else watched():
            pass
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield pa.RecordBatch.from_pydict({"peak": [kilobytes], "batch": [largest]})

    limit = "spark.sql.execution.arrow.maxBytesPerBatch"
    of_the_job = int(run_session(spark, "UTC").conf.get(limit) or 0)
    for bytes_, whose, goal in ((of_the_job, "the job's", at_most(256)), (64 * 2**20, "Spark's largest", None)):
        session = spark.newSession()
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 10**6)  # wide rows: only bytes limit a batch
        session.conf.set(limit, bytes_)
        for write in (False, True):
            mib = MIB if write else min(MIB, 256)
            # Other variables, another worker: the peak of one that is reused might be that of an earlier task.
            session.sparkContext.environment["PEAK_OF"] = f"{whose}, {write}"
            some = generated(session, mib * 2**20 // 650, 1)
            (found,) = some.mapInArrow(partial(peak, write=write), "peak long, batch long").collect()
            what = (
                f"{mib:,} MiB in batches of {whose} size, peak of a worker that {'writes' if write else 'drops'} them"
            )
            figures.add(what, [found["peak"] / 1024], "MiB", goal)
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
        figures.add(f"batches of {whose} size, the largest", [found["batch"] / 2**20], "MiB")
