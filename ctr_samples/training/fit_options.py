"""The options of a training, as of `ctr-samples train`, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ctr_samples.errors import UsageError
from ctr_samples.periods import parse_period, periods_between
from ctr_samples.training.models import MODELS


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """What to train, on what, and how. All workers of a training get the same options.

    ``batch_size`` is that of all workers together. ``calibrate`` trains without the weights of samples and corrects the
    probabilities instead. ``epochs`` and ``learning_rate`` are those of the model where they are None. ``threads`` bounds those
    that read; None is one for each processor.
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
        """How often the train split is read."""
        return self.epochs or MODELS[self.model].epochs


def days_between(first: str, last: str) -> tuple[str, ...]:
    """All days from the first to the last, or all hours; in UTC, since the samples say what hours there are."""
    return tuple(map(str, periods_between(parse_period(first), parse_period(last), "UTC")))
