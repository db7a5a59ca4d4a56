"""Users and requests under other names, in every document that people pass on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from ctr_samples.config import JobConfig
from ctr_samples.quality.feature_facts import Curve, FeatureFacts, TopValue
from ctr_samples.quality.metrics import ClickRate, User, Users, ValueRate
from ctr_samples.quality.pseudonyms import Pseudonyms, pseudonyms_of
from tests.support.measured_day import column, tiny_day
from tests.support.minimal_config import with_lines


def config(features: dict[str, Any], **output: Any) -> JobConfig:
    document = yaml.safe_load(
        with_lines(
            sources="{log: {format: parquet, path: log}, people: {format: parquet, path: people}}",
            impressions="{source: log, time: at, user: uid, request: rid, article: aid, columns: {who: uid, town: town}}",
            views="{person: {source: people, entity: user, key: person_id, static: true}}",
        )
    )
    return JobConfig.model_validate(document | {"features": features, "output": {"path": "out", **output}})


def number(top: tuple[TopValue, ...] | None) -> FeatureFacts:
    """Numbers from 7 to 99."""
    described = {"mean": 8.0, "std": 1.0, "quantiles": {"0.5": 7}, "cdf": Curve((7.0,), (0.0,), (1.0,))}
    return FeatureFacts("number", "int64", (), {"train": column(3, min=7, max=99, top=top, **described)})


METRICS = tiny_day(
    3,
    features={"uid": number((TopValue(4711, 0.5, 0.1),)), "age": number((TopValue(33, 0.5, 0.1),))},
    users=Users(10, (User("4711", 0.5, 5),)),
)


def test_the_heaviest_users_and_the_values_of_ids_have_other_names() -> None:
    found = Pseudonyms("salt", frozenset({"uid"})).applied(METRICS)
    assert "4711" not in str(found)
    assert found.features["age"] == METRICS.features["age"]
    train = found.features["uid"].splits["train"]
    assert [train.min, train.max, train.mean, train.quantiles, train.cdf] == [None] * 5
    assert train.rows == 3
    assert train.top is not None
    assert found.users is not None
    assert train.top[0].value == found.users.heaviest[0].user
    nobody = Pseudonyms("salt", frozenset({"uid"})).applied(
        replace(METRICS, users=None, features={"uid": number(None)})
    )
    assert (nobody.users, nobody.features["uid"].splits["train"].top) == (None, None)


def test_the_samples_of_orphans_have_other_names() -> None:
    orphan = {"time": "2019-06-05T11:00:00+00:00", "request": "r1", "user": None, "article": "3"}
    counted = {"clicked": {"orphans": 1, "orphan_sample": [orphan]}, "liked": {"orphans": 0}}
    names = Pseudonyms("salt")
    assert names.in_labels(counted) == {
        "clicked": {"orphans": 1, "orphan_sample": [{**orphan, "request": names.of("r1")}]},
        "liked": {"orphans": 0},
    }
    assert names.of("r1") != "r1"


def test_a_name_is_the_same_for_one_salt_and_another_for_another_one() -> None:
    assert Pseudonyms("a").of("u1") == Pseudonyms("a").of("u1")
    assert len({Pseudonyms(salt).of(user) for salt in "ab" for user in ("u1", "u2")}) == 4


@pytest.mark.parametrize(
    ("feature", "holds"),
    [
        ({"from": "impression.user", "dtype": "string"}, True),
        ({"from": "impression.request", "dtype": "string"}, True),
        ({"from": "impression.who", "dtype": "string"}, True),
        ({"from": "impression.town", "dtype": "string"}, False),
        ({"from": "person.person_id", "dtype": "int64"}, True),
        ({"from": "person.age", "dtype": "int64"}, False),
        ({"expr": "concat('u', impression.user)", "dtype": "string"}, True),
        ({"expr": "concat(impression . `request`, '')", "dtype": "string"}, True),
        ({"from": "impression.user", "dtype": "int64", "hash_buckets": 1000}, False),
    ],
)
def test_features_that_hold_ids_are_known_by_where_they_come_from(feature: dict[str, Any], holds: bool) -> None:
    names = pseudonyms_of(config({"it": feature}))
    assert names is not None
    assert names.features == ({"it"} if holds else set())


def test_rates_by_columns_that_hold_ids_have_other_names() -> None:
    model = config({"town": {"from": "impression.town", "dtype": "string"}})
    shown = model.impressions.model_copy(update={"rates_by": ("who", "user", "town", "article", "position")})
    names = pseudonyms_of(model.model_copy(update={"impressions": shown}))
    assert names is not None
    assert names.columns == {"who", "user"}
    rate = ClickRate(
        "clicked", {}, (), {"who": (ValueRate(3, 1, "u1"), ValueRate(1, 0, None)), "town": (ValueRate(4, 1, "Oslo"),)}
    )
    found = names.applied(replace(METRICS, click_rate=rate)).click_rate
    assert found is not None
    assert found.by_column == {
        "who": (ValueRate(3, 1, names.of("u1")), ValueRate(1, 0, None)),
        "town": (ValueRate(4, 1, "Oslo"),),
    }


def test_raw_ids_are_shown_to_who_asks_for_them() -> None:
    features = {"position": {"from": "impression.position", "dtype": "int64"}}
    assert pseudonyms_of(config(features, ids="raw")) is None
    assert pseudonyms_of(config(features)) == Pseudonyms("tiny")
    assert pseudonyms_of(config(features, ids_salt="hush")) == Pseudonyms("hush")
