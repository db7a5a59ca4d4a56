"""The contract in the words of others."""

from __future__ import annotations

import json

import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec, ModelSteps, Part
from ctr_samples.descriptions import contract_json, parsing, schema_pbtxt

CONTRACT = ExampleContract(
    (
        FeatureSpec("id", "int64", buckets=8),
        FeatureSpec("vector", "float32", (3,)),
        FeatureSpec("words", "int64", None, buckets=5),
        FeatureSpec("title", "bytes", nulls="omit"),
        FeatureSpec("pair", "float32", (2,), nulls="omit"),
        FeatureSpec("matrix", "float32", (2, 2), encoding="tensor"),
        FeatureSpec("age", "float32", model=ModelSteps(clip=(0.0, 99.0), log1p=True)),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
    ),
    state={"lineage": "l", "version": 3, "fingerprint": "f", "days": ["2019-06-03"]},
)


def test_each_feature_has_what_parses_it() -> None:
    assert {name: said["kind"] for name, said in parsing(CONTRACT).items()} == {
        "id": "FixedLenFeature",
        "vector": "FixedLenFeature",
        "words": "RaggedFeature",
        "title": "FixedLenFeature",
        "pair": "FixedLenFeature",
        "matrix": "FixedLenFeature",
        "age": "FixedLenFeature",
        "clicked": "FixedLenFeature",
    }
    assert parsing(CONTRACT)["pair"]["default_value"] == [0.0, 0.0]
    assert parsing(CONTRACT)["title"]["default_value"] == ""
    assert parsing(CONTRACT)["matrix"]["decode"] == "parse_tensor"
    assert "default_value" not in parsing(CONTRACT)["clicked"]


def test_a_list_of_steps_that_may_be_left_out_may_be_missing() -> None:
    sequence = [FeatureSpec("a", "int64", (), sequence=True, nulls=nulls) for nulls in ("omit", "fail")]
    said = [parsing(ExampleContract((spec,), record="sequence_example"))["a"] for spec in sequence]
    assert [arguments.get("allow_missing") for arguments in said] == [True, None]


def test_contract_json_reads_back_as_the_contract() -> None:
    said = json.loads(contract_json(CONTRACT))
    assert ExampleContract.from_dict(said) == CONTRACT
    assert said["fingerprint"] == CONTRACT.fingerprint


def test_versions_of_one_lineage_have_one_fingerprint() -> None:
    from dataclasses import replace

    def with_state(**state: object) -> str:
        return replace(CONTRACT, state={**(CONTRACT.state or {}), **state}).fingerprint

    assert with_state(version=4, fingerprint="g", days=["2019-06-04"]) == CONTRACT.fingerprint
    assert with_state(lineage="other") != CONTRACT.fingerprint
    assert replace(CONTRACT, state=None).fingerprint != CONTRACT.fingerprint
    assert replace(CONTRACT, layout="dense").fingerprint != CONTRACT.fingerprint


def test_the_schema_is_one_of_tensorflow_metadata() -> None:
    schema_pb2 = pytest.importorskip("tensorflow_metadata.proto.v0.schema_pb2")
    from google.protobuf import text_format

    sparse = ExampleContract(
        (FeatureSpec("indices", "int64", None, buckets=20), FeatureSpec("values", "float32", None)),
        layout="sparse",
        parts=(Part("a", 0, 20),),
    )
    schema = text_format.Parse(schema_pbtxt(CONTRACT), schema_pb2.Schema())
    assert [feature.name for feature in schema.feature] == CONTRACT.names()
    assert schema.feature[0].int_domain.max == 7
    assert schema.feature[1].shape.dim[0].size == 3
    assert schema.feature[3].presence.min_fraction == 0
    assert text_format.Parse(schema_pbtxt(sparse), schema_pb2.Schema()).sparse_feature[0].name == "features"
