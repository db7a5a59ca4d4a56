"""Columns of a view may have any name, also those that the joins use themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import DailyCountView, SnapshotView, StaticView, WindowView
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.views.as_of.joining import join_by_broadcast, join_by_shuffle
from ctr_samples.samples.views.as_of.matching import AsOf
from ctr_samples.samples.views.as_of.planning import Join
from ctr_samples.samples.views.rows import usable, view_rows

pytestmark = pytest.mark.slow

Frame = Callable[..., DataFrame]
NAMES = "key event_time available_time payload sequence gone moment rank row content alone slice left".split()
OTHERS = (
    "is_impression best0 row0 id user article impression label rows ends day time value step at which leaves".split()
)
ALL = [*NAMES, *OTHERS]


def impressions(frame: Frame) -> DataFrame:
    flat = frame("id bigint, at timestamp, user string", [(1, "2019-06-05 10:00:00", "u1")])
    struct = F.struct(F.col("id").alias("impression_id"), F.col("at").alias("impression_time"), "user")
    return flat.select(struct.alias("impression"))


def joined_by_shuffle(left: DataFrame, join: Join) -> DataFrame:
    return join_by_shuffle(Stage.of(left), [join], 2).rows()


def joined_by_broadcast(left: DataFrame, join: Join) -> DataFrame:
    return join_by_broadcast(Stage.of(left), [join]).rows()


EACH = pytest.mark.parametrize("method", [joined_by_shuffle, joined_by_broadcast])
Method = Callable[[DataFrame, Join], DataFrame]


@EACH
def test_a_table_may_have_columns_of_any_name(frame: Frame, method: Method) -> None:
    columns = ", ".join(f"`{name}` int" for name in ALL)
    table = frame(f"who string, ds string, {columns}", [("u1", "2019-06-03", *range(len(ALL)))])
    view = SnapshotView(source="t", entity="user", key="who", snapshot="ds", ttl="9d")
    how = AsOf("profile", ("user",), None, snapshot=True)
    found = method(impressions(frame), Join(how, usable(view_rows(table, "profile", view, ALL)))).collect()
    assert [found[0].profile[name] for name in ALL] == list(range(len(ALL)))


@EACH
def test_a_table_without_times_may_too(frame: Frame, method: Method) -> None:
    columns = ", ".join(f"`{name}` int" for name in ALL)
    table = frame(f"who string, {columns}", [("u1", *range(len(ALL)))])
    view = StaticView(source="t", entity="user", key="who", static=True)
    rows = usable(view_rows(table, "profile", view, ALL))
    found = method(impressions(frame), Join(AsOf("profile", ("user",), None, static=True), rows)).collect()
    assert [found[0].profile[name] for name in ALL] == list(range(len(ALL)))


OF_USERS: dict[str, Any] = {"source": "t", "entity": "user", "key": "who", "event_time": "t"}


def counted(frame: Frame, view: DailyCountView | WindowView, columns: list[str]) -> Any:
    """The latest counts of one action of the day before."""
    log = frame("who string, t timestamp", [("u1", "2019-06-04 12:00:00")])
    rows = usable(view_rows(log, "counts", view, columns))
    return joined_by_shuffle(impressions(frame), Join(AsOf("counts", ("user",), None), rows)).collect()[0].counts


def test_counts_by_day_may_have_any_name(frame: Frame) -> None:
    counts: dict[str, Any] = dict.fromkeys(ALL[1:], "true")
    rate = {"key": {"count": "event_time", "of": "gone", "prior": 0.5, "strength": 1}}
    daily = {"days": 2, "counts": counts, "rates": rate}
    found = counted(frame, DailyCountView(**OF_USERS, daily_counts=daily, ttl="3d"), ALL)
    assert [found[name] for name in ALL] == [0.75, *[1] * (len(ALL) - 1)]


def test_counts_over_windows_may_have_any_name(frame: Frame) -> None:
    aggregates = {"windows": ["2d"], "step": "1h", "counts": dict.fromkeys(ALL, "true")}
    columns = [f"{name}_2d" for name in ALL]
    found = counted(frame, WindowView(**OF_USERS, aggregates=aggregates), columns)
    assert [found[name] for name in columns] == [1] * len(ALL)
