"""Spark's Python workers: who uses them, and stopping Spark beside them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ctr_samples.sparksql import workers


def test_spark_stops_only_after_its_workers_are_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    warm, stopped = threading.Event(), []
    warming = threading.Thread(target=warm.wait)
    warming.start()
    monkeypatch.setattr(workers, "_WARMING", {"an application": warming})
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(applicationId="an application"), stop=lambda: stopped.append(warming.is_alive())
    )
    stopping = threading.Thread(target=workers.stop, args=(spark,))
    stopping.start()
    assert stopped == []
    warm.set()
    stopping.join()
    assert stopped == [False]


def test_rdds_and_queries_use_workers_of_one_daemon(spark: SparkSession) -> None:
    def parents(_: object) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"process": [os.getppid()]})

    workers.share_workers(spark)
    of_rdd = spark.sparkContext.parallelize([0], 1).mapPartitions(lambda _: [os.getppid()]).collect()
    of_query = spark.range(1, numPartitions=1).mapInArrow(parents, "process long").collect()
    assert of_rdd == [row.process for row in of_query]
