"""Prediction metrics: AUC, log loss and calibration, compared with a constant prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]

BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """A decile of the samples by predicted probability: mean prediction and share of positives."""

    samples: int
    predicted: float
    observed: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of a model on samples. ``auc`` is None unless both classes occur.

    ``calibration`` is the sum of predicted probabilities over the number of positives, or None if there are no
    positives.
    """

    samples: int
    positives: int
    log_loss: float
    constant_log_loss: float
    auc: float | None
    calibration: float | None = None
    bins: tuple[Bin, ...] = ()

    @property
    def beats_constant(self) -> bool:
        """Whether the model has a lower log loss than always predicting the base rate."""
        return self.log_loss < self.constant_log_loss


def evaluate(labels: Floats, predicted: Floats, base_rate: float, weights: Floats | None = None) -> Evaluation:
    """Score ``predicted`` probabilities, shape ``[n]``, against 0/1 ``labels`` and the constant ``base_rate``.

    ``weights`` are the numbers of impressions that the samples represent. They affect all scores, but no counts.
    """
    labels, predicted = np.asarray(labels, np.float64), np.asarray(predicted, np.float64)
    constant = np.full(len(labels), base_rate)
    counts = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    positives = float((labels * counts).sum())
    return Evaluation(
        samples=len(labels),
        positives=int(labels.sum()),
        log_loss=log_loss(labels, predicted, weights),
        constant_log_loss=log_loss(labels, constant, weights),
        auc=auc(labels, predicted, weights),
        calibration=float((predicted * counts).sum()) / positives if positives else None,
        bins=tuple(bins_of(labels, predicted, counts)),
    )


def evaluate_slices(
    by: npt.ArrayLike, labels: Floats, predicted: Floats, base_rate: float, weights: Floats | None = None
) -> dict[Any, Evaluation]:
    """Run :func:`evaluate` on the samples of each value of ``by``, most frequent value first."""
    kinds, group, counts = np.unique(np.asarray(by), return_inverse=True, return_counts=True)
    values, slices = kinds.tolist(), {}
    for number in np.argsort(-counts, kind="stable"):
        rows = group == number
        part = None if weights is None else weights[rows]
        slices[values[number]] = evaluate(labels[rows], predicted[rows], base_rate, part)
    return slices


def log_loss(labels: Floats, predicted: Floats, weights: Floats | None = None) -> float:
    """Return the mean negative log likelihood, in nats. Probabilities are clipped to [1e-7, 1 - 1e-7]."""
    p = np.clip(np.asarray(predicted, np.float64), 1e-7, 1 - 1e-7)
    return float(-np.average(labels * np.log(p) + (1 - labels) * np.log(1 - p), weights=weights))


def auc(labels: Floats, scores: Floats, weights: Floats | None = None) -> float | None:
    """Return the area under the ROC curve: how likely a positive scores above a negative, where ties count half.

    This is the Mann-Whitney U statistic, scaled to [0, 1].

    With weights, each pair is weighted by the product of its sample weights. Returns None unless both classes occur.
    """
    counts = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    _, group = np.unique(scores, return_inverse=True)
    positives = np.bincount(group, weights=counts * labels)
    negatives = np.bincount(group, weights=counts * (1 - labels))
    all_pairs = float(positives.sum() * negatives.sum())
    if all_pairs == 0:
        return None
    below = np.cumsum(negatives) - negatives
    return float((positives * (below + negatives / 2)).sum() / all_pairs)


def bins_of(labels: Floats, predicted: Floats, counts: Floats) -> list[Bin]:
    """Split samples into ten equal bins by ascending prediction, or fewer bins if there are fewer samples."""
    order = np.argsort(predicted, kind="stable")
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    return [
        Bin(
            len(part),
            float(np.average(predicted[part], weights=counts[part])),
            float(np.average(labels[part], weights=counts[part])),
        )
        for part in parts
    ]
