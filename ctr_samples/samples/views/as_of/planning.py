"""How views are joined: their steps, the types of their rows, and keys that are too hot for one task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DoubleType, IntegerType, LongType, StructField, StructType

from ctr_samples.samples.columnar.blocks import PLACE
from ctr_samples.samples.columnar.columns import Flags, Integers, flags, place_of_texts
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.views.as_of import matching
from ctr_samples.samples.views.as_of.matching import CONTENT, COPY, END, EVENT, KEY, KNOWN, PAYLOAD, AsOf
from ctr_samples.sparksql.columns import hash_of_fields, later

Method = Literal["shuffle", "broadcast"]


@dataclass(frozen=True, slots=True)
class ViewFacts:
    """Facts about a view before it is joined.

    ``on`` is its join key, and ``level`` the length of the chain of views to join before it, each of which provides a
    key for the next. ``bytes`` is the size of its files, or None if unknown (tables, views counted from a log).
    ``bytes_in_memory`` is None unless measured. ``method`` is the configured method.
    """

    name: str
    on: tuple[str, ...]
    bytes: int | None = None
    bytes_in_memory: int | None = None
    method: Method | None = None
    level: int = 0


@dataclass(frozen=True, slots=True)
class JoinLimits:
    """Maximum size of broadcast views, and minimum log size for measuring hot keys.

    The smallest views are broadcast, as long as together they need at most ``broadcast_bytes`` of memory. If the
    impression log has ``measured_bytes`` or an unknown size, several tasks share the keys with about
    ``rows_of_a_hot_key`` impressions, estimated from a ``sample`` of the log.
    """

    broadcast_bytes: int = 64 * 2**20
    measured_bytes: int = 256 * 2**20
    rows_of_a_hot_key: int = 500_000
    sample: float = 0.02


@dataclass(frozen=True, slots=True)
class JoinStep:
    """Join of views on the same keys, with the method and its reason. A broadcast leaves impressions in place and in order."""

    method: Method
    views: tuple[str, ...]
    on: tuple[str, ...]
    reason: str


def plan_joins(views: Sequence[ViewFacts], limits: JoinLimits = JoinLimits()) -> tuple[JoinStep, ...]:
    """Return the steps in execution order.

    Level by level: a view that provides a key is joined before the views on that key. Within a level, joins that
    shuffle the impressions come first, key by key, so that broadcast columns do not go through those shuffles.
    """
    steps: list[JoinStep] = []
    broadcast = _broadcast(views, limits)
    for level in range(1 + max((view.level for view in views), default=0)):
        steps += _one_level([view for view in views if view.level == level], broadcast)
    return tuple(steps)


def order_steps(steps: Sequence[JoinStep], needed: Iterable[str] = ()) -> tuple[Sequence[JoinStep], Sequence[JoinStep]]:
    """Return the steps before the impressions move to their final place, and those after.

    A broadcast view comes after, since its columns need not travel then. It comes before too if it is ``needed`` there,
    or if a view that comes before has a key from it.
    """
    before = set(needed)
    for step in reversed(steps):
        if step.method == "shuffle" or before & {*step.views}:
            before |= {part.partition(".")[0] for part in step.on if "." in part}
    early = [step for step in steps if step.method == "shuffle" or before & {*step.views}]
    return early, [step for step in steps if step.method == "broadcast"]


def views_of(steps: Iterable[JoinStep]) -> list[str]:
    """Return the names of the views that the steps join, in order."""
    return [name for step in steps for name in step.views]


def described(steps: Sequence[JoinStep]) -> Iterator[str]:
    """Yield one line of text per step."""
    for number, step in enumerate(steps, 1):
        on = " and ".join(step.on)
        yield f"{number}. {', '.join(step.views)} by {_WORDS[step.method]} on the {on}: {step.reason}"


def _broadcast(views: Sequence[ViewFacts], limits: JoinLimits) -> set[str]:
    """Names of the views that together are small enough to broadcast."""
    names, total = set(), 0
    for view in sorted(views, key=lambda view: (view.bytes_in_memory or 0, view.name)):
        if view.bytes_in_memory is None or view.method == "shuffle":
            continue
        total += view.bytes_in_memory
        if total <= limits.broadcast_bytes:
            names.add(view.name)
    return names


def _one_level(views: Sequence[ViewFacts], broadcast: Collection[str]) -> Iterator[JoinStep]:
    moved = sorted((view for view in views if _moves(view, broadcast)), key=lambda view: view.on)
    shared = [(on, list(group)) for on, group in groupby(moved, key=lambda view: view.on)]
    # The columns of each group go through the shuffles of all later groups, so the largest group comes last.
    for on, group in sorted(shared, key=lambda one: sum(view.bytes or 0 for view in one[1])):
        names = tuple(view.name for view in group)
        yield JoinStep("shuffle", names, on, _ONE if len(names) == 1 else _SHARED)
    for view in views:
        if not _moves(view, broadcast):
            why = _ASKED if view.method is not None else f"it is small ({view.bytes_in_memory:,} bytes)"
            yield JoinStep("broadcast", (view.name,), view.on, why)


def _moves(view: ViewFacts, broadcast: Collection[str]) -> bool:
    return view.method != "broadcast" and view.name not in broadcast


_WORDS: dict[Method, str] = {"shuffle": "a shuffle", "broadcast": "broadcast"}
_ASKED = "the configuration asks for it"
_ONE = "one shuffle of impressions and rows"
_SHARED = "one shuffle for all of them"


EVENT_TIME, AVAILABLE_TIME = "event_time", "available_time"
SEQUENCE, GONE = "sequence", "gone"
"""Columns of a feature table besides ``key`` and ``payload``.

The last two are optional: the order of rows with equal times, and a flag for tombstones, which mark that the entity no
longer has features. A table without times has neither of the first two.
"""

VALID_TO, CLOSED = "valid_to", "closed_available"
"""Two further columns of a table whose rows end: the end of a row's validity, and the time at which the end became
known. The first is null if the row has not ended, the second if the end was known at once.
"""


@dataclass(frozen=True, slots=True)
class Join:
    """View that is ready to join. ``features`` must not have rows without a key or times.

    ``made`` replaces the payload by what is computed from it, of the type ``payload``. The content of a row, which
    decides between equal times, is that of the features.
    """

    how: AsOf
    features: DataFrame
    made: Callable[[DataFrame], DataFrame] | None = None
    payload: StructType | None = None

    @property
    def kind(self) -> StructType:
        """Type of the struct that the join adds."""
        payload = self.payload or self.features.schema[PAYLOAD].dataType
        assert isinstance(payload, StructType)
        fields = [StructField(field.name, field.dataType) for field in payload.fields]
        return StructType([*fields, StructField("age_s", DoubleType()), StructField("matched", BooleanType(), False)])

    def ready(self) -> DataFrame:
        """Return the rows with the columns of :mod:`ctr_samples.samples.views.as_of.matching`."""
        features = self.features
        columns = [F.col(KEY), content_of(features.schema[PAYLOAD].dataType).alias(CONTENT), F.col(PAYLOAD)]
        if not self.how.static:
            clocks = {EVENT_TIME: EVENT, AVAILABLE_TIME: KNOWN, VALID_TO: END, CLOSED: matching.CLOSED}
            columns += [F.unix_micros(clock).alias(name) for clock, name in clocks.items() if clock in features.columns]
            gone = F.coalesce(F.col(GONE), F.lit(False)) if GONE in features.columns else F.lit(False)
            columns.append(gone.alias(matching.GONE))
            columns += [F.col(SEQUENCE).alias(matching.SEQUENCE)] if SEQUENCE in features.columns else []
        rows = features.select(*columns)
        return rows if self.made is None else self.made(rows)


def effective_from(how: AsOf) -> Column:
    """Return the first instant at which an impression sees a row, like :meth:`AsOf.seen_from`."""
    event = F.col(EVENT_TIME) if how.inclusive else later(F.col(EVENT_TIME), timedelta(microseconds=1))
    return F.greatest(event, F.col(AVAILABLE_TIME))


def rank_of(features: DataFrame) -> list[Column]:
    """Return the columns that order the rows of a key that are visible at one time, ascending."""
    content = content_of(features.schema[PAYLOAD].dataType)
    if GONE in features.columns:
        content = F.when(F.col(GONE), F.lit(-(2**63))).otherwise(content)
    sequence = [F.col(SEQUENCE)] if SEQUENCE in features.columns else []
    return [F.col(EVENT_TIME), F.col(AVAILABLE_TIME), *sequence, content]


def content_of(kind: DataType) -> Column:
    """Hash of the whole payload. As the last tie-breaker, it makes the order of rows total."""
    assert isinstance(kind, StructType)
    payload = F.col(PAYLOAD)
    return hash_of_fields([payload[f.name] for f in kind.fields], [f.dataType for f in kind.fields])


MOST_COPIES = 32
"""Maximum number of tasks that share a key."""

_MOST_KEYS = 1000


@dataclass(frozen=True, slots=True)
class HotKeys:
    """Hot keys, as text."""

    keys: tuple[str, ...] = ()

    def placed(self, rows: Stage, partitions: int) -> Stage:
        """Add the places of a view's rows. A row of a hot key has several, each with the number of the copy."""
        copy = [StructField(COPY, IntegerType())] if self.keys else []
        kind = StructType([*rows.kind, *copy, StructField(PLACE, LongType())])
        return rows.then(partial(self._placed, partitions), kind)

    def _placed(self, partitions: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            keys = rows.column(KEY).cast(pa.string())
            places = place_of_texts([keys])
            if not self.keys:
                yield rows.append_column(PLACE, pa.array(places))
                continue
            hot = self._are_hot(keys)
            for copy in range(min(partitions, MOST_COPIES)):
                mine = np.ones(len(hot), np.bool_) if copy == 0 else hot
                some = rows.filter(pa.array(mine)).append_column(COPY, pa.array(np.full(mine.sum(), copy, np.int32)))
                yield some.append_column(PLACE, pa.array(places[mine] % partitions + copy))

    def spread(self, places: Integers, keys: pa.Array, ids: Integers, partitions: int) -> Integers:
        """Return the places of impressions, given those of their keys: one of the copies. Runs on executors."""
        if not self.keys:
            return places
        return np.where(self._are_hot(keys), places % partitions + ids % min(partitions, MOST_COPIES), places)

    def _are_hot(self, keys: pa.Array) -> Flags:
        return flags(pc.is_in(keys, value_set=pa.array(self.keys, keys.type)))


NONE_HOT = HotKeys()


def measure_hot_keys(keys: DataFrame, share: float, least_rows: int) -> tuple[str, ...]:
    """Return the keys with at least ``least_rows`` rows, as text, most frequent first, given the keys of a ``share`` of the
    rows in the column ``key``. Runs a Spark job.
    """
    named = keys.select(F.col(KEY).cast("string")).where(F.col(KEY).isNotNull())
    counts = named.groupBy(KEY).agg((F.count(F.lit(1)) / F.lit(share)).alias("rows")).where(F.col("rows") >= least_rows)
    return tuple(row[KEY] for row in counts.orderBy(F.col("rows").desc(), KEY).limit(_MOST_KEYS).collect())
