"""Python processes that Spark starts for its tasks, and to plan data sources."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pyarrow as pa


def freeze_imports() -> None:
    """Exclude current imports from garbage collection in workers forked by Spark's daemon; elsewhere do nothing.

    Such a worker collects after each task and each step of a plan. Scanning all modules takes 20 ms, as long as reading
    a hundred small files.
    """
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name == "pyspark.daemon":
        gc.collect()
        gc.freeze()


def python_values(column: pa.Array) -> list[Any]:
    """Return the values of a column as Python objects, text as bytes: Spark's text need not be UTF-8."""
    values: list[Any] = (column.cast(pa.binary()) if pa.types.is_string(column.type) else column).to_pylist()
    return values
