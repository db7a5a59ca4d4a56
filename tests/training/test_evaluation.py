"""Scores with known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctr_samples.training.evaluation import Bin, Difference, difference, evaluate, log_odds_of, scores_of


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
    assert evaluate(np.array(labels, float), np.array(scores), 0.5).auc == expected


def test_the_error_of_an_auc_is_that_of_delong() -> None:
    # Positives at 3 and 1.5, negatives at 1 and 2: placements 1, 0.5 of the positives, and 1, 0.5 of the negatives.
    scores = evaluate(np.array([1.0, 1, 0, 0]), np.array([0.3, 0.15, 0.1, 0.2]), 0.5)
    assert (scores.auc, scores.auc_error) == (0.75, pytest.approx(math.sqrt(0.125 / 2 + 0.125 / 2)))
    assert evaluate(np.array([1.0, 0, 0]), np.array([0.3, 0.1, 0.2]), 0.5).auc_error is None


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    covered, apart = 0, 0
    for _ in range(400):
        clicked = (rng.random(400) < 0.3).astype(float)
        shared, own, other = rng.normal(size=(3, 400))
        one, two = (1 / (1 + np.exp(-(clicked + 2 * shared + noise))) for noise in (own, other))
        found = evaluate(clicked, one, 0.3)
        assert found.auc is not None
        assert found.auc_error is not None
        covered += abs(found.auc - 0.6240852) < 1.96 * found.auc_error  # the normal distribution at 10 ** -0.5
        compared = difference(clicked, one, two)
        assert compared.auc is not None
        assert compared.auc_error is not None
        assert compared.auc_error < found.auc_error, "what both share does not count"
        apart += abs(compared.auc) > 1.96 * compared.auc_error
    assert 0.92 <= covered / 400 <= 0.98
    assert 0.02 <= apart / 400 <= 0.08


def test_weights_of_one_change_no_difference_and_equal_models_have_none() -> None:
    labels, one, other = np.array([1.0, 1, 0, 0, 0]), np.array([0.9, 0.4, 0.5, 0.1, 0.2]), np.full(5, 0.4)
    plain = difference(labels, one, other)
    assert difference(labels, one, other, np.ones(5)) == plain
    assert plain.auc == pytest.approx(5 / 6 - 0.5)
    assert difference(labels, one, one) == Difference(0.0, 0.0, 0.0, 0.0)
    assert difference(labels[:2], one[:2], other[:2]).auc is None


def test_log_odds_rank_samples_whose_probabilities_are_equal() -> None:
    labels, log_odds = np.array([0.0, 1, 0, 1, 0, 1]), np.array([-60.0, -50, 20, 30, 40, 50])
    probabilities = (1 / (1 + np.exp(-log_odds))).astype(np.float32)
    assert len(set(probabilities)) == 3
    assert evaluate(labels, probabilities, 0.5).auc == pytest.approx(5 / 9)
    scores = scores_of(labels, log_odds, 0.5)
    assert scores.auc == pytest.approx(6 / 9)
    assert scores.calibration == pytest.approx(4 / 3)
    assert scores.bins[-1] == Bin(1, 1.0, 1.0)
    most = math.log(1e7)
    assert scores.log_loss == pytest.approx((most + most + most) / 6, rel=1e-6), "a probability counts as at least 1e-7"
    assert difference(labels, log_odds, log_odds_of(probabilities)).auc == pytest.approx(1 / 9)


def test_log_loss_is_the_mean_negative_log_likelihood() -> None:
    assert evaluate(np.array([1.0, 0.0]), np.array([0.8, 0.4]), 0.5).log_loss == pytest.approx(
        -(math.log(0.8) + math.log(0.6)) / 2
    )


def test_certainty_in_the_wrong_direction_is_finite() -> None:
    assert evaluate(np.array([1.0]), np.array([0.0]), 0.5).log_loss == pytest.approx(-math.log(1e-7))


def test_a_constant_prediction_scores_like_the_constant() -> None:
    labels = np.array([1.0, 0, 0, 0])
    scores = evaluate(labels, np.full(4, 0.25), 0.25)
    assert scores.log_loss == scores.constant_log_loss == pytest.approx(0.5623351446)
    assert (scores.samples, scores.positives, scores.auc) == (4, 1, 0.5)


def test_a_weight_counts_a_sample_as_often_as_it_says() -> None:
    labels, predicted = np.array([1.0, 0, 0, 0]), np.array([0.5, 0.1, 0.1, 0.1])
    weighted = evaluate(labels[:2], predicted[:2], 0.25, np.array([1.0, 3.0]))
    assert weighted.log_loss == pytest.approx(evaluate(labels, predicted, 0.25).log_loss)
    assert weighted.constant_log_loss == pytest.approx(0.5623351446)
    assert weighted.calibration == pytest.approx(0.8)
    assert weighted.bins[-1] == Bin(1, 0.5, 1.0)


def test_a_weight_counts_a_pair_as_often_as_it_says() -> None:
    labels, scores = np.array([1.0, 0, 0]), np.array([0.5, 0.9, 0.1])
    assert evaluate(labels, scores, 0.5).auc == 0.5
    assert evaluate(labels, scores, 0.5, np.array([2.0, 1.0, 3.0])).auc == 0.75
    found = evaluate(np.array([1.0, 1, 0]), np.array([0.9, 0.1, 0.5]), 0.5, np.array([3.0, 1.0, 1.0]))
    assert found.auc == 0.75


def test_tenths_go_from_the_least_predicted_to_the_most() -> None:
    predicted = np.arange(20) / 20
    scores = evaluate((predicted > 0.7).astype(float), predicted, 0.25)
    assert [(part.samples, part.observed) for part in scores.bins] == [(2, 0.0)] * 7 + [(2, 0.5), (2, 1.0), (2, 1.0)]
    assert [part.predicted for part in scores.bins[:2]] == pytest.approx([0.025, 0.125])
    assert scores.calibration == pytest.approx(predicted.sum() / 5)


def test_whether_a_model_beats_the_constant_is_said() -> None:
    labels = np.array([1.0, 0, 0, 0])
    assert evaluate(labels, np.array([0.6, 0.2, 0.2, 0.2]), 0.25).beats_constant
    assert not evaluate(labels, np.array([0.2, 0.6, 0.2, 0.2]), 0.25).beats_constant
    assert evaluate(np.zeros(3), np.full(3, 0.1), 0.1).calibration is None
