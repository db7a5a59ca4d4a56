"""Requests: the impressions that one user saw together, as columns over the struct ``impression``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.samples.features.row import IMPRESSION
from ctr_samples.sparksql.columns import joint_key, stable_hash

ENOUGH = 1000
"""Number of requests that is enough to tell the sizes of all."""
_STEP = 64
"""One of so many requests is looked at first."""
BEGINNING = "_beginning"
"""Column of an impression with the time of the first impression of its request, for a split by time."""

At = Callable[[str], Column]


def _in_struct(name: str) -> Column:
    return F.col(f"{IMPRESSION}.{name}")


def request_name(config: JobConfig, at: At = _in_struct) -> Column:
    """Return text that is equal for the impressions of a request and differs between requests, never null. ``at`` maps
    a name to its column.

    A request is a request id and a user, because some systems number the requests of each user. Without an id it is
    the ``config.visit_keys``, and without these the impression.

    All samples that a list under ``output.order`` keeps together have one name. So users who share an id share the
    request if the list lacks ``user``, and the listed keys name samples without an id if it lacks a key of the visit.
    """
    names: list[tuple[Sequence[str], Column]] = []
    if config.impressions.request is not None:
        users = [name for name in config.request_identity if name == "user" and config.order_keeps([name])]
        known = [F.coalesce(at(name).cast("string"), F.lit("\x00")) for name in users]
        names.append((["request"], joint_key([at("request").cast("string"), *known])))
    if config.visit_keys:
        names.append((config.visit_keys, _joint(config.visit_keys, at)))
    if isinstance(listed := config.output.order, list):
        names = [*[name for name in names if config.order_keeps(name[0])], (listed, _joint(listed, at)), *names]
    return F.coalesce(*[name for _, name in names], _alone(at))


def _alone(at: At) -> Column:
    return at("impression_id").cast("string")


def with_beginning(config: JobConfig, impressions: DataFrame) -> DataFrame:
    """Add :data:`BEGINNING` to impressions of the day if the split needs it. Costs a shuffle if requests have ids.

    Impressions of other days are not seen, so each day of a request that midnight cuts has a beginning of its own.
    """
    if not config.split.needs_beginnings:
        return impressions
    time = F.col("impression_time")
    if "time" not in config.request_identity:
        time = F.min(time).over(Window.partitionBy(request_name(config, F.col)))
    return impressions.withColumn(BEGINNING, time)


def request_hash(config: JobConfig, at: At = _in_struct) -> Column:
    """Return a 64-bit hash that is equal for the impressions of a request or, if ``output.order`` lists keys, with equal
    listed keys. Null if no key tells which impressions form a request.
    """
    if not config.request_keys:
        return F.lit(None).cast("bigint")
    if isinstance(config.output.order, list):
        return stable_hash("request", [F.coalesce(_joint(config.output.order, at), _alone(at))])
    return stable_hash("request", [request_name(config, at)])


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
    is_all: bool = True


def request_sizes(config: JobConfig, impressions: DataFrame) -> RequestSizes | None:
    """Measure the requests among impressions of a day. Runs one or two Spark jobs that read the log.

    Returns None if no key tells which impressions form a request, or without impressions.
    """
    if not config.request_keys:
        return None
    requests = impressions.select(request_hash(config, F.col).alias("request"))
    for step in (_STEP, 1):
        sizes = requests.where(F.col("request") % step == 0).groupBy("request").count()
        [row] = sizes.agg(F.count("*"), F.avg("count"), F.median("count"), F.max("count")).collect()
        if row[0] >= ENOUGH:
            break
    return RequestSizes(row[0], row[1], row[2], row[3], step == 1) if row[0] else None
