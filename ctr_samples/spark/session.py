"""Sessions: the one that a command starts, and the isolated one in which a run sets what it depends on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_SETTINGS = {
    # A value that cannot be cast is an error or an explicit try_cast, never a silent null.
    "spark.sql.ansi.enabled": "true",
    # Text that only old parsers read must not become another time.
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # Two names that differ only in case would be one feature here and two in the record.
    "spark.sql.caseSensitive": "false",
    # Timestamps are instants; their local form exists only while text is parsed.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}


@contextmanager
def session_of_command(name: str) -> Iterator[SparkSession]:
    """The session of a command: that of spark-submit, or a local one on all cores. Stopped at the end, if it began here."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    # Python workers and planner workers must be this interpreter, or they find no pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName(name).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def run_session(spark: SparkSession, timezone: str) -> SparkSession:
    """A session on the same cluster with its own SQL settings; the caller's stay as they are."""
    session = spark.newSession()
    for key, value in {**_SETTINGS, "spark.sql.session.timeZone": timezone}.items():
        session.conf.set(key, value)
    return session
