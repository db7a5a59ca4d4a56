"""Validated options of `ctr-samples train`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from ctr_samples.arguments import check_text, check_whole, names_in, path_text
from ctr_samples.errors import UsageError
from ctr_samples.periods import Hour, Period, days_of, period_of, periods_between, zone_of
from ctr_samples.shards import open_storage, require_manifest
from ctr_samples.training.models import MODELS

BY_IS_GONE = (
    "--by is gone since 0.2: train with --export, and group the scores of the exported model by the feature "
    '(docs/training.md, "Scores by group").'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """Training options. All workers of a training run need the same options.

    ``masks`` are masks or 0/1 labels: only samples count of which all are 1.
    ``batch_size`` is the total over all workers. ``calibrate`` trains without sample weights and corrects the
    probabilities instead. ``epochs`` and ``learning_rate`` default to the values of the model. ``threads`` limits the
    number of reader threads; None means one per processor. ``against`` is a version of an exported model to compare
    with. ``by`` is refused since 0.2. Paths may be ``pathlib.Path`` and days ``datetime.date``; both are stored as
    text. Raises UsageError for invalid values.
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
    masks: tuple[str, ...] = ()
    checkpoints: str | None = None
    checkpoint_every: int = 1000
    export: str | None = None
    eval_date: str | None = None
    against: str | None = None
    by: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or self.model not in MODELS:
            raise UsageError(f"There is no model {self.model!r}; expected one of {', '.join(MODELS)}.")
        least = {"batch_size": 1, "checkpoint_every": 1, "seed": 0, "epochs": 1, "threads": 1}
        for name, smallest in least.items():
            check_whole(name, getattr(self, name), smallest, optional=name in ("epochs", "threads"))
        check_text("label", self.label, "the name of a label", optional=True)
        if self.by is not None:
            raise UsageError(BY_IS_GONE)
        if self.calibrate and self.masks:
            raise UsageError("`calibrate` corrects for all samples, but `masks` leave out some; omit one of them.")
        self._keep("masks", tuple(names_in("masks", self.masks)))
        self._keep("samples", path_text("samples", self.samples))
        self._keep("days", tuple(map(str, days_of(self.days, "days"))))
        if self.eval_date is not None:
            self._keep("eval_date", str(period_of(self.eval_date)))
        for name in ("checkpoints", "export", "against"):
            if getattr(self, name) is None:
                continue
            directory = path_text(name, getattr(self, name))
            if "://" in directory:
                raise UsageError(
                    f"`{name}` is {directory}; expected a directory in a file system; copy the files from there."
                )
            self._keep(name, directory)
        rate = self.learning_rate
        if rate is not None and not (isinstance(rate, Real) and 0 < rate < math.inf):
            raise UsageError(f"`learning_rate` is {rate!r}; expected a number above 0.")

    def _keep(self, name: str, value: object) -> None:
        """Replace an argument with its normalized form."""
        object.__setattr__(self, name, value)

    @property
    def passes(self) -> int:
        """Number of passes over the train split."""
        return self.epochs or MODELS[self.model].epochs


def days_between(samples: str, first: Period | str, last: Period | str) -> tuple[str, ...]:
    """List all days, or all hours, from first to last. The hours are those of the samples' time zone. Raises InputError if
    the first hour is not published.
    """
    begin, end = period_of(first), period_of(last)
    zone = zone_of(require_manifest(open_storage(samples), begin).config) if isinstance(begin, Hour) else "UTC"
    return tuple(map(str, periods_between(begin, end, zone)))
