"""Histories, case by case: which actions an impression sees, in what order, and which of a finished day are needed for that."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row, SparkSession

from ctr_samples.config import Feature, History
from ctr_samples.config.references import check_references
from ctr_samples.errors import InputError
from ctr_samples.explain.rules import HistoryRules, PastAction, judge_history
from ctr_samples.samples.columnar.blocks import PLACE
from ctr_samples.samples.columnar.columns import place_of_texts
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.features.one_feature import feature_column
from ctr_samples.samples.histories import (
    _UNKNOWN,
    ITEM,
    KEY,
    KNOWN,
    REQUEST,
    TIE,
    TIME,
    HistoryPlan,
    Seen,
    actions_of_history,
    history_type,
    join_history,
    needed_of,
    with_history,
)
from ctr_samples.samples.period import Span
from tests.support.literal_frames import Frame
from tests.support.minimal_config import minimal
from tests.support.stages import hashed, ran, stage_of, table

DAY = Span.of(date(2019, 6, 5), "UTC")
MINUTE = pa.scalar(timedelta(minutes=1), pa.duration("us"))
PLAN = HistoryPlan("clicks", last=3, within=timedelta(days=1), by_request=True, columns=("channel",))
CONFIGURED = History(
    source="log",
    user="user",
    time="at",
    item="item",
    request="request",
    last=3,
    within="1d",
    columns={"channel": "channel"},
)


KNOWN_LATE = CONFIGURED.model_copy(
    update={"available_time": "timestamp_micros(unix_micros(at) + 60000000L * channel)", "available_after": None}
)

"""Actions that were known so many minutes later as their channel says."""


@dataclass(frozen=True)
class Action:
    at: str
    item: int | None
    request: str | None = None
    channel: int | None = None


@dataclass(frozen=True)
class Case:
    """One user: the actions, and for impressions (time, request) the items that are found with their ages in seconds."""

    actions: Sequence[Action]
    found: dict[tuple[str, str | None], list[tuple[int, float]]]


def alone(time: str) -> tuple[str, str | None]:
    return time, None


CASES = {
    "the newest come first, with their ages": Case(
        [Action("09:00:00", 1), Action("09:30:00", 2)], {alone("10:00:00"): [(2, 1800.0), (1, 3600.0)]}
    ),
    "an action of the same instant is not seen, one of a millisecond before is": Case(
        [Action("10:00:00", 1), Action("09:59:59.999", 2)],
        {alone("10:00:00"): [(2, 0.001)], alone("10:00:00.000001"): [(1, 0.000001), (2, 0.001001)]},
    ),
    "the greatest age includes its end": Case(
        [Action("2019-06-04 10:00:00", 1), Action("2019-06-04 09:59:59.999999", 2)], {alone("10:00:00"): [(1, 86400.0)]}
    ),
    "actions of the impression's request are left out, and an older one of the item is seen": Case(
        [Action("08:00:00", 1, "r0"), Action("09:59:00", 1, "r1"), Action("09:59:30", 2, "r1"), Action("08:30:00", 3)],
        {
            ("10:00:00", "r1"): [(3, 5400.0), (1, 7200.0)],
            ("10:00:00", "r2"): [(2, 30.0), (1, 60.0), (3, 5400.0)],
            ("10:00:00", None): [(2, 30.0), (1, 60.0), (3, 5400.0)],
        },
    ),
    "exact duplicates are one": Case([Action("09:00:00", 7)] * 3, {alone("10:00:00"): [(7, 3600.0)]}),
    "an action without an item is none": Case([Action("09:00:00", None)], {alone("10:00:00"): []}),
}
ROOMS = [1, 256]
"""The least room for actions, which makes what is needed of them looked for all the time, and the usual one."""


def moment(text: str) -> str:
    return text if " " in text else f"2019-06-05 {text}"


def impressions(rows: Sequence[tuple[int, str, str | None, str | None]]) -> pa.Table:
    """Rows of (id, time, user, request)."""
    shown = table("impression_id bigint, impression_time timestamp, user string, request string", rows)
    return pa.table({"impression": shown.to_struct_array(), "label": pa.array([7] * len(rows))})


LOG = "user string, at timestamp, item bigint, request string, channel int"


def log(rows: Sequence[tuple[str | None, Action]]) -> pa.Table:
    return table(LOG, [(user, moment(a.at), a.item, a.request, a.channel) for user, a in rows])


def actions(rows: Sequence[tuple[str | None, Action]], known_late: bool = False) -> pa.Table:
    """The rows of a log as a history reads them, see ``actions_of_history``."""
    every = log([(u, a) for u, a in rows if not (u is None or a.item is None or (known_late and a.channel is None))])
    columns = {KEY: every["user"], TIME: every["at"], ITEM: every["item"], REQUEST: every["request"]}
    if known_late:
        columns[KNOWN] = pc.add(every["at"], pc.multiply(every["channel"], MINUTE))
    return pa.table({**columns, "channel": every["channel"]})


def ready(rows: pa.Table) -> Stage:
    """Actions with their hashes and places."""
    places = place_of_texts([rows[KEY].cast(pa.string())])
    return stage_of(rows.append_column(TIE, pa.array(hashed(*rows.columns))).append_column(PLACE, pa.array(places)))


def histories(rows: Sequence[Row]) -> dict[int, Any]:
    """Impression id -> its history; no impression may come out twice."""
    found = {row.impression.impression_id: row.clicks for row in rows}
    assert len(found) == len(rows), "an impression came out twice"
    return found


def joined(shown: pa.Table, rows: pa.Table, plan: HistoryPlan) -> dict[int, Any]:
    return histories(ran(with_history(stage_of(shown), ready(rows), plan, 3))[0])


def joined_in_spark(
    spark: SparkSession, shown: pa.Table, rows: pa.Table, plan: HistoryPlan, configured: History = CONFIGURED
) -> dict[int, Any]:
    known = actions_of_history(spark.createDataFrame(rows), "clicks", configured, DAY)
    result = join_history(Stage.of(spark.createDataFrame(shown)), known, plan, 3).rows()
    assert result.columns == ["impression", "label", "clicks"]
    assert result.schema["clicks"].dataType.simpleString() == history_type(known.schema, plan).simpleString()
    return histories(result.collect())


def of_cases() -> tuple[pa.Table, list[tuple[str | None, Action]], dict[int, Any]]:
    """Impressions and actions of all cases, each with a user of its own, and what each impression finds."""
    shown, rows, expected = [], [], {}
    for number, one in enumerate(CASES.values()):
        user = f"user{number:02}"
        rows += [(user, action) for action in one.actions]
        for (time, request), found in one.found.items():
            expected[len(shown)] = found
            shown.append((len(shown), moment(time), user, request))
    return impressions(shown), rows, expected


def found_in(result: dict[int, Any]) -> dict[int, list[tuple[int, float]]]:
    assert all((row.length, row.matched) == (len(row["items"]), bool(row["items"])) for row in result.values())
    return {i: list(zip(row["items"], row.ages_s, strict=True)) for i, row in result.items()}


@pytest.mark.parametrize("room", ROOMS)
def test_an_impression_sees_the_last_actions_before_it(room: int) -> None:
    shown, rows, expected = of_cases()
    assert found_in(joined(shown, actions(rows), replace(PLAN, room=room))) == expected


def test_spark_brings_the_same_actions_to_each_impression(spark: SparkSession) -> None:
    shown, rows, expected = of_cases()
    nobody = [(1000 + n, moment("10:00:00"), None, None) for n in range(2)]
    shown = pa.concat_tables([shown, impressions(nobody)])
    expected |= {1000: [], 1001: []}
    assert found_in(joined_in_spark(spark, shown, log([*rows, (None, Action("09:00:00", 1))]), PLAN)) == expected


def test_an_action_that_is_known_late_takes_its_place_by_time(spark: SparkSession) -> None:
    rows = [Action("09:00:00", 1, channel=0), Action("09:10:00", 2, channel=50), Action("09:20:00", 3, channel=0)]
    rows += [Action("09:40:00", 1, channel=30), Action("09:50:00", 9)]
    mine = [("u", action) for action in rows]
    times = ["09:59:59.999999", "10:00:00", "10:09:59", "10:10:00"]
    shown = impressions([(n, moment(time), "u", None) for n, time in enumerate(times)])
    result = joined(shown, actions(mine, known_late=True), PLAN)
    assert [result[n]["items"] for n in range(4)] == [[3, 1], [3, 2, 1], [3, 2, 1], [1, 3, 2]]
    assert joined_in_spark(spark, shown, log(mine), PLAN, KNOWN_LATE) == result


def test_a_number_and_its_text_are_one_user() -> None:
    rows = actions([("7", Action("09:00:00", 1))])
    numbers = rows.set_column(0, KEY, rows[KEY].cast(pa.int64()))
    shown = impressions([(1, "2019-06-05 10:00:00", "7", None)])
    assert joined(shown, numbers, PLAN)[1]["items"] == [1]


def test_only_actions_that_an_impression_of_the_day_can_see_are_read(spark: SparkSession) -> None:
    times = ["2019-06-03 23:59:59.999999", "2019-06-04 00:00:00", "2019-06-05 23:59:59", "2019-06-06 00:00:00"]
    rows = [("u", Action(time, n)) for n, time in enumerate(times)]
    seen = actions_of_history(spark.createDataFrame(log(rows)), "clicks", CONFIGURED, DAY)
    assert sorted(row[ITEM] for row in seen.collect()) == [1, 2]


def test_a_further_column_must_be_one_value(frame: Frame) -> None:
    lists = CONFIGURED.model_copy(update={"columns": {"both": "array(item, item)"}})
    with pytest.raises(
        InputError, match=r"histories.clicks.columns.both: array\(item, item\) is array<bigint>, expected one"
    ):
        actions_of_history(frame(LOG, []), "clicks", lists, DAY)


def explained(
    shown: Sequence[Any], rows: Sequence[tuple[str | None, Action]], plan: HistoryPlan
) -> dict[int, list[Any]]:
    """The definition as the command that explains an impression has it: (item, age) of the actions that it takes."""
    result: dict[int, list[Any]] = {}
    for number, time, user, request in shown:
        t = datetime.fromisoformat(time).replace(tzinfo=UTC)
        mine = [a for owner, a in rows if user is not None and owner == user and a.item is not None]
        times = [datetime.fromisoformat(a.at).replace(tzinfo=UTC) for a in mine]
        known = [
            None if a.channel is None else at + timedelta(minutes=a.channel) for a, at in zip(mine, times, strict=True)
        ]
        each = zip(mine, times, known, strict=True)
        past = [PastAction(at, a.item, a.request, known=seen) for a, at, seen in each]
        rules = HistoryRules(plan.last, plan.within, plan.delay, request if plan.by_request else None)
        taken = [v.what for v in judge_history(t, past, rules) if v.taken]
        result[number] = [(a.item, (t - a.time).total_seconds()) for a in taken]
    return result


@pytest.mark.parametrize(
    ("room", "by_request", "late"), [(1, False, False), (2, True, True), (9, False, True), (256, True, False)]
)
def test_random_logs_agree_with_the_definition(room: int, by_request: bool, late: bool) -> None:
    rng = random.Random(20190605)
    start = datetime(2019, 6, 5, tzinfo=UTC)

    def stamp(minutes: int) -> str:
        return (start + timedelta(minutes=minutes)).strftime("%Y-%m-%d %H:%M:%S")

    def request() -> str | None:
        return rng.choice([None, "r1", "r2", "r3"])

    # A coarse clock and few items, so that equal times, boundaries and repeats are common; one user is a bot.
    users = ["a", "b", "c", "bot", "bot", "bot"]
    rows = [
        (
            rng.choice([*users, None]),
            Action(
                stamp(rng.randrange(-60, 120)),
                rng.choice([*range(9), None]),
                request(),
                rng.choice([0, 0, 1, 7, 40]) if late else None,
            ),
        )
        for _ in range(400)
    ]
    shown = [(n, stamp(rng.randrange(120)), rng.choice([*users, "nobody", None]), request()) for n in range(300)]
    delay = timedelta() if late else timedelta(minutes=3)
    plan = replace(PLAN, within=timedelta(minutes=45), delay=delay, by_request=by_request, room=room)
    found = found_in(joined(impressions(shown), actions(rows, known_late=late), plan))
    assert found == explained(shown, rows, plan)


PADDED, RAGGED = {"shape": [3], "default": -1}, {"ragged": True}


def test_a_feature_of_a_history_is_a_list_cut_or_padded_at_the_end_or_as_long_as_it_is(frame: Frame) -> None:
    lists: list[list[int] | None] = [[5, 6], [5, 6, 7, 8], [], None]
    rows = frame("clicks struct<items: array<bigint>, length: int>", [((items, 0),) for items in lists])
    features = [Feature.model_validate({"from": "clicks.items", "dtype": "int64", **how}) for how in (PADDED, RAGGED)]
    found = rows.select([feature_column(rows, "f", feature, histories=["clicks"]) for feature in features]).collect()
    assert [tuple(row) for row in found] == [
        ([5, 6, -1], [5, 6]),
        ([5, 6, 7], [5, 6, 7, 8]),
        ([-1, -1, -1], []),
        ([-1, -1, -1], []),
    ]
    ragged = Feature.model_validate({"from": "clicks.length", "dtype": "int64", "ragged": True})
    with pytest.raises(InputError, match="features.f: `ragged: true` needs an array, found int"):
        feature_column(rows, "f", ragged)


CLICKS = {"source": "log", "last": 3, "within": "1d"}
BASE: dict[str, Any] = {
    "sources": {"log": {"format": "parquet", "path": "log/{date}", "days_before": 1, "days_after": 1}},
    "histories": {"clicks": CLICKS},
    "features": {"f": {"from": "clicks.items", "dtype": "int64", "shape": [3]}},
}


def problems(**changed: Any) -> list[str]:
    return [f"{'.'.join(where)}: {what}" for where, what in check_references(minimal(**BASE | changed))]


def test_a_history_of_the_log_of_impressions_takes_its_keys_from_them_and_may_name_its_columns_like_them() -> None:
    clicks = minimal(**BASE).history("clicks")
    assert (clicks.time, clicks.key, clicks.item, clicks.request) == ("at", "user_id", "article_id", None)
    columns = dict.fromkeys(["time", "item", "request"], "x")
    assert problems() == problems(histories={"clicks": {**CLICKS, "columns": columns}}) == []


OF_ITEM = {"from": "clicks.item", "dtype": "int64", "shape": [3]}


@pytest.mark.parametrize(
    ("history", "features", "message"),
    [
        ({"within": "25h"}, {}, ".within: found 25h, which needs 2 day(s) before the run date, but 1 are read"),
        ({"request": "r"}, {}, ".request: has no effect, since `impressions.request` is not set; remove it"),
        ({"columns": {"items": "x"}}, {}, ".columns.items: 'items' is a name that every history has"),
        ({"columns": {"Ages_S": "x"}}, {}, ".columns.Ages_S: 'Ages_S' and 'ages_s' differ only in case"),
        ({"source": "lag"}, {}, ".source: there is no source 'lag'; did you mean 'log'?"),
        ({}, {"f": OF_ITEM}, "features.f.from: history 'clicks' has no column 'item'; did you mean 'items'?"),
    ],
)
def test_what_a_history_cannot_be_is_said_before_anything_is_read(
    history: dict[str, Any], features: dict[str, Any], message: str
) -> None:
    found = problems(histories={"clicks": CLICKS | history}, features=BASE["features"] | features)
    assert [text for text in found if text.removeprefix("histories.clicks").startswith(message)], found


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "columns", ["time item request key kind moment tie alone shown action", "Time ITEM"], ids=["lower", "upper"]
)
def test_a_column_of_a_history_may_have_any_name(spark: SparkSession, columns: str) -> None:
    history = CONFIGURED.model_copy(update={"columns": dict.fromkeys(columns.split(), "channel")})
    shown = impressions([(1, "2019-06-05 10:00:00", "u", "r1"), (2, "2019-06-05 10:00:00", "u", "r")])
    plan = replace(PLAN, columns=tuple(columns.split()))
    found = joined_in_spark(spark, shown, log([("u", Action("09:00:00", 7, "r", 5))]), plan, history)
    assert found[1] == ([7], [3600.0], *[[5] for _ in plan.columns], 1, True)
    assert found[2]["items"] == []
    assert found[1].__fields__ == ["items", "ages_s", *plan.columns, "length", "matched"]


Needed = tuple[str, str | None]
"""An item, and the request of the action on it."""


def needed_of_key(actions: Sequence[Needed], last: int) -> list[int]:
    """The places, newest first, of the actions that are needed."""
    seen = Seen(last)
    return [place for place, (item, request) in enumerate(actions) if seen.needs(item, request)]


def seen_by_someone(actions: Sequence[Needed], last: int) -> list[int]:
    """The definition: what an impression of any request, or of none, has in its history."""
    places = set[int]()
    for own in {None, *(request for _, request in actions)}:
        newest: dict[str, int] = {}
        for place, (item, request) in enumerate(actions):
            if own is None or request != own:
                newest.setdefault(item, place)
        places.update(list(newest.values())[:last])
    return sorted(places)


@pytest.mark.parametrize("seed", range(20))
def test_needed_are_those_actions_that_an_impression_of_some_request_sees(seed: int) -> None:
    chance = random.Random(seed)
    for items, requests, last in product((2, 5, 30), (1, 2, 6, 40), (1, 2, 3, 10)):
        names = [None, *(f"r{n}" for n in range(requests))]
        actions = [(f"i{chance.randrange(items)}", chance.choice(names)) for _ in range(chance.randrange(80))]
        assert needed_of_key(actions, last) == seen_by_someone(actions, last), (actions, last)


@pytest.mark.parametrize("requests", [1, 2, 10_000])
def test_of_a_key_with_many_actions_little_is_remembered(requests: int) -> None:
    seen = Seen(last=10)
    needed = [n for n in range(10_000) if seen.needs(f"i{n}", f"r{n % requests}")]
    assert len(needed) <= 20
    assert len(seen.items) <= 20
    assert len(seen.short) <= 10


@pytest.mark.parametrize("rows_of_a_batch", [1, 2, 3, 100])
def test_each_key_is_judged_alone_wherever_batches_end(rows_of_a_batch: int) -> None:
    rows = [
        {KEY: key, ITEM: item, REQUEST: request, _UNKNOWN: unknown}
        for key, item, request, unknown in [
            ("u1", "i1", "r1", True),
            ("u1", "i2", "r1", True),
            ("u1", "i1", "r1", False),
            ("u1", "i2", "r2", False),
            ("u1", "i3", "r2", False),
            ("u2", "i1", "r1", False),
            ("u2", "i1", "r1", False),
            ("u2", "i1", "r2", False),
        ]
    ]
    schema = pa.schema({name: pa.bool_() if " " in name else pa.string() for name in rows[0]})
    table = pa.Table.from_pylist(rows, schema)
    plan = HistoryPlan("clicks", last=1, by_request=True)
    found = pa.Table.from_batches(needed_of(table.to_batches(max_chunksize=rows_of_a_batch), plan))
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("u1", "i1", "r1"),
        ("u1", "i2", "r1"),
        ("u1", "i1", "r1"),
        ("u1", "i2", "r2"),
        ("u2", "i1", "r1"),
        ("u2", "i1", "r2"),
    ]


def test_text_that_is_no_utf8_is_judged_by_its_bytes() -> None:
    text = [
        pa.array(values, pa.binary()).view(pa.string())
        for values in ([b"\xff"] * 3, [b"\xfe", b"\xfd", b"\xfe"], [None] * 3)
    ]
    rows = pa.RecordBatch.from_arrays([*text, pa.array([False] * 3)], [KEY, ITEM, REQUEST, _UNKNOWN])
    (found,) = needed_of([rows], HistoryPlan("clicks", last=2))
    assert found.column(ITEM).view(pa.binary()).to_pylist() == [b"\xfe", b"\xfd"]


def test_the_own_request_is_no_matter_where_impressions_have_none() -> None:
    rows = {KEY: [1, 1], ITEM: [7, 7], REQUEST: ["r1", "r2"], _UNKNOWN: [False, False]}
    found = needed_of(pa.table(rows).to_batches(), HistoryPlan("clicks", last=1))
    assert [batch.num_rows for batch in found] == [1]
