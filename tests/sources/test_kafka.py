"""A topic of a real Kafka that is drained into a table in the format tfrecord."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from ctr_samples.shards import Table, open_storage
from tests.sources import broker
from tests.sources.broker import PARTITIONS, connector, running_broker
from tests.support.daemons import daemons_in
from tests.support.project import PROJECT

SPARK = "4.1.4"
"""The newest one that a published connector fits."""
MESSAGE = {name: tf.io.FixedLenFeature([], tf.int64) for name in ("n", "partition", "offset")}


@pytest.fixture(scope="module")
def python() -> str:
    """That of an environment with the release of Spark."""
    made = subprocess.run(["tools/spark-env", SPARK], cwd=PROJECT, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"Spark {SPARK} cannot be installed: {made.stderr[-200:]}")
    return str(PROJECT / made.stdout.strip())


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[str]:
    """Its address."""
    if reason := broker.missing():
        pytest.skip(reason)
    with running_broker(tmp_path) as address:
        yield address


def command(python: str, *arguments: str | Path) -> list[str]:
    """Of spark-submit, for topic.py."""
    home = Path(python).parent.parent.glob("lib/python*/site-packages/pyspark")
    settings = ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.log.level=WARN"]
    options = [part for setting in settings for part in ("--conf", setting)]
    jars = ",".join(map(str, connector()))
    (spark,) = map(str, home)
    environ = ["env", f"PYSPARK_PYTHON={python}", f"PYTHONPATH={PROJECT}", f"SPARK_HOME={spark}"]
    submit = [f"{spark}/bin/spark-submit", "--master", "local[2]", "--jars", jars, *options]
    return [*environ, *submit, str(Path(__file__).with_name("topic.py")), *map(str, arguments)]


def run(words: list[str], *, stumbles: bool = False) -> None:
    """Run it to its end. The connector of Spark 4.1 ``stumbles`` when it has repeated the micro-batch that was cut off
    (SPARK-57438); it does not when it is started once more.
    """
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    if stumbles and "KafkaMicroBatchStream$.metrics" in done.stderr:
        return run(words)
    assert done.returncode == 0, done.stderr[-3000:]
    return None


def generation_of(table: Path) -> int:
    current = Table(open_storage(table)).current()
    return 0 if current is None else current.generation


def messages_in(table: Path) -> list[tuple[int, int, int]]:
    """Number, partition and offset of each message."""
    current = Table(open_storage(table)).current()
    assert current is not None
    files = [str(table / shard.path) for shard in current.shards]
    parsed = [tf.io.parse_single_example(record, MESSAGE) for record in tf.data.TFRecordDataset(files)]
    return [(int(one["n"]), int(one["partition"]), int(one["offset"])) for one in parsed]


def test_a_topic_is_drained_once_though_the_driver_is_killed_half_way(kafka: str, python: str, tmp_path: Path) -> None:
    table = tmp_path / "table"
    drain = command(python, "drain", kafka, table, tmp_path / "checkpoint", "100")
    run(command(python, "write", kafka, "0", "1000"))
    with daemons_in(tmp_path) as daemons:
        daemons.start("drain", drain)
        daemons.wait_until(lambda: generation_of(table) >= 3, "three micro-batches")
        daemons.stop("drain")
    assert 3 <= generation_of(table) < 10, "a batch holds at most 100 of the 1000 messages"
    run(command(python, "write", kafka, "1000", "1300"))
    run(drain, stumbles=True)
    found = messages_in(table)
    assert sorted(n for n, _, _ in found) == list(range(1300))
    ends = Counter(partition for _, partition, _ in found)
    places = [(partition, offset) for partition in range(PARTITIONS) for offset in range(ends[partition])]
    assert sorted((partition, offset) for _, partition, offset in found) == places
    done = generation_of(table)
    run(drain)
    assert generation_of(table) == done, "nothing new was there"
