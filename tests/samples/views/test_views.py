"""Feature views: rows of a table with their two clocks, tables counted from a log by day, and columns of any name."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import DailyCounts, DailyCountView, EventView, SnapshotView, StaticView, WindowView
from ctr_samples.config.view import View
from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.as_of.joining import join_by_broadcast, join_by_shuffle
from ctr_samples.samples.views.as_of.matching import AsOf
from ctr_samples.samples.views.as_of.planning import Join
from ctr_samples.samples.views.rows import usable, view_rows, within_reach
from tests.support.literal_frames import Frame
from tests.support.whole_runs import write_rows

COUNTS = DailyCounts(
    days=2,
    counts={"impressions": "true", "clicks": "click = 1"},
    rates={"click_rate": {"count": "clicks", "of": "impressions", "prior": 0.1, "strength": 10}},
)
ITEM = DailyCountView(
    source="log", entity="article", key="item", event_time="at", available_after="1h", ttl="2d", daily_counts=COUNTS
)

PROFILE = EventView(source="profiles", entity="user", key="user_id", event_time="at", available_after="2h", ttl="30d")


def written(rows: DataFrame) -> list[tuple[Any, ...]]:
    text = [F.date_format(c, "MM-dd HH:mm") for c in ("event_time", "available_time")]
    return sorted(tuple(r) for r in rows.select("key", *text, "payload.*").collect())


def test_days_are_counted_over_the_window_that_ends_with_them(frame: Frame) -> None:
    log = frame(
        "item int, at timestamp, click int",
        [
            (7, "2019-06-01 00:00:00", 0),
            (7, "2019-06-01 23:59:59", 1),
            (7, "2019-06-03 12:00:00", 0),
            (8, "2019-06-03 12:00:00", 1),
            (None, "2019-06-01 00:00:00", 0),
            (7, None, 0),
        ],
    )
    rows = view_rows(log, "item", ITEM, ["impressions", "clicks", "click_rate"])
    assert written(rows) == [
        (7, "06-02 00:00", "06-02 01:00", 2, 1, (1 + 0.1 * 10) / (2 + 10)),
        (7, "06-03 00:00", "06-03 01:00", 2, 1, (1 + 0.1 * 10) / (2 + 10)),
        (7, "06-04 00:00", "06-04 01:00", 1, 0, (0 + 0.1 * 10) / (1 + 10)),
        (7, "06-05 00:00", "06-05 01:00", 1, 0, (0 + 0.1 * 10) / (1 + 10)),
        (7, "06-06 00:00", "06-06 01:00", 0, 0, 0.1),
        (8, "06-04 00:00", "06-04 01:00", 1, 1, (1 + 0.1 * 10) / (1 + 10)),
        (8, "06-05 00:00", "06-05 01:00", 1, 1, (1 + 0.1 * 10) / (1 + 10)),
        (8, "06-06 00:00", "06-06 01:00", 0, 0, 0.1),
    ]


USERS = [
    ("u1", "2019-06-01 10:00:00", "2019-06-01 10:30:00", "Lund"),
    (None, "2019-06-01 10:00:00", "2019-06-01 10:30:00", "b"),
    ("u1", None, "2019-06-01 10:30:00", "c"),
    ("u1", "2019-06-01 10:00:00", None, "d"),
]


def test_a_row_is_known_some_time_after_it_became_true_or_at_that_of_a_column_if_it_has_a_key_and_times(
    frame: Frame,
) -> None:
    table = frame("user_id string, at timestamp, loaded timestamp, city string", USERS)
    dates = frame("user_id string, ds date, city string", [("u2", "2019-06-01", "Oslo")])
    pairs = frame(
        "u string, a bigint, at timestamp", [(u, a, "2019-06-02 00:00:00") for u, a in (("1", 23), ("12", 3))]
    )
    both = EventView(source="t", entity="user_article", key="u", article_key="a", event_time="at", ttl="1d")
    loaded = PROFILE.model_copy(update={"available_after": None, "available_time": "loaded"})
    dated = PROFILE.model_copy(update={"event_time": "ds", "available_after": timedelta(hours=26)})
    views = [
        usable(view_rows(rows, "v", view, ["city"]))
        for rows, view in (
            (table, PROFILE),
            (table, loaded),
            (dates, dated),
            (pairs.withColumn("city", F.lit("?")), both),
        )
    ]
    assert written(reduce(DataFrame.unionAll, views)) == [
        ("1:123", "06-02 00:00", "06-02 00:00", "?"),
        ("2:123", "06-02 00:00", "06-02 00:00", "?"),
        ("u1", "06-01 10:00", "06-01 10:30", "Lund"),
        ("u1", "06-01 10:00", "06-01 12:00", "Lund"),
        ("u1", "06-01 10:00", "06-01 12:00", "d"),
        ("u2", "06-01 00:00", "06-02 02:00", "Oslo"),  # some hours after its day began
    ]


def test_only_rows_that_some_impression_of_the_day_can_see_are_read(frame: Frame) -> None:
    times = ["2019-06-03 23:59:59.999999", "2019-06-04 00:00:00", "2019-06-05 23:59:59", "2019-06-06 00:00:00"]
    table = frame("user_id string, at timestamp, city string", [("u1", at, f"{n}") for n, at in enumerate(times)])
    rows = view_rows(table, "user", PROFILE, ["city"])
    near = within_reach(rows, Span.of(date(2019, 6, 5), "UTC"), timedelta(days=1))
    assert sorted(row.payload.city for row in near.collect()) == ["1", "2"]


SNAPSHOT = SnapshotView(source="t", entity="user", key="user_id", snapshot="ds", publish_delay="2h", ttl="7d")
OF_DATES = PROFILE.model_copy(update={"event_time": "ds", "available_after": None})
A_DAY_LATE = {"available_after": timedelta(hours=26), "ttl": timedelta(days=2)}


@pytest.mark.parametrize(
    ("view", "column", "message"),
    [
        (OF_DATES, "x", ".event_time: ds is a date, so a row would count as known when its day begins"),
        (OF_DATES.model_copy(update=A_DAY_LATE), "x", "the newest row is 50h old when the next day's becomes known"),
        (PROFILE, "cty", ": its source has no column 'cty'; did you mean 'city'?"),
        (
            SNAPSHOT.model_copy(update={"snapshot": "at"}),
            "x",
            ".snapshot: at is timestamp, expected the day of a snapshot: a date",
        ),
        (
            PROFILE.model_copy(update={"sequence": "x"}),
            "x",
            ".sequence: x is array<int>, expected a number, text or a time",
        ),
    ],
)
def test_columns_that_cannot_be_what_a_view_says_are_refused(
    frame: Frame, view: EventView | SnapshotView, column: str, message: str
) -> None:
    rows = frame("user_id int, ds date, at timestamp, city string, x array<int>", [])
    with pytest.raises(InputError, match=rf"views\.v.*{re.escape(message)}"):
        view_rows(rows, "v", view, [column])


def test_sequences_and_tombstones_are_columns_of_the_view(frame: Frame) -> None:
    view = PROFILE.model_copy(update={"sequence": "version", "tombstone": "op = 'D'"})
    rows = frame("user_id int, at timestamp, version int, op string, x int", [(1, "2019-06-01 10:00:00", 3, "D", 5)])
    assert view_rows(rows, "v", view, ["x"]).select("sequence", "gone").collect() == [(3, True)]


def test_only_the_days_that_matter_are_read_from_a_partitioned_table(spark: SparkSession, tmp_path: Path) -> None:
    days = [f"2019-06-{day:02}" for day in range(1, 11)]
    for day in days:
        write_rows(tmp_path / f"t/ds={day}/x.parquet", [{"user_id": 1, "x": 5}])
    rows = view_rows(spark.read.parquet(str(tmp_path / "t")), "v", SNAPSHOT, ["x"])
    near = within_reach(usable(rows), Span.of(date(2019, 6, 5), "UTC"), timedelta(days=2))
    plan = near._jdf.queryExecution().executedPlan()
    assert "PartitionFilters: [isnotnull" in plan.toString()
    # Midnights from 2 days before the day to its end: the snapshots of the 2nd, 3rd and 4th.
    ended = near.select(F.date_format(F.date_sub("event_time", 1), "dd")).collect()
    assert sorted(row[0] for row in ended) == ["02", "03", "04"]


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


@pytest.mark.slow
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


@pytest.mark.slow
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
