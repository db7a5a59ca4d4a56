"""How far an AUC may be from the true one by chance."""

from __future__ import annotations

import math


def standard_error(auc: float, clicks: int, others: int) -> float:
    """Of an AUC, by Hanley and McNeil (1982), *The meaning and use of the area under a ROC curve*, formula 1."""
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    return math.sqrt(
        (auc * (1 - auc) + (clicks - 1) * (q1 - auc**2) + (others - 1) * (q2 - auc**2)) / (clicks * others)
    )
