"""Options of a training, as for `ctr-samples train`, validated."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ctr_samples.errors import UsageError
from ctr_samples.periods import parse_period, periods_between
from ctr_samples.training.models import MODELS


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """What to train, on what, and how. All workers of a training get the same options.

    ``batch_size`` is the total over all workers. ``calibrate`` trains without sample weights and corrects the
    probabilities instead. ``epochs`` and ``learning_rate`` default to those of the model. ``threads`` limits the
    reading threads; None means one per processor.
    """

    samples: str
    days: tuple[str, ...]
    model: str = "logistic"
    label: str | None = None
    epochs: int | None = None
    batch_size: int = 256
    seed: int = 7
    learning_rate: float | None = None
    calibrate: bool = False
    checkpoints: str | None = None
    checkpoint_every: int = 1000
    export: str | None = None
    eval_date: str | None = None
    by: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise UsageError(f"There is no model {self.model!r}; expected one of {', '.join(MODELS)}.")
        for name in ("epochs", "batch_size", "checkpoint_every", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"`{name}` is {value}; expected 1 or more.")
        for name in ("checkpoints", "export"):
            value = getattr(self, name)
            if value is not None and "://" in value:
                raise UsageError(
                    f"`{name}` is {value}; expected a directory in a file system; copy the files from there."
                )
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise UsageError(f"`learning_rate` is {self.learning_rate}; expected a number above 0.")

    @property
    def passes(self) -> int:
        """Number of passes over the train split."""
        return self.epochs or MODELS[self.model].epochs


def days_between(first: str, last: str) -> tuple[str, ...]:
    """All days, or all hours, from first to last; in UTC, since the samples determine which hours exist."""
    return tuple(map(str, periods_between(parse_period(first), parse_period(last), "UTC")))
