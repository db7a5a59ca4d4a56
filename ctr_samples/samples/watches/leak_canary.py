"""Canary for data leaks: rows from the future, joined in every run like the views, that must never match.

The canary uses the few impressions of the day with the greatest hashes. The counting job returns them, so the
logs are not read twice. Each impression gets four rows under its own key in a canary table. The first is valid: its
event precedes the impression and it became available at the impression time. The other three must not match: an event
at the impression time, an event a microsecond later, and an earlier event that became available a microsecond later.
If rows can expire, a fifth row has already expired. The joins run with the settings of each view and must find the
first row only. The check detects a join that sees the future and a join that finds nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ctr_samples.config import EventView, JobConfig, View
from ctr_samples.errors import AccountingError
from ctr_samples.samples.features import IMPRESSION
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.as_of import (
    AVAILABLE_TIME,
    CLOSED,
    EVENT_TIME,
    KEY,
    PAYLOAD,
    VALID_TO,
    AsOf,
    Join,
    JoinStep,
    join_by,
    views_of,
)
from ctr_samples.samples.views.as_of.hot_keys import HotKeys
from ctr_samples.samples.views.as_of.validity import cut
from ctr_samples.samples.views.keys import made_column, on_column
from ctr_samples.samples.views.rows import as_of
from ctr_samples.sparksql.columns import joint_key, quoted
from ctr_samples.sparksql.observations import Observations
from ctr_samples.sparksql.releases import arrow_schema, sample_by
from ctr_samples.sparksql.session import tiny_session

MOST = 256
"""Number of impressions checked, regardless of the size of the day. Lower before Spark 4.2."""

_APART = 1_000
"""Minimum microseconds between two impressions, so that no impression sees a canary snapshot of its neighbour."""
_SLICES = 24
_ONE_HOT_OF = 16
_SAMPLE = "sample"
_ROW, _RANK = "_canary_row", "_canary_rank"


@dataclass(frozen=True, slots=True)
class Canary:
    """A sampled impression of the day: its id, its time in microseconds and its keys by name."""

    id: int
    micros: int
    keys: Mapping[str, Any]

    def key(self, on: Sequence[str]) -> tuple[Any, ...] | None:
        """Return the key for a join, or None if a part is missing. A unique key replaces a key from another view."""
        parts = tuple(self.id if "." in part else self.keys[part] for part in on)
        return None if None in parts else parts


class LeakCanary:
    """Samples the day's impressions as rows pass, and joins canaries to the sample afterwards. Lives on the driver."""

    def __init__(self, keys: Sequence[str], *, active: bool = True) -> None:
        self._keys = keys
        self._observations = Observations(active=active)
        self._types: dict[str, DataType] = {}

    def on(self, labelled: DataFrame) -> DataFrame:
        """Record a sample of the impressions by hash."""
        kinds = labelled.schema[IMPRESSION].dataType
        assert isinstance(kinds, StructType)
        self._types = {key: kinds[key].dataType for key in self._keys}
        own = F.col(f"{IMPRESSION}.impression_id")
        row = F.struct(
            own, F.unix_micros(f"{IMPRESSION}.impression_time"), *[f"{IMPRESSION}.{key}" for key in self._keys]
        )
        # Computed before the observation, since Spark interprets expressions inside an observation row by row.
        ranked = labelled.withColumns({_ROW: row, _RANK: F.xxhash64(own)})
        sample = sample_by(F.col(_ROW), F.col(_RANK), MOST)
        return self._observations.on(ranked, {_SAMPLE: sample}).drop(_ROW, _RANK)

    def sample(self) -> tuple[list[Canary], Mapping[str, DataType]]:
        """Return the sample and the types of the keys. Call it after the action."""
        rows = self._observations.lists().get(_SAMPLE, [])
        return [Canary(own, at, dict(zip(self._keys, keys, strict=True))) for own, at, *keys in rows], self._types


def apart(sample: Sequence[Canary], joins: Collection[tuple[str, ...]]) -> list[Canary]:
    """Keep impressions that share no key or moment with an earlier impression, so that each sees only its own
    canaries.
    """
    chosen: list[Canary] = []
    taken: set[tuple[tuple[str, ...], Any]] = set()
    for one in sorted(sample, key=lambda c: (c.micros, c.id)):
        keys = {(on, key) for on in joins if (key := one.key(on)) is not None}
        if not keys & taken and (not chosen or one.micros - chosen[-1].micros >= _APART):
            chosen.append(one)
            taken |= keys
    return chosen


def check_canaries(
    spark: SparkSession, config: JobConfig, span: Span, steps: Sequence[JoinStep], canary: LeakCanary
) -> dict[str, dict[str, int]]:
    """Return the number of canaries checked for each view (``canaries``). Raises AccountingError if a wrong row
    matched.

    Runs one small Spark job in a separate session. Tables without timestamps give no guarantee and have no canary.
    """
    sample, types = canary.sample()
    timed = [step for step in steps if step.method != "static"]
    chosen = apart(sample, {step.on for step in timed})
    if not chosen or not timed:
        return {}
    names = views_of(timed)
    wrong = {name: F.count_if(F.col(f"{name}.future")).alias(f"{name}.future") for name in names}
    right = {
        name: F.count_if(~F.coalesce(F.col(f"{name}.future"), F.lit(True))).alias(f"{name}.past") for name in names
    }
    with tiny_session(spark, config.timezone) as session:
        joined = _joined(session, config, span, timed, chosen, types)
        counts = joined.agg(F.count(F.lit(1)).alias("rows"), *wrong.values(), *right.values()).collect()[0].asDict()
    return dict(_checked(config, counts, chosen, names))


def _joined(
    spark: SparkSession,
    config: JobConfig,
    span: Span,
    steps: Sequence[JoinStep],
    chosen: Sequence[Canary],
    types: Mapping[str, DataType],
) -> DataFrame:
    """Return the chosen impressions with a struct per view, whose only column is whether the match is from the future."""
    schema = StructType().add("id", "long").add("micros", "long")
    for key, kind in types.items():
        schema = schema.add(key, kind)
    columns = zip(*[(c.id, c.micros, *[c.keys[key] for key in types]) for c in chosen], strict=True)
    # From an Arrow table, Spark puts the rows into the plan itself and needs no Python worker.
    table = pa.table([list(column) for column in columns], arrow_schema(schema))
    flat = spark.createDataFrame(table)
    made = {name: _made_key(step.on) for step in steps if (name := made_column(step.on)) is not None}
    flat = flat.select("*", *[key.alias(name) for name, key in made.items()])
    time = F.timestamp_micros("micros").alias("impression_time")
    own = F.struct(F.col("id").alias("impression_id"), time, *types).alias(IMPRESSION)
    rows = flat.select(own, *[F.col(quoted(name)) for name in made])
    for step in steps:
        joins = [_join(flat, config, name) for name in step.views]
        rows = join_by(step.method, rows, joins, _hot_keys(step, chosen, span))
    return rows


def _made_key(on: Sequence[str]) -> Column:
    return joint_key([F.col("id") if "." in part else F.col(part) for part in on])


def _hot_keys(step: JoinStep, chosen: Sequence[Canary], span: Span) -> HotKeys | None:
    """Treat some keys as hot where hot keys are possible, so that rows carried between slices are checked too."""
    cut = span.slices(_SLICES)
    if step.method != "union" or len(step.on) > 1 or cut is None:
        return None
    keys = tuple(str(key[0]) for one in chosen[::_ONE_HOT_OF] if (key := one.key(step.on)) is not None)
    return HotKeys(keys, *cut, _SLICES)


def _how(config: JobConfig, name: str) -> AsOf:
    view = config.views[name]
    return as_of(name, view, on_column(view.joined_on))


def _join(flat: DataFrame, config: JobConfig, name: str) -> Join:
    """Build the join of a view's canaries, which are joined like its rows."""
    view, how = config.views[name], _how(config, name)
    if isinstance(view, EventView) and view.valid_to is not None:
        return Join(how, cut(_canaries(flat, view, _with_ends(view)), how))
    rows = _canaries(flat, view, [(*offsets, None, None) for offsets in _offsets(view.inclusive)])
    return Join(how, rows.drop(VALID_TO, CLOSED))


_Offsets = tuple[int, int, bool, int | None, int | None]


def _canaries(flat: DataFrame, view: View, offsets: Sequence[_Offsets]) -> DataFrame:
    """Return the canary rows of each impression as rows of a view: ``key``, the clocks and ``payload``."""
    row = "struct<event: bigint, known: bigint, future: boolean, end: bigint, closed: bigint>"
    rows = F.array(*[F.struct(*[F.lit(part) for part in one]).cast(row) for one in offsets])
    keyed = flat.withColumn(KEY, _made_key(view.joined_on)).where(F.col(KEY).isNotNull())
    each = keyed.select(KEY, "micros", F.explode(rows).alias("row"))
    clocks = {EVENT_TIME: "event", AVAILABLE_TIME: "known", VALID_TO: "end", CLOSED: "closed"}
    return each.select(
        KEY,
        *[F.timestamp_micros(F.col("micros") + F.col(f"row.{part}")).alias(name) for name, part in clocks.items()],
        F.struct(F.col("row.future").alias("future")).alias(PAYLOAD),
    )


def _offsets(inclusive: bool) -> list[tuple[int, int, bool]]:
    """Return the event time and available time in microseconds after the impression, and whether a row is from the
    future.

    Rows with later events rank higher, so a wrongly visible row would match. Rows of one snapshot become known
    together, so the row with the late available time has a separate event time.
    """
    same_instant = 0 if not inclusive else 1
    return [(-3, 0, False), (-1, 1, True), (same_instant, same_instant, True), (1, 1, True)]


def _with_ends(view: EventView) -> list[_Offsets]:
    """Return the offsets of rows that end, with the end and the time it is known, and of a better row that has ended.

    If a view has available times for ends, the valid row has also ended, but its end is not yet known.
    """
    (event, known, future), *others = _offsets(view.inclusive)
    end = (-1, 1) if view.closed_available is not None else (None, None)
    return [(event, known, future, *end), (-2, -2, True, -1, None), *[(*other, None, None) for other in others]]


def _checked(
    config: JobConfig, counts: Mapping[str, int], chosen: Sequence[Canary], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, int]]]:
    if counts["rows"] != len(chosen):
        raise AccountingError(
            f"{len(chosen)} impressions were joined to canaries and {counts['rows']} came out, so the joins lose or duplicate "
            "rows. Nothing was published; report it."
        )
    for name in names:
        view = config.views[name]
        expected = sum(one.key(view.joined_on) is not None for one in chosen)
        if view.max_age is not None and view.max_age < timedelta(microseconds=3):
            expected = 0
        leaked, seen = counts[f"{name}.future"], counts[f"{name}.past"]
        if leaked:
            raise AccountingError(
                f"views.{name}: {leaked:,} of {expected:,} impressions saw a row from the future, so features may "
                "contain what happened after the impression. Nothing was published; report it."
            )
        if seen != expected:
            raise AccountingError(
                f"views.{name}: {seen:,} of {expected:,} impressions saw the row that was true before them and known by then, "
                "so the join misses rows. Nothing was published; report it."
            )
        yield name, {"canaries": expected}
