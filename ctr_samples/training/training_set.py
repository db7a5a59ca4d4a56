"""Training data: days with one contract, a label, and its positive rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError, UsageError
from ctr_samples.readers.sample_set import SampleSet, open_samples
from ctr_samples.shards import Manifest, Storage


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """The train split of several days, as listed in their newest manifests."""

    path: str
    samples: SampleSet
    label: str

    @property
    def storage(self) -> Storage:
        """Storage that holds the samples."""
        return self.samples.storage

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """One manifest per day, in the order of the days."""
        return self.samples.manifests

    @property
    def contract(self) -> ExampleContract:
        """Contract shared by all days."""
        return self.samples.contract

    @property
    def records(self) -> int:
        """Number of train samples."""
        return self.samples.records

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
        negatives = 0.0
        for manifest in self.manifests:
            samples = sum(shard.records for shard in manifest.of_split("train"))
            negatives += (samples - manifest.label_sum(self.label, "train")) / _rate(manifest)
        return self.positives / (self.positives + negatives)

    def kept(self) -> float:
        """The share of negatives kept by sampling. Raises UsageError if a single factor cannot correct for the
        sampling.
        """
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

    def target(self, labels: Any) -> Any:
        """Select the label from the labels returned by :func:`load_dataset`."""
        return labels[self.label] if isinstance(labels, dict) else labels


def open_training_set(path: str, days: Sequence[str], label: str | None) -> TrainingSet:
    """Open the samples of the days. Raises the errors of :func:`open_samples` if they do not exist.

    Also raises InputError if the label is missing, never positive or always positive.
    """
    samples = open_samples(path, dates=days, split="train")
    training_set = TrainingSet(path, samples, _label(samples.contract, label))
    if not 0 < training_set.positives < training_set.records:
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        raise InputError(
            f"The train split of {when} has {training_set.positives:.0f} positives of {training_set.label!r} in "
            f"{training_set.records} samples; training needs positives and negatives. Choose other or more days."
        )
    return training_set


def _label(contract: ExampleContract, label: str | None) -> str:
    names = [name for name in contract.names("label") if contract[name].dtype == "int64"]
    if label is None and names:
        return names[0]
    if label not in names:
        raise InputError(f"There is no 0/1 label {label!r}; the samples have {', '.join(names) or 'none'}.")
    return label


def _rate(manifest: Manifest) -> float:
    return float(manifest.sampling.get("rate", 1))
