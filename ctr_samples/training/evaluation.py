"""Prediction metrics: AUC, log loss and calibration, compared with a constant prediction or with another model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
class Difference:
    """How much higher the AUC and the log loss of one model are than those of another on the same samples, with
    standard errors. ``auc`` and ``auc_error`` are None unless both classes occur.
    """

    auc: float | None
    auc_error: float | None
    log_loss: float
    log_loss_error: float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of a model on samples. ``auc`` is the area under the ROC curve: how likely a positive scores above a negative,
    where ties count half and weights multiply. It is None unless both classes occur. ``auc_error`` is its standard error.

    ``calibration`` is the sum of predicted probabilities over the number of positives, or None if there are no
    positives.
    """

    samples: int
    positives: int
    log_loss: float
    constant_log_loss: float
    auc: float | None
    auc_error: float | None = None
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
    return scores_of(labels, log_odds_of(predicted), base_rate, weights)


def scores_of(labels: Floats, log_odds: Floats, base_rate: float, weights: Floats | None = None) -> Evaluation:
    """Like :func:`evaluate`, but takes log-odds, which do not saturate: a float32 of 1 - 1e-9 ties with 1."""
    labels, log_odds = np.asarray(labels, np.float64), np.asarray(log_odds, np.float64)
    predicted = _probabilities(log_odds)
    counts = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    positives = float((labels * counts).sum())
    area, error = _mean_over_classes(labels, placements(labels, log_odds, counts), counts)
    losses, constant = _losses(labels, log_odds), _losses(labels, log_odds_of(np.full(len(labels), base_rate)))
    return Evaluation(
        samples=len(labels),
        positives=int(labels.sum()),
        log_loss=float(np.average(losses, weights=counts)),
        constant_log_loss=float(np.average(constant, weights=counts)),
        auc=area,
        auc_error=error,
        calibration=float((predicted * counts).sum()) / positives if positives else None,
        bins=tuple(bins_of(labels, predicted, counts, np.argsort(log_odds, kind="stable"))),
    )


def difference(labels: Floats, one: Floats, other: Floats, weights: Floats | None = None) -> Difference:
    """Compare the log-odds of two models for the same samples, shape ``[n]`` each.

    The errors hold for independent samples; samples of one user or request are not quite.
    """
    labels = np.asarray(labels, np.float64)
    counts = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    placed = placements(labels, one, counts) - placements(labels, other, counts)
    losses = _losses(labels, one) - _losses(labels, other)
    return Difference(*_mean_over_classes(labels, placed, counts), *_mean(losses, counts))


def counting(batches: Iterable[Sequence[Floats]]) -> list[Floats]:
    """Put batches of columns one after the other, without the samples whose last column, the weight, is 0."""
    parts = [[column[batch[-1] > 0] for column in batch] for batch in batches]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def log_odds_of(predicted: Floats) -> Floats:
    """Return the log-odds of probabilities, infinite for 0 and 1."""
    p = np.asarray(predicted, np.float64)
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def _probabilities(log_odds: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -log_odds))


def _losses(labels: Floats, log_odds: Floats) -> Floats:
    """Return the negative log likelihoods, with probabilities clipped to [1e-7, 1 - 1e-7]."""
    most = np.log(1 - 1e-7) - np.log(1e-7)
    clipped = np.clip(np.asarray(log_odds, np.float64), -most, most)
    return np.logaddexp(0.0, clipped) - labels * clipped


def placements(labels: Floats, scores: Floats, counts: Floats) -> Floats:
    """Return for each positive the share of the negatives that score below it, and for each negative the share of the
    positives that score above it. Ties count half. The mean over either class is the AUC.
    """
    _, group = np.unique(scores, return_inverse=True)
    positives = np.bincount(group, weights=counts * labels)
    negatives = np.bincount(group, weights=counts * (1 - labels))
    below = np.cumsum(negatives) - negatives / 2
    above = positives.sum() - np.cumsum(positives) + positives / 2
    of_positives, of_negatives = below / max(negatives.sum(), 1e-300), above / max(positives.sum(), 1e-300)
    placed: Floats = np.where(np.asarray(labels) == 1, of_positives[group], of_negatives[group])
    return placed


def _mean_over_classes(labels: Floats, placed: Floats, counts: Floats) -> tuple[float | None, float | None]:
    """Return an AUC, or a difference of AUCs, with its standard error, from :func:`placements` or their difference.

    DeLong, DeLong and Clarke-Pearson 1988, *Comparing the areas under two or more correlated receiver operating
    characteristic curves*; with weights, the variance of a weighted mean. The error is None with one sample of a class.
    """
    if not 0 < labels.sum() < len(labels):
        return None, None
    positive = labels == 1
    area, error = _mean(placed[positive], counts[positive])
    _, other = _mean(placed[~positive], counts[~positive])
    return area, None if error is None or other is None else float(np.hypot(error, other))


def _mean(values: Floats, counts: Floats) -> tuple[float, float | None]:
    """Return a weighted mean and its standard error, which is None for a single value."""
    rows, mean = len(values), float(np.average(values, weights=counts))
    if rows < 2:
        return mean, None
    return mean, float(np.sqrt((counts**2 * (values - mean) ** 2).sum() * rows / (rows - 1)) / counts.sum())


def bins_of(labels: Floats, predicted: Floats, counts: Floats, order: npt.NDArray[np.intp]) -> list[Bin]:
    """Split samples into ten equal bins by ascending prediction, or fewer bins if there are fewer samples."""
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    return [
        Bin(
            len(part),
            float(np.average(predicted[part], weights=counts[part])),
            float(np.average(labels[part], weights=counts[part])),
        )
        for part in parts
    ]
