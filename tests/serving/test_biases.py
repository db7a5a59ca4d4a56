"""Features that serving does not know, such as the position, get their declared constant."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from pydantic import ValidationError
from pyspark.sql import SparkSession

from ctr_samples.config import Feature
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.quality.checks.counts import alarms
from ctr_samples.quality.measure.collecting import Collector, Wanted
from ctr_samples.quality.measure.merging import Measures
from ctr_samples.samples.features.one_feature import feature_column
from ctr_samples.serving.hashing import bucket_of, prefix_of
from tests.serving.assemblers import small
from tests.support.manifests import manifest

FEATURES = {
    "position": {"from": "impression.position", "dtype": "int64", "bias": 3},
    "slot": {"expr": "floor(impression.place / 2)", "dtype": "int64", "bias": 1},
    "page": {"from": "impression.page", "dtype": "int64", "hash_buckets": 50, "bias": 2},
    "price": {"from": "item.price", "dtype": "int64"},
    "hour": {"from": "impression.hour", "dtype": "int64"},
}


def values(example: bytes) -> dict[str, list[int]]:
    features = tf.train.Example.FromString(example).features.feature
    return {name: list(feature.int64_list.value) for name, feature in features.items()}


def test_serving_writes_what_the_job_makes_of_the_constant() -> None:
    made = values(small(FEATURES).assemble({"hour": 7}, {"item": {"price": 5}}))
    hashed = bucket_of(prefix_of("page"), [b"2"], 50)
    assert made == {"position": [3], "slot": [1], "page": [hashed], "price": [5], "hour": [7]}


def test_a_value_for_what_serving_does_not_know_is_refused() -> None:
    assembler = small(FEATURES)
    with pytest.raises(
        InputError, match=r"impression\['position'\] is for a feature with a `bias`, which serving does not"
    ):
        assembler.assemble({"hour": 7, "position": 1}, {"item": {"price": 5}})
    with pytest.raises(InputError, match=r"given\['slot'\] is for a feature with a `bias`"):
        assembler.assemble({"hour": 7}, {"item": {"price": 5}}, {"slot": 2})


def test_a_column_that_another_feature_reads_may_be_given() -> None:
    features = FEATURES | {"row": {"from": "impression.position", "dtype": "int64"}}
    made = values(small(features).assemble({"hour": 7, "position": 9}, {"item": {"price": 5}}))
    assert (made["position"], made["row"]) == ([3], [9])


def test_a_feature_of_the_same_column_is_warned_of() -> None:
    features = FEATURES | {"row": {"expr": "log1p(impression.position)", "dtype": "float32"}}
    found = [*alarms(manifest(ExampleContract(()), config={"features": features}), None)]
    assert [(one.check, one.subject, one.standing) for one in found] == [("bias", "row", "warns")]
    assert "made from the same column as position, which is a bias" in found[0].sentence


def test_a_feature_that_goes_with_the_position_is_measured() -> None:
    numbers = ("position", "copy", "other", "constant")
    specs = [FeatureSpec(name, "float32") for name in numbers]
    wanted = Wanted(ExampleContract(tuple(specs)), biases=["position"])
    rng = np.random.default_rng(3)
    tasks = []
    for partition in (0, 1):
        position = rng.integers(0, 10, 1000).astype(np.float32)
        other = rng.normal(size=1000).astype(np.float32)
        other[5] = np.nan
        columns = [position, 100 - 2 * position, other, np.ones(1000, np.float32)]
        collector = Collector(wanted, partition)
        collector.observe(pa.RecordBatch.from_arrays([pa.array(c) for c in columns], list(numbers)), "train")
        tasks.append(collector.close())
    found = {name: dict(facts.biases) for name, facts in Measures.of(tasks).columns(wanted.contract, "feature").items()}
    assert found["copy"] == {"position": pytest.approx(1.0)}
    assert found["other"]["position"] < 0.1
    assert (found["position"], found["constant"]) == ({}, {})


@pytest.mark.parametrize(
    ("column", "bias", "sentence"),
    [
        (
            "double",
            3,
            "found `bias: 3` for ids of double, expected a column of text, whole numbers or booleans: cast it",
        ),
        ("string", 3, "found `bias: 3` for ids of string, expected text"),
        ("int", "a", "found `bias: 'a'` for ids of int, expected a whole number"),
        ("boolean", 1, "found `bias: 1` for ids of boolean, expected true or false"),
    ],
)
def test_a_constant_that_has_other_ids_than_the_column_is_refused(
    spark: SparkSession, column: str, bias: object, sentence: str
) -> None:
    frame = spark.createDataFrame([], f"impression struct<p: {column}>")
    feature = Feature.model_validate({"from": "impression.p", "dtype": "int64", "hash_buckets": 9, "bias": bias})
    with pytest.raises(InputError, match=sentence):
        feature_column(frame, "place", feature)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"shape": [3]}, "`bias` stands for one value: remove the keys for lists"),
        ({"bias": "top"}, "found `bias: 'top'`, expected a value for `dtype: int64`"),
        ({"bias": 0.5}, "found `bias: 0.5`, expected a value for `dtype: int64`"),
        ({"date_part": "hour"}, "`bias` stands for one value"),
    ],
)
def test_a_constant_that_does_not_fit_is_refused(keys: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Feature.model_validate({"from": "impression.position", "dtype": "int64", "bias": 0} | keys)
