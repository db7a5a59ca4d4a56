"""Logistic regression: one weight for each number, one for each id of an id feature."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ctr_samples.contract import ExampleContract, FeatureSpec

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


def logistic_regression(contract: ExampleContract, base_rate: float) -> keras.Model:
    """A Keras model from the features of a contract to a click probability of shape ``[batch, 1]``.

    ``base_rate`` is the click rate that the bias starts from, so that training only learns what differs from it. Features of
    text or of no fixed shape are left out. Numbers pass through until :func:`fit_scale` has seen the training data.
    """
    import keras

    inputs, terms, numbers = {}, [], []
    for spec in contract.features:
        if spec.role != "feature" or spec.dtype == "bytes" or spec.shape is None:
            continue
        inputs[spec.name] = column = keras.Input(shape=spec.shape, name=spec.name, dtype=spec.dtype)
        if spec.buckets is not None:
            weights = keras.layers.Embedding(
                spec.buckets, 1, embeddings_initializer="zeros", name=f"{spec.name}_weight"
            )
            terms.append(keras.layers.Flatten()(weights(_as_row(column, spec))))
        else:
            numbers.append(keras.ops.cast(_as_row(column, spec), "float32"))
    bias = keras.initializers.Constant(math.log(base_rate / (1 - base_rate)))
    scaled = keras.layers.Normalization(name="scale")(keras.layers.Concatenate()(numbers))
    terms.append(keras.layers.Dense(1, kernel_initializer="zeros", bias_initializer=bias, name="weights")(scaled))
    probability = keras.layers.Activation("sigmoid", name="probability")(keras.layers.Add()(terms))
    return keras.Model(inputs, probability, name="logistic_regression")


def fit_scale(model: keras.Model, features: tf.data.Dataset) -> None:
    """Let the model bring each number to mean 0 and variance 1 over ``features``, batches of the train split."""
    import keras

    scale = model.get_layer("scale")
    numbers = keras.Model(model.inputs, scale.input)
    scale.adapt(features.map(numbers))


def _as_row(column: Any, spec: FeatureSpec) -> Any:
    """Shape ``[batch, size]``."""
    import keras

    return keras.layers.Reshape((spec.size,))(column)
