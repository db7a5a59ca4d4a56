"""Scores that probabilities of float32 could not tell apart, from training through the export to the evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.readers import load_dataset
from ctr_samples.training.click_model import ClickModel, Recipe
from ctr_samples.training.evaluation import scores_of
from ctr_samples.training.exporting import Exported, evaluate_export, export
from ctr_samples.training.models import MODELS
from tests.support.small_days import published

pytestmark = pytest.mark.thorough

DAY = "2019-06-05"
CLICKS = (
    FeatureSpec("clicked", "int64", role="label", nulls="fail"),
    FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
)


def test_a_number_of_forty_ranks_samples_alike_in_records_features_and_the_report(tmp_path: Path) -> None:
    contract = ExampleContract((FeatureSpec("number", "float32", nulls="fail"), *CLICKS))
    numbers = [sign * 40 + n / 8 for n in range(50) for sign in (-1, 1)]
    clicked = [int(n % 3 == 0 or n > 90) for n in range(100)]
    published(tmp_path, contract, lambda split, first: pa.RecordBatch.from_pydict(
        {"number": pa.array(numbers[:50] if first % 100 else numbers[50:], pa.float32()),
         "clicked": pa.array(clicked[:50] if first % 100 else clicked[50:], pa.int64()),
         "impression_id": pa.array(range(first, first + 50), pa.int64())}))  # fmt: skip
    model = ClickModel(Recipe("logistic", contract, {}, 0.5, 1.0, 0))
    for variable in model.network.variables:
        variable.assign(np.ones(variable.shape) if len(variable.shape) == 2 else np.zeros(variable.shape))
    path = export(model, tmp_path / "export", {"label": "clicked", "base_rate": 0.5})
    batches = list(load_dataset(tmp_path, date=DAY, split="eval", batch_size=32))
    features = [features for features, _ in batches]
    truth = np.concatenate([labels.numpy() for _, labels in batches])
    by_features = np.concatenate([Exported.load(path).predict_log_odds(one).numpy() for one in features])
    trained = np.concatenate([model.predict_log_odds(one).numpy() for one in features])
    exact = scores_of(truth, np.concatenate([one["number"].numpy() for one in features]), 0.5)
    assert len(set(np.concatenate([Exported.load(path).predict(one).numpy() for one in features]))) < len(truth) / 1.5
    assert evaluate_export(path, tmp_path, date=DAY, split="eval") == scores_of(truth, by_features, 0.5)
    assert scores_of(truth, trained, 0.5).auc == scores_of(truth, by_features, 0.5).auc == exact.auc


def test_histories_that_are_all_empty_give_finite_scores_in_both_signatures(tmp_path: Path) -> None:
    import tensorflow as tf

    contract = ExampleContract((FeatureSpec("recent", "int64", None, buckets=6), *CLICKS))
    for name in MODELS:
        loaded = tf.saved_model.load(export(ClickModel(Recipe(name, contract, {}, 0.2, 1.0, 0)), tmp_path / name, {}))
        empty = {"recent.values": tf.constant([], tf.int64), "recent.row_splits": tf.constant([0, 0, 0], tf.int64)}
        by_features = loaded.signatures["features"](**empty)["log_odds"].numpy()
        record = tf.train.Example(
            features=tf.train.Features(feature={"recent": tf.train.Feature()})
        ).SerializeToString()
        by_records = loaded.signatures["serving_default"](examples=tf.constant([record, record]))["log_odds"].numpy()
        assert by_features == pytest.approx([np.log(0.25)] * 2, abs=0.01)
        assert by_records.tolist() == by_features.tolist()
