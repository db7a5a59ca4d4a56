"""Evaluate a model on published splits, alone or against another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ctr_samples.errors import ContractError, InputError, UsageError
from ctr_samples.periods import next_of, overlap, parse_period, zone_of
from ctr_samples.readers.sample_set import SampleSet, samples_of
from ctr_samples.readers.stream import Reading
from ctr_samples.readers.tensors import dataset_of
from ctr_samples.shards import Manifest, Storage, latest_manifest, periods_of, require_manifest
from ctr_samples.training.click_model import ClickModel
from ctr_samples.training.evaluation import Difference, Evaluation, Floats, counting, difference, scores_of
from ctr_samples.training.exporting import Exported
from ctr_samples.training.training_set import TrainingSet

_BATCH = 4096


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Samples to evaluate together: splits of one or more days, as opened before the training."""

    title: str
    splits: tuple[SampleSet, ...]

    @classmethod
    def of(cls, title: str, storage: Storage, manifests: Sequence[Manifest], splits: Sequence[str]) -> Self:
        """Open the splits. Raises DamagedFile if a shard is missing or has the wrong size."""
        having = [(split, [m for m in manifests if split in m.splits]) for split in splits]
        samples = tuple(samples_of(storage, some, split) for split, some in having)
        for one in samples:
            one.check()
        return cls(title, samples)


def parts_to_score(training_set: TrainingSet, eval_date: str | None) -> tuple[list[EvaluationSet], str | None]:
    """Return the parts to evaluate: each split of the training days, and ``eval_date`` or the next published day. If the
    next day has another contract, return its name instead.

    Raises UsageError if ``eval_date`` overlaps a training day, and ContractError if its contract differs.
    """
    storage, trained_on = training_set.storage, training_set.manifests
    parts = [EvaluationSet.of(split, storage, trained_on, [split]) for split in _splits(trained_on)]
    last = max(trained_on, key=lambda manifest: manifest.run_date)
    after = next_of(last.day, zone_of(last.config)) if eval_date is None else parse_period(eval_date)
    days = [manifest.run_date for manifest in trained_on]
    if after is not None and (trained := next((day for day in days if overlap(after, parse_period(day))), None)):
        also = "is also a training day" if trained == str(after) else f"overlaps the training day {trained}"
        raise UsageError(f"The evaluation day {after} {also}; choose another one.")
    if after is None or (eval_date is None and latest_manifest(storage, after) is None):
        return parts, None
    manifests = [require_manifest(storage, period) for period in periods_of(storage, after)]
    if any(m.contract.get("fingerprint") != last.contract.get("fingerprint") for m in manifests):
        if eval_date is None:
            return parts, str(after)
        raise ContractError(
            f"The contract of {after} differs from that of {days[0]}, so a model of one cannot be evaluated on the other; "
            "generate both with one configuration and one lineage of fitted state, or choose another day to evaluate on."
        )
    return [*parts, EvaluationSet.of(str(after), storage, manifests, _splits(manifests))], None


def _splits(manifests: Iterable[Manifest]) -> list[str]:
    """Return all splits, train first."""
    return sorted({split for manifest in manifests for split in manifest.splits}, key=lambda s: (s != "train", s))


def score(
    model: ClickModel,
    training_set: TrainingSet,
    part: EvaluationSet,
    *,
    against: Exported | None = None,
    threads: int | None = None,
) -> tuple[Evaluation, Difference | None] | None:
    """Evaluate the model on every sample of a part that counts, using the sample weights if present, and compare it with
    another one. None if none counts.
    """
    models: list[ClickModel | Exported] = [model, *([against] if against else [])]

    def batches() -> Iterator[list[Floats]]:
        for samples in part.splits:
            for features, labels, *weight in dataset_of(samples, Reading(_BATCH, threads=threads)):
                target = training_set.target(labels).numpy()
                counts = weight[0].numpy() if weight else np.ones(len(target))
                counts = counts * training_set.chosen(labels).numpy() if training_set.masks else counts
                yield [target, *(one.predict_log_odds(features).numpy() for one in models), counts]

    columns = counting(batches())
    if not columns:
        raise InputError(f"{part.title} has no samples to evaluate on.")
    labels, predicted, *others, counts = columns
    if not len(labels):
        return None
    whole = scores_of(labels, predicted, training_set.base_rate, counts)
    return whole, (difference(labels, predicted, others[0], counts) if others else None)
