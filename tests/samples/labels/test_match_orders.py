"""Labels that try sets of keys in orders of their own, against the rule in plain Python."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctr_samples.config import ActionLabel, Impressions
from ctr_samples.samples.labels.plans import plan_label, rounds
from ctr_samples.samples.period import Span
from tests.samples.labels.labelling import label
from tests.support.stages import table

DAY = Span(datetime(2019, 6, 5, tzinfo=UTC), datetime(2019, 6, 6, tzinfo=UTC))
TEN = datetime(2019, 6, 5, 10, tzinfo=UTC)
SHOWN = Impressions(source="shown", time="t", keys={"session": "s", "user": "u", "item": "i"}, request="r")
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
Row = tuple[Any, ...]


def test_labels_share_the_shuffles_that_their_orders_allow() -> None:
    plans = [plan_label(name, label, SHOWN) for name, label in LABELS.items()]
    tried = [(names, [plan.name for plan in some]) for names, some in rounds(plans)]
    for name, match in MATCHES.items():
        assert tuple(names for names, some in tried if name in some) == match, "each in its own order"
    assert [names for names, _ in tried].count(("session", "item")) == 1, "shared, though one label tries it second"


def test_two_labels_may_try_the_same_keys_in_opposite_orders() -> None:
    opposite = [("a", (("user",), ("session",))), ("b", (("session",), ("user",)))]
    plans = [plan_label(n, LABELS["clicked"].model_copy(update={"match": m}), SHOWN) for n, m in opposite]
    for name, match in opposite:
        assert tuple(names for names, some in rounds(plans) if name in [p.name for p in some]) == match


def owners(shown: list[Row], actions: list[Row]) -> dict[tuple[int, str], int]:
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
def test_random_logs_agree_with_the_rule(seed: int) -> None:
    rng = random.Random(seed)

    def keys() -> Row:
        return tuple(rng.choice([f"{name}{n}" for n in range(3)] + [None]) for name in "rsui")

    def at(minute: int) -> datetime:
        return TEN + timedelta(minutes=minute)

    shown: list[Row] = [(number, rng.randint(0, 120), *keys()) for number in range(60)]
    actions: list[Row] = [(rng.randint(0, 150), rng.choice(list(LABELS)), *keys()) for _ in range(120)]
    keys_of = "request string, session string, user string, item string"
    impressions = table(
        f"impression_id bigint, impression_time timestamp, {keys_of}",
        [(number, at(minute), *some) for number, minute, *some in shown],
    )
    log = table(
        f"at timestamp, label string, {keys_of}, value double", [(at(minute), *rest, 1.0) for minute, *rest in actions]
    )
    plans = [plan_label(name, label, SHOWN) for name, label in LABELS.items()]
    made, _ = label(impressions, log, plans, DAY)
    expected = owners(shown, actions)
    assert {(r.impression_id, name): r[name] for r in made for name in LABELS} == {
        (number, name): expected.get((number, name), 0) for number, *_ in shown for name in LABELS
    }
