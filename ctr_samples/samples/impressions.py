"""Extracts impressions from a log: one row for each article shown, with a stable id and, if it is dropped, the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.config import Impressions, JobConfig
from ctr_samples.config.names import IMPRESSION_COLUMNS
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.sources import MALFORMED
from ctr_samples.samples.period import Day
from ctr_samples.sparksql.columns import (
    boolean_column,
    content_hash,
    key_column,
    key_list_column,
    micros_of,
    stable_hash,
    time_column,
)
from ctr_samples.sparksql.expressions import compile_expression
from ctr_samples.sparksql.observations import Observations

SKIP_ABOVE = "skip_above"
"""The reason that is known last, after the labels."""

DROPPED = "_dropped"
"""Column with the reason for dropping an impression; null if it becomes a sample."""

NO_TIME, NO_ARTICLE, REPEATED = DROP_REASONS = ("no_time", "no_article", "repeated")
_IMPRESSIONS = "impressions"

UNREADABLE = (NO_TIME, NO_ARTICLE)
"""Reasons that point to a broken log; repeats are normal."""


def cut_impressions(log: DataFrame, config: Impressions, day: Day, reach: timedelta) -> DataFrame:
    """Impressions of a day and of ``reach`` before and after it, since an action belongs to the last one before it.

    Columns: those of every impression, ``config.columns``, and ``_dropped``. A row without a time
    belongs to no day; it is kept so that every run that reads it counts it as dropped.
    """
    rows = _select(log, config)
    time = F.col("impression_time")
    near = rows.where(day.reaches(time, reach, reach) | time.isNull())
    exploded = _explode(near) if config.explode else near
    reason = (
        F.when(time.isNull(), NO_TIME)
        .when(F.col("article").isNull(), NO_ARTICLE)
        .when(_is_repeat(exploded, config.dedup), REPEATED)
    )
    marked = exploded.withColumn(DROPPED, reason).withColumn("impression_id", _identity())
    return marked.select(*impression_columns(config), DROPPED)


def keys_shown(log: DataFrame, config: Impressions, day: Day, entity: str) -> DataFrame:
    """The user or article of each impression of the day, repeats included, in a column of that name."""
    rows = _select(log, config)
    on = rows.where(day.contains(F.col("impression_time")))
    return (_explode(on) if config.explode else on).select(entity)


def on_day(day: Day) -> Column:
    """Whether an impression belongs to this run."""
    time = F.col("impression_time")
    return day.contains(time) | time.isNull()


@dataclass(frozen=True, slots=True)
class ImpressionCounts:
    """The impressions of a day, and how many of them are dropped, by reason."""

    impressions: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


class ImpressionsWatch:
    """Counts the impressions of a day and those that are dropped. Lives on the driver."""

    def __init__(self, day: Day, *, active: bool = True) -> None:
        self._day = day
        self._cut, self._marked = Observations(active=active), Observations(active=active)

    def on(self, impressions: DataFrame) -> DataFrame:
        """Impressions of :func:`cut_impressions`, counted."""
        mine = on_day(self._day)
        reasons = {reason: F.count_if(mine & (F.col(DROPPED) == reason)) for reason in DROP_REASONS}
        return self._cut.on(impressions, {_IMPRESSIONS: F.count_if(mine), **reasons})

    def on_marked(self, labelled: DataFrame) -> DataFrame:
        """Labelled impressions, with those counted that ``_dropped`` marks as dropped by :func:`is_below`."""
        return self._marked.on(labelled, {SKIP_ABOVE: F.count_if(DROPPED)})

    def result(self) -> ImpressionCounts:
        """What was counted; call it after the action."""
        dropped = {**self._cut.counts(), **self._marked.counts()}
        return ImpressionCounts(dropped.pop(_IMPRESSIONS, 0), dropped)


def check_impressions(config: JobConfig, counts: ImpressionCounts, run_date: date) -> None:
    """A day without impressions, or with too many that cannot be read, is a broken input, not a sample set."""
    impressions = config.impressions
    which = f"sources.{impressions.source} has {counts.impressions or 'no'} impressions on {run_date}"
    if counts.impressions == 0:
        where = f" where {impressions.where}" if impressions.where else ""
        raise InputError(f"{which}{where}; check the date, the time zone ({config.timezone}) and `impressions`.")
    unreadable = {reason: counts.dropped.get(reason, 0) for reason in UNREADABLE}
    allowed = config.sources[impressions.source].bad_records.max_rate
    if sum(unreadable.values()) > allowed * counts.impressions:
        raise InputError(
            f"{which}; {unreadable[NO_TIME]:,} have no readable time and {unreadable[NO_ARTICLE]:,} no readable article, more "
            f"than its `bad_records.max_rate: {allowed:g}` allows. Check the log, `impressions.time` and "
            "`impressions.article`, or raise the rate."
        )


def _select(log: DataFrame, config: Impressions) -> DataFrame:
    article = key_list_column if config.explode else key_column
    null = F.lit(None).cast("string")
    user = key_column(log, config.user, "impressions.user") if config.user else null
    request = key_column(log, config.request, "impressions.request") if config.request else null
    position = compile_expression(log, config.position, "impressions.position") if config.position else F.lit(0)
    columns = [
        time_column(log, config.time, "impressions.time").alias("impression_time"),
        user.alias("user"),
        article(log, config.article, "impressions.article").alias("article"),
        request.alias("request"),
        position.cast("int").alias("position"),
    ]
    columns += [compile_expression(log, e, f"impressions.columns.{n}").alias(n) for n, e in config.columns.items()]
    return matching_rows(log, config.where, "impressions.where").select(*columns)


def readable_rows(frame: DataFrame) -> DataFrame:
    """All rows but malformed lines."""
    return frame.where(F.col(MALFORMED).isNull()) if MALFORMED in frame.columns else frame


def matching_rows(frame: DataFrame, condition: str | None, where: str) -> DataFrame:
    """The readable rows that a ``where`` selects."""
    readable = readable_rows(frame)
    return readable if condition is None else readable.where(boolean_column(frame, condition, where))


def _explode(rows: DataFrame) -> DataFrame:
    # An unreadable list is one impression of an unknown article, counted and dropped; an empty list showed nothing.
    lists = F.coalesce(F.col("article"), F.array(F.lit(None)))
    others = [c for c in rows.columns if c not in ("article", "position")]
    return rows.select(*others, F.posexplode(lists).alias("position", "article"))


def _is_repeat(rows: DataFrame, within: timedelta | None) -> Column:
    """Whether the same user saw the same article just before: in the same request, or at most ``within`` earlier."""
    # Rows of unknown users are repeats only of the same moment; and a null key must not gather on one task.
    unknown = F.when(F.col("request").isNull() & F.col("user").isNull(), F.col("impression_time"))
    order = [F.col("impression_time"), F.col("position"), content_hash(rows)]
    in_request = Window.partitionBy("request", "user", "article", unknown).orderBy(*order)
    micros = F.unix_micros("impression_time")
    gap = micros - F.lag(micros).over(in_request)
    first = F.row_number().over(in_request) == 1
    same_request = F.col("request").isNotNull()
    return ~first & (same_request | (gap <= F.lit(micros_of(within or timedelta()))))


def is_below(label: str) -> Column:
    """Whether an impression stands below the last position of its list that has a label; never in a list without one.

    The skip-above model of clicks: a user who clicked has seen everything above, but perhaps nothing below. A list is the
    rows of the day with the same request and user or, without a request, with the same user and time. A row with neither key,
    or without a position, is never below a click. Costs a shuffle by list.
    """
    request, user = F.col("request"), F.col("user")
    moment = F.when(request.isNull(), F.col("impression_time"))
    # Without either key nothing can have a label; a key of its own keeps such rows from gathering on one task.
    alone = F.when(request.isNull() & user.isNull(), F.col("impression_id"))
    whole = Window.partitionBy("request", "user", moment, alone).rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    last = F.max(F.when(F.col(label) == 1, F.col("position"))).over(whole)
    return F.coalesce(F.col("position") > last, F.lit(False))


def _identity() -> Column:
    """A hash of what makes an impression: (request, user, article), or (user, article, time) without requests."""
    request, user, article = F.col("request"), F.col("user"), F.col("article")
    moment = F.when(request.isNull(), F.unix_micros("impression_time"))
    return stable_hash("impression", [request, user, article, moment])


def impression_columns(config: Impressions) -> list[str]:
    """All columns of an impression, in the order in which they are carried."""
    return [*IMPRESSION_COLUMNS, *config.columns]
