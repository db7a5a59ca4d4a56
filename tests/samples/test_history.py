"""Histories, case by case: which actions an impression sees, in what order, and that no impression is lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import Feature, History, JobConfig
from ctr_samples.config.references import check_references
from ctr_samples.errors import InputError
from ctr_samples.explain.rules import HistoryRules, PastAction, judge_history
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.features.one_feature import feature_column
from ctr_samples.samples.histories import ITEM, HistoryPlan, actions_of_history, history_type, join_history
from ctr_samples.samples.period import Span
from tests.support.marks import slow_except

Frame = Callable[..., DataFrame]
DAY = Span.of(date(2019, 6, 5), "UTC")
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
    "a user without actions has an empty history": Case([], {alone("10:00:00"): []}),
    "the newest come first, with their ages": Case(
        [Action("09:00:00", 1), Action("09:30:00", 2)], {alone("10:00:00"): [(2, 1800.0), (1, 3600.0)]}
    ),
    "an action of the same instant is not seen, one of a millisecond before is": Case(
        [Action("10:00:00", 1), Action("09:59:59.999", 2)],
        {alone("10:00:00"): [(2, 0.001)], alone("10:00:00.000001"): [(1, 0.000001), (2, 0.001001)]},
    ),
    "of one item the newest action counts": Case(
        [Action("09:00:00", 1), Action("09:10:00", 2), Action("09:20:00", 1)],
        {alone("10:00:00"): [(1, 2400.0), (2, 3000.0)], alone("09:15:00"): [(2, 300.0), (1, 900.0)]},
    ),
    "only the last items are kept, repeats not counted": Case(
        [
            Action("09:00:00", 1),
            Action("09:01:00", 2),
            Action("09:02:00", 3),
            Action("09:03:00", 4),
            Action("09:04:00", 4),
        ],
        {alone("10:00:00"): [(4, 3360.0), (3, 3480.0), (2, 3540.0)]},
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
    "what is left out makes room for older items": Case(
        [Action(f"09:0{n}:00", n, "r1" if n > 5 else "r0") for n in range(1, 9)],
        {("10:00:00", "r1"): [(5, 3300.0), (4, 3360.0), (3, 3420.0)]},
    ),
    "at one instant the greater item comes first": Case(
        [Action("09:00:00", 7), Action("09:00:00", 9), Action("09:00:00", 8)],
        {alone("10:00:00"): [(9, 3600.0), (8, 3600.0), (7, 3600.0)]},
    ),
    "exact duplicates are one": Case([Action("09:00:00", 7)] * 3, {alone("10:00:00"): [(7, 3600.0)]}),
    "an action without an item is none": Case([Action("09:00:00", None)], {alone("10:00:00"): []}),
}
ROOMS = [1, 256]
"""The least room for actions, which makes what is needed of them looked for all the time, and the usual one."""


def moment(text: str) -> str:
    return text if " " in text else f"2019-06-05 {text}"


def impressions(frame: Frame, rows: Sequence[tuple[int, str, str | None, str | None]]) -> DataFrame:
    """Rows of (id, time, user, request)."""
    flat = frame("id bigint, time timestamp, user string, request string", list(rows))
    own = F.struct(F.col("id").alias("impression_id"), F.col("time").alias("impression_time"), "user", "request")
    return flat.select(own.alias("impression"), F.lit(7).alias("label"))


def log(frame: Frame, rows: Sequence[tuple[str | None, Action]]) -> DataFrame:
    schema = "user string, at timestamp, item bigint, request string, channel int"
    return frame(schema, [(user, moment(a.at), a.item, a.request, a.channel) for user, a in rows])


def joined(
    frame: Frame,
    shown: DataFrame,
    rows: Sequence[tuple[str | None, Action]],
    plan: HistoryPlan,
    configured: History = CONFIGURED,
) -> dict[int, Any]:
    """Impression id -> its history; no impression may come out twice."""
    actions = actions_of_history(log(frame, rows), "clicks", configured, DAY)
    result = join_history(Stage.of(shown), actions, plan, 3).rows()
    assert result.columns == ["impression", "label", "clicks"]
    assert result.schema["clicks"].dataType.simpleString() == history_type(actions, plan).simpleString()
    found = result.collect()
    histories = {row.impression.impression_id: row.clicks for row in found}
    assert len(histories) == len(found), "an impression came out twice"
    return histories


@pytest.mark.parametrize("room", ROOMS)
def test_an_impression_sees_the_last_actions_before_it(frame: Frame, room: int) -> None:
    shown, rows, expected = [], [], {}
    for number, (name, one) in enumerate(CASES.items()):
        user = f"user{number:02}"
        rows += [(user, action) for action in one.actions]
        for (time, request), found in one.found.items():
            expected[len(shown)] = (name, time, found)
            shown.append((len(shown), moment(time), user, request))
    result = joined(frame, impressions(frame, shown), rows, replace(PLAN, room=room))
    assert {
        i: (name, time, list(zip(result[i]["items"], result[i].ages_s, strict=True)))
        for i, (name, time, _) in expected.items()
    } == expected
    assert all((row.length, row.matched) == (len(row["items"]), bool(row["items"])) for row in result.values())


def test_an_action_is_seen_once_it_is_known(frame: Frame) -> None:
    shown = impressions(frame, [(1, "2019-06-05 10:04:59.999999", "u", None), (2, "2019-06-05 10:05:00", "u", None)])
    result = joined(frame, shown, [("u", Action("10:00:00", 1))], replace(PLAN, delay=timedelta(minutes=5)))
    assert (result[1]["items"], result[2]["items"], result[2].ages_s) == ([], [1], [300.0])


def test_an_action_that_is_known_late_takes_its_place_by_time(frame: Frame) -> None:
    rows = [Action("09:00:00", 1, channel=0), Action("09:10:00", 2, channel=50), Action("09:20:00", 3, channel=0)]
    rows += [Action("09:40:00", 1, channel=30), Action("09:50:00", 9)]
    times = ["09:59:59.999999", "10:00:00", "10:09:59", "10:10:00"]
    shown = impressions(frame, [(n, moment(time), "u", None) for n, time in enumerate(times)])
    result = joined(frame, shown, [("u", action) for action in rows], PLAN, KNOWN_LATE)
    assert [result[n]["items"] for n in range(4)] == [[3, 1], [3, 2, 1], [3, 2, 1], [1, 3, 2]]


def test_impressions_without_a_user_have_no_history_and_no_action_without_one_is_anyones(frame: Frame) -> None:
    shown = impressions(frame, [(1, "2019-06-05 10:00:00", None, None), (2, "2019-06-05 10:00:00", None, None)])
    result = joined(frame, shown, [(None, Action("09:00:00", 1))], PLAN)
    assert {i: (row["items"], row.matched) for i, row in result.items()} == {1: ([], False), 2: ([], False)}


@pytest.mark.thorough
def test_further_columns_are_lists_beside_the_items(frame: Frame) -> None:
    shown = impressions(frame, [(1, "2019-06-05 10:00:00", "u", None)])
    rows = [("u", Action("09:00:00", 1, channel=5)), ("u", Action("09:30:00", 2, channel=None))]
    assert joined(frame, shown, rows, PLAN)[1].channel == [None, 5]


def test_a_number_and_its_text_are_one_user(frame: Frame) -> None:
    actions = actions_of_history(log(frame, [("7", Action("09:00:00", 1))]), "clicks", CONFIGURED, DAY)
    numbers = actions.withColumn("_key", F.col("_key").cast("bigint"))
    shown = impressions(frame, [(1, "2019-06-05 10:00:00", "7", None)])
    (row,) = join_history(Stage.of(shown), numbers, PLAN, 2).rows().collect()
    assert row.clicks["items"] == [1]


def test_only_actions_that_an_impression_of_the_day_can_see_are_read(frame: Frame) -> None:
    times = ["2019-06-03 23:59:59.999999", "2019-06-04 00:00:00", "2019-06-05 23:59:59", "2019-06-06 00:00:00"]
    rows = [("u", Action(time, n)) for n, time in enumerate(times)]
    seen = actions_of_history(log(frame, rows), "clicks", CONFIGURED, DAY)
    assert sorted(row[ITEM] for row in seen.collect()) == [1, 2]


def test_a_further_column_must_be_one_value(frame: Frame) -> None:
    lists = CONFIGURED.model_copy(update={"columns": {"both": "array(item, item)"}})
    with pytest.raises(
        InputError, match=r"histories.clicks.columns.both: array\(item, item\) is array<bigint>, expected one"
    ):
        actions_of_history(log(frame, []), "clicks", lists, DAY)


def oracle(shown: Sequence[Any], rows: Sequence[tuple[str | None, Action]], plan: HistoryPlan) -> dict[int, list[Any]]:
    """The definition, read aloud in plain Python: (item, age) newest first for each impression."""

    def instant(text: str) -> datetime:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)

    result: dict[int, list[Any]] = {}
    for number, time, user, request in shown:
        t = instant(time)
        newest: dict[Any, datetime] = {}
        for owner, action in rows:
            at = instant(action.at)
            visible = user is not None and owner == user and action.item is not None
            late = plan.delay if action.channel is None else timedelta(minutes=action.channel)
            visible = visible and at < t and at + late <= t and at >= t - (plan.within or timedelta.max)
            own = plan.by_request and request is not None and action.request == request
            if visible and not own:
                newest[action.item] = max(newest.get(action.item, at), at)
        order = sorted(newest.items(), key=lambda one: (one[1], one[0]), reverse=True)[: plan.last]
        result[number] = [(item, (t - at).total_seconds()) for item, at in order]
    return result


def explained(
    shown: Sequence[Any], rows: Sequence[tuple[str | None, Action]], plan: HistoryPlan
) -> dict[int, list[Any]]:
    """What the command that explains an impression says: (item, age) of the actions that it takes."""
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


@pytest.mark.thorough
@pytest.mark.parametrize("room", slow_except([2], [1, 2, 9, 256]))
@pytest.mark.parametrize("by_request", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("late", [False, True])
def test_random_logs_agree_with_the_definition(frame: Frame, room: int, by_request: bool, late: bool) -> None:
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
    result = joined(frame, impressions(frame, shown), rows, plan, KNOWN_LATE if late else CONFIGURED)
    found = {i: list(zip(row["items"], row.ages_s, strict=True)) for i, row in result.items()}
    assert found == oracle(shown, rows, plan) == explained(shown, rows, plan)


@pytest.mark.parametrize(
    ("items", "shape", "expected"),
    [([5, 6], [3], [5, 6, -1]), ([5, 6, 7], [2], [5, 6]), ([], [2], [-1, -1]), (None, [2], [-1, -1])],
)
def test_a_feature_of_a_history_is_cut_or_padded_at_the_end(
    frame: Frame, items: list[int] | None, shape: list[int], expected: list[int]
) -> None:
    rows = frame("clicks struct<items: array<bigint>>", [((items,),)])
    padded = Feature.model_validate({"from": "clicks.items", "dtype": "int64", "shape": shape, "default": -1})
    (row,) = rows.select(feature_column(rows, "f", padded, histories=["clicks"])).collect()
    assert row[0] == expected


@pytest.mark.parametrize(("items", "expected"), [([5, 6], [5, 6]), ([], []), (None, [])])
def test_a_ragged_feature_is_as_long_as_its_list(frame: Frame, items: list[int] | None, expected: list[int]) -> None:
    rows = frame("clicks struct<items: array<bigint>>", [((items,),)])
    ragged = Feature.model_validate({"from": "clicks.items", "dtype": "int64", "ragged": True})
    (row,) = rows.select(feature_column(rows, "f", ragged)).collect()
    assert row[0] == expected


def test_a_ragged_feature_must_be_a_list(frame: Frame) -> None:
    rows = frame("clicks struct<length: int>", [])
    ragged = Feature.model_validate({"from": "clicks.length", "dtype": "int64", "ragged": True})
    with pytest.raises(InputError, match="features.f: `ragged: true` needs an array, found int"):
        feature_column(rows, "f", ragged)


BASE: dict[str, Any] = {
    "name": "n",
    "timezone": "UTC",
    "sources": {"log": {"format": "parquet", "path": "log/{date}", "days_before": 1, "days_after": 1}},
    "impressions": {"source": "log", "time": "t", "user": "u", "article": "a"},
    "labels": {"clicked": {"source": "log", "window": "1h"}},
    "histories": {"clicks": {"source": "log", "last": 3, "within": "1d"}},
    "features": {"f": {"from": "clicks.items", "dtype": "int64", "shape": [3]}},
    "output": {"path": "out"},
}


def problems(**changed: Any) -> list[str]:
    found = check_references(JobConfig.model_validate({**BASE, **changed}))
    return [f"{'.'.join(where)}: {what}" for where, what in found]


def test_a_history_of_the_log_of_impressions_takes_its_keys_from_them() -> None:
    config = JobConfig.model_validate(BASE)
    clicks = config.history("clicks")
    assert (clicks.time, clicks.key, clicks.item, clicks.request) == ("t", "u", "a", None)
    assert problems() == []


@pytest.mark.parametrize(
    ("history", "message"),
    [
        (
            {"within": "25h"},
            "histories.clicks.within: found 25h, which needs 2 day(s) before the run date, but 1 are read",
        ),
        (
            {"request": "r"},
            "histories.clicks.request: has no effect, since `impressions.request` is not set; remove it",
        ),
        ({"columns": {"items": "x"}}, "histories.clicks.columns.items: 'items' is a name that every history has"),
        ({"columns": {"Ages_S": "x"}}, "histories.clicks.columns.Ages_S: 'Ages_S' and 'ages_s' differ only in case"),
        ({"source": "lag"}, "histories.clicks.source: there is no source 'lag'; did you mean 'log'?"),
    ],
)
def test_what_a_history_cannot_be_is_said_before_anything_is_read(history: dict[str, Any], message: str) -> None:
    found = problems(histories={"clicks": {**BASE["histories"]["clicks"], **history}})
    assert [text for text in found if text.startswith(message)], found


def test_a_column_that_a_history_does_not_have_is_named() -> None:
    found = problems(features={"f": {"from": "clicks.item", "dtype": "int64", "shape": [3]}})
    assert found == ["features.f.from: history 'clicks' has no column 'item'; did you mean 'items'?"]


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "column", ["time", "item", "request", "Time", "ITEM", "key", "kind", "moment", "tie", "alone", "shown", "action"]
)
def test_a_column_of_a_history_may_have_any_name(frame: Frame, column: str) -> None:
    history = CONFIGURED.model_copy(update={"columns": {column: "channel"}})
    actions = actions_of_history(log(frame, [("u", Action("09:00:00", 7, "r", 5))]), "clicks", history, DAY)
    shown = impressions(frame, [(1, "2019-06-05 10:00:00", "u", "r1"), (2, "2019-06-05 10:00:00", "u", "r")])
    plan = replace(PLAN, columns=(column,))
    found = {
        row.impression.impression_id: row.clicks
        for row in join_history(Stage.of(shown), actions, plan, 2).rows().collect()
    }
    assert (found[1]["items"], found[1]["ages_s"], found[1][column]) == ([7], [3600.0], [5])
    assert found[2]["items"] == []
    assert history_type(actions, plan).fieldNames() == ["items", "ages_s", column, "length", "matched"]


@pytest.mark.parametrize("column", ["time", "item", "request", "TIME"])
def test_a_configuration_may_give_a_column_the_name_of_a_part_of_an_action(column: str) -> None:
    assert problems(histories={"clicks": {**BASE["histories"]["clicks"], "columns": {column: "x"}}}) == []
