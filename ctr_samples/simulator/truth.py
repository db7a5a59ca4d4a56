"""Best AUC that a model without leaks can reach on simulated impressions, and the truth table behind it.

Clicks are random, so even the true probabilities rank imperfectly. A model with an AUC above ``best_auc`` has access to
leaked click information. To compute it from the table, filter by ``~repeat`` (a repeated exposure is a resent
impression with ``p_click`` 0, never clicked) and label with ``clicked & (click_delay_s <= label window)``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ctr_samples.errors import UsageError
from ctr_samples.simulator.feed import Impressions
from ctr_samples.simulator.reactions import Clicks
from ctr_samples.simulator.wall_clock import INSTANT, Bools, Floats, Ints, instants
from ctr_samples.simulator.world import FIRST_ARTICLE_ID

TRUTH_SCHEMA = pa.schema(
    [
        ("user_id", pa.int64()),
        ("article_id", pa.int64()),
        ("impression_time", INSTANT),
        ("position", pa.int32()),  # 0.. within the list
        ("repeat", pa.bool_()),
        ("p_click", pa.float64()),  # click within the label window
        ("clicked", pa.bool_()),  # at any time, even after the label window
        ("click_delay_s", pa.int32()),  # null if not clicked
    ]
)


def truth_table(shown: Impressions, p_click: Floats, clicks: Clicks, repeated: Impressions) -> pa.Table:
    """Return the truth rows of a piece, including repeated impressions, sorted by time."""
    first, again = len(shown), len(repeated)
    time = np.concatenate([shown.time, repeated.time])
    clicked = np.concatenate([clicks.clicked, np.zeros(again, np.bool_)])
    delay_s = np.concatenate([clicks.delay_s, np.zeros(again, np.int64)])
    columns = [
        pa.array(np.concatenate([shown.user, repeated.user]) + 1),
        pa.array(np.concatenate([shown.article, repeated.article]) + FIRST_ARTICLE_ID),
        instants(time),
        pa.array(np.concatenate([shown.position, repeated.position]).astype(np.int32)),
        pa.array(np.arange(first + again) >= first),
        pa.array(np.concatenate([p_click, np.zeros(again)])),
        pa.array(clicked),
        pa.array(delay_s.astype(np.int32), mask=~clicked),
    ]
    return pa.table(columns, schema=TRUTH_SCHEMA).take(pa.array(np.argsort(time, kind="stable")))


def best_auc(p: npt.ArrayLike, clicked: npt.ArrayLike) -> float:
    """Compute the exact AUC: the probability that a clicked row outranks an unclicked row, where ties count half.

    With true probabilities as scores, this is the best possible AUC. Both arguments have shape (n,). Raises UsageError
    for unequal lengths, NaN, or labels of a single class.
    """
    scores, labels = np.asarray(p, np.float64), np.asarray(clicked, np.bool_)
    if scores.shape != labels.shape or scores.ndim != 1:
        raise UsageError(f"best_auc got shapes {scores.shape} and {labels.shape}; expected two columns of one length.")
    if np.isnan(scores).any():
        raise UsageError("best_auc got a NaN among the scores; expected numbers.")
    positives = int(labels.sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        raise UsageError(f"best_auc got {positives} clicked of {len(labels)} rows; expected some of both classes.")
    _, place, ties = np.unique(scores, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(ties) - (ties - 1) / 2.0
    rank_sum = float(middle_rank[place][labels].sum())
    return (rank_sum - positives * (positives + 1) / 2.0) / (positives * negatives)


class StreamingAuc:
    """A streaming AUC of probabilities, in constant memory: counts in 65,536 equal bins, accurate to 1e-4."""

    BINS = 1 << 16

    def __init__(self) -> None:
        self._positives: Ints = np.zeros(self.BINS, np.int64)
        self._negatives: Ints = np.zeros(self.BINS, np.int64)

    def add(self, p: Floats, clicked: Bools) -> None:
        """Add a chunk of probabilities in [0, 1] and their labels."""
        bins = np.minimum((p * self.BINS).astype(np.int64), self.BINS - 1)
        self._positives += np.bincount(bins[clicked], minlength=self.BINS)
        self._negatives += np.bincount(bins[~clicked], minlength=self.BINS)

    def value(self) -> float | None:
        """Return the current AUC, or None until both classes occur."""
        pairs = float(self._positives.sum()) * float(self._negatives.sum())
        if pairs == 0.0:
            return None
        below = np.cumsum(self._negatives) - self._negatives
        return float((self._positives * (below + self._negatives / 2.0)).sum() / pairs)
