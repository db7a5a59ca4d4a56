"""Logistic regression: a weight per id and per number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctr_samples.contract import ExampleContract
from ctr_samples.training.models.fields import fields_of
from ctr_samples.training.models.terms import inputs_of, linear, model_of

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
