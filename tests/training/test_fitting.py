"""A fit on published samples learns what is there to learn, and refuses what it cannot learn from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.training.fitting import fit_day
from ctr_samples.training.models.logistic import logistic_regression


def test_a_logistic_regression_beats_the_constant_on_both_splits(samples: Path) -> None:
    report = fit_day(str(samples), "2019-06-05", epochs=10, batch_size=32)
    assert [s.samples for s in report.splits.values()] == [400, 100]
    for scores in report.splits.values():
        assert scores.auc is not None
        assert scores.auc > 0.8
        assert scores.log_loss < scores.constant_log_loss
    console = Console(width=100, record=True, quiet=True)
    console.print(report.render())


def test_weights_make_up_for_the_negatives_that_were_left_out(samples: Path, weighted_samples: Path) -> None:
    whole = fit_day(str(samples), "2019-06-05", epochs=1, batch_size=32)
    kept = fit_day(str(weighted_samples), "2019-06-05", label="clicked", epochs=10, batch_size=32)
    assert kept.splits["train"].samples < 0.75 * whole.splits["train"].samples
    for split in ("train", "eval"):  # what always saying the click rate costs, is what it costs over all impressions
        assert kept.splits[split].constant_log_loss == pytest.approx(whole.splits[split].constant_log_loss, rel=0.02)
        assert kept.splits[split].log_loss < kept.splits[split].constant_log_loss
    assert kept.weights == whole.weights, "the weight of a sample is no feature of it"


def test_a_label_that_is_not_there_is_named(samples: Path) -> None:
    with pytest.raises(InputError, match="There is no 0/1 label 'shared'; the samples have clicked."):
        fit_day(str(samples), "2019-06-05", label="shared")


@pytest.mark.parametrize(
    ("features", "weights"),
    [
        ((FeatureSpec("number", "float32"), FeatureSpec("city", "int64", buckets=4)), 6 + 3),
        ((FeatureSpec("number", "float32"),), 2 + 3),
        ((FeatureSpec("city", "int64", buckets=4),), 4),
        ((FeatureSpec("city", "int64", buckets=4), FeatureSpec("name", "bytes")), 4),
    ],
)
def test_an_untrained_model_predicts_the_base_rate_from_any_mix_of_features(
    features: tuple[FeatureSpec, ...], weights: int
) -> None:
    model = logistic_regression(ExampleContract(features), 0.2)
    assert model.count_params() == weights  # a scale keeps mean, variance and count
    batch = {tensor.name: np.ones((3,), tensor.dtype) for tensor in model.inputs}
    assert model.predict_on_batch(batch)[:, 0].tolist() == pytest.approx([0.2] * 3)


def test_samples_of_text_alone_are_refused() -> None:
    with pytest.raises(InputError, match="no number and no id of a fixed shape"):
        logistic_regression(ExampleContract((FeatureSpec("name", "bytes"),)), 0.2)
