"""The contract is one value that survives the way through JSON and refuses what cannot be written."""

from __future__ import annotations

import json

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
