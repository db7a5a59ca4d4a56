"""Wide & Deep: a linear term that memorizes, and dense layers that generalize."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctr_samples.contract import ExampleContract
from ctr_samples.training.models.fields import fields_of
from ctr_samples.training.models.terms import deep, id_vectors, inputs_of, linear, model_of

if TYPE_CHECKING:
    import keras


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
