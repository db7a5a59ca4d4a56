"""Offsets of a time zone in the databases of Python and of Java, which come and are updated apart."""

from __future__ import annotations

import importlib
import socket
import zoneinfo
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.errors import ConfigError

_STEP = 3600
"""Seconds between the instants that are compared."""
_UNKNOWN = "of no known release"
_UPDATE = "Bring Java and Python (its package `tzdata`, or the system's files) to one release, on the driver and all executors."


def need_zone(spark: SparkSession, zone: str) -> None:
    """Raise ConfigError if Java does not know a zone. The configuration knows what Python lacks."""
    if not _provider(spark).getAvailableZoneIds().contains(zone):
        python, java = python_release(zone), java_release(spark, "UTC")
        raise ConfigError(f"timezone: found {zone}, which Python knows ({python}), but not Java ({java}). {_UPDATE}")


def check_offsets(spark: SparkSession, zone: str, first: date, last: date) -> None:
    """Raise ConfigError if Python and Java disagree about a zone between two days, on the driver or on an executor. The
    session has that zone.

    Runs a small Spark job unless the driver is the only executor.
    """
    around = (first - timedelta(days=1), last + timedelta(days=2))
    start, end = (int(datetime.combine(day, time(), UTC).timestamp()) for day in around)
    offsets = python_offsets(zone, start, end)
    _refuse(zone, start, offsets, java_offsets(spark, zone, start, end), java_release(spark, zone), "the driver")
    context = spark.sparkContext
    if str(context.master).split("[")[0] != "local":
        for who, release, others in _of_executors(spark, zone, start, end):
            _refuse(zone, start, offsets, others, release, who)


def python_offsets(zone: str, start: int, end: int) -> list[int]:
    """Return the offsets in seconds at each hour, as Python knows them."""
    info = ZoneInfo(zone)
    offsets = [datetime.fromtimestamp(at, info).utcoffset() or timedelta() for at in range(start, end, _STEP)]
    return [int(offset.total_seconds()) for offset in offsets]


def java_offsets(spark: SparkSession, zone: str, start: int, end: int) -> list[int]:
    """Return the offsets in seconds at each hour, as the driver's JVM knows them."""
    java = cast(Any, spark)._jvm.java.time
    rules, instant = java.ZoneId.of(zone).getRules(), java.Instant.ofEpochSecond(start)
    offset, offsets = rules.getOffset(instant).getTotalSeconds(), list[int]()
    while len(offsets) < len(range(start, end, _STEP)):
        change = rules.nextTransition(instant)
        until = end if change is None else min(end, change.toEpochSecond())
        at = start + len(offsets) * _STEP
        offsets += [offset] * len(range(at, until, _STEP))
        if change is not None:
            instant, offset = change.getInstant(), change.getOffsetAfter().getTotalSeconds()
    return offsets


def java_release(spark: SparkSession, zone: str) -> str:
    """Return the release of the JVM's database, such as 2025b."""
    return str(_provider(spark).getVersions(zone).lastKey())


def python_release(zone: str) -> str:
    """Return the release of the database from which Python takes a zone, such as 2025b."""
    for root in map(Path, zoneinfo.TZPATH):
        if (root / zone).is_file():
            for name, start in (("tzdata.zi", "# version "), ("+VERSION", "")):
                with suppress(OSError):
                    return (root / name).read_text(errors="replace").splitlines()[0].removeprefix(start)
            return _UNKNOWN
    with suppress(ImportError):
        return str(importlib.import_module("tzdata").IANA_VERSION)
    return _UNKNOWN


def zone_releases(spark: SparkSession, zone: str) -> dict[str, str]:
    """Return the releases of both databases, for the manifest."""
    return {"tzdata_python": python_release(zone), "tzdata_java": java_release(spark, zone)}


def _of_executors(spark: SparkSession, zone: str, start: int, end: int) -> Iterator[tuple[str, str, list[int]]]:
    """Yield host, release and offsets of each executor's databases, those of Python and those of Java."""
    tasks = spark.sparkContext.defaultParallelism
    # Both depend on the row, or the driver would compute them.
    instants = F.sequence(F.col("id") * 0 + start, F.lit(end - 1), F.lit(_STEP))
    offsets = F.transform(instants, lambda at: F.date_format(F.timestamp_seconds(at), "xxx"))
    versions = F.java_method(F.lit("java.time.zone.ZoneRulesProvider"), F.lit("getVersions"), F.lit(zone))
    rows = spark.range(0, tasks, 1, tasks).select(offsets.alias("offsets"), versions.alias("versions"))
    told = rows.mapInArrow(partial(_told, zone, start, end), "who string, release string, offsets array<int>")
    for row in told.collect():
        yield row.who, row.release, row.offsets


def _told(zone: str, start: int, end: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return what an executor knows of a zone, in Python and in Java. Runs on executors."""
    for batch in batches:
        for row in batch.to_pylist():
            release = row["versions"].strip("{").partition("=")[0]
            rows = [
                {"release": release, "offsets": [_parsed(text) for text in row["offsets"]]},
                {"release": python_release(zone), "offsets": python_offsets(zone, start, end)},
            ]
            who = f"an executor on {socket.gethostname()}"
            schema = pa.schema({"who": pa.string(), "release": pa.string(), "offsets": pa.list_(pa.int32())})
            yield pa.RecordBatch.from_pylist([{"who": who, **one} for one in rows], schema)


def _parsed(text: str) -> int:
    """Parse an offset such as ``-03:30``."""
    hours, minutes = text[1:].split(":")[:2]
    return (-1 if text[0] == "-" else 1) * (int(hours) * 3600 + int(minutes) * 60)


def _refuse(zone: str, start: int, ours: list[int], theirs: list[int], release: str, who: str) -> None:
    if ours == theirs:
        return
    place = next(n for n, (our, their) in enumerate(zip(ours, theirs, strict=True)) if our != their)
    at = datetime.fromtimestamp(start + place * _STEP, UTC)
    our, their = (f"{at + timedelta(seconds=offset):%F %T}" for offset in (ours[place], theirs[place]))
    raise ConfigError(
        f"timezone: Python on the driver ({python_release(zone)}) and {who} ({release}) have other rules for {zone}: "
        f"{at:%F %T} UTC is {our} for one and {their} for the other, so rows would be lost or lie in two days. {_UPDATE}"
    )


def _provider(spark: SparkSession) -> Any:
    return cast(Any, spark)._jvm.java.time.zone.ZoneRulesProvider
