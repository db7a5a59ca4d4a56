"""The contract is one value that survives the way through JSON and refuses what cannot be written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError

CONTRACT = ExampleContract(
    (
        FeatureSpec("vector", "float32", (100,), nulls="fail"),
        FeatureSpec("history", "int64", None),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
    )
)


def test_a_contract_reads_back_from_json() -> None:
    assert ExampleContract.from_dict(json.loads(json.dumps(CONTRACT.to_dict()))) == CONTRACT


def test_the_fingerprint_follows_every_part_of_the_contract() -> None:
    other = ExampleContract((*CONTRACT.features[:2], FeatureSpec("clicked", "int64", role="label", nulls="omit")))
    assert len(CONTRACT.fingerprint) == 16
    assert other.fingerprint != CONTRACT.fingerprint


def test_a_fixed_shape_has_a_size_and_a_ragged_one_has_none() -> None:
    assert [spec.size for spec in CONTRACT.features] == [100, None, 1]


def test_labels_are_never_nan() -> None:
    assert FeatureSpec("read_ms", "float32", role="label").nonfinite is False
    assert FeatureSpec("price", "float32").nonfinite is True


def test_names_must_be_unique() -> None:
    with pytest.raises(ContractError, match="names 'a' more than once"):
        ExampleContract((FeatureSpec("a", "int64"), FeatureSpec("a", "float32")))


def test_a_default_policy_needs_a_default() -> None:
    with pytest.raises(ContractError, match="declares none"):
        FeatureSpec("a", "int64", nulls="default")


def test_a_contract_of_another_version_is_refused_with_advice() -> None:
    with pytest.raises(ContractError, match="version 99; this release reads version 1. Install"):
        ExampleContract.from_dict({**CONTRACT.to_dict(), "version": 99})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"record": "avro"}, "record is 'avro', expected 'example' or 'sequence_example' or 'byte_array'"),
        ({"features": {}}, "features is an object, expected a list"),
        ({"features": [7]}, r"features\[0\] is 7, expected an object"),
        ({"features": [{"name": "a"}]}, r"features\[0\] has no 'dtype'"),
        ({"features": [{"name": "a", "dtype": "int64", "colour": 1}]}, r"features\[0\] has the unknown key 'colour'"),
        (
            {"features": [{"name": "a", "dtype": "int64", "shape": [1.5]}]},
            r"shape\[0\] is 1.5, expected a whole number",
        ),
        ({"features": [{"name": "a", "dtype": "int64", "nonfinite": 1}]}, r"nonfinite is 1, expected true or false"),
        ({"parts": [{"name": "a", "start": -1, "size": 2}]}, r"parts\[0\].start is -1, expected a number from 0 to"),
        ({"state": {"lineage": "a", "version": 1}}, "state has no 'fingerprint'"),
        ({"version": True}, "version is True, expected a whole number"),
        ({"layout": "sparse"}, "the layout sparse but lacks a list of int64 `indices`"),
    ],
)
def test_what_is_no_contract_is_refused_with_the_place(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ContractError, match=said):
        ExampleContract.from_dict({**CONTRACT.to_dict(), **changes})


@pytest.mark.parametrize(("dtype", "most"), [("int64", 2**31 - 1), ("float32", 2**29 - 1), ("bytes", 2**31 - 1)])
def test_a_feature_has_no_more_values_than_a_record_can_hold(dtype: Any, most: int) -> None:
    assert FeatureSpec("a", dtype, (most,)).size == most
    for shape in ((most + 1,), (2, most), (most + 1, 0)):
        with pytest.raises(ContractError, match=f"a record of 2 GiB holds at most {most:,} such values"):
            FeatureSpec("a", dtype, shape)
