"""Training batches by step and worker."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ctr_samples.errors import UsageError
from ctr_samples.readers.batches import Reading
from ctr_samples.readers.datasets import dataset_of
from ctr_samples.training.click_model import ClickModel
from ctr_samples.training.fit_options import FitOptions
from ctr_samples.training.preparation import ENOUGH_RECORDS
from ctr_samples.training.training_set import TrainingSet


@dataclass(frozen=True, slots=True)
class TrainBatches:
    """Batches of the train split, prepared for the model: ``(features, labels, weights)``."""

    options: FitOptions
    training_set: TrainingSet
    model: ClickModel

    def steps(self, replicas: int) -> int:
        """Return the total number of training steps. Raise UsageError if a batch exceeds the split.

        Several replicas use only full batches, and the same number of batches in each epoch.
        """
        records, size = self.training_set.records, self.options.batch_size
        of_epoch = math.ceil(records / size) if replicas == 1 else records // size
        if not of_epoch:
            raise UsageError(f"`batch_size` is {size}; expected no more than the {records} samples of the train split.")
        return of_epoch * self.options.passes

    def of(self, done: int, worker: int, workers: int, replicas: int) -> Any:
        """Return an endless dataset for a worker, starting after step ``done``, with one batch per replica and step."""
        alone = replicas == 1
        reading = Reading(
            self.options.batch_size // replicas,
            shuffle=True,
            seed=self.options.seed,
            shard=(worker, workers),
            epochs=None,
            skip=done * (replicas // workers),
            drop_remainder=not alone,
            threads=self.options.threads,
        )
        return dataset_of(self.training_set.samples, reading).map(self._prepared)

    def for_scale(self) -> Any:
        """Return prepared features of the samples used to scale numbers, identical on every worker."""
        size = self.options.batch_size
        reading = Reading(size, shuffle=True, seed=self.options.seed, threads=self.options.threads)
        dataset = dataset_of(self.training_set.samples, reading)
        return dataset.take(max(1, ENOUGH_RECORDS // size)).map(
            lambda features, *_: self.model.preparation.prepare(features)
        )

    def _prepared(self, features: Any, labels: Any, *weight: Any) -> tuple[Any, Any, Any]:
        import tensorflow as tf

        target = tf.cast(self.training_set.target(labels), tf.float32)
        counts = weight[0] if weight and not self.options.calibrate else tf.ones_like(target)
        if self.training_set.masks:
            counts = counts * self.training_set.chosen(labels)
        return self.model.preparation.prepare(features), target, counts
