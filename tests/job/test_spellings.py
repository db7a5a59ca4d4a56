"""One column in many spellings: whoever asks what a feature is made from gets the same answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ctr_samples.config import JobConfig
from ctr_samples.graph import Graph
from ctr_samples.job.forget_search import vocabularies_of
from ctr_samples.job.origins import Origins, changed_features
from ctr_samples.quality.checks.counts import filling_features
from ctr_samples.shards import Manifest
from ctr_samples.training.exporting import made_from

READ = [
    "item.price",
    "item . price",
    "`item`.price",
    "item['price']",
    "item.PRICE",
    "ITEM . `Price` + 1",
    "get(transform(array(1), x -> item.price + x), 0)",
    "to_json(item)",
]
NOT_READ = [
    "1 /* item.price */",
    "1 -- item.price",
    "'item.price'",
    "get(transform(array(named_struct('price', 1)), item -> item.price), 0)",
    "user.item.price",
]


def document(text: str, **of_item: Any) -> dict[str, Any]:
    log = {"format": "json", "schema": "at timestamp, uid string, iid string, kind string"}
    item = {"source": "sold", "on": "item", "key": "iid", "event_time": "at", "ttl": "9d", **of_item}
    return {
        "name": "feed",
        "timezone": "UTC",
        "sources": {"log": {**log, "path": "log/{date}"}, "sold": {**log, "path": "sold/{date}", "days_before": 7}},
        "impressions": {"source": "log", "time": "at", "user": "uid", "keys": {"item": "iid"}},
        "labels": {"clicked": {"expr": "kind = 'click'"}},
        "views": {
            "item": {**item, "daily_counts": {"days": 7, "counts": {"price": "true"}}},
            "user": {"source": "sold", "on": "user", "key": "uid", "event_time": "at", "ttl": "7d"},
        },
        "features": {
            "made": {"expr": text, "dtype": "string"},
            "token": {"expr": text, "dtype": "int64", "vocabulary": "words"},
            "crossed": {"cross": ["made", "token"], "hash_buckets": 9, "dtype": "int64"},
            "price": {"from": "item.price", "dtype": "string"},
        },
        "vocabularies": {"words": {"capacity": 9}},
        "output": {"path": "out"},
    }


def manifest_of(config: Mapping[str, Any]) -> Manifest:
    inputs = {"sold": {"missing_days": ["2019-05-01"]}}
    return cast(
        Manifest,
        SimpleNamespace(config=config, graph=Graph.of(config), contract={}, inputs=inputs, run_date="2019-06-05"),
    )


def views_of_a_run(text: str) -> bool:
    return "item" in JobConfig.model_validate(document(text)).only(["made"]).views


def views_of_a_run_by_a_cross(text: str) -> bool:
    return "item" in JobConfig.model_validate(document(text)).only(["crossed"]).views


def what_is_made_anew(text: str) -> bool:
    before, now = (
        Origins.of(JobConfig.model_validate(document(text, ttl=ttl)), {}, None, "0.2.0") for ttl in ("9d", "8d")
    )
    changed, _ = changed_features(now, before)
    assert changed["price"] == ["views.item"]
    return "made" in changed


def a_model_for_other_samples(text: str) -> bool:
    before, now = (made_from(manifest_of(document(text, ttl=ttl)), ["made"]) for ttl in ("9d", "8d"))
    return before != now


def vocabularies_with_a_forgotten_value(text: str) -> bool:
    return "words" in vocabularies_of(document(text), "price", None)


def windows_that_are_filling(text: str) -> bool:
    return "made" in filling_features([manifest_of(document(text))])


@pytest.mark.parametrize("text", [*READ, *NOT_READ])
@pytest.mark.parametrize(
    "asked",
    [
        views_of_a_run,
        views_of_a_run_by_a_cross,
        what_is_made_anew,
        a_model_for_other_samples,
        vocabularies_with_a_forgotten_value,
        windows_that_are_filling,
    ],
)
def test_a_feature_is_made_from_a_view_if_it_reads_it_in_any_spelling(asked: Callable[[str], bool], text: str) -> None:
    assert asked(text) == (text in READ)
