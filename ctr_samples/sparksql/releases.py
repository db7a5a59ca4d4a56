"""Differences between the supported Spark releases, 4.0 to 4.3."""

from __future__ import annotations

import inspect
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import pyarrow
import pyarrow as pa
import pyspark
import pyspark.errors.utils
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import Observation, Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ctr_samples import __version__

COUNTS_WITHOUT_COLUMNS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1)
"""False for Spark 4.0, which treats batches without columns as empty."""

_CALL_SITES = "_enable_debugging_cache"  # since Spark 4.1: whether call sites are recorded; None if unknown
_SWITCH = threading.Lock()
_BEFORE: list[Any] = []
"""Previous values of all open blocks in any thread. The last block to end restores the original value."""


@contextmanager
def without_call_sites() -> Iterator[None]:
    """Disable the recording of Python call sites, so that planning needs fewer JVM calls.

    Since Spark 4.0, PySpark records the Python call site of each column operation for error messages. This accounts for
    half of all JVM calls in planning, and messages of a run name configuration keys instead. The setting is
    process-wide: recording stays off until the last thread leaves its block.
    """
    if not hasattr(pyspark.errors.utils, _CALL_SITES):
        yield
        return
    with _SWITCH:
        _BEFORE.append(getattr(pyspark.errors.utils, _CALL_SITES))
        setattr(pyspark.errors.utils, _CALL_SITES, False)
    try:
        yield
    finally:
        with _SWITCH:
            setattr(pyspark.errors.utils, _CALL_SITES, _BEFORE.pop())


def arrow_schema(schema: StructType) -> pa.Schema:
    """Convert a Spark schema to Arrow, with timestamps in UTC. Runs on the driver or executors."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:  # since Spark 4.1
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def observed(observation: Observation) -> dict[str, Any]:
    """Return the values of an observation after the action, with arrays as lists. Empty if Spark optimized it away."""
    try:
        values = observation.get
    except Py4JJavaError:
        return {}
    return {name: _in_python(value) for name, value in values.items()}


def _in_python(value: Any) -> Any:
    """Convert arrays and structs, which Spark 4.0 returns as JVM objects, to Python."""
    if not isinstance(value, JavaObject):
        return value
    if hasattr(value, "schema") and "Row" in value.getClass().getSimpleName():
        return Row(*value.schema().fieldNames())(*(_in_python(value.get(i)) for i in range(value.length())))
    return [_in_python(value.apply(i)) for i in range(value.length())]


def versions() -> dict[str, str]:
    """Return the versions of this package, Python, and the libraries that process rows, by name."""
    return {
        "ctr_samples": __version__,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pyarrow.__version__,
        "numpy": numpy.__version__,
    }
