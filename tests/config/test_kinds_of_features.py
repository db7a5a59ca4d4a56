"""The table of kinds: what a feature is follows from its keys, and no two kinds mix."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from ctr_samples.config import Feature
from ctr_samples.feature_rules import (
    BUCKETED,
    CROSSED,
    HASHED,
    ID_KEYS,
    PART_OF_A_TIME,
    PLAIN,
    TOKEN,
    FeatureKind,
)

ONE_OF_EACH: dict[str, Any] = {"hash_buckets": 9, "vocabulary": "cities", "boundaries": [0, 1], "quantiles": 4}


def feature(**keys: Any) -> Feature:
    return Feature.model_validate({"from": "item.x", "dtype": "int64"} | keys)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({}, PLAIN),
        ({"dtype": "float32", "log1p": True}, PLAIN),
        ({"date_part": "hour"}, PART_OF_A_TIME),
        ({"date_part": "hour", "hash_buckets": 9}, HASHED),
        ({"hash_buckets": 9}, HASHED),
        ({"vocabulary": "cities"}, TOKEN),
        ({"boundaries": [0, 1]}, BUCKETED),
        ({"quantiles": 4}, BUCKETED),
        ({"from": None, "cross": ["a", "b"], "hash_buckets": 9}, CROSSED),
    ],
)
def test_the_keys_of_a_feature_tell_its_kind(keys: dict[str, Any], kind: FeatureKind) -> None:
    assert feature(**keys).kind is kind


@pytest.mark.parametrize("dtype", ["int64", "float32", "string", "bytes"])
@pytest.mark.parametrize(("one", "other"), [*combinations(ID_KEYS, 2)])
def test_keys_of_two_kinds_are_refused_by_their_names_whatever_the_dtype(one: str, other: str, dtype: str) -> None:
    with pytest.raises(ValueError, match=f"give `{one}` or `{other}`, not both"):
        feature(dtype=dtype, **{key: ONE_OF_EACH[key] for key in (one, other)})
