"""Differences between the supported Spark releases, 4.0 to 4.3, all in one place."""

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
from pyspark.sql import Column, Observation, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ctr_samples import __version__

_MAX_BY_TAKES_K = "k" in inspect.signature(F.max_by).parameters  # since Spark 4.2

MOST_SAMPLED = 1_000_000 if _MAX_BY_TAKES_K else 16
"""Limit of rows in a sample; before Spark 4.2, one row from each of this many groups."""


COUNTS_WITHOUT_COLUMNS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1)
"""False for Spark 4.0, which treats batches without columns as batches without rows."""

_CALL_SITES = "_enable_debugging_cache"  # since Spark 4.1: whether call sites are remembered; None: not yet asked
_SWITCH = threading.Lock()
_BEFORE: list[Any] = []
"""Previous value for each open block, in any thread; the last block to end restores the original."""


def sample_by(row: Column, rank: Column, most: int) -> Column:
    """Aggregate: at most ``most`` rows with the greatest ranks, which are hashes. Null rows and ranks do not count.

    Before Spark 4.2 it has at most ``MOST_SAMPLED`` rows: the greatest of each group of ranks.
    """
    if _MAX_BY_TAKES_K:
        return F.max_by(row, rank, most)
    groups = [F.pmod(rank, F.lit(MOST_SAMPLED)) == group for group in range(min(MOST_SAMPLED, most))]
    return F.array_compact(F.array(*[F.max_by(F.when(mine, row), F.when(mine, rank)) for mine in groups]))


@contextmanager
def without_call_sites() -> Iterator[None]:
    """Plan without asking Spark for its settings at each column operation.

    Since Spark 4.0, PySpark records the calling line of Python for each operation, for error messages. This makes half
    of all JVM calls of a plan, and a run's messages name configuration keys instead. The setting is process-wide: it
    stays off until the last thread has left its block.
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
    """Convert a Spark schema to Arrow, with timestamps in UTC. Runs anywhere."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:  # since Spark 4.1
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def observed(observation: Observation) -> dict[str, Any]:
    """Return the values of an observation, after the action; arrays are lists. Empty if Spark optimised it away."""
    try:
        values = observation.get
    except Py4JJavaError:
        return {}
    return {name: _in_python(value) for name, value in values.items()}


def _in_python(value: Any) -> Any:
    """Convert arrays and structs, which Spark 4.0 returns as JVM objects."""
    if not isinstance(value, JavaObject):
        return value
    if hasattr(value, "schema") and "Row" in value.getClass().getSimpleName():
        return Row(*value.schema().fieldNames())(*(_in_python(value.get(i)) for i in range(value.length())))
    return [_in_python(value.apply(i)) for i in range(value.length())]


def versions() -> dict[str, str]:
    """Return the releases, by name, of this package, Python, and the libraries that handled the rows."""
    return {
        "ctr_samples": __version__,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pyarrow.__version__,
        "numpy": numpy.__version__,
    }
