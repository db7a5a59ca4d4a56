"""Small, readable click models in Keras, built from a contract.

click_models.py     logistic regression, factorization machine, Wide & Deep, DeepFM
terms.py    shared building blocks
fields.py   contract fields used by a model
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ctr_samples.training.models.click_models import deepfm, factorization_machine, logistic_regression, wide_and_deep

if TYPE_CHECKING:
    import keras

__all__ = ["MODELS", "ModelKind", "deepfm", "factorization_machine", "logistic_regression", "wide_and_deep"]


@dataclass(frozen=True, slots=True)
class ModelKind:
    """A kind of model: its title, build function, and training defaults."""

    title: str
    build: Callable[..., keras.Model]
    optimizer: str
    learning_rate: float
    epochs: int

    def make_optimizer(self, learning_rate: float | None = None) -> Any:
        """Create the optimizer of this model, with its default learning rate unless specified."""
        import keras

        return getattr(keras.optimizers, self.optimizer)(learning_rate or self.learning_rate)


MODELS: Mapping[str, ModelKind] = MappingProxyType(
    {
        "logistic": ModelKind("logistic regression", logistic_regression, "Ftrl", 0.5, 15),
        "fm": ModelKind("factorization machine", factorization_machine, "Adam", 0.001, 5),
        "wide_deep": ModelKind("Wide & Deep model", wide_and_deep, "Adam", 0.001, 5),
        "deepfm": ModelKind("DeepFM model", deepfm, "Adam", 0.001, 5),
    }
)
