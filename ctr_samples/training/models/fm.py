"""Factorization machine: a linear term, and a dot product of vectors for each pair of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctr_samples.contract import ExampleContract
from ctr_samples.training.models.fields import fields_of
from ctr_samples.training.models.terms import id_vectors, inputs_of, linear, model_of, number_vectors, pairs

if TYPE_CHECKING:
    import keras


def factorization_machine(contract: ExampleContract, base_rate: float, size: int = 8) -> keras.Model:
    """Map the fields of a contract to the log-odds of a click, ``[batch, 1]``.

    Rendle (2010), *Factorization machines*. Each id and each number has a vector of length ``size``; lists use the mean
    vector of their ids. Before training, the model predicts about ``base_rate``.
    """
    fields = fields_of(contract)
    inputs = inputs_of(fields)
    vectors = id_vectors(inputs, fields, size), number_vectors(inputs, fields, size)
    return model_of(inputs, [linear(inputs, fields, base_rate), pairs(*vectors)], "factorization_machine")
