"""Logistic regression: one weight for each number, one for each id of an id feature."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


def logistic_regression(contract: ExampleContract, base_rate: float) -> keras.Model:
    """A Keras model from the features of a contract to a click probability of shape ``[batch, 1]``.

    ``base_rate`` is the click rate that the bias starts from, so that training only learns what differs from it. Features of
    text or of no fixed shape are left out. Numbers pass through until :func:`fit_scale` has seen the training data.
    """
    import keras

    usable = [f for f in contract.features if f.role == "feature" and f.dtype != "bytes" and f.shape is not None]
    if not usable:
        raise InputError("The samples have no number and no id of a fixed shape; a logistic regression needs one.")
    inputs = {spec.name: keras.Input(shape=spec.shape, name=spec.name, dtype=spec.dtype) for spec in usable}
    ids = [spec for spec in usable if spec.buckets is not None]
    numbers = [keras.ops.cast(_as_row(inputs[spec.name], spec), "float32") for spec in usable if spec.buckets is None]
    bias = keras.initializers.Constant(math.log(base_rate / (1 - base_rate)))
    terms: list[Any] = []
    for spec in ids:
        # Without numbers the first id carries the bias.
        initial = bias if not numbers and not terms else "zeros"
        weights = keras.layers.Embedding(spec.buckets, 1, embeddings_initializer=initial, name=f"{spec.name}_weight")
        terms.append(keras.layers.Flatten()(weights(_as_row(inputs[spec.name], spec))))
    if numbers:
        scaled = keras.layers.Normalization(name="scale")(_joined(numbers, keras.layers.Concatenate))
        terms.append(keras.layers.Dense(1, kernel_initializer="zeros", bias_initializer=bias, name="weights")(scaled))
    probability = keras.layers.Activation("sigmoid", name="probability")(_joined(terms, keras.layers.Add))
    return keras.Model(inputs, probability, name="logistic_regression")


def fit_scale(model: keras.Model, features: tf.data.Dataset) -> None:
    """Let the model bring each number to mean 0 and variance 1 over ``features``, batches of the train split."""
    import keras

    if not any(layer.name == "scale" for layer in model.layers):
        return
    scale = model.get_layer("scale")
    numbers = keras.Model(model.inputs, scale.input)
    scale.adapt(features.map(numbers))


def _joined(columns: list[Any], layer: Any) -> Any:
    """Several columns through a layer that joins them; one as it is."""
    return columns[0] if len(columns) == 1 else layer()(columns)


def _as_row(column: Any, spec: FeatureSpec) -> Any:
    """Shape ``[batch, size]``."""
    import keras

    return keras.layers.Reshape((spec.size,))(column)
