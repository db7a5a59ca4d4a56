"""Columns of a view may have any name, also those that the joins use themselves."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import DailyCountView, SnapshotView, StaticView, WindowView
from ctr_samples.config.view import View
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.views.as_of.joining import join_by_broadcast, join_by_shuffle
from ctr_samples.samples.views.as_of.matching import AsOf
from ctr_samples.samples.views.as_of.planning import Join
from ctr_samples.samples.views.rows import usable, view_rows
from tests.support.literal_frames import Frame

pytestmark = pytest.mark.slow

NAMES = "key event_time available_time payload sequence gone moment rank row content alone slice left".split()
OTHERS = (
    "is_impression best0 row0 id user article impression label rows ends day time value step at which leaves".split()
)

ALL = [*NAMES, *OTHERS]


OF_USERS: dict[str, Any] = {"source": "t", "entity": "user", "key": "who"}


def joined(frame: Frame, rows: DataFrame, view: View, columns: list[str], method: str = "shuffle", **kind: bool) -> Any:
    """What an impression of user u1 sees of a view."""
    flat = frame("id bigint, at timestamp, user string", [(1, "2019-06-05 10:00:00", "u1")])
    struct = F.struct(F.col("id").alias("impression_id"), F.col("at").alias("impression_time"), "user")
    left = Stage.of(flat.select(struct.alias("impression")))
    join = Join(AsOf("profile", ("user",), None, **kind), usable(view_rows(rows, "profile", view, columns)))
    stage = join_by_shuffle(left, [join], 2) if method == "shuffle" else join_by_broadcast(left, [join])
    (row,) = stage.rows().collect()
    return row.profile


@pytest.mark.parametrize("method", ["shuffle", "broadcast"])
def test_a_table_with_or_without_times_may_have_columns_of_any_name(frame: Frame, method: str) -> None:
    columns = ", ".join(f"`{name}` int" for name in ALL)
    table = frame(f"who string, ds string, {columns}", [("u1", "2019-06-03", *range(len(ALL)))])
    daily = SnapshotView(**OF_USERS, snapshot="ds", ttl="9d")
    static = StaticView(**OF_USERS, static=True)
    for found in (
        joined(frame, table, daily, ALL, method, snapshot=True),
        joined(frame, table.drop("ds"), static, ALL, method, static=True),
    ):
        assert [found[name] for name in ALL] == list(range(len(ALL)))


def test_counts_may_have_any_name(frame: Frame) -> None:
    log = frame("who string, t timestamp", [("u1", "2019-06-04 12:00:00")])
    counts: dict[str, Any] = dict.fromkeys(ALL[1:], "true")
    rate = {"key": {"count": "event_time", "of": "gone", "prior": 0.5, "strength": 1}}
    daily = {"days": 2, "counts": counts, "rates": rate}
    found = joined(frame, log, DailyCountView(**OF_USERS, event_time="t", daily_counts=daily, ttl="3d"), ALL)
    assert [found[name] for name in ALL] == [0.75, *[1] * (len(ALL) - 1)]
    aggregates = {"windows": ["2d"], "step": "1h", "counts": dict.fromkeys(ALL, "true")}
    columns = [f"{name}_2d" for name in ALL]
    found = joined(frame, log, WindowView(**OF_USERS, event_time="t", aggregates=aggregates), columns)
    assert [found[name] for name in columns] == [1] * len(ALL)
