"""Requests: the impressions that one user saw together, as columns over the struct ``impression``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.samples.features import IMPRESSION
from ctr_samples.sparksql.columns import stable_hash

ENOUGH = 1000
"""Number of requests that is enough to tell the sizes of all."""
BEGINNING = "_beginning"
"""Column of an impression with the time of the first impression of its request, for a split by time."""

At = Callable[[str], Column]


def _in_struct(name: str) -> Column:
    return F.col(f"{IMPRESSION}.{name}")


def request_name(config: JobConfig, at: At = _in_struct) -> Column:
    """Return the name of an impression's request as text, never null. ``at`` maps a name to its column.

    The name is the request id. Without an id it is a hash of ``config.visit_keys``, and without these the id of the
    impression. If ``output.order`` lists keys, it is their hash.
    """
    names = []
    if isinstance(config.output.order, list):
        names.append(_joint(config.request_keys, at))
    else:
        if config.impressions.request is not None:
            names.append(at("request").cast("string"))
        if config.visit_keys:
            names.append(_joint(config.visit_keys, at))
    return F.coalesce(*names, at("impression_id").cast("string"))


def with_beginning(config: JobConfig, impressions: DataFrame) -> DataFrame:
    """Add :data:`BEGINNING` to impressions of the day if the split needs it. Costs a shuffle unless the time itself is
    part of the request.
    """
    if not config.split.needs_beginnings:
        return impressions
    time = F.col("impression_time")
    if "time" not in config.request_keys:
        time = F.min(time).over(Window.partitionBy(request_name(config, F.col)))
    return impressions.withColumn(BEGINNING, time)


def request_hash(config: JobConfig, at: At = _in_struct) -> Column:
    """Return a 64-bit hash of an impression's request and user. Null if no key tells which impressions form a request.

    The user is part of it because some systems number the requests of each user.
    """
    if not config.request_keys:
        return F.lit(None).cast("bigint")
    user = [] if isinstance(config.output.order, list) or "user" not in config.request_keys else [at("user")]
    return stable_hash("request", [request_name(config, at), *user])


def _joint(keys: Sequence[str], at: At) -> Column:
    """Hash of several keys as text. Null if all of them, except the time, are null."""
    columns = {name: F.unix_micros(at("impression_time")) if name == "time" else at(name) for name in keys}
    who = [column for name, column in columns.items() if name != "time"] or list(columns.values())
    unknown = reduce(Column.__and__, [column.isNull() for column in who])
    return F.when(~unknown, stable_hash("keys", list(columns.values())).cast("string"))


@dataclass(frozen=True, slots=True)
class RequestSizes:
    """Number of impressions of the requests of a day: of a sample by hash or, if that is small, of all requests."""

    requests: int
    mean: float
    median: float
    largest: int


def request_sizes(config: JobConfig, impressions: DataFrame) -> RequestSizes | None:
    """Measure the requests among impressions of a day. Runs one or two Spark jobs that read the log.

    Returns None if no key tells which impressions form a request, or without impressions.
    """
    if not config.request_keys:
        return None
    requests = impressions.select(request_hash(config, F.col).alias("request"))
    for step in (64, 1):
        sizes = requests.where(F.col("request") % step == 0).groupBy("request").count()
        [row] = sizes.agg(F.count("*"), F.avg("count"), F.median("count"), F.max("count")).collect()
        if row[0] >= ENOUGH:
            break
    return RequestSizes(*row) if row[0] else None
