"""How good are predictions: ranking (AUC) and probability (log loss), beside what a constant would score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of one model on one split. ``auc`` is None unless both classes are there."""

    samples: int
    clicks: int
    log_loss: float
    constant_log_loss: float
    auc: float | None


def evaluate(labels: Floats, predicted: Floats, base_rate: float, weights: Floats | None = None) -> Evaluation:
    """Score ``predicted`` probabilities, shape ``[n]``, against 0/1 ``labels``, beside always predicting ``base_rate``.

    ``weights`` say for how many impressions each sample stands. They change the losses; the AUC compares a click with a
    non-click, and leaving out non-clicks by chance does not change how often it wins.
    """
    constant = np.full(len(labels), base_rate)
    return Evaluation(
        samples=len(labels),
        clicks=int(labels.sum()),
        log_loss=log_loss(labels, predicted, weights),
        constant_log_loss=log_loss(labels, constant, weights),
        auc=auc(labels, predicted),
    )


def log_loss(labels: Floats, predicted: Floats, weights: Floats | None = None) -> float:
    """Mean negative log likelihood, in nats; probabilities are kept 1e-7 away from 0 and 1."""
    p = np.clip(np.asarray(predicted, np.float64), 1e-7, 1 - 1e-7)
    return float(-np.average(labels * np.log(p) + (1 - labels) * np.log(1 - p), weights=weights))


def auc(labels: Floats, scores: Floats) -> float | None:
    """Area under the ROC curve: the chance that a click scores above a non-click, ties counting half (Mann-Whitney U)."""
    clicks = int(labels.sum())
    others = len(labels) - clicks
    if clicks == 0 or others == 0:
        return None
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(sizes) - (sizes - 1) / 2
    rank_sum = mean_rank[group][labels > 0].sum()
    return float((rank_sum - clicks * (clicks + 1) / 2) / (clicks * others))
