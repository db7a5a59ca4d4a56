"""Fits a model on one published day and scores it on the eval split."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError
from ctr_samples.shards import Manifest, open_storage, require_manifest
from ctr_samples.shards.naming import parse_day
from ctr_samples.training.evaluation import Evaluation, evaluate
from ctr_samples.training.models.logistic import fit_scale, logistic_regression
from ctr_samples.training.reader import dataset_of

_FEW_CLICKS = 100


@dataclass(frozen=True, slots=True)
class FitReport:
    """What a fit came to, by split."""

    day: str
    label: str
    weights: int
    seconds: float
    splits: dict[str, Evaluation]

    def render(self) -> RenderableType:
        """A table, and a warning where the numbers say little."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("split", "samples", self.label, "log loss", "constant guess", "AUC"):
            table.add_column(heading, justify="left" if heading == "split" else "right")
        for name, scores in self.splits.items():
            auc = "undefined" if scores.auc is None else f"{scores.auc:.3f}"
            losses = f"{scores.log_loss:.4f}", f"{scores.constant_log_loss:.4f}"
            table.add_row(name, f"{scores.samples:,}", f"{scores.clicks:,}", *losses, auc)
        headline = Text.assemble(
            ("Trained ", "bold green"),
            ("a logistic regression", "bold"),
            f" on {self.day}, read by tf.data: {self.weights:,} weights, {self.seconds:.0f} s\n",
        )
        fewest = min(scores.clicks for scores in self.splits.values())
        few = f"Only {fewest} × {self.label} in a split: this shows the way through, not a good model."
        return Group("", headline, table, Text(few if fewest < _FEW_CLICKS else ""))


def fit_day(path: str, date: str, *, label: str | None = None, epochs: int = 20, batch_size: int = 256) -> FitReport:
    """Fit a logistic regression on the train split of a day and score train and eval, if there is one.

    Where negatives were left out, samples count by their weights, so that probabilities are those of all impressions.
    """
    import keras

    started = time.monotonic()
    storage = open_storage(path)
    manifest = require_manifest(storage, parse_day(date))
    contract = ExampleContract.from_dict(dict(manifest.contract))
    target = _label(contract, label)
    rate = _base_rate(manifest, target)

    keras.utils.set_random_seed(7)
    model = logistic_regression(contract, rate)
    kept = {tensor.name for tensor in model.inputs}
    datasets = {
        split: dataset_of(storage, manifest, split, batch_size).map(_one_label(target, kept))
        for split in manifest.splits
    }
    train = datasets["train"].cache()
    fit_scale(model, train.map(lambda features, *_: features))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy")
    samples = sum(shard.records for shard in manifest.of_split("train"))
    steps = math.ceil(samples / batch_size)
    model.fit(train.repeat(), epochs=epochs, steps_per_epoch=steps, shuffle=False, verbose=0)
    splits = {split: _score(model, dataset, rate) for split, dataset in datasets.items()}
    return FitReport(date, target, model.count_params(), time.monotonic() - started, splits)


def _label(contract: ExampleContract, label: str | None) -> str:
    names = [name for name in contract.names("label") if contract[name].dtype == "int64"]
    if label is None and names:
        return names[0]
    if label not in names:
        raise InputError(f"There is no 0/1 label {label!r}; the samples have {', '.join(names) or 'none'}.")
    return label


def _base_rate(manifest: Manifest, label: str) -> float:
    """The share of positives among the impressions of train; negatives that were left out count again."""
    samples = sum(shard.records for shard in manifest.of_split("train"))
    positives = manifest.label_sum(label, "train")
    if not 0 < positives < samples:
        raise InputError(
            f"The train split of {manifest.run_date} has {positives:.0f} positives of {label!r} in {samples} samples; "
            "training needs both kinds. Take another day."
        )
    kept = float(manifest.sampling.get("rate", 1))
    return positives / (positives + (samples - positives) / kept)


def _one_label(label: str, kept: set[str]) -> Any:
    def pick(features: dict[str, Any], labels: Any, *weight: Any) -> tuple[Any, ...]:
        target = labels[label] if isinstance(labels, dict) else labels
        return {n: c for n, c in features.items() if n in kept}, target, *weight

    return pick


def _score(model: Any, dataset: Any, base_rate: float) -> Evaluation:
    batches = [
        (labels, model.predict_on_batch(features)[:, 0], *weight)
        for features, labels, *weight in dataset.as_numpy_iterator()
    ]
    labels, predicted, *weights = (np.concatenate(column) for column in zip(*batches, strict=True))
    return evaluate(labels.astype(np.float64), predicted, base_rate, *weights)
