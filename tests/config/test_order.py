"""What `output.order` keeps together, and which splits would cut it."""

import functools
from itertools import permutations
from typing import Any

import pytest
import yaml

from ctr_samples.config.order import order_problems
from tests.support.orders import config

USER_AND_ITEM = {"user": "u", "item": "i"}
SESSION_AND_ITEM = {"session": "s", "item": "i"}


@pytest.mark.parametrize(
    ("order", "keys", "request_id", "together"),
    [
        ("request", USER_AND_ITEM, "r", ("request", "user")),
        ("request", USER_AND_ITEM, None, ("user", "time")),
        ("impression", USER_AND_ITEM, None, ("user", "time")),
        ("request", SESSION_AND_ITEM, "r", ("request",)),
        ("request", SESSION_AND_ITEM, None, ("session", "time")),
        (["session"], SESSION_AND_ITEM, "r", ("session",)),
        ("impression", {"item": "i"}, None, ()),
    ],
)
def test_a_request_is_its_id_or_a_user_at_a_time_or_the_listed_keys(
    order: Any, keys: dict[str, str], request_id: str | None, together: tuple[str, ...]
) -> None:
    assert config(order, keys, request_id, **({} if len(keys) > 1 else BY_ROW)).request_keys == together


BY_ROW = {"impressions": {"source": "log", "time": "at", "keys": {"item": "i"}, "identity": "row"}}


@pytest.mark.parametrize(
    ("order", "request_id", "split"),
    [
        ("request", "r", {"by": "request"}),
        ("request", "r", {"by": "user"}),
        ("request", "r", {"by": "request", "eval_from": "20:00"}),
        ("request", None, {"by": "time", "eval_from": "20:00"}),
        ("request", "r", {"eval": 0.0}),
        (["user"], None, {"by": "user"}),
        (["user", "time"], None, {"by": "request"}),
        (["request"], "r", {"by": "request"}),
        (["item", "request"], "r", {"by": "request", "eval_from": "20:00"}),
        ("impression", "r", {"by": "time", "eval_from": "20:00"}),
        ("impression", "r", {}),
    ],
)
def test_a_split_that_cuts_no_request_is_accepted(order: Any, request_id: str | None, split: dict[str, Any]) -> None:
    assert list(order_problems(config(order, USER_AND_ITEM, request_id, split=split))) == []


LATE = {"by": "time", "eval_from": "20:00"}
LATE_REQUESTS = "split: {by: request, eval_from: '20:00'}"


@pytest.mark.parametrize(
    ("order", "request_id", "split", "keys", "instead"),
    [
        ("request", "r", {}, "request and user", "`split: {by: request}`"),
        ("request", "r", {"by": "item"}, "request and user", "`split: {by: request}`"),
        ("request", None, {"by": "item"}, "user and time", "`split: {by: request}`"),
        ("request", "r", {"eval": 0.2, "test": 0.05}, "request and user", "`split: {by: request, eval: 0.2, test: 0.05}`"),
        ("request", "r", LATE, "request and user", f"`{LATE_REQUESTS}`"),
        (["user"], "r", {"by": "request", "eval": 0.3}, "user", "`split: {by: user, eval: 0.3}`"),
        (["user"], None, {"by": "request"}, "user", "`split: {by: user}`"),
        (["time", "item"], "r", {"by": "request"}, "time and item", "`split: {by: item}`"),
        (["item", "request"], "r", {"by": "user"}, "item and request", "`split: {by: request}`"),
        (["time"], "r", {"by": "request", "eval_from": "20:00"}, "time", "`split: {by: time, eval_from: '20:00'}`"),
        (["user"], None, LATE, "user", f"`output.order: request` and `{LATE_REQUESTS}`, or `split: {{by: user}}`"),
    ],
)  # fmt: skip
def test_a_split_that_cuts_a_request_is_refused_and_told_what_to_write(
    order: Any, request_id: str | None, split: dict[str, Any], keys: str, instead: str
) -> None:
    [found] = order_problems(config(order, USER_AND_ITEM, request_id, split=split))
    assert found.where == ("split", "by")
    by = f"{split['by']}`" if "by" in split else "impression` (the default)"
    assert found.what == (
        f"`output.order` keeps samples with equal {keys} together, but `split.by: {by} can put some of them into train and "
        f"some into eval; write {instead}"
    )


KEYS = ["user", "session", "item", "time", "request"]
SHARES: list[dict[str, Any]] = [{}, {"eval": 0.25, "test": 0.125}]
SPLITS = [
    *[{"by": by, **shares} for by in ("request", "user", "session", "item", "impression") for shares in SHARES],
    *SHARES,
    *[{"by": by, "eval_from": "20:00"} for by in ("time", "request")],
]


@pytest.mark.parametrize("request_id", ["r", None])
@pytest.mark.parametrize("keys", [{"user": "u", "session": "s", "item": "i"}, SESSION_AND_ITEM, {"item": "i"}])
def test_what_a_refusal_says_to_write_is_accepted_and_keeps_all_that_is_configured(
    keys: dict[str, str], request_id: str | None
) -> None:
    known = {*keys, "time", *(["request"] if request_id else [])}
    lists = [[*listed] for size in (1, 2, 3) for listed in permutations(KEYS, size) if {*listed} <= known]
    row = {"impressions": {"source": "log", "time": "at", "keys": keys, "request": request_id, "identity": "row"}}
    refused = 0
    for order in ["request", *lists]:
        for split in SPLITS:
            for problem in order_problems(config(order, {}, split=split, **row)):
                if "; write " in problem.what:
                    refused += 1
                    first, *others = problem.what.partition("; write ")[2].split(", or ")
                    said = [{"order": order} | written(text) for text in (first, *others)]
                    assert said[0].get("split", split).items() >= {k: v for k, v in split.items() if k != "by"}.items()
                    for one in said:
                        there = config(one["order"], {}, split=one.get("split", split), **row)
                        assert not list(order_problems(there)), problem.what
    assert refused > 10


@functools.cache
def written(text: str) -> dict[str, Any]:
    """What a text says to write, such as `output.order: request` and `split: {by: request}`."""
    sections = {key: value for code in text.split("`")[1::2] for key, value in yaml.safe_load(code).items()}
    return {"order": sections.pop("output.order"), **sections} if "output.order" in sections else sections


@pytest.mark.parametrize(
    ("order", "what"),
    [
        ("request", "samples cannot be ordered by request, since nothing tells which impressions form a request: "),
        (["sesion"], "samples cannot be ordered by sesion: impressions have no such key"),
    ],
)
def test_an_order_without_its_keys_is_refused(order: Any, what: str) -> None:
    [found] = order_problems(config(order, {}, **BY_ROW))
    assert found.where == ("output", "order")
    assert found.what.startswith(what)


def test_a_split_by_request_without_requests_is_refused() -> None:
    for order in ("impression", ["item"]):
        [found] = order_problems(config(order, {}, **BY_ROW, split={"by": "request"}))
        assert found.what.startswith(
            "samples cannot be split by request, since nothing tells which impressions form a request"
        )


@pytest.mark.parametrize("order", ["requests", [], ["user", "user"]])
def test_an_order_of_no_sense_is_refused(order: Any) -> None:
    with pytest.raises(ValueError, match="order"):
        config(order, USER_AND_ITEM)
