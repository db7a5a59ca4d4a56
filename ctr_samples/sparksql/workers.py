"""Python worker processes that Spark starts for tasks and for data source planning."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pyarrow as pa
from pyspark import TaskContext


def current_task() -> TaskContext:
    """Return the Spark task that runs this code. Raises RuntimeError on the driver."""
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("This code runs in a Spark task, on an executor.")
    return task


def freeze_imports() -> None:
    """Exclude imported modules from garbage collection in workers forked by Spark's daemon. Does nothing elsewhere.

    Workers collect garbage after each task and each planning step. Scanning all modules takes 20 ms, as long as reading
    a hundred small files.
    """
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name == "pyspark.daemon":
        gc.collect()
        gc.freeze()


def python_values(column: pa.Array) -> list[Any]:
    """Return the values of a column as Python objects. Text becomes bytes, since Spark text may not be valid UTF-8."""
    values: list[Any] = (column.cast(pa.binary()) if pa.types.is_string(column.type) else column).to_pylist()
    return values
