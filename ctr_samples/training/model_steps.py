"""Preprocessing steps assigned to the model, in TensorFlow: clip, log, scale, buckets, vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ctr_samples.arguments import check_kind
from ctr_samples.contract import ExampleContract, ModelSteps
from ctr_samples.errors import InputError

Tensors = dict[str, Any]


def model_steps(contract: ExampleContract, tokens: Mapping[str, Sequence[str]]) -> Callable[[Tensors], Tensors]:
    """Return a function that applies the steps of all features with ``computed: model``. Other features stay unchanged.

    ``tokens`` holds the lines of ``vocabularies/<name>.txt`` for each vocabulary that a model uses. Dense features keep
    their shape and become float32, or int64 ids if they have boundaries. A RaggedTensor of tokens becomes a
    RaggedTensor of int64 ids. The result equals the job's output with ``computed: sample``, except for float32 rounding
    and for missing numbers without boundaries: records hold their default, which is transformed like any number. Raises
    InputError for missing tokens.
    """
    check_kind("contract", contract, ExampleContract, "of the samples")
    steps = {spec.name: _step(spec.name, spec.model, tokens) for spec in contract.features if spec.model is not None}

    def apply(features: Tensors) -> Tensors:
        return {name: steps[name](value) if name in steps else value for name, value in features.items()}

    return apply


def _step(name: str, steps: ModelSteps, tokens: Mapping[str, Sequence[str]]) -> Callable[[Any], Any]:
    if steps.vocabulary is None:
        return lambda value: _on_values(value, lambda flat: _number(flat, steps))
    if steps.vocabulary not in tokens:
        raise InputError(
            f"Feature {name!r} needs the tokens of the vocabulary {steps.vocabulary!r}; give the lines of "
            f"vocabularies/{steps.vocabulary}.txt, which stands beside the contract."
        )
    table = _table(tokens[steps.vocabulary])
    return lambda value: _on_values(value, lambda flat: _id(flat, table))


def _on_values(value: Any, change: Callable[[Any], Any]) -> Any:
    import tensorflow as tf

    return tf.ragged.map_flat_values(change, value) if isinstance(value, tf.RaggedTensor) else change(value)


def _number(value: Any, steps: ModelSteps) -> Any:
    import tensorflow as tf

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
    import tensorflow as tf

    keys = tf.constant(["", *tokens])  # empty text is a missing value, with id 1
    ids = tf.constant([1, *range(3, 3 + len(tokens))], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, ids), default_value=2)


def _id(value: Any, table: Any) -> Any:
    return table.lookup(value)
