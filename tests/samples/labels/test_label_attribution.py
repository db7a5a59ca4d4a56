"""Which action labels which impression, and which labels none: by request, by user, by other keys and
with clocks that disagree.

Cases, and random logs against the rule in plain Python. What labels become of the actions is in ``test_label_values.py``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest

from ctr_samples.config import ActionLabel, Impressions
from ctr_samples.samples.labels.labelling import Labelling
from ctr_samples.samples.labels.plans import plan_label, rounds
from ctr_samples.samples.period import EVER
from tests.samples.labels.labelling import label as label_all
from tests.samples.labels.labelling import label_in_spark, stage_of_labels
from tests.support.literal_frames import Frame
from tests.support.stages import parts, table

SHOWN = Impressions(source="log", time="at", request="request_id", user="user_id", article="article_id")
BY_USER_ALONE = Impressions(source="log", time="at", user="user_id", article="article_id")
CLICKED = ActionLabel(source="log", window="30m", skew="2s", where="action = 'click'")
ORPHANED = "orphan"


@dataclass(frozen=True)
class Shown:
    """An impression; those of a case have one user and article unless told otherwise."""

    at: str
    request: str | None = None
    user: str | None = "u"
    article: str | None = "a"


@dataclass(frozen=True)
class Click:
    """A click, and the impression that it belongs to, by its place in the case."""

    at: str | None
    to: int | str
    request: str | None = None
    user: str | None = "u"
    article: str | None = "a"


@dataclass(frozen=True)
class Case:
    shown: Sequence[Shown]
    clicks: Sequence[Click] = field(default_factory=tuple)


TEN = "10:00:00"
NO_TIME = "no time at all here"

BY_USER = {
    "a click at the moment of its impression": Case([Shown(TEN)], [Click(TEN, 0)]),
    "a click at the end of the window": Case([Shown(TEN)], [Click("10:30:00", 0)]),
    "a click a microsecond after the window": Case([Shown(TEN)], [Click("10:30:00.000001", ORPHANED)]),
    "one click between three impressions": Case(
        [Shown(TEN), Shown("10:10:00"), Shown("10:20:00")], [Click("10:15:00", 1)]
    ),
    "a click after midnight": Case([Shown("23:50:00")], [Click("2019-06-06 00:10:00", 0)]),
    "a click of the day before midnight's impression": Case(
        [Shown("2019-06-04 23:50:00"), Shown("00:00:01")], [Click("2019-06-04 23:59:59.999", 0)]
    ),
    "two articles of one moment": Case(
        [Shown(TEN, article="a"), Shown(TEN, article="b")], [Click("10:01:00", 1, article="b")]
    ),
    "another article": Case([Shown(TEN)], [Click("10:01:00", ORPHANED, article="b")]),
    "a click without a user": Case([Shown(TEN, user=None)] * 2, [Click("10:01:00", ORPHANED, user=None)]),
    "a click without an article": Case([Shown(TEN)], [Click("10:01:00", ORPHANED, article=None)]),
    "a click without a time": Case([Shown(TEN)], [Click(None, ORPHANED)]),
    "a click whose time is none": Case([Shown(TEN)], [Click(NO_TIME, ORPHANED)]),
}

BY_REQUEST = {
    "the request finds the impression of an unknown user": Case(
        [Shown(TEN, "r1", user=None)], [Click("10:01:00", 0, "r1", user=None)]
    ),
    "a click whose request showed nothing": Case([Shown(TEN, "r1")], [Click("10:01:00", ORPHANED, "a detail page")]),
    "a click whose request showed another article": Case(
        [Shown(TEN, "r1", article="b"), Shown("10:05:00", "r2")], [Click("10:06:00", ORPHANED, "r1")]
    ),
    "a click too late for its request takes no impression of a later one": Case(
        [Shown(TEN, "r1"), Shown("10:20:00", "r2")], [Click("10:30:00.001", ORPHANED, "r1")]
    ),
    "a request without an id and another without one are not the same": Case(
        [Shown(TEN, user="v")], [Click("10:01:00", ORPHANED)]
    ),
}

BY_SKEW = {
    "a click as early as clocks may disagree": Case([Shown(TEN)], [Click("09:59:58", 0)]),
    "a click a millisecond earlier": Case([Shown(TEN)], [Click("09:59:57.999", ORPHANED)]),
    "an early click goes on if the window before is over": Case(
        [Shown("09:29:58.999"), Shown(TEN)], [Click("09:59:59", 1)]
    ),
    "a click the second before the day of its impression": Case(
        [Shown("00:00:00.5")], [Click("2019-06-04 23:59:59", 0)]
    ),
}

CASES = {**BY_USER, **BY_REQUEST, **BY_SKEW}

ORDER = (("request", "article"), ("user", "article"))


def dated(time: str | None) -> str | None:
    return time if time is None or len(time) > 15 else f"2019-06-05 {time}"


def own(name: str, key: str | None) -> str | None:
    """A key that no other case has."""
    return key and f"{name}: {key}"


SCHEMA = "impression_id bigint, impression_time timestamp, request string, user string, article string"
ACTIONS = "at timestamp, request string, user string, article string"


def impressions(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return table(SCHEMA, rows)


def clicks(rows: Sequence[tuple[Any, ...]], label: str = "clicked", schema: str = ACTIONS) -> pa.Table:
    """Actions of a label, each with the value 1."""
    actions = table(schema, rows)
    each = {"label": pa.array([label] * len(rows), pa.string()), "value": pa.array([1.0] * len(rows), pa.float64())}
    return pa.table({**dict(zip(actions.column_names, actions.columns, strict=True)), **each})


def labelled(
    shown: pa.Table, actions: pa.Table, label: ActionLabel = CLICKED, keys: Impressions = SHOWN
) -> tuple[dict[int, int], dict[str, Any]]:
    """The label of each impression, and what is counted of it."""
    rows, counts = label_all(shown, actions, [plan_label("clicked", label, keys)], EVER)
    return {row.impression_id: int(row.clicked) for row in rows}, counts["clicked"]


def of_cases(cases: dict[str, Case]) -> tuple[list[Any], list[Any], list[int], int]:
    """Impressions and clicks of all cases, the label of each impression, and the number of orphans."""
    shown, log, expected, orphans = [], [], [], 0
    for name, case in cases.items():
        for place, one in enumerate(case.shown):
            keys = own(name, one.request), own(name, one.user), own(name, one.article)
            shown.append((len(shown), dated(one.at), *keys))
            expected.append(int(any(click.to == place for click in case.clicks)))
        for click in case.clicks:
            keys = own(name, click.request), own(name, click.user), own(name, click.article)
            log.append((dated(click.at), *keys))
            orphans += click.to == ORPHANED
    return shown, log, expected, orphans


@pytest.mark.parametrize(
    ("cases", "keys"), [(CASES, SHOWN), (BY_USER, BY_USER_ALONE)], ids=["default", "by user alone"]
)
def test_every_case(cases: dict[str, Case], keys: Impressions) -> None:
    shown, log, expected, orphans = of_cases(cases)
    readable = [(None if at == NO_TIME else at, *rest) for at, *rest in log]
    found, counts = labelled(impressions(shown), clicks(readable), CLICKED, keys)
    assert found == dict(enumerate(expected))
    assert (counts["orphans"], counts["actions"]) == (orphans, len(log))


def test_spark_labels_the_same_impressions(frame: Frame) -> None:
    shown, log, expected, orphans = of_cases(CASES)
    actions = frame(
        "at string, request_id string, user_id string, article_id string, action string",
        [*[(*row, "click") for row in log], *[(*row, "read") for row in log]],
    )
    plans = [plan_label("clicked", CLICKED, SHOWN)]
    rows, counts = label_in_spark(frame(SCHEMA, shown), plans, EVER, lambda _: actions)
    assert {row.impression_id: row.clicked for row in rows} == dict(enumerate(expected))
    assert (counts["clicked"]["orphans"], counts["clicked"]["actions"]) == (orphans, len(log))


def test_of_impressions_of_one_moment_the_greatest_id_takes_the_click_whatever_the_order_of_the_log() -> None:
    # By user alone: looking by request first would bring the rows into an order.
    log = clicks([(dated("10:01:00"), None, "u", "a")])
    for order in ((7, 9, 8), (9, 8, 7)):
        shown = impressions([(number, dated(TEN), None, "u", "a") for number in order])
        assert labelled(shown, log, CLICKED, BY_USER_ALONE)[0] == {7: 0, 8: 0, 9: 1}


def test_a_log_without_users_is_looked_up_by_request_alone() -> None:
    shown = impressions([(1, dated(TEN), "r1", None, "a"), (2, dated("10:10:00"), "r2", None, "a")])
    log = clicks([(dated("10:11:00"), "r1", "a")], schema="at timestamp, request string, article string")
    by_request = Impressions(source="log", time="at", article="article_id", request="request_id")
    label = ActionLabel(source="log", window="30m")
    assert plan_label("clicked", label, by_request).tried == (("request", "article"),)
    assert labelled(shown, log, label, by_request)[0] == {1: 1, 2: 0}


def test_whole_numbers_and_text_are_the_same_key(frame: Frame) -> None:
    shown = frame(
        "impression_id bigint, impression_time timestamp, request bigint, user bigint, article string",
        [(1, dated(TEN), 5, 70, "9007199254740993"), (2, dated(TEN), 6, 71, "9007199254740993"), (3, None, 7, 71, "x")],
    )
    log = frame(
        "at string, request_id string, user_id bigint, article_id bigint",
        [(dated("10:01:00"), "5", None, 9007199254740993), (dated("10:01:00"), "six", 71, 9007199254740993)],
    )
    plans = [plan_label("clicked", CLICKED.model_copy(update={"where": None, "match": ORDER}), SHOWN)]
    rows, _ = label_in_spark(shown, plans, EVER, lambda _: log)
    assert {r.impression_id: r.clicked for r in rows} == {1: 1, 2: 1, 3: 0}


Rows = list[tuple[int, int, str | None, str]]


def oracle(shown: Rows, clicks: Rows, window: int, skew: int, is_bound: bool) -> dict[int, int]:
    """The rule in plain Python: seconds, requests and users; each click goes to one impression or none."""
    found = {number: 0 for number, *_ in shown}
    for _, time, *keys in clicks:
        for which, key in enumerate(keys[:1] if is_bound and keys[0] is not None else keys):
            alike = [(t, n) for n, t, *k in shown if key is not None and k[which] == key]
            before = [one for one in alike if one[0] <= time]
            after = [one for one in alike if one[0] > time]
            if before and time - max(before)[0] <= window:
                found[max(before)[1]] += 1
                break
            if after and min(after)[0] - time <= skew:
                found[min(after)[1]] += 1
                break
    return found


@pytest.mark.parametrize(
    ("match", "keys", "requests", "skew"),
    [(None, SHOWN, 3, 7), (ORDER, SHOWN, 3, 7), (None, BY_USER_ALONE, 0, 0)],
    ids=["default", "written out", "by user alone"],
)
def test_random_logs_agree_with_the_rule_in_plain_python(
    match: tuple[tuple[str, ...], ...] | None, keys: Impressions, requests: int, skew: int
) -> None:
    rng = random.Random(11)

    def rows(count: int) -> Rows:
        some = [*[f"r{n}" for n in range(requests)], None]
        return [(n, rng.randrange(900), rng.choice(some), rng.choice("uv")) for n in range(count)]

    shown, clicked = rows(70), rows(150)

    def clock(second: int) -> str:
        return f"2019-06-05 10:{second // 60:02d}:{second % 60:02d}"

    counted = ActionLabel(source="log", window="20s", skew=f"{skew}s", value="1", reduce="sum", match=match)
    actions = clicks([(clock(t), request, user, "a") for _, t, request, user in clicked])
    found, counts = labelled(impressions([(n, clock(t), *of, "a") for n, t, *of in shown]), actions, counted, keys)
    expected = oracle(shown, clicked, 20, skew, is_bound=match is None)
    assert found == expected
    assert counts["orphans"] == len(clicked) - sum(expected.values())
    assert 0 < sum(expected.values()) < len(clicked)


def test_impressions_that_a_later_step_finds_by_user_lie_user_by_user_in_order_of_time() -> None:
    rng = random.Random(7)
    users = ["u", "v", "w", "x", None]
    shown = [(n, f"2019-06-05 10:00:{rng.randrange(60):02d}", None, rng.choice(users), f"a{n}") for n in range(90)]
    labelling = Labelling([plan_label("clicked", CLICKED, BY_USER_ALONE)], EVER, by=("user",))
    runs = []
    for part, rows in enumerate(parts(stage_of_labels(impressions(shown), clicks([]), labelling, 2))):
        for user, some in groupby(rows, key=lambda row: row.user):
            times = [row.impression_time for row in some]
            assert times == sorted(times)
            runs.append((part, user))
    assert len(runs) == len({*runs})
    assert {user for _, user in runs} == {*users}


# Several labels, each with an order of its own

OF_SESSIONS = Impressions(source="shown", time="t", keys={"session": "s", "user": "u", "item": "i"}, request="r")
MATCHES: dict[str, tuple[tuple[str, ...], ...]] = {
    "clicked": (("session", "item"), ("user", "item")),
    "bought": (("user", "item"), ("session",)),
    "rated": (("request",), ("session", "item"), ("user",)),
}
LABELS = {
    name: ActionLabel(
        source="log", where=f"kind = '{name}'", window="30m", time="t", match=match, request="r",
        keys={"session": "s", "user": "u", "item": "i"},
    )
    for name, match in MATCHES.items()
}  # fmt: skip
Values = tuple[Any, ...]


def test_labels_share_the_shuffles_that_their_orders_allow() -> None:
    plans = [plan_label(name, label, OF_SESSIONS) for name, label in LABELS.items()]
    tried = [(names, [plan.name for plan in some]) for names, some in rounds(plans)]
    for name, match in MATCHES.items():
        assert tuple(names for names, some in tried if name in some) == match, "each in its own order"
    assert [names for names, _ in tried].count(("session", "item")) == 1, "shared, though one label tries it second"


def test_two_labels_may_try_the_same_keys_in_opposite_orders() -> None:
    opposite = [("a", (("user",), ("session",))), ("b", (("session",), ("user",)))]
    plans = [plan_label(n, LABELS["clicked"].model_copy(update={"match": m}), OF_SESSIONS) for n, m in opposite]
    for name, match in opposite:
        assert tuple(names for names, some in rounds(plans) if name in [p.name for p in some]) == match


def owners(shown: list[Values], actions: list[Values]) -> dict[tuple[int, str], int]:
    """(impression, label) -> 1 for each action that the first set of keys with an impression in its window gives it."""
    found: dict[tuple[int, str], int] = {}
    for minute, kind, *keys in actions:
        own = dict(zip(("request", "session", "user", "item"), keys, strict=True))
        for names in MATCHES[kind]:
            before = [
                (at, number)
                for number, at, *theirs in shown
                for other in [dict(zip(("request", "session", "user", "item"), theirs, strict=True))]
                if at <= minute and all(own[n] is not None and own[n] == other[n] for n in names)
            ]
            if before and minute - max(before)[0] <= 30:
                found[max(before)[1], kind] = 1
                break
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_logs_with_labels_of_several_orders_agree_with_the_rule(seed: int) -> None:
    rng = random.Random(seed)

    def keys() -> Values:
        return tuple(rng.choice([f"{name}{n}" for n in range(3)] + [None]) for name in "rsui")

    def at(minute: int) -> datetime:
        return datetime(2019, 6, 5, 10, tzinfo=UTC) + timedelta(minutes=minute)

    shown: list[Values] = [(number, rng.randint(0, 120), *keys()) for number in range(60)]
    actions: list[Values] = [(rng.randint(0, 150), rng.choice(list(LABELS)), *keys()) for _ in range(120)]
    keys_of = "request string, session string, user string, item string"
    impressions = table(
        f"impression_id bigint, impression_time timestamp, {keys_of}",
        [(number, at(minute), *some) for number, minute, *some in shown],
    )
    log = table(
        f"at timestamp, label string, {keys_of}, value double",
        [(at(minute), *rest, 1.0) for minute, *rest in actions],
    )
    plans = [plan_label(name, label, OF_SESSIONS) for name, label in LABELS.items()]
    made, _ = label_all(impressions, log, plans, EVER)
    expected = owners(shown, actions)
    assert {(r.impression_id, name): r[name] for r in made for name in LABELS} == {
        (number, name): expected.get((number, name), 0) for number, *_ in shown for name in LABELS
    }
