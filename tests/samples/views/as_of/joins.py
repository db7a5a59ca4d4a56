"""Views joined to literal impressions by every method, in this process or by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, reduce
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

from ctr_samples.samples.columnar.blocks import PLACE, bytes_of_rows
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.views.as_of import matching, planning
from ctr_samples.samples.views.as_of.joining import SmallViews, _Blocks, join_by_broadcast, join_by_shuffle, join_rows
from ctr_samples.samples.views.as_of.matching import CONTENT, END, EVENT, KEY, KNOWN, PAYLOAD, AsOf
from ctr_samples.samples.views.as_of.planning import NONE_HOT, HotKeys, Join
from tests.support.stages import hashed, ran, stage_of, table

View = tuple[AsOf, pa.Table]
"""How a view is joined, and its rows with the columns that ``planning`` names."""

METHODS = {
    "shuffle": NONE_HOT,
    "shuffle with hot keys": HotKeys(tuple(f"key{i:02}" for i in range(0, 40, 2))),
    "broadcast": NONE_HOT,
}
"""The hot keys of each method: none, or every second one."""
EACH = pytest.mark.parametrize("method", METHODS)
CLOCKS = {
    planning.EVENT_TIME: EVENT,
    planning.AVAILABLE_TIME: KNOWN,
    planning.VALID_TO: END,
    planning.CLOSED: matching.CLOSED,
}
NOTHING = (None, None, False)
PARTITIONS = 3
NESTED = pa.struct(
    [
        ("tags", pa.map_(pa.string(), pa.float64())),
        ("ids", pa.list_(pa.int64())),
        ("place", pa.struct([("city", pa.string())])),
    ]
)
PAYLOADS: list[dict[str, Any]] = [
    {"tags": [("a", 0.5)], "ids": [1, 2], "place": {"city": "Lund"}},
    {"tags": [("b", 0.5)], "ids": [3], "place": {"city": "Oslo"}},
]


Time = str | float
"""A time of June 5, if no date is said, or the minutes since it began."""


@cache
def instant(time: Time) -> datetime:
    if isinstance(time, str):
        return datetime.fromisoformat(time if " " in time else f"2019-06-05 {time}").replace(tzinfo=UTC)
    return datetime(2019, 6, 5, tzinfo=UTC) + timedelta(microseconds=round(time * 60e6))


@dataclass(frozen=True)
class Row:
    """A row that is true from ``at`` to ``to``, and known when it begins and ends unless told otherwise."""

    at: Time
    value: str | None
    to: Time | None = None
    known: Time | None = None
    closed: Time | None = None
    sequence: int | None = None
    gone: bool | None = None

    @property
    def known_at(self) -> Time:
        return self.at if self.known is None else self.known


Found = tuple[Any, Any, bool]
"""Value, age in seconds, and whether a row matched."""


@dataclass(frozen=True)
class Case:
    """One key: its rows, and what impressions at some times find."""

    rows: Sequence[Row] = ()
    found: dict[Time, Found] = field(default_factory=dict)


def of_cases(cases: dict[str, Case], ending: bool = False) -> tuple[pa.Table, pa.Table, dict[int, Found]]:
    """Impressions and rows of all cases, each with a key of its own, and what each impression finds."""
    shown, known, expected = [], [], {}
    for number, one in enumerate(cases.values()):
        known += [(f"key{number:02}", row) for row in one.rows]
        for at, value in one.found.items():
            expected[len(shown)] = value
            shown.append((len(shown), at, f"key{number:02}"))
    return impressions(shown), features(known, ending), expected


def impressions(rows: Sequence[tuple[int, Time, str | None]]) -> pa.Table:
    """Rows of (id, time, user)."""
    timed = [(number, instant(at), user) for number, at, user in rows]
    shown = table("impression_id bigint, impression_time timestamp, user string", timed)
    return pa.table({"impression": shown.to_struct_array(), "label": pa.array([7] * len(rows))})


FEATURES = "key string, event_time timestamp, available_time timestamp, sequence bigint, gone boolean, value string"
ENDS = "valid_to timestamp, closed_available timestamp"


def features(rows: Sequence[tuple[str, Row]], ending: bool = False) -> pa.Table:
    """Rows of a view by key, with the columns of rows that end if they are ``ending``."""

    def values(row: Row) -> tuple[Any, ...]:
        ends = [None if time is None else instant(time) for time in (row.to, row.closed)]
        own = (instant(row.at), instant(row.known_at), row.sequence, row.gone, row.value)
        return (*own, *ends) if ending else own

    schema = f"{FEATURES}, {ENDS}" if ending else FEATURES
    return with_payload(table(schema, [(key, *values(row)) for key, row in rows]), "value")


def oracle(shown: Sequence[Any], known: Sequence[tuple[str, Row]], how: AsOf) -> dict[int, Found]:
    """The definition, read aloud in plain Python: what each impression finds."""

    def passed(clock: Time, at: datetime) -> bool:
        return instant(clock) <= at if how.inclusive else instant(clock) < at

    def visible(row: Row, at: datetime) -> bool:
        ended = row.to is not None and passed(row.to, at) and (row.closed is None or instant(row.closed) <= at)
        return passed(row.at, at) and instant(row.known_at) <= at and not ended

    def rank(row: Row) -> tuple[datetime, datetime, int]:
        return instant(row.at), instant(row.known_at), -1 if row.sequence is None else row.sequence

    result: dict[int, Found] = {}
    for number, time, user in shown:
        at = instant(time)
        in_sight = [(key, row) for key, row in known if visible(row, at)]
        best = max((row for key, row in in_sight if key == user), key=rank, default=None)
        result[number] = NOTHING
        if best is not None and not best.gone and (how.ttl is None or at - instant(best.at) <= how.ttl):
            latest = max(instant(row.at) for _, row in in_sight)
            if not how.snapshot or instant(best.at) == latest:
                result[number] = best.value, (at - instant(best.at)).total_seconds(), True
    return result


def with_payload(rows: pa.Table, *names: str) -> pa.Table:
    """Put the values of a view's rows into the payload."""
    return rows.drop_columns([*names]).append_column(PAYLOAD, rows.select([*names]).to_struct_array())


def ready(rows: pa.Table) -> pa.Table:
    """The rows of a view as :meth:`Join.ready` returns them."""
    columns = {KEY: rows[KEY], CONTENT: hashed(rows[PAYLOAD]), PAYLOAD: rows[PAYLOAD]}
    columns |= {name: rows[clock].cast(pa.int64()) for clock, name in CLOCKS.items() if clock in rows.column_names}
    if EVENT in columns:
        gone = rows[planning.GONE] if planning.GONE in rows.column_names else pa.nulls(rows.num_rows, pa.bool_())
        columns[matching.GONE] = pc.fill_null(gone, False)
    if planning.SEQUENCE in rows.column_names:
        columns[matching.SEQUENCE] = rows[planning.SEQUENCE]
    return pa.table(columns)


def snapshots(rows: pa.Table) -> Stage:
    """The snapshots among the rows of a view, in every place."""
    distinct = ready(rows).group_by([EVENT, KNOWN]).aggregate([])
    each = [
        distinct.append_column(PLACE, pa.array([place] * distinct.num_rows, pa.int64())) for place in range(PARTITIONS)
    ]
    return stage_of(pa.concat_tables(each))


def joined(method: str, shown: pa.Table, views: Sequence[View]) -> list[SparkRow]:
    """Impressions with a struct for each view, joined in this process."""
    kinds = {how.name: Join(how, None, payload=stage_of(rows).kind[PAYLOAD].dataType).kind for how, rows in views}
    hows, left = [how for how, _ in views], stage_of(shown)
    if method == "broadcast":
        every = [(number, batch) for number, (_, rows) in enumerate(views) for batch in ready(rows).to_batches()]
        blocks = _Blocks([(number, bytes(bytes_of_rows(batch))) for number, batch in every])
        schemas = tuple(ready(rows).schema for _, rows in views)
        small = SmallViews(tuple(hows), schemas, kinds, SimpleNamespace(value=blocks))
        stage = reduce(small.join, kinds, left)
    else:
        rows_of = [stage_of(ready(rows)) for _, rows in views]
        rows_of += [snapshots(rows) for how, rows in views if how.snapshot]
        stage = join_rows(left, hows, kinds, rows_of, PARTITIONS, METHODS[method])
    rows, _ = ran(stage)
    assert {name: row[name].__fields__ for row in rows[:1] for name in kinds} == {
        name: kind.names for name, kind in kinds.items() if rows
    }
    return rows


def joined_in_spark(spark: SparkSession, method: str, shown: pa.Table, views: Sequence[View]) -> list[SparkRow]:
    """The same by Spark."""
    left = Stage.of(spark.createDataFrame(shown))
    joins = [Join(how, spark.createDataFrame(rows)) for how, rows in views]
    by_shuffle = method != "broadcast"
    stage = join_by_shuffle(left, joins, PARTITIONS, METHODS[method]) if by_shuffle else join_by_broadcast(left, joins)
    frame = stage.rows()
    assert frame.columns == ["impression", "label", *[how.name for how, _ in views]]
    for join in joins:
        assert frame.schema[join.how.name].dataType.simpleString() == join.kind.simpleString()
    return frame.collect()


def found(rows: Sequence[SparkRow]) -> dict[int, Found]:
    """Impression id -> (value, age in seconds, matched); no impression may come out twice."""
    result = {r.impression.impression_id: (r.profile.value, r.profile.age_s, r.profile.matched) for r in rows}
    assert len(result) == len(rows), "an impression came out twice"
    return result
