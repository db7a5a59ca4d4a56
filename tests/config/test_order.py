"""What `output.order` keeps together, and which splits would cut it."""

from typing import Any

import pytest

from ctr_samples.config import JobConfig
from ctr_samples.config.order import order_problems


def config(order: Any, keys: dict[str, str], request: str | None = None, **more: Any) -> JobConfig:
    return JobConfig.model_validate(
        {
            "name": "tiny",
            "timezone": "UTC",
            "sources": {"log": {"format": "parquet", "path": "log"}},
            "impressions": {"source": "log", "time": "at", "keys": keys, "request": request},
            "labels": {"click": {"source": "log", "where": "x", "window": "1h"}},
            "features": {"p": {"from": "impression.position", "dtype": "int64"}},
            "output": {"path": "out", "order": order},
            **more,
        }
    )


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
        (["user"], None, {"by": "request"}),
        ("impression", "r", {"by": "time", "eval_from": "20:00"}),
        ("impression", "r", {}),
    ],
)
def test_a_split_that_cuts_no_request_is_accepted(order: Any, request_id: str | None, split: dict[str, Any]) -> None:
    assert list(order_problems(config(order, USER_AND_ITEM, request_id, split=split))) == []


@pytest.mark.parametrize(
    ("order", "request_id", "split", "keys", "by", "instead"),
    [
        ("request", "r", {}, "request and user", "impression` (the default)", "by: request"),
        ("request", "r", {"by": "item"}, "request and user", "item`", "by: request"),
        ("request", None, {"by": "item"}, "user and time", "item`", "by: request"),
        (["user"], "r", {"by": "impression"}, "user", "impression`", "by: request"),
        (
            "request",
            "r",
            {"by": "time", "eval_from": "20:00"},
            "request and user",
            "time`",
            "by: request, eval_from: '20:00'",
        ),
        (["user"], None, {"by": "time", "eval_from": "20:00"}, "user", "time`", "by: request, eval_from: '20:00'"),
    ],
)
def test_a_split_that_cuts_a_request_is_refused_and_told_what_to_write(
    order: Any, request_id: str | None, split: dict[str, Any], keys: str, by: str, instead: str
) -> None:
    [found] = order_problems(config(order, USER_AND_ITEM, request_id, split=split))
    assert found.where == ("split", "by")
    assert found.what == (
        f"`output.order` keeps samples with equal {keys} together, but `split.by: {by} can put some of them into train and "
        f"some into eval; write `split: {{{instead}}}`"
    )


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
    [found] = order_problems(config("impression", {}, **BY_ROW, split={"by": "request"}))
    assert found.what.startswith(
        "samples cannot be split by request, since nothing tells which impressions form a request"
    )


@pytest.mark.parametrize("order", ["requests", [], ["user", "user"]])
def test_an_order_of_no_sense_is_refused(order: Any) -> None:
    with pytest.raises(ValueError, match="order"):
        config(order, USER_AND_ITEM)
