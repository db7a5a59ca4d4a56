"""Training data: days with one contract, a label, and its positive rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf

from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError, UsageError
from ctr_samples.readers.sample_set import SampleSet, open_samples
from ctr_samples.readers.stream import Reading, columns_of
from ctr_samples.shards import Manifest

_BATCH = 65536


@dataclass(frozen=True, slots=True)
class TrainingSet(SampleSet):
    """The train split of several days, as listed in their newest manifests. Only samples count of which all ``masks``,
    which may be masks or 0/1 labels, are 1.
    """

    label: str
    masks: tuple[str, ...] = ()
    rate: float | None = None
    """Share of positives among the samples that count, if there are masks."""

    @property
    def positives(self) -> float:
        """Sum of the label over the train samples."""
        return sum(manifest.label_sum(self.label, "train") for manifest in self.manifests)

    @property
    def share_in_samples(self) -> float:
        """Share of positives among the train samples."""
        return self.positives / self.records

    @property
    def base_rate(self) -> float:
        """Share of positives among the train impressions, including negatives dropped by sampling."""
        if self.rate is not None:
            return self.rate
        positives = negatives = 0.0
        for manifest in self.manifests:
            if weights := manifest.sampling.get("weights"):
                positives += weights["positives"][self.label]
                negatives += weights["samples"] - weights["positives"][self.label]
                continue
            positives += manifest.label_sum(self.label, "train")
            samples = sum(shard.records for shard in manifest.of_split("train"))
            negatives += (samples - manifest.label_sum(self.label, "train")) / _rate(manifest)
        return positives / (positives + negatives)

    def kept(self) -> float:
        """The share of negatives kept by sampling. Raises UsageError if a single factor cannot correct for the
        sampling.
        """
        if any("rules" in manifest.sampling for manifest in self.manifests):
            raise UsageError(
                "`calibrate` corrects for one rate, but rules chose the samples; omit it to train with weights."
            )
        rates = sorted({_rate(manifest) for manifest in self.manifests})
        labels = self.contract.names("label")
        if len(rates) > 1:
            raise UsageError(
                f"`calibrate` corrects for one sampling rate, but the days have {', '.join(map(str, rates))}; omit it to "
                "train with the weights of the samples."
            )
        if len(labels) > 1 and rates != [1.0]:
            raise UsageError(
                f"`calibrate` corrects for one label, but the samples were chosen by {', '.join(labels)} together; omit it "
                "to train with the weights of the samples."
            )
        return rates[0]

    def with_rate(self) -> TrainingSet:
        """Read all labels to find the share of positives. Raises InputError if a class is missing."""
        positives = chosen = 0.0
        factors = [*self.contract.names("weight"), *dict.fromkeys(self.masks)]
        for batch in columns_of(self, Reading(_BATCH), [self.label, *factors]):
            columns: Any = batch.by_name()
            counts = prod([columns[name] for name in factors], start=np.ones(len(batch)))
            positives += float((counts * columns[self.label]).sum())
            chosen += float(counts.sum())
        if not 0 < positives < chosen:
            which = f" with {' and '.join(self.masks)}" if self.masks else ""
            raise InputError(
                f"Of the train samples{which}, {positives:.0f} of {chosen:.0f} have {self.label!r}; "
                "training needs positives and negatives. Choose other masks or days."
            )
        return replace(self, rate=positives / chosen)

    def chosen(self, labels: Any) -> Any:
        """Return 1.0 for the samples that count and 0.0 for others, from the labels of :func:`load_dataset`."""
        return tf.cast(prod([labels[name] for name in self.masks]), tf.float32)

    def target(self, labels: Any) -> Any:
        """Select the label from the labels returned by :func:`load_dataset`."""
        return labels[self.label] if isinstance(labels, dict) else labels


def open_training_set(path: str, days: Sequence[str], label: str | None, masks: Sequence[str] = ()) -> TrainingSet:
    """Open the samples of the days. Raises the errors of :func:`open_samples` if they do not exist.

    Also raises InputError if the label is missing, never positive or always positive.
    """
    samples = open_samples(path, dates=days, split="train")
    which = samples.storage, samples.manifests, samples.split, samples.contract
    training_set = TrainingSet(*which, _label(samples.contract, label), tuple(masks))
    _check_masks(training_set)
    if not 0 < training_set.positives < training_set.records:
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        raise InputError(
            f"The train split of {when} has {training_set.positives:.0f} positives of {training_set.label!r} in "
            f"{training_set.records} samples; training needs positives and negatives. Choose other or more days."
        )
    unknown = any("rules" in m.sampling and "weights" not in m.sampling for m in samples.manifests)
    return training_set.with_rate() if training_set.masks or unknown else training_set


def _check_masks(training_set: TrainingSet) -> None:
    """Raise InputError unless each mask is a mask, or a 0/1 label other than the one that is predicted."""
    contract, label = training_set.contract, training_set.label
    flags = [f.name for f in contract.features if f.role in ("mask", "label") and f.dtype == "int64"]
    there = [name for name in flags if name != label]
    for name in training_set.masks:
        if name not in there:
            raise InputError(f"There is no mask {name!r} for {label!r}; the samples have {', '.join(there) or 'none'}.")


def _label(contract: ExampleContract, label: str | None) -> str:
    names = [name for name in contract.names("label") if contract[name].dtype == "int64"]
    if label is None and names:
        return names[0]
    if label not in names:
        raise InputError(f"There is no 0/1 label {label!r}; the samples have {', '.join(names) or 'none'}.")
    return label


def _rate(manifest: Manifest) -> float:
    return float(manifest.sampling.get("rate", 1))
