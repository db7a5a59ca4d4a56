"""DeepFM: a factorization machine and dense layers over shared embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctr_samples.contract import ExampleContract
from ctr_samples.training.models.fields import fields_of
from ctr_samples.training.models.terms import deep, id_vectors, inputs_of, linear, model_of, number_vectors, pairs

if TYPE_CHECKING:
    import keras


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
