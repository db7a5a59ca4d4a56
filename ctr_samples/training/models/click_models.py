"""Click models: logistic regression, factorization machine, Wide & Deep, DeepFM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctr_samples.contract import ExampleContract
from ctr_samples.training.models.fields import fields_of
from ctr_samples.training.models.terms import deep, id_vectors, inputs_of, linear, model_of, number_vectors, pairs

if TYPE_CHECKING:
    import keras


def logistic_regression(contract: ExampleContract, base_rate: float) -> keras.Model:
    """Map the fields of a contract to the log-odds of a click, ``[batch, 1]``.

    The bias corresponds to the click rate ``base_rate``, so training only learns deviations from it. The model uses no
    feature combinations except a ``cross`` in the samples.
    """
    fields = fields_of(contract)
    inputs = inputs_of(fields)
    return model_of(inputs, [linear(inputs, fields, base_rate)], "logistic_regression")


def factorization_machine(contract: ExampleContract, base_rate: float, size: int = 8) -> keras.Model:
    """Map the fields of a contract to the log-odds of a click, ``[batch, 1]``.

    Rendle (2010), *Factorization machines*. Each id and each number has a vector of length ``size``; lists use the mean
    vector of their ids. Before training, the model predicts about ``base_rate``.
    """
    fields = fields_of(contract)
    inputs = inputs_of(fields)
    vectors = id_vectors(inputs, fields, size), number_vectors(inputs, fields, size)
    return model_of(inputs, [linear(inputs, fields, base_rate), pairs(*vectors)], "factorization_machine")


def deepfm(
    contract: ExampleContract, base_rate: float, size: int = 8, layers: tuple[int, ...] = (64, 32)
) -> keras.Model:
    """Map the fields of a contract to the log-odds of a click, ``[batch, 1]``.

    Guo et al. (2017), *DeepFM: a factorization-machine based neural network for CTR prediction*. The pairwise term and
    the dense layers share the id embeddings. Numbers have vectors in the pairwise term and enter the layers unchanged.
    """
    fields = fields_of(contract)
    inputs = inputs_of(fields)
    vectors = id_vectors(inputs, fields, size)
    terms = [linear(inputs, fields, base_rate), pairs(vectors, number_vectors(inputs, fields, size))]
    return model_of(inputs, [*terms, deep(inputs, vectors, layers)], "deepfm")


def wide_and_deep(
    contract: ExampleContract, base_rate: float, size: int = 8, layers: tuple[int, ...] = (64, 32)
) -> keras.Model:
    """Map the fields of a contract to the log-odds of a click, ``[batch, 1]``.

    Cheng et al. (2016), *Wide & deep learning for recommender systems*. The wide part uses every field, including a
    ``cross`` in the samples. The deep part uses an embedding of length ``size`` per id field, and the numbers.
    """
    fields = fields_of(contract)
    inputs = inputs_of(fields)
    layered = deep(inputs, id_vectors(inputs, fields, size), layers)
    return model_of(inputs, [linear(inputs, fields, base_rate), layered], "wide_and_deep")
