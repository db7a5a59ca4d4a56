"""Human-readable training report: tables, and warnings about unreliable numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctr_samples.periods import WHOLE
from ctr_samples.training.evaluation import Difference, Evaluation

_FEW_POSITIVES = 100
_Z = 1.96
"""Standard errors in half of a 95 % confidence interval."""
_STILL = 0.998
"""Loss ratio of two epochs below which training has not converged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """Evaluation results by split. ``losses`` are the mean losses of the last epochs, in order.

    ``differences`` compares the model with the one at ``against``, by split.
    """

    title: str
    days: tuple[str, ...]
    label: str
    weights: int
    steps: int
    splits: Mapping[str, Evaluation]
    left_out: tuple[str, ...] = ()
    exported: str | None = None
    losses: tuple[float, ...] = ()
    seconds: float = 0.0
    against: str | None = None
    differences: Mapping[str, Difference] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    """Parts without a sample that counts."""
    other_contract: str | None = None
    """The day after the last one, if it is not scored since its contract differs."""

    def render(self) -> RenderableType:
        """Format the report as tables, notes and warnings."""
        when = f"{self.days[0]} to {self.days[-1]}" if len(self.days) > 1 else self.days[0]
        when = "the whole log" if when == str(WHOLE) else when
        headline = Text.assemble(
            ("Trained ", "bold green"),
            ("a " + self.title, "bold"),
            f" on {when}: {self.weights:,} weights, {self.steps:,} steps, {self.seconds:.0f} s\n",
        )
        parts: list[RenderableType] = ["", headline, self._table("split", self.splits.items())]
        name, scores = list(self.splits.items())[-1]
        if scores.positives >= _FEW_POSITIVES:
            parts.append(_tenths(name, scores))
        return Group(*parts, *(Text(line) for line in self.notes()), *(Text(w, "bold yellow") for w in self.warnings()))

    def notes(self) -> Iterator[str]:
        """Yield remarks about the export, unused features, convergence and rare positives."""
        if self.exported:
            yield f"The model is exported to {self.exported}"
        for name in self.empty:
            yield f"{name} is not scored: none of its samples has all masks and a weight above 0."
        if self.other_contract is not None:
            yield f"{self.other_contract} is not scored: its contract differs from that of {self.days[-1]}."
        for name, found in self.differences.items():
            yield f"On {name}, against {self.against}: {_told(found)}."
        if self.left_out:
            yield f"The model does not use {', '.join(self.left_out)}."
        if len(self.losses) > 1 and self.losses[-1] < _STILL * self.losses[-2]:
            yield (
                f"The loss was still falling in the last epoch, from {self.losses[-2]:.4f} to {self.losses[-1]:.4f}; more "
                "`--epochs` or a greater `--learning-rate` may help."
            )
        fewest = min(scores.positives for scores in self.splits.values())
        if fewest < _FEW_POSITIVES:
            yield (
                f"A split has only {fewest} positive(s) of {self.label}: this run demonstrates the pipeline; the model is not "
                "meaningful."
            )

    def warnings(self) -> Iterator[str]:
        """Yield a sentence for each split on which the model does not beat a constant prediction."""
        for name, scores in self.splits.items():
            if not scores.beats_constant:
                yield (
                    f"WARNING: on {name} the model has a log loss of {scores.log_loss:.4f}, and always predicting the base "
                    f"rate has {scores.constant_log_loss:.4f}: the model has learned nothing that holds there."
                )

    def _table(self, what: str, rows: Iterable[tuple[str, Evaluation]]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in (what, "samples", self.label, "log loss", "constant guess", "AUC", "calibration"):
            table.add_column(heading, justify="left" if heading == what else "right")
        for name, scores in rows:
            losses = f"{scores.log_loss:.4f}", f"{scores.constant_log_loss:.4f}"
            counts = f"{scores.samples:,}", f"{scores.positives:,}"
            table.add_row(Text(name), *counts, *losses, _area(scores), _number(scores.calibration))
        return table


def _tenths(name: str, scores: Evaluation) -> RenderableType:
    """Return a table of predicted and observed rates by decile of predicted probability."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in (f"tenths of {name}", "samples", "predicted", "observed"):
        table.add_column(heading, justify="left" if heading.startswith("tenths") else "right")
    for number, part in enumerate(scores.bins, 1):
        table.add_row(str(number), f"{part.samples:,}", f"{part.predicted:.4f}", f"{part.observed:.4f}")
    return table


def _area(scores: Evaluation) -> str:
    """Return the AUC with half of its 95 % confidence interval."""
    return _number(scores.auc) + ("" if scores.auc_error is None else f" ±{_Z * scores.auc_error:.3f}")


def _told(found: Difference) -> str:
    parts = []
    for name, value, error in (("AUC", found.auc, found.auc_error), ("log loss", found.log_loss, found.log_loss_error)):
        if value is not None and error is not None:
            low, high = value - _Z * error, value + _Z * error
            told = "" if low * high > 0 else ", which may be chance"
            parts.append(f"{name} {value:+.4f} (95 % interval {low:+.4f} to {high:+.4f}{told})")
    return ", ".join(parts) or "too few samples to compare"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
