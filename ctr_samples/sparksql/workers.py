"""Python worker processes that Spark starts for tasks and for data source planning."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

DAEMON = "ctr_samples.job.daemon"
"""Module that forks the workers of local runs."""

_PATIENCE = 10.0
"""Seconds that a session waits for its workers before it stops."""
_WARMING: dict[str, threading.Thread] = {}
"""The thread that warms the workers of each Spark application."""


def current_task() -> TaskContext:
    """Return the Spark task that runs this code. Raises RuntimeError on the driver."""
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("This code runs in a Spark task, on an executor.")
    return task


def freeze_imports() -> None:
    """Exclude imported modules from garbage collection in a daemon and in the workers that it forks. Does nothing elsewhere.

    Workers collect garbage after each task and each planning step. Scanning all modules takes 20 ms, as long as reading
    a hundred small files.
    """
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name in ("pyspark.daemon", DAEMON):
        gc.collect()
        gc.freeze()


def share_workers(spark: SparkSession) -> None:
    """Let RDDs use the Python workers of queries. Spark keeps workers apart if their environments differ, and each kind
    starts a daemon of its own. Errors in RDDs then have short tracebacks, as those in queries have.
    """
    if spark.conf.get("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", "true") == "true":
        spark.sparkContext.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"


def warm_workers(spark: SparkSession, load: Callable[[], None]) -> None:
    """Start a Python worker beside the planning of a local run, and have it ``load`` what tasks need. Pickled.

    Only the first call of a Spark application does so. Returns at once. Errors are left to the tasks that need the worker.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local") and context.applicationId not in _WARMING:
        tasks = max(1, context.defaultParallelism // 2)  # planning runs short jobs, too
        thread = threading.Thread(target=_warm, args=(context, tasks, load), daemon=True)
        _WARMING[str(context.applicationId)] = thread
        thread.start()


def stop(spark: SparkSession) -> None:
    """Stop Spark, but not while its workers are still warming: Spark would log a stack trace for each of their tasks."""
    warming = _WARMING.get(str(spark.sparkContext.applicationId))
    if warming is not None:
        warming.join(_PATIENCE)
    spark.stop()


def _warm(context: SparkContext, tasks: int, load: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        context.parallelize(range(tasks), tasks).foreachPartition(lambda _: load())
