"""Small, readable click models in Keras, built from the fields of a contract. Keras is imported where a model is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ctr_samples.arguments import check_kind
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError

if TYPE_CHECKING:
    import keras

NUMBERS = "numbers"
"""Name of the model input that holds all numbers. What is named for a feature has a dot in its name, and nothing else has."""
MOST_IDS = 100_000_000
"""Maximum number of rows in an embedding table, so that it fits in the memory of one machine."""
_SPREAD = 0.01
"""Standard deviation of initial embeddings, small so that an untrained model equals its linear term."""


@dataclass(frozen=True, slots=True)
class IdField:
    """A categorical feature with ids 0 to ``buckets - 1``: one per row, or a list padded with 0.

    ``length`` is None for variable-length lists.
    """

    name: str
    buckets: int
    length: int | None = 1
    is_list: bool = False

    @property
    def input(self) -> str:
        """Name of the model input that holds its ids."""
        return f"ids.{self.name}"


@dataclass(frozen=True, slots=True)
class NumberField:
    """A numeric feature with ``size`` values per row."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Fields:
    """The input fields of a model in declared order, and the names of unused features."""

    ids: tuple[IdField, ...]
    numbers: tuple[NumberField, ...]
    left_out: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Number of numeric values per row."""
        return sum(field.size for field in self.numbers)


def fields_of(contract: ExampleContract) -> Fields:
    """Return the fields of a contract.

    Raises InputError if there are no usable features or an embedding table is too large. Features with ``buckets`` are
    ids; numeric features of fixed shape are numbers. Text, variable-length numbers, lists of lists and the layout
    ``sparse`` are not used.
    """
    check_kind("contract", contract, ExampleContract, "of the samples")
    specs = [spec for spec in contract.features if spec.role == "feature"]
    fields = {spec.name: None if contract.layout == "sparse" else _field(spec) for spec in specs}
    ids = tuple(field for field in fields.values() if isinstance(field, IdField))
    numbers = tuple(field for field in fields.values() if isinstance(field, NumberField))
    if not ids and not numbers:
        raise InputError(
            "The samples have no number and no id that a model can use; expected some, in the layout `columns`, `sequence` or "
            "`dense`."
        )
    return Fields(ids, numbers, tuple(name for name, field in fields.items() if field is None))


def used_by(fields: Fields, contract: ExampleContract) -> ExampleContract:
    """Reduce the contract to the features that the model uses, and thus needs at serving time."""
    names = {field.name for field in fields.ids} | {field.name for field in fields.numbers}
    return replace(contract, features=tuple(f for f in contract.features if f.name in names))


def _field(spec: FeatureSpec) -> IdField | NumberField | None:
    if spec.buckets is not None:
        if spec.sequence and spec.shape != ():
            return None
        if spec.buckets > MOST_IDS:
            raise InputError(
                f"Feature {spec.name!r} has {spec.buckets:,} ids, and a model holds a vector for each; expected at most "
                f"{MOST_IDS:,}. Give it fewer `hash_buckets`, or leave it out of the samples."
            )
        length = None if spec.sequence else spec.size
        return IdField(spec.name, spec.buckets, length, is_list=spec.sequence or spec.shape != ())
    is_number = spec.dtype != "bytes" and spec.size and not spec.sequence
    return NumberField(spec.name, spec.size or 0) if is_number else None


class Network:
    """The inputs that a model has for the fields of a contract, and the terms that it may add up over them."""

    def __init__(self, contract: ExampleContract) -> None:
        """Create symbolic inputs: int64 ``[batch, length]`` per id field, float32 ``[batch, width]`` for all numbers."""
        import keras

        self.fields = fields_of(contract)
        self.inputs = {f.input: keras.Input((f.length,), name=f.input, dtype="int64") for f in self.fields.ids}
        if self.fields.width:
            self.inputs[NUMBERS] = keras.Input((self.fields.width,), name=NUMBERS)

    def linear(self, base_rate: float) -> Any:
        """Add the log-odds of ``base_rate`` and a weight per id and per number, ``[batch, 1]``. Weights start at 0.

        The log-odds are a constant because FTRL pulls all trained variables towards 0, including a bias.
        """
        import keras

        terms = [self._pooled(f, 1, "zeros", "weight") for f in self.fields.ids]
        if self.fields.width:
            layer = keras.layers.Dense(1, kernel_initializer="zeros", name="weights")
            terms.append(layer(self.inputs[NUMBERS]))
        return sum(terms, math.log(base_rate / (1 - base_rate)))

    def id_vectors(self, size: int) -> Any:
        """Embed each id field, ``[batch, fields, size]``. Lists use mean embeddings. None if there are no id fields."""
        import keras

        if not self.fields.ids:
            return None
        start = keras.initializers.RandomNormal(stddev=_SPREAD)
        return keras.ops.stack([self._pooled(f, size, start.clone(), "vector") for f in self.fields.ids], axis=1)

    def number_vectors(self, size: int) -> Any:
        """Return the vector of each numeric input, scaled by its value, ``[batch, width, size]``, or None if there are
        none.
        """
        import keras

        if not self.fields.width:
            return None
        start = keras.initializers.RandomNormal(stddev=_SPREAD)
        layer = keras.layers.EinsumDense(
            "bn,nk->bnk", output_shape=(self.fields.width, size), kernel_initializer=start, name="number_vectors"
        )
        return layer(self.inputs[NUMBERS])

    def deep(self, vectors: Any, layers: tuple[int, ...]) -> Any:
        """Apply dense layers to the id embeddings and the unchanged numbers, ``[batch, 1]``."""
        import keras

        parts = [] if vectors is None else [keras.layers.Flatten()(vectors)]
        parts += [self.inputs[NUMBERS]] if self.fields.width else []
        hidden = keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]
        for number, size in enumerate(layers):
            hidden = keras.layers.Dense(size, activation="relu", name=f"hidden_{number}")(hidden)
        return keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", name="deep")(hidden)

    def model(self, name: str, *terms: Any) -> keras.Model:
        """Return the model that outputs the sum of the terms as log-odds, ``[batch, 1]``."""
        import keras

        return keras.Model(self.inputs, sum(terms[1:], terms[0]), name=name)

    def _pooled(self, field: IdField, size: int, start: Any, what: str) -> Any:
        """Return the embedding of an id, or the mean embedding of a list of ids, ``[batch, size]``."""
        import keras

        ids, name = self.inputs[field.input], f"{what}.{field.name}"
        vectors = keras.layers.Embedding(field.buckets, size, embeddings_initializer=start, name=name)(ids)
        if not field.is_list:
            return vectors[:, 0]
        there = keras.ops.cast(ids != 0, "float32")[..., None]
        return keras.ops.sum(vectors * there, axis=1) / keras.ops.maximum(keras.ops.sum(there, axis=1), 1.0)


def pairs(*vectors: Any) -> Any:
    """Sum the dot products of all pairs of vectors ``[batch, n, size]``, each pair once: ``[batch, 1]``.

    Rendle (2010), *Factorization machines*: half the difference between the squared sum and the sum of squares.
    """
    from keras import ops

    there = [v for v in vectors if v is not None]
    summed = sum(ops.sum(v, axis=1) for v in there)
    squares = sum(ops.sum(ops.square(v), axis=1) for v in there)
    return 0.5 * ops.sum(ops.square(summed) - squares, axis=1, keepdims=True)


def logistic_regression(contract: ExampleContract, base_rate: float) -> keras.Model:
    """Map the fields of a contract to the log-odds of a click, ``[batch, 1]``.

    The bias corresponds to the click rate ``base_rate``, so training only learns deviations from it. The model uses no
    feature combinations except a ``cross`` in the samples.
    """
    network = Network(contract)
    return network.model("logistic_regression", network.linear(base_rate))


def factorization_machine(contract: ExampleContract, base_rate: float, size: int = 8) -> keras.Model:
    """Map the fields of a contract to the log-odds of a click, ``[batch, 1]``.

    Rendle (2010), *Factorization machines*. Each id and each number has a vector of length ``size``; lists use the mean
    vector of their ids. Before training, the model predicts about ``base_rate``.
    """
    network = Network(contract)
    vectors = network.id_vectors(size), network.number_vectors(size)
    return network.model("factorization_machine", network.linear(base_rate), pairs(*vectors))


def deepfm(
    contract: ExampleContract, base_rate: float, size: int = 8, layers: tuple[int, ...] = (64, 32)
) -> keras.Model:
    """Map the fields of a contract to the log-odds of a click, ``[batch, 1]``.

    Guo et al. (2017), *DeepFM: a factorization-machine based neural network for CTR prediction*. The pairwise term and
    the dense layers share the id embeddings. Numbers have vectors in the pairwise term and enter the layers unchanged.
    """
    network = Network(contract)
    vectors = network.id_vectors(size)
    terms = network.linear(base_rate), pairs(vectors, network.number_vectors(size))
    return network.model("deepfm", *terms, network.deep(vectors, layers))


def wide_and_deep(
    contract: ExampleContract, base_rate: float, size: int = 8, layers: tuple[int, ...] = (64, 32)
) -> keras.Model:
    """Map the fields of a contract to the log-odds of a click, ``[batch, 1]``.

    Cheng et al. (2016), *Wide & deep learning for recommender systems*. The wide part uses every field, including a
    ``cross`` in the samples. The deep part uses an embedding of length ``size`` per id field, and the numbers.
    """
    network = Network(contract)
    layered = network.deep(network.id_vectors(size), layers)
    return network.model("wide_and_deep", network.linear(base_rate), layered)


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
