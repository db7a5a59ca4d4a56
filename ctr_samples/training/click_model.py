"""Model with its surroundings: feature preparation before it, and correction of its log-odds after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ctr_samples.contract import ExampleContract
from ctr_samples.training.models import MODELS
from ctr_samples.training.preparation import Preparation, Tensors


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything a model is built from. Equal recipes build models whose variables have equal shapes, in the same
    order.

    ``base_rate`` is the click rate of the training samples, where the model starts. ``kept`` is the share of negatives
    that samples kept, if the model has to correct for it; 1 if it was trained with weights, which correct for it
    already.
    """

    model: str
    contract: ExampleContract
    tokens: Mapping[str, Sequence[str]]
    base_rate: float
    kept: float
    seed: int


class ClickModel:
    """Map the features of a contract to probabilities."""

    def __init__(self, recipe: Recipe) -> None:
        import keras
        import tensorflow as tf

        keras.utils.set_random_seed(recipe.seed)
        self.recipe = recipe
        self.preparation = Preparation(recipe.contract, recipe.tokens)
        self.network = MODELS[recipe.model].build(recipe.contract, recipe.base_rate)
        self.predict = tf.function(lambda features: self.probability(self.preparation.prepare(features)))
        """Probabilities from the features of the contract, as load_dataset returns them."""

    @property
    def variables(self) -> list[Any]:
        """Learned and measured values, as TensorFlow variables."""
        return [*_of_tensorflow(self.network.variables), self.preparation.mean, self.preparation.deviation]

    def log_odds(self, prepared: Tensors) -> Any:
        """Log-odds of a click in the samples, ``[batch]``, from prepared, unscaled features; training fits these."""
        return self.network(self.preparation.scale(prepared))[:, 0]

    def probability(self, prepared: Tensors) -> Any:
        """Probability of a click on an impression, ``[batch]``.

        With p from samples that kept a share of the negatives, p / (p + (1 - p) / kept) is that of all impressions (He
        et al. 2014, *Practical lessons from predicting clicks on ads at Facebook*). In log-odds that is an addition.
        """
        import tensorflow as tf

        return tf.sigmoid(self.log_odds(prepared) + np.float32(np.log(self.recipe.kept)))

    def values(self) -> list[npt.NDArray[Any]]:
        """Return the values of the variables."""
        return [variable.numpy() for variable in self.variables]

    def copy(self) -> ClickModel:
        """Copy the model with variables of its own, which belong to no strategy."""
        made = ClickModel(self.recipe)
        for variable, value in zip(made.variables, self.values(), strict=True):
            variable.assign(value)
        return made


def _of_tensorflow(variables: Sequence[Any]) -> list[Any]:
    return [variable.value for variable in variables]
