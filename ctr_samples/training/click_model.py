"""The click model, with its feature preparation and the correction of its log-odds for sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ctr_samples.contract import ExampleContract
from ctr_samples.training.models import MODELS
from ctr_samples.training.preparation import Preparation, Tensors


@dataclass(frozen=True, slots=True)
class Recipe:
    """Parameters that define a model. Equal recipes build models with the same variables, in the same order.

    ``base_rate`` is the click rate of the training samples, which the untrained model predicts. ``kept`` is the share
    of negatives kept by downsampling, if the model corrects for it. It is 1 for models trained with sample weights,
    which already correct for it.
    """

    model: str
    contract: ExampleContract
    tokens: Mapping[str, Sequence[str]]
    base_rate: float
    kept: float
    seed: int


class ClickModel:
    """A model that maps the features of a contract to click probabilities."""

    def __init__(self, recipe: Recipe) -> None:
        keras.utils.set_random_seed(recipe.seed)
        self.recipe = recipe
        self.preparation = Preparation(recipe.contract, recipe.tokens)
        self.network = MODELS[recipe.model].build(recipe.contract, recipe.base_rate)
        self.predict_log_odds = tf.function(
            lambda features: self.log_odds_of_impressions(self.preparation.prepare(features)), reduce_retracing=True
        )
        """Predicts log-odds of a click on an impression from the features returned by load_dataset."""

    @property
    def variables(self) -> list[Any]:
        """The TensorFlow variables: learned weights, and mean and deviation of the numbers."""
        learned = [variable.value for variable in self.network.variables]
        return [*learned, self.preparation.mean, self.preparation.deviation]

    def log_odds(self, prepared: Tensors) -> Any:
        """Return the log-odds of a click in the samples, ``[batch]``, from prepared, unscaled features. Used for
        training.
        """
        return self.network(self.preparation.scale(prepared))[:, 0]

    def log_odds_of_impressions(self, prepared: Tensors) -> Any:
        """Return the log-odds of a click on an impression, ``[batch]``, from prepared, unscaled features.

        If samples keep a share of the negatives and predict p, the probability over all impressions is p / (p + (1 - p)
        / kept) (He et al. 2014, *Practical lessons from predicting clicks on ads at Facebook*). In log-odds, this
        correction is an addition.
        """
        return self.log_odds(prepared) + np.float32(np.log(self.recipe.kept))

    def values(self) -> list[npt.NDArray[Any]]:
        """Return the current values of all variables."""
        return [variable.numpy() for variable in self.variables]

    def copy(self) -> ClickModel:
        """Copy the model into new variables, outside any distribution strategy."""
        made = ClickModel(self.recipe)
        for variable, value in zip(made.variables, self.values(), strict=True):
            variable.assign(value)
        return made
