"""Prepare features for a model: preprocessing steps of the contract, padding, scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ctr_samples.arguments import check_kind
from ctr_samples.contract import ExampleContract, ModelSteps
from ctr_samples.errors import DamagedFile, InputError
from ctr_samples.shards import Manifest, Storage
from ctr_samples.shards.naming import VOCABULARIES, run_directory
from ctr_samples.training.models import NUMBERS, fields_of, used_by

Tensors = dict[str, Any]


class FeatureSteps:
    """Applies the steps of all features with ``computed: model``. Other features stay unchanged.

    ``tokens`` holds the lines of ``vocabularies/<name>.txt`` for each vocabulary that a model uses. Dense features keep
    their shape and become float32, or int64 ids if they have boundaries. A RaggedTensor of tokens becomes a
    RaggedTensor of int64 ids. The result equals the job's output with ``computed: sample``, except for float32 rounding
    and for missing numbers without boundaries: records hold their default, which is transformed like any number. Raises
    InputError for missing tokens. ``tables`` are the lookup tables of vocabularies, to which a SavedModel needs references.
    """

    def __init__(self, contract: ExampleContract, tokens: Mapping[str, Sequence[str]]) -> None:
        check_kind("contract", contract, ExampleContract, "of the samples")
        self._steps = {spec.name: spec.model for spec in contract.features if spec.model is not None}
        self.tables: dict[str, Any] = {}
        for name, steps in self._steps.items():
            if steps.vocabulary is not None and steps.vocabulary not in tokens:
                raise InputError(
                    f"Feature {name!r} needs the tokens of the vocabulary {steps.vocabulary!r}; give the lines of "
                    f"vocabularies/{steps.vocabulary}.txt, which stands beside the contract."
                )
            if steps.vocabulary is not None and steps.vocabulary not in self.tables:
                self.tables[steps.vocabulary] = _table(tokens[steps.vocabulary])

    def __call__(self, features: Tensors) -> Tensors:
        """Return the features after their steps."""
        return {name: self._stepped(name, value) if name in self._steps else value for name, value in features.items()}

    def _stepped(self, name: str, value: Any) -> Any:
        steps = self._steps[name]
        change = partial(_number, steps=steps) if steps.vocabulary is None else self.tables[steps.vocabulary].lookup
        return tf.ragged.map_flat_values(change, value) if isinstance(value, tf.RaggedTensor) else change(value)


def _number(value: Any, steps: ModelSteps) -> Any:
    # Compute in double precision and round once at the end, like the job.
    value = tf.cast(value, tf.float64)
    if steps.clip is not None:
        low, high = steps.clip
        value = tf.where(tf.math.is_nan(value), value, tf.clip_by_value(value, low, high))
    if steps.log1p:
        value = tf.math.log1p(value)
    if steps.scale:
        value = (value - tf.constant(steps.shift, tf.float64)) / tf.constant(steps.scale, tf.float64)
    if not steps.boundaries:
        return tf.cast(value, tf.float32)
    # Records hold float32, so round the boundaries too: a number may equal a boundary.
    boundaries = tf.constant(steps.boundaries, tf.float32)
    above = tf.reduce_sum(tf.cast(tf.cast(value, tf.float32)[..., None] >= boundaries, tf.int64), -1)
    return tf.where(tf.math.is_nan(value), tf.zeros_like(above), above + 1)


def _table(tokens: Sequence[str]) -> Any:
    keys = tf.constant(["", *tokens])  # empty text is a missing value, with id 1
    ids = tf.constant([1, *range(3, 3 + len(tokens))], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, ids), default_value=2)


ENOUGH_RECORDS = 262_144
"""Number of samples used to scale numbers. Samples are shuffled, so these represent all samples."""


class Preparation:
    """Feature preprocessing shared by training, evaluation and serving.

    :meth:`prepare` may run in tf.data. :meth:`scale` runs on the device of the model and uses the variables ``mean``
    and ``deviation``, which :meth:`fit` sets and checkpoints save. Non-finite numbers are replaced by the mean.
    """

    def __init__(self, contract: ExampleContract, tokens: Mapping[str, Sequence[str]]) -> None:
        self.fields = fields_of(contract)
        self.contract = used_by(self.fields, contract)
        self._steps = FeatureSteps(self.contract, tokens)
        self.tables = list(self._steps.tables.values())
        self.mean = tf.Variable(np.zeros(self.fields.width, np.float32), trainable=False, name="mean")
        self.deviation = tf.Variable(np.ones(self.fields.width, np.float32), trainable=False, name="deviation")

    def prepare(self, features: Tensors) -> Tensors:
        """Convert features to the inputs of a model: int64 ids ``[batch, length]`` for each feature with ids, and all numbers
        as float32 ``[batch, width]``.
        """
        stepped = self._steps({name: features[name] for name in self.contract.names()})
        made = {f.input: _rows_of_ids(stepped[f.name], f.length) for f in self.fields.ids}
        if self.fields.numbers:
            numbers = [tf.cast(tf.reshape(stepped[f.name], [-1, f.size]), tf.float32) for f in self.fields.numbers]
            made[NUMBERS] = tf.concat(numbers, axis=1)
        return made

    def scale(self, prepared: Tensors) -> Tensors:
        """Standardize numbers with the mean and deviation from :meth:`fit`."""
        if NUMBERS not in prepared:
            return prepared
        scaled = (prepared[NUMBERS] - self.mean) / self.deviation
        return {**prepared, NUMBERS: tf.where(tf.math.is_finite(scaled), scaled, tf.zeros_like(scaled))}

    def fit(self, dataset: Any) -> None:
        """Compute mean and deviation from a dataset of prepared features."""
        if self.fields.numbers:
            mean, deviation = moments(batch[NUMBERS] for batch in dataset.as_numpy_iterator())
            self.mean.assign(mean)
            self.deviation.assign(deviation)


def moments(batches: Any) -> tuple[Any, Any]:
    """Return the mean and standard deviation of the finite values of each column.

    Without finite values, the mean is 0. If there are no finite values or all are equal, the deviation is 1.
    """
    count: Any = 0.0
    mean: Any = 0.0
    squares: Any = 0.0
    for batch in batches:
        numbers = batch.astype(np.float64)
        there = np.isfinite(numbers)
        new = there.sum(axis=0)
        own = np.where(there, numbers, 0).sum(axis=0) / np.maximum(new, 1)
        spread = np.where(there, numbers - own, 0)
        # Chan, Golub and LeVeque (1979): merge the moments of two groups.
        total = np.maximum(count + new, 1)
        squares = squares + (spread**2).sum(axis=0) + (own - mean) ** 2 * count * new / total
        mean, count = mean + (own - mean) * new / total, count + new
    deviation = np.sqrt(squares / np.maximum(count, 1))
    return mean, np.where(deviation > 0, deviation, 1.0)


def tokens_of(storage: Storage, manifests: Sequence[Manifest], contract: ExampleContract) -> dict[str, list[str]]:
    """Load the tokens of each vocabulary that the model uses, by id, from the newest day, since vocabularies only grow.
    Raise DamagedFile if a file is missing.
    """
    wanted = {spec.model.vocabulary for spec in contract.features if spec.model is not None and spec.model.vocabulary}
    newest = max(manifests, key=lambda m: ((m.contract.get("state") or {}).get("version", 0), m.run_date))
    return {name: _tokens(storage, newest, name) for name in sorted(wanted)}


def _tokens(storage: Storage, manifest: Manifest, name: str) -> list[str]:
    path = f"{run_directory(manifest.day, manifest.made_by)}/{VOCABULARIES}/{name}.txt"
    try:
        return storage.read(path).decode().split("\n")[:-1]
    except FileNotFoundError:
        raise DamagedFile(
            f"{storage.locate(path)} is missing, but the model needs it to look up ids; restore it, or run "
            f"{manifest.run_date} again."
        ) from None


def _rows_of_ids(ids: Any, length: int | None) -> Any:
    if length is None:
        return ids.to_tensor(0)
    return tf.cast(tf.reshape(ids, [-1, length]), tf.int64)
