"""Aggregates over sliding windows: what each impression sees, to the instant, and against the definition in plain Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import Aggregates, WindowView
from ctr_samples.config.references import check_references
from ctr_samples.config.units import format_duration
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.period import Span
from ctr_samples.samples.views.aggregates import Seen, counted_rows, filled, in_reach, reach
from ctr_samples.samples.views.as_of.joining import join_by_broadcast, join_by_shuffle
from ctr_samples.samples.views.as_of.matching import AsOf
from ctr_samples.samples.views.as_of.planning import Join
from ctr_samples.samples.views.rows import usable, view_rows, view_steps, within_reach
from tests.support.literal_frames import Frame
from tests.support.minimal_config import minimal

Log = Sequence[tuple[Any, ...]]
DAY = Span.of(date(2019, 6, 5), "UTC")
NAN = float("nan")
RATE = {"count": "clicks", "of": "shown", "prior": 0.01, "strength": 20}


def view(step: str, *windows: str, delay: str | None = None, **more: Any) -> WindowView:
    aggregates = {
        "step": step,
        "windows": list(windows),
        "counts": {"clicks": "click = 1", "shown": "true"},
        "sums": {"ms": "read_ms"},
        "distinct": {"users": "user_id"},
        "rates": {"ctr": RATE},
    }
    base = {"source": "log", "entity": "article", "key": "item", "event_time": "at", "aggregates": aggregates}
    return WindowView.model_validate({**base, "available_after": delay, **more})


def moment(text: str) -> str:
    return text if " " in text else f"2019-06-05 {text}"


def log(frame: Frame, rows: Log) -> DataFrame:
    """Rows of (item, time, click, read_ms, user_id)."""
    schema = "item bigint, at timestamp, click int, read_ms double, user_id string"
    return frame(schema, [(item, time and moment(time), *rest) for item, time, *rest in rows])


def of_day(rows: DataFrame, how: WindowView, span: Span, zone: str, columns: Sequence[str]) -> DataFrame:
    """The rows of a view that impressions of a day are joined to."""
    steps = in_reach(view_steps(rows, "v", how), how, span, zone)
    return counted_rows(steps, how, columns, Seen.of(how, span, zone))


def seen(
    frame: Frame, rows: Log, shown: Sequence[tuple[str, int | None]], how: WindowView, method: str = "shuffle"
) -> list[Any]:
    """What the impressions (time, article) see, in order."""
    flat = frame("id bigint, time timestamp, article bigint", [(n, moment(t), a) for n, (t, a) in enumerate(shown)])
    left = flat.select(
        F.struct(F.col("id").alias("impression_id"), F.col("time").alias("impression_time"), "article").alias(
            "impression"
        )
    )
    counted = of_day(log(frame, rows), how, DAY, "UTC", how.aggregates.column_names)
    features = within_reach(usable(counted), DAY, reach(how))
    join, stage = Join(AsOf("v", ("article",), None), features), Stage.of(left)
    stage = join_by_shuffle(stage, [join], 2) if method == "shuffle" else join_by_broadcast(stage, [join])
    joined = stage.rows()
    whole = joined.withColumn("v", filled(joined, "v", how.aggregates))
    # The types of features are known before the views are joined.
    assert whole.schema["v"].dataType.simpleString() == joined.schema["v"].dataType.simpleString()
    result = whole.collect()
    assert len(result) == len(shown), "an impression was lost or doubled"
    return [row.v for row in sorted(result, key=lambda row: row.impression.impression_id)]


KNOWN = "timestamp_micros(unix_micros(at) + bigint(read_ms * 60000000))"
VIEWS = {
    "milliseconds": view("1ms", "1h"),
    "minutes": view("1m", "1h", "7d"),
    "known after 5 minutes": view("1m", "1h", delay="5m"),
    "known at a time": view("1m", "5m", "1h", available_time=KNOWN),
}


@dataclass(frozen=True)
class Case:
    """An item: its actions (time, click, read_ms, user), and what impressions see in some columns."""

    view: str
    rows: Sequence[tuple[Any, ...]]
    columns: str
    found: dict[str, tuple[Any, ...]]


EDGES = {
    "08:59:59.999999": 0,
    "09:00:00": 1,
    "09:59:59.999": 1,
    "09:59:59.999999": 1,  # its millisecond is over
    "10:00:00": 0,  # the impression's own instant
    "10:00:00.001": 0,
}
TEN = "10:00:00"
AT_ONCE = [("09:30:10", 1, 20.0, "u"), ("09:30:20", 1, 0.0, "u")]
CASES = {
    **{
        f"an action of {time} is {count} in the hour before ten": Case(
            "milliseconds", [(time, 1, 1.0, "u")], "clicks_1h matched", {TEN: (count, count == 1)}
        )
        for time, count in EDGES.items()
    },
    "an action counts once it is known": Case(
        "known after 5 minutes",
        [("10:00:30", 1, 500.0, "u")],
        "clicks_1h",
        {"10:05:59.999999": (0,), "10:06:00": (1,), "11:05:59.999999": (1,), "11:06:00": (0,)},
    ),
    "an action counts from the end of the step in which it became known": Case(
        "known at a time",
        AT_ONCE,
        "clicks_5m clicks_1h users_1h",
        {
            "09:31:00": (1, 1, 1),
            "09:34:59": (1, 1, 1),
            "09:36:00": (0, 1, 1),
            "09:50:59.999999": (0, 1, 1),
            "09:51:00": (0, 2, 1),
            "10:30:59.999999": (0, 2, 1),
            "10:31:00": (0, 0, 0),
        },
    ),
    "an empty window gives zeros and the prior": Case(
        "minutes",
        [("08:00:00", 1, 0.1, "u"), ("08:00:01", 0, 0.2, "v"), (None, 1, 1.0, "u")],
        "clicks_1h shown_1h ms_1h users_1h ctr_1h",
        {TEN: (0, 0, 0.0, 0, 0.01), "07:00:00": (0, 0, 0.0, 0, 0.01)},
    ),
    "an item without actions has no match": Case("minutes", [], "clicks_1h ctr_7d matched", {TEN: (0, 0.01, False)}),
    "each measure is that of its window": Case(
        "minutes",
        [
            ("08:30:00", 1, 100.25, "u1"),
            ("09:30:00", 0, 7.5, "u1"),
            ("09:40:00", 1, None, "u2"),
            ("09:40:00", 1, 0.25, None),
        ],
        "clicks_1h shown_1h ms_1h users_1h ctr_1h clicks_7d shown_7d ms_7d users_7d ctr_7d",
        {TEN: (2, 3, 7.75, 2, (2 + 0.01 * 20) / (3 + 20), 3, 4, 108.0, 2, (3 + 0.01 * 20) / (4 + 20))},
    ),
    "a sum leaves nothing behind": Case(
        "minutes",
        [("08:00:00", 1, 0.1, "u"), ("08:30:00", 1, 1e18, "u"), ("09:50:00", 1, 0.3, "u"), ("09:50:00", 1, NAN, "u")],
        "ms_1h",
        {TEN: (0.3,)},
    ),
    # u1 comes at 8:00, again 60 minutes later, when the first has just left, and 61 minutes after that.
    "a value is told apart as long as one of its actions lies in the window": Case(
        "minutes",
        [(time, 0, 0.0, "u1") for time in ("08:00:30", "09:00:30", "10:01:30")],
        "users_1h",
        {
            f"{time}:00": (users,)
            for time, users in zip(
                ("08:01", "09:00", "09:01", "10:00", "10:01", "10:02", "11:01", "11:02"),
                (1, 1, 1, 1, 0, 1, 1, 0),
                strict=True,
            )
        },
    ),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("name", VIEWS)
def test_an_impression_sees_what_its_windows_hold(frame: Frame, name: str) -> None:
    """All cases of a view in one join, each with an item of its own, beside actions and impressions without one."""
    cases = {what: case for what, case in CASES.items() if case.view == name}
    rows = [(item, *row) for item, case in enumerate(cases.values()) for row in case.rows]
    expected = [(what, time, found) for what, case in cases.items() for time, found in case.found.items()]
    shown = [(time, item) for item, case in enumerate(cases.values()) for time in case.found]
    *found, nobody = seen(frame, [*rows, (None, "09:59:00", 1, 1.0, "u")], [*shown, (TEN, None)], VIEWS[name])
    assert (nobody.clicks_1h, nobody.users_1h, nobody.ctr_1h, nobody.matched) == (0, 0, 0.01, False)
    each = zip(expected, found, strict=True)
    now = [(what, at, tuple(row[column] for column in cases[what].columns.split())) for (what, at, _), row in each]
    assert now == expected


def test_a_calendar_day_is_a_step_also_when_the_clocks_change(
    frame: Frame, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    stockholm, zone = "Europe/Stockholm", spark.conf.get("spark.sql.session.timeZone")

    def logged(*times: str) -> DataFrame:
        return log(frame, [(7, time, 1, 0.0, "u") for time in times])

    # 2019-03-31 has 23 hours there: it ends at 22:00 UTC.
    spring = logged("2019-03-31 21:59:59", "2019-03-31 22:00:00")
    # At midnight of October 28, 23:00 UTC, the 27th is over but not yet known, so the window is the 26th. It began at 22:00 UTC
    # on the 25th: 49 hours before.
    autumn = logged("2019-10-25 21:59:59", "2019-10-25 22:00:00", "2019-10-26 21:59:59", "2019-10-26 22:00:00")
    request.addfinalizer(lambda: spark.conf.set("spark.sql.session.timeZone", zone))
    spark.conf.set("spark.sql.session.timeZone", stockholm)
    days = view_rows(spring, "v", view("1d", "1d"), ["clicks_1d"])
    known = F.date_format(F.to_utc_timestamp("available_time", stockholm), "MM-dd HH:mm")
    found = days.select(known, "payload.clicks_1d", "gone").orderBy("available_time").collect()
    assert [tuple(row) for row in found] == [
        ("03-31 22:00", 1, False),
        ("04-01 22:00", 1, False),
        ("04-02 22:00", 0, True),
    ]
    own = Span.of(date(2019, 10, 28), stockholm)
    counted = usable(of_day(autumn, view("1d", "1d", delay="1m"), own, stockholm, ["clicks_1d"]))
    newest = counted.where(F.col("available_time") <= F.lit(own.start)).orderBy(F.desc("event_time")).first()
    assert newest is not None
    assert newest.payload.clicks_1d == 2


def test_what_is_read_reaches_back_for_window_delay_and_the_step_that_is_not_over() -> None:
    assert reach(view("1m", "1h", "7d", delay="5m")) == timedelta(days=7, minutes=6)
    assert reach(view("1h", "1h")) == timedelta(hours=2)
    assert reach(view("1d", "30d")) == timedelta(days=31, hours=2)


def test_a_key_has_at_most_one_row_for_each_step_however_hot_it_is(frame: Frame) -> None:
    rows = [(7, f"09:{n % 60:02}:{n % 59:02}", 1, 1.0, f"u{n}") for n in range(200)]
    assert view_rows(log(frame, rows), "v", view("1h", "1h", "1d"), ["users_1h"]).count() == 3


LATE = "timestamp_micros(unix_micros(at) + bigint(coalesce(read_ms, 0) * 420000000))"
"""Known 7 minutes after it happened for each millisecond."""


def late(ms: float | None) -> timedelta:
    return timedelta(minutes=7) * (ms or 0)


def oracle(rows: Log, shown: Sequence[tuple[str, int | None]], how: WindowView) -> list[tuple[Any, ...]]:
    """The definition, read aloud in plain Python."""
    aggregates = how.aggregates
    result = []
    for time, article in shown:
        known = datetime.fromisoformat(time).replace(tzinfo=UTC) - how.delay
        midnight = known.replace(hour=0, minute=0, second=0, microsecond=0)
        end = midnight + (known - midnight) // aggregates.step * aggregates.step
        values: list[Any] = []
        for window in aggregates.windows:
            inside = [
                (click, ms, user)
                for item, at, click, ms, user in rows
                if article is not None
                and item == article
                and at is not None
                and end - window <= datetime.fromisoformat(at).replace(tzinfo=UTC) < end
                and (how.available_time is None or datetime.fromisoformat(at).replace(tzinfo=UTC) + late(ms) <= end)
            ]
            clicked = sum(click == 1 for click, _, _ in inside)
            users = {user for _, _, user in inside if user is not None}
            values += [clicked, len(inside), sum(ms or 0 for _, ms, _ in inside), len(users)]
            values.append((clicked + 0.01 * 20) / (len(inside) + 20))
        result.append((*values, any(values[1::5])))
    return result


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["shuffle", "broadcast"])
@pytest.mark.parametrize(
    "how",
    [
        view("1m", "5m", "1h", "2h", delay="3m"),
        view("1m", "5m", "1h", "2h", available_time=LATE),
        pytest.param(view("15m", "15m", "1h", "6h", available_time=LATE), marks=pytest.mark.slow),
        pytest.param(view("30s", "1m", delay="45s"), marks=pytest.mark.slow),
    ],
)
def test_random_logs_agree_with_the_definition(frame: Frame, how: WindowView, method: str) -> None:
    rng = random.Random(20190605)

    def stamp(low: int, high: int) -> str:
        return (datetime(2019, 6, 5, tzinfo=UTC) + timedelta(seconds=15 * rng.randrange(low, high))).strftime(
            "%Y-%m-%d %H:%M:%S"
        )

    rows = [
        (
            rng.choice([1, 2, 3, None]),
            stamp(-1500, 600),
            rng.choice([0, 1, None]),
            rng.choice([None, 1.5, 8.0]),
            rng.choice(["a", "b", "c", None]),
        )
        for _ in range(400)
    ]
    shown = [(stamp(0, 900), rng.choice([1, 2, 3, 4, None])) for _ in range(300)]
    names = [
        f"{n}_{w}"
        for w in (format_duration(w) for w in how.aggregates.windows)
        for n in ("clicks", "shown", "ms", "users", "ctr")
    ]
    found = [tuple(v[name] for name in [*names, "matched"]) for v in seen(frame, rows, shown, how, method)]
    assert found == oracle(rows, shown, how)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step": "7m"}, "`step: 7m` does not divide a day"),
        ({"windows": ["90s"]}, "the window 90s is not a whole number of steps of 1m"),
        ({"windows": ["1h", "60m"]}, "a window is listed twice"),
        ({"windows": []}, "at least 1 item"),
        ({"counts": {}, "rates": {}}, "needs `counts`, `sums` or `distinct`"),
    ],
)
def test_windows_must_be_whole_steps(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Aggregates.model_validate({"windows": ["1h"], "counts": {"n": "true"}, **changed})


def test_a_view_of_aggregates_has_one_clock_and_is_never_inclusive() -> None:
    with pytest.raises(ValidationError, match="inclusive\n  Extra inputs are not permitted"):
        view("1m", "1h", inclusive=True)
    with pytest.raises(ValidationError, match="give `available_time` or `available_after`, not both"):
        view("1m", "1h", delay="5m", available_time="known")


def problems(zone: str, days_before: int, how: WindowView) -> list[str]:
    dated = {"format": "parquet", "path": "log/{date}", "days_before": days_before, "days_after": 1}
    features = {"f": {"from": "v.matched", "dtype": "int64"}}
    config = minimal(timezone=zone, sources={"log": dated}, views={"v": how}, features=features)
    return [f"{'.'.join(where)}: {what}" for where, what in check_references(config)]


@pytest.mark.parametrize(
    ("zone", "how", "needed"),
    [
        ("UTC", view("1h", "1d"), 1),
        ("Asia/Kolkata", view("30m", "1d"), 1),
        ("Asia/Kolkata", view("1h", "1d"), 2),  # its midnights lie in the middle of an hour of UTC
        ("Asia/Kolkata", view("1d", "1d"), 1),
        ("UTC", view("1m", "1d", delay="1s"), 2),
        ("UTC", view("1d", "2d", delay="1h"), 3),
    ],
)
def test_days_that_a_window_reaches_must_be_read(zone: str, how: WindowView, needed: int) -> None:
    assert problems(zone, needed, how) == []
    (problem,) = problems(zone, needed - 1, how)
    assert problem.startswith("views.v.aggregates.windows: found ")
    assert f"set `sources.log.days_before: {needed}`, or shorter windows" in problem


def test_names_of_a_view_of_aggregates_must_differ() -> None:
    rates = {"r": {**RATE, "count": "m", "of": "n"}, "n": {**RATE, "count": "n", "of": "n"}}
    aggregates = {"windows": ["1h"], "counts": {"n": "true"}, "sums": {"n": "x"}, "rates": rates}
    how = {"source": "log", "entity": "article", "key": "item", "event_time": "at", "aggregates": aggregates}
    assert problems("UTC", 1, WindowView.model_validate(how)) == [
        "views.v.aggregates.rates.r.count: there is no count 'm'; expected one of n",
        "views.v.aggregates.rates.n: 'n' is a count too; rename one",
        "views.v.aggregates.sums.n: 'n' is also one of `counts`; rename one",
    ]


def test_what_the_first_impression_knows_is_one_row_as_old_as_its_last_change(frame: Frame) -> None:
    rows = log(frame, [(7, "2019-06-04 20:10:00", 1, 0.0, "u"), (7, "2019-06-04 22:10:00", 1, 0.0, "v")])
    counted = of_day(rows, view("1h", "1d"), DAY, "UTC", ["clicks_1d"]).orderBy("available_time")
    found = counted.select(F.date_format("available_time", "dd HH:mm"), "payload.clicks_1d").collect()
    assert [tuple(row) for row in found] == [("04 23:00", 2), ("05 21:00", 1), ("05 23:00", 0)]
