"""Building blocks of the models: inputs, linear term, field embeddings, pairwise term, dense layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ctr_samples.training.models.fields import NUMBERS, Fields, IdField

if TYPE_CHECKING:
    import keras

Tensors = dict[str, Any]

_SPREAD = 0.01
"""Standard deviation of initial embeddings, small so that an untrained model equals its linear term."""


def inputs_of(fields: Fields) -> Tensors:
    """Create symbolic inputs: int64 ``[batch, length]`` per id field, float32 ``[batch, width]`` for all numbers."""
    import keras

    inputs = {f.input: keras.Input((f.length,), name=f.input, dtype="int64") for f in fields.ids}
    return {**inputs, NUMBERS: keras.Input((fields.width,), name=NUMBERS)} if fields.width else inputs


def linear(inputs: Tensors, fields: Fields, base_rate: float) -> Any:
    """Add the log-odds of ``base_rate`` and a weight per id and per number, ``[batch, 1]``. Weights start at 0.

    The log-odds are a constant because FTRL pulls all trained variables towards 0, including a bias.
    """
    import keras

    terms = [_pooled(inputs[f.input], f, 1, "zeros", "weight") for f in fields.ids]
    if fields.width:
        terms.append(keras.layers.Dense(1, kernel_initializer="zeros", name="weights")(inputs[NUMBERS]))
    return sum(terms, math.log(base_rate / (1 - base_rate)))


def id_vectors(inputs: Tensors, fields: Fields, size: int) -> Any:
    """Embed each id field, ``[batch, fields, size]``. Lists use mean embeddings. None if there are no id fields."""
    import keras

    if not fields.ids:
        return None
    start = keras.initializers.RandomNormal(stddev=_SPREAD)
    return keras.ops.stack([_pooled(inputs[f.input], f, size, start.clone(), "vector") for f in fields.ids], axis=1)


def number_vectors(inputs: Tensors, fields: Fields, size: int) -> Any:
    """Return the vector of each numeric input, scaled by its value, ``[batch, width, size]``, or None if there are
    none.
    """
    import keras

    if not fields.width:
        return None
    start = keras.initializers.RandomNormal(stddev=_SPREAD)
    layer = keras.layers.EinsumDense(
        "bn,nk->bnk", output_shape=(fields.width, size), kernel_initializer=start, name="number_vectors"
    )
    return layer(inputs[NUMBERS])


def pairs(*vectors: Any) -> Any:
    """Sum the dot products of all pairs of vectors ``[batch, n, size]``, each pair once: ``[batch, 1]``.

    Rendle (2010), *Factorization machines*: half the difference between the squared sum and the sum of squares.
    """
    from keras import ops

    there = [v for v in vectors if v is not None]
    summed = sum(ops.sum(v, axis=1) for v in there)
    squares = sum(ops.sum(ops.square(v), axis=1) for v in there)
    return 0.5 * ops.sum(ops.square(summed) - squares, axis=1, keepdims=True)


def deep(inputs: Tensors, vectors: Any, layers: tuple[int, ...]) -> Any:
    """Apply dense layers to the id embeddings and the unchanged numbers, ``[batch, 1]``."""
    import keras

    parts = [] if vectors is None else [keras.layers.Flatten()(vectors)]
    parts += [inputs[NUMBERS]] if NUMBERS in inputs else []
    hidden = keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]
    for number, size in enumerate(layers):
        hidden = keras.layers.Dense(size, activation="relu", name=f"hidden_{number}")(hidden)
    return keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", name="deep")(hidden)


def _pooled(ids: Any, field: IdField, size: int, start: Any, what: str) -> Any:
    """Return the embedding of an id, or the mean embedding of a list of ids, ``[batch, size]``."""
    import keras

    name = f"{what}.{field.name}"
    vectors = keras.layers.Embedding(field.buckets, size, embeddings_initializer=start, name=name)(ids)
    if not field.is_list:
        return vectors[:, 0]
    there = keras.ops.cast(ids != 0, "float32")[..., None]
    return keras.ops.sum(vectors * there, axis=1) / keras.ops.maximum(keras.ops.sum(there, axis=1), 1.0)


def model_of(inputs: Tensors, terms: list[Any], name: str) -> keras.Model:
    """Build a model that outputs the sum of the terms as log-odds, ``[batch, 1]``."""
    import keras

    return keras.Model(inputs, sum(terms[1:], terms[0]), name=name)
