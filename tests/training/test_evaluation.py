"""Scores with known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctr_samples.training.evaluation import auc, evaluate, log_loss


@pytest.mark.parametrize(
    ("labels", "scores", "expected"),
    [
        ([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4], 1.0),
        ([1, 1, 0, 0], [0.1, 0.2, 0.3, 0.4], 0.0),
        ([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], 0.75),
        ([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], 0.5),
        ([0, 1, 1], [0.2, 0.2, 0.9], 0.75),
        ([0, 0], [0.1, 0.2], None),
        ([1], [0.1], None),
    ],
)
def test_auc_counts_pairs_and_ties_by_half(labels: list[int], scores: list[float], expected: float | None) -> None:
    assert auc(np.array(labels, float), np.array(scores)) == expected


def test_log_loss_is_the_mean_negative_log_likelihood() -> None:
    assert log_loss(np.array([1.0, 0.0]), np.array([0.8, 0.4])) == pytest.approx(-(math.log(0.8) + math.log(0.6)) / 2)


def test_certainty_in_the_wrong_direction_is_finite() -> None:
    assert log_loss(np.array([1.0]), np.array([0.0])) == pytest.approx(-math.log(1e-7))


def test_a_constant_prediction_scores_like_the_constant() -> None:
    labels = np.array([1.0, 0, 0, 0])
    scores = evaluate(labels, np.full(4, 0.25), 0.25)
    assert scores.log_loss == scores.constant_log_loss == pytest.approx(0.5623351446)
    assert (scores.samples, scores.clicks, scores.auc) == (4, 1, 0.5)


def test_a_weight_counts_a_sample_as_often_as_it_says() -> None:
    labels, predicted = np.array([1.0, 0, 0, 0]), np.array([0.5, 0.1, 0.1, 0.1])
    weighted = evaluate(labels[:2], predicted[:2], 0.25, np.array([1.0, 3.0]))
    assert weighted.log_loss == pytest.approx(evaluate(labels, predicted, 0.25).log_loss)
    assert weighted.constant_log_loss == pytest.approx(0.5623351446)
