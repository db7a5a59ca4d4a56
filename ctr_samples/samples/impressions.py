"""Extracts impressions from a log: one row per item shown, with a stable id and, if dropped, the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from types import MappingProxyType
from typing import Self

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from ctr_samples.config import Impressions, JobConfig, RowLabel
from ctr_samples.errors import InputError
from ctr_samples.periods import Period
from ctr_samples.samples.columnar.blocks import PLACE, Counts
from ctr_samples.samples.columnar.columns import (
    Flags,
    Integers,
    apart,
    batches,
    begins,
    codes_of,
    in_order,
    integers,
    there,
    whole,
)
from ctr_samples.samples.columnar.stages import Shuffle, Stage
from ctr_samples.samples.period import NO_REACH, Reach, Span, days_of
from ctr_samples.sparksql.columns import (
    INTEGERS,
    boolean_column,
    content_hash,
    key_column,
    key_list_column,
    micros_of,
    number_column,
    place_column,
    quoted,
    stable_hash,
    time_column,
    unreadable_time,
)
from ctr_samples.sparksql.expressions import (
    IS_REPEAT,
    MALFORMED,
    as_type,
    columns_of_data,
    compile_expression,
    typed_expression,
)

SKIP_ABOVE = "skip_above"
"""Drop reason that depends on the labels, so it is known last."""

DROPPED = "_dropped"
"""Column with the reason for dropping an impression. It is null if the impression becomes a sample."""

NO_TIME, REPEATED = "no_time", "repeated"
TIED_REPEATS = "tied_repeats"
"""Count of repeats that only their content tells from the impression that stays."""
IMPRESSIONS = "impressions"
CONTENT = "_content"
_LABEL = "_label "
"""Column prefix of a label stored in the impression row."""


def unreadable(config: Impressions) -> list[str]:
    """Return the drop reasons that indicate a broken log. Repeats are normal."""
    return [NO_TIME, *([f"no_{config.shown_key}"] if config.shown_key is not None else [])]


def row_label(name: str) -> str:
    """Return the column name of a row label in :func:`cut_impressions`."""
    return f"{_LABEL}{name}"


def cut_impressions(
    log: DataFrame,
    config: Impressions,
    span: Span,
    partitions: int,
    reach: Reach = NO_REACH,
    labels: Mapping[str, RowLabel] = MappingProxyType({}),
) -> DataFrame:
    """Return :func:`impressions_in` a log with ``_dropped``. Costs a shuffle into ``partitions``."""
    every = _with_content(log, config, span, reach, labels)
    rows = Stage.of(every.withColumn(PLACE, F.xxhash64(*keys_of_repeats(config))))
    repeats = Repeats.of(config, str(log.sparkSession.conf.get("spark.sql.session.timeZone")))
    return marked(rows, repeats, partitions).rows().drop(CONTENT, PLACE)


def marked(rows: Stage, repeats: Repeats, partitions: int) -> Stage:
    """Add ``_dropped`` to impressions with a hash of their content, and the place of their request and keys."""
    kind = StructType([*rows.kind, StructField(DROPPED, StringType())])
    return Stage(Shuffle((rows,), (PLACE,), partitions, _MarkDropped(repeats)), kind)


def impressions_in(
    log: DataFrame,
    config: Impressions,
    span: Span,
    reach: Reach = NO_REACH,
    labels: Mapping[str, RowLabel] = MappingProxyType({}),
) -> DataFrame:
    """Extract the impressions of a day and within ``reach`` of it, repeats too. An action belongs to the last one before it.

    Returns the standard impression columns, ``config.columns`` and the :func:`row_label` columns. A row without a time belongs
    to no day; it is kept so that every run that reads it counts it as dropped.
    """
    return _with_content(log, config, span, reach, labels).drop(CONTENT)


def _with_content(
    log: DataFrame, config: Impressions, span: Span, reach: Reach, labels: Mapping[str, RowLabel]
) -> DataFrame:
    """Return :func:`impressions_in` with a hash of their content."""
    rows = matching_rows(log, config.where, "impressions.where").select(*line_columns(log, config, labels))
    near = rows.where(is_near(span, F.col("impression_time"), reach))
    exploded = _explode(near) if config.explode else near
    if config.identity != "row":
        exploded = exploded.withColumn(CONTENT, content_hash(exploded))
    identity = _identity_of_row() if config.identity == "row" else identity_of(config)
    own = [*config.column_names, *[quoted(row_label(name)) for name in labels], CONTENT]
    return exploded.withColumn("impression_id", identity).select(*own)


def is_near(span: Span, time: Column, reach: Reach) -> Column:
    """Whether an impression is on the day or within ``reach`` of it. True for a null time, which is also counted."""
    return span.reaches(time, *reach) | time.isNull()


def keys_shown(log: DataFrame, config: Impressions, span: Span, names: Sequence[str]) -> DataFrame:
    """Return the named keys of each impression of the day, including repeats."""
    rows = matching_rows(log, config.where, "impressions.where").select(*line_columns(log, config))
    on = rows.where(span.contains(F.col("impression_time")))
    return (_explode(on) if config.explode else on).select(*names)


@dataclass(frozen=True, slots=True)
class ImpressionCounts:
    """Number of impressions of a day, and number of dropped impressions by reason."""

    impressions: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)


def impression_counts(config: Impressions, counts: Mapping[str, int]) -> ImpressionCounts:
    """Return what was counted of impressions in the tasks, and of those that :func:`is_below` marked."""
    reasons = (*unreadable(config), REPEATED, *([SKIP_ABOVE] if SKIP_ABOVE in counts else []))
    return ImpressionCounts(counts.get(IMPRESSIONS, 0), {reason: counts.get(reason, 0) for reason in reasons})


def time_not_read(log: DataFrame, of: str, where: str | None, key: str, time: str) -> str:
    """Explain why the timestamps of a log cannot be parsed and how to fix it, as a sentence to append. Empty if they
    can be parsed.

    ``of`` is the configuration section, such as ``labels.click``; ``where`` is its filter; ``key`` is the option that
    holds the expression ``time``. Runs a Spark job.
    """
    said = unreadable_time(matching_rows(log, where, f"{of}.where"), time, f"{of}.{key}")
    return f" {of}.{key}: {said}." if said else ""


def check_impressions(
    config: JobConfig, counts: ImpressionCounts, period: Period, log: Callable[[], DataFrame]
) -> None:
    """Raise InputError if the day has no impressions or too many unreadable impressions, since its input is broken."""
    impressions = config.impressions
    which = f"sources.{impressions.source} has {counts.impressions or 'no'} impressions on {period}"
    if counts.impressions == 0:
        where = f" where {impressions.where}" if impressions.where else ""
        raise InputError(f"{which}{where}; check the date, the time zone ({config.timezone}) and `impressions`.")
    broken = {reason: counts.dropped.get(reason, 0) for reason in unreadable(impressions)}
    allowed = config.sources[impressions.source].bad_records.max_rate
    if sum(broken.values()) > allowed * counts.impressions:
        missing = f"{broken.pop(NO_TIME):,} have no readable time"
        missing += "".join(
            f" and {count:,} no readable {reason.removeprefix('no_')}" for reason, count in broken.items()
        )
        item = impressions.shown_key
        keys = ["time", *([] if item is None else [f"keys.{item}" if item in impressions.keys else item])]
        expressions = " and ".join(f"`impressions.{key}`" for key in keys)
        raise InputError(
            f"{which}; {missing}, more than its `bad_records.max_rate: {allowed:g}` allows. Check the log, {expressions}, or "
            f"raise the rate.{time_not_read(log(), 'impressions', impressions.where, 'time', impressions.time)}"
        )


def line_columns(
    log: DataFrame, config: Impressions, labels: Mapping[str, RowLabel] = MappingProxyType({})
) -> list[Column]:
    """Return the impression columns of a log line. With ``explode``, the exploded column is a list."""

    def key(name: str, text: str) -> Column:
        where = f"impressions.{name}" if name not in config.keys else f"impressions.keys.{name}"
        column = key_list_column if config.explode == name else key_column
        return column(log, text, where).alias(name)

    null = F.lit(None).cast("string")
    request = key_column(log, config.request, "impressions.request") if config.request else null
    position = place_column(log, config.position, "impressions.position") if config.position else F.lit(0)
    columns = [
        time_column(log, config.time, "impressions.time").alias("impression_time"),
        *[key(name, text) for name, text in config.entities.items()],
        request.alias("request"),
        position.alias("position"),
    ]
    columns += [compile_expression(log, e, f"impressions.columns.{n}").alias(n) for n, e in config.columns.items()]
    columns += [_value_of(log, name, label).alias(row_label(name)) for name, label in labels.items()]
    if config.identity == "row":
        columns.append(content_hash(log.select(*map(quoted, columns_of_data(log)))).alias(CONTENT))
    return columns


def _value_of(log: DataFrame, name: str, label: RowLabel) -> Column:
    """Return the value of a row label: bigint for a flag, else double. Null if the row has no value."""
    where = f"labels.{name}.expr"
    if not label.is_flag:
        return number_column(log, label.expr, where)
    column, kind = typed_expression(log, label.expr, where)
    if isinstance(kind, (BooleanType, *INTEGERS)):
        return as_type(column, kind, LongType())
    hint = (
        f"such as `{label.expr} = '1'`"
        if isinstance(kind, StringType)
        else "or say `dtype: float32` for the number itself"
    )
    raise InputError(
        f"{where}: {label.expr} is {kind.simpleString()}, expected a condition or an integer that is 0 or 1, {hint}."
    )


def matching_rows(frame: DataFrame, condition: str | None, where: str) -> DataFrame:
    """Keep the readable rows that match a ``where`` condition and repeat no other row."""
    return frame.where(does_match(frame, condition, where))


def does_match(frame: DataFrame, condition: str | None, where: str) -> Column:
    """Whether a row is readable, repeats no other row and matches the ``where`` condition. Null counts as false."""
    readable = F.col(MALFORMED).isNull() if MALFORMED in frame.columns else F.lit(True)
    if IS_REPEAT in frame.columns:
        readable &= ~F.col(IS_REPEAT)
    return readable if condition is None else readable & boolean_column(frame, condition, where)


def shown_list(article: Column) -> Column:
    """Return the articles of a line. An unreadable list becomes one unknown article, which is counted and dropped."""
    return F.coalesce(article, F.array(F.lit(None)))


def _explode(rows: DataFrame) -> DataFrame:
    others = [c for c in rows.columns if c not in ("article", "position")]
    return rows.select(*others, F.posexplode(shown_list(F.col("article"))).alias("position", "article"))


def keys_of_repeats(config: Impressions, at: Callable[[str], Column] = F.col) -> list[Column]:
    """Return the columns that are equal for an impression and its repeats."""
    # Rows of unknown users are repeats only within the same moment. Null keys must not pile up in one task.
    who = [at(name).isNull() for name in config.entities if name != config.shown_key]
    unknown = F.when(reduce(Column.__and__, who, at("request").isNull()), at("impression_time"))
    day = [F.to_date(at("impression_time"))] if config.repeats_by_day else []
    return [at("request"), *[at(name) for name in config.entities], unknown, *day]


def is_below(label: str, config: Impressions) -> Column:
    """Whether an impression is below the last labelled position of its list. Never true in a list without that label.

    This is the skip-above model of clicks: a user who clicked has seen everything above, but perhaps nothing below. A
    list contains the rows of the day with the same request and user or, without a request, with the same user and
    time. A row with neither request nor user, or without a position, is never below a click. Costs a shuffle by list.
    """
    request, user = F.col("request"), F.col("user") if "user" in config.entities else F.lit(None)
    moment = F.when(request.isNull(), F.col("impression_time"))
    # A row with neither key cannot have a label. Its impression id spreads such rows over many tasks.
    alone = F.when(request.isNull() & user.isNull(), F.col("impression_id"))
    whole = Window.partitionBy(request, user, moment, alone).rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    last = F.max(F.when(F.col(label) == 1, F.col("position"))).over(whole)
    return F.coalesce(F.col("position") > last, F.lit(False))


def identity_of(config: Impressions, at: Callable[[str], Column] = F.col) -> Column:
    """Hash of an impression's request and keys, and of its time without a request, or if ``dedup`` lets items repeat in one."""
    named = config.entities
    user, article = (at(name) if name in named else F.lit(None) for name in ("user", "article"))
    others = [at(name) for name in sorted(named) if name not in ("user", "article")]
    moment = F.unix_micros(at("impression_time"))
    moment = F.when(at("request").isNull(), moment) if config.dedup is None else moment
    return stable_hash("impression", [at("request"), user, article, *others, moment])


@dataclass(frozen=True, slots=True)
class Repeats:
    """Tells which impressions are dropped before they are labelled, and why. Pickled for executors.

    With ``by_row``, no impression is a repeat.
    """

    entities: tuple[str, ...]
    shown: str | None
    dedup: int
    """Microseconds within which an impression repeats the one before."""
    by_row: bool
    zone: str | None
    """The zone whose days tell what repeats an impression of the same request, or None if ``dedup`` alone does."""

    @classmethod
    def of(cls, config: Impressions, timezone: str) -> Self:
        """Return the rule of a configuration."""
        dedup = micros_of(config.dedup or timedelta())
        zone = timezone if config.repeats_by_day else None
        return cls(tuple(config.entities), config.shown_key, dedup, config.identity == "row", zone)

    @property
    def columns(self) -> list[str]:
        """The columns of an impression that :meth:`reasons` needs."""
        return list(
            dict.fromkeys(["impression_time", "position", "request", *self.entities, *filter(None, [self.shown])])
        )

    def reasons(self, columns: Mapping[str, pa.Array], content: Integers) -> tuple[dict[str, Flags], Flags]:
        """Return whether impressions are dropped for each reason, of which the first one that holds counts, and whether only
        the content of a repeat tells it from the impression that stays.

        All impressions with the same request and keys must be there. ``content`` has a hash of each impression. A
        repeat is an impression whose item was shown before with the same keys and request: at most ``dedup`` earlier or, by
        default, in a request on the same day. Runs on executors.
        """
        reasons = {NO_TIME: ~there(columns["impression_time"])}
        if self.shown is not None:
            reasons[f"no_{self.shown}"] = ~there(columns[self.shown])
        none = np.zeros(len(content), np.bool_)
        reasons[REPEATED], tied = (none, none) if self.by_row else self._repeated(columns, content)
        return reasons, tied

    def _repeated(self, columns: Mapping[str, pa.Array], content: Integers) -> tuple[Flags, Flags]:
        timed, micros = there(columns["impression_time"]), integers(columns["impression_time"])
        names = ["request", *self.entities]
        keys = [codes_of(columns[name])[0] for name in names]
        # Rows of unknown users are repeats only within the same moment.
        unknown = np.logical_and.reduce([key < 0 for key, name in zip(keys, names, strict=True) if name != self.shown])
        if unknown.any():
            keys.append(codes_of(pa.array(micros, mask=~(unknown & timed)))[0])
        asked = np.zeros(len(micros), np.bool_)
        if self.zone is not None:
            asked = there(columns["request"])
            keys.append(np.where(timed, days_of(micros, self.zone), -1))
        alike = apart(keys)
        # A row without a time is not an impression and must not come first in its request.
        position = np.where(there(columns["position"]), integers(columns["position"]), -(2**62))
        order = in_order([alike, ~timed, micros, position, content])
        first, sorted_times = begins(alike[order]), micros[order]
        near = np.zeros(len(order), np.bool_)
        near[1:] = (sorted_times[1:] - sorted_times[:-1] <= self.dedup) & timed[order][1:]
        again = ~first & (asked[order] | near)
        # The impressions before which only content decides, and the one of them that comes first.
        leads = first | begins(sorted_times) | begins(position[order])
        leader = np.maximum.accumulate(np.where(leads, np.arange(len(order)), 0))
        tied = again & ~again[leader] & (content[order] != content[order][leader])
        repeated, only_by_content = np.zeros(len(order), np.bool_), np.zeros(len(order), np.bool_)
        repeated[order], only_by_content[order] = again, tied
        return repeated, only_by_content


@dataclass(frozen=True, slots=True)
class _MarkDropped:
    """Adds the reason for dropping each impression of a partition, or null. Runs on executors."""

    repeats: Repeats

    def __call__(self, tables: list[pa.Table], _: Counts) -> Iterator[pa.RecordBatch]:
        rows = tables.pop().combine_chunks()
        columns = {name: whole(rows[name]) for name in self.repeats.columns}
        reasons, _tied = self.repeats.reasons(columns, integers(rows[CONTENT]))
        dropped = np.full(rows.num_rows, None, np.object_)
        for reason in reversed(reasons):
            dropped[reasons[reason]] = reason
        yield from batches(rows.append_column(DROPPED, pa.array(dropped, pa.string())))


def _identity_of_row() -> Column:
    """Hash of a row's content and its number among identical rows. The order of identical rows does not matter."""
    alike = Window.partitionBy(CONTENT, "position").orderBy(CONTENT)
    return stable_hash("row", [F.col(CONTENT), F.col("position"), F.row_number().over(alike)])
