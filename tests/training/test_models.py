"""Each model on literal data: its shapes, its terms computed in plain NumPy, and what it can learn that another cannot."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec, ModelSteps
from ctr_samples.errors import InputError
from ctr_samples.training.click_model import ClickModel, Recipe
from ctr_samples.training.models import MODELS, Fields, IdField, NumberField, factorization_machine, fields_of, pairs
from ctr_samples.training.preparation import Preparation, moments

CITY = FeatureSpec("city", "int64", buckets=4)
TAGS = FeatureSpec("tags", "int64", (3,), buckets=5)
WORDS = FeatureSpec("words", "int64", None, buckets=6)
NUMBER = FeatureSpec("number", "float32")
VECTOR = FeatureSpec("vector", "float32", (2,))
NAME = FeatureSpec("name", "bytes")
EVERYTHING = ExampleContract(
    (CITY, TAGS, WORDS, NUMBER, VECTOR, NAME, FeatureSpec("clicked", "int64", role="label", nulls="fail"))
)


def batch() -> dict[str, Any]:
    import tensorflow as tf

    return {
        "city": tf.constant([3, 0, 1], tf.int64),
        "tags": tf.constant([[1, 4, 0], [0, 0, 0], [2, 2, 2]], tf.int64),
        "words": tf.ragged.constant([[5], [], [1, 2, 3, 4]], dtype=tf.int64, row_splits_dtype=tf.int64),
        "number": tf.constant([0.5, np.nan, -2.0]),
        "vector": tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "name": tf.constant(["a", "b", "c"]),
    }


def probability(model: ClickModel, prepared: dict[str, Any]) -> Any:
    import tensorflow as tf

    return tf.sigmoid(model.log_odds_of_impressions(prepared))


def model_of(name: str, contract: ExampleContract = EVERYTHING, **more: Any) -> ClickModel:
    recipe = {"tokens": {}, "base_rate": 0.2, "kept": 1.0, "seed": 3, **more}
    return ClickModel(Recipe(name, contract, **recipe))


def test_ids_lists_of_ids_and_numbers_are_fields_and_text_is_left_out() -> None:
    assert fields_of(EVERYTHING) == Fields(
        ids=(IdField("city", 4), IdField("tags", 5, 3, is_list=True), IdField("words", 6, None, is_list=True)),
        numbers=(NumberField("number", 1), NumberField("vector", 2)),
        left_out=("name",),
    )


def test_lists_of_numbers_of_any_length_and_lists_of_lists_are_left_out() -> None:
    contract = ExampleContract(
        (
            NUMBER,
            FeatureSpec("ages", "float32", None),
            FeatureSpec("steps", "int64", (), sequence=True, buckets=9),
            FeatureSpec("pages", "int64", None, sequence=True, buckets=9),
        ),
        "sequence_example",
        layout="sequence",
    )
    fields = fields_of(contract)
    assert fields.ids == (IdField("steps", 9, None, is_list=True),)
    assert fields.left_out == ("ages", "pages")


def test_samples_without_anything_to_learn_from_and_ids_without_end_are_refused() -> None:
    with pytest.raises(InputError, match="no number and no id that a model can use"):
        fields_of(ExampleContract((NAME,)))
    with pytest.raises(InputError, match="'cross' has 1,099,511,627,776 ids, and a model holds a vector for each"):
        fields_of(ExampleContract((FeatureSpec("cross", "int64", buckets=2**40),)))


@pytest.mark.parametrize("name", MODELS)
def test_an_untrained_model_says_the_base_rate_for_every_kind_of_field(name: str) -> None:
    model = model_of(name)
    probabilities = probability(model, model.preparation.prepare(batch())).numpy()
    assert probabilities.shape == (3,)
    assert probabilities == pytest.approx([0.2] * 3, abs=0.002)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("contract", [(CITY,), (VECTOR,), (WORDS, CITY)])
def test_a_model_needs_neither_ids_nor_numbers_but_one_of_them(name: str, contract: tuple[FeatureSpec, ...]) -> None:
    model = model_of(name, ExampleContract(contract))
    assert probability(model, model.preparation.prepare(batch())).shape == (3,)


NAMES = ("numbers", "weights", "deep", "hidden_0", "number_vectors", "city", "city_weight", "city_vector", "self")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "numbers"), [*[(name, (NUMBER, replace(VECTOR, name="weight"))) for name in MODELS], ("deepfm", ())]
)
def test_a_model_does_not_depend_on_the_names_of_its_features(name: str, numbers: tuple[FeatureSpec, ...]) -> None:
    import keras
    import tensorflow as tf

    def probabilities(names: Sequence[str]) -> Any:
        keras.backend.clear_session()  # Keras numbers the names that it gives
        model = model_of(name, ExampleContract((*[FeatureSpec(n, "int64", buckets=9) for n in names], *numbers)))
        rng = np.random.default_rng(5)
        model.network.set_weights([rng.normal(size=weight.shape) for weight in model.network.get_weights()])
        rows = {one: tf.constant([n % 9, 1, 0], tf.int64) for n, one in enumerate(names)}
        prepared = model.preparation.prepare(batch() | {"weight": batch()["vector"]} | rows)
        return probability(model, prepared).numpy().tolist()

    keras.backend.clear_session()
    names = sorted({*NAMES, *[operation.name for operation in model_of(name).network.operations]})
    assert probabilities(names) == probabilities([f"f{n}" for n in range(len(names))])


def test_the_pairwise_term_is_the_sum_over_all_pairs() -> None:
    rng = np.random.default_rng(1)
    ids, numbers = rng.normal(size=(2, 3, 4)).astype("f"), rng.normal(size=(2, 5, 4)).astype("f")
    vectors = np.concatenate([ids, numbers], axis=1)
    expected = [sum(row[i] @ row[j] for i, j in itertools.combinations(range(8), 2)) for row in vectors]
    assert np.array(pairs(ids, numbers))[:, 0] == pytest.approx(expected, rel=1e-4)


def test_a_factorization_machine_is_its_formula() -> None:
    network = factorization_machine(EVERYTHING, 0.5, size=2)
    rng = np.random.default_rng(2)
    network.set_weights([rng.normal(size=weight.shape) for weight in network.get_weights()])
    held = {weight.path: weight.numpy() for weight in network.weights}
    x = np.array([0.5, 1.0, 2.0])  # the numbers of the first row
    tables = {name: (held[f"weight.{name}/embeddings"], held[f"vector.{name}/embeddings"]) for name in ("city", "tags")}
    tables["words"] = held["weight.words/embeddings"], held["vector.words/embeddings"]
    rows = {"city": [3], "tags": [1, 4], "words": [5]}  # without padding
    linear = sum(tables[name][0][ids].mean() for name, ids in rows.items())
    linear += x @ held["weights/kernel"][:, 0] + held["weights/bias"][0]
    vectors = [tables[name][1][ids].mean(axis=0) for name, ids in rows.items()]
    vectors += list(x[:, None] * held["number_vectors/kernel"])
    crossed = sum(a @ b for a, b in itertools.combinations(vectors, 2))
    inputs = {
        "ids.city": np.array([[3]]),
        "ids.tags": np.array([[1, 4, 0]]),
        "ids.words": np.array([[5, 0, 0]]),
        "numbers": x[None].astype("f"),
    }
    assert np.array(network(inputs))[0, 0] == pytest.approx(linear + crossed, rel=1e-4)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", MODELS)
def test_only_a_model_that_crosses_features_learns_an_exclusive_or(name: str) -> None:
    import tensorflow as tf

    contract = ExampleContract((FeatureSpec("a", "int64", buckets=2), FeatureSpec("b", "int64", buckets=2)))
    model = model_of(name, contract, base_rate=0.5)
    rows = {"a": tf.constant([0, 0, 1, 1], tf.int64), "b": tf.constant([0, 1, 0, 1], tf.int64)}
    features, labels = model.preparation.prepare(rows), tf.constant([0.0, 1.0, 1.0, 0.0])
    optimizer = MODELS[name].make_optimizer(0.05)
    trained = model.network.trainable_variables
    optimizer.build(trained)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, model.log_odds(features)))
        optimizer.apply(tape.gradient(loss, [variable.value for variable in trained]), trained)

    for _ in range(300):
        step()
    probabilities = probability(model, features).numpy()
    if name == "logistic":
        assert probabilities == pytest.approx([0.5] * 4, abs=0.01)
    else:
        assert probabilities == pytest.approx([0, 1, 1, 0], abs=0.1)


def test_numbers_are_scaled_by_what_was_seen_and_one_that_is_not_finite_counts_as_the_mean() -> None:
    import tensorflow as tf

    preparation = Preparation(ExampleContract((NUMBER, VECTOR)), {})
    seen = [[1.0, 7.0, 0.0], [3.0, 7.0, 4.0], [np.nan, 7.0, 2.0]]
    preparation.fit(tf.data.Dataset.from_tensor_slices({"numbers": tf.constant(seen)}).batch(2))
    scaled = preparation.scale({"numbers": tf.constant([[4.0, 8.0, np.inf], [np.nan, 7.0, 2.0]])})
    assert scaled["numbers"].numpy() == pytest.approx(np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))


def test_moments_of_batches_are_those_of_all_rows() -> None:
    rows = np.random.default_rng(4).normal(1000.0, 0.5, (97, 3)).astype("f")
    mean, deviation = moments([rows[:10], rows[10:11], rows[11:]])
    assert mean == pytest.approx(rows.astype("d").mean(axis=0), rel=1e-12)
    assert deviation == pytest.approx(rows.astype("d").std(axis=0), rel=1e-9)


def test_what_a_contract_leaves_to_the_model_is_done_before_it() -> None:
    import tensorflow as tf

    contract = ExampleContract(
        (
            FeatureSpec("price", "float32", model=ModelSteps(clip=(0.0, 9.0), log1p=True)),
            FeatureSpec("bucket", "float32", buckets=4, model=ModelSteps(boundaries=(1.0, 2.0))),
            FeatureSpec("city", "bytes", buckets=5, model=ModelSteps(vocabulary="cities")),
        )
    )
    preparation = Preparation(contract, {"cities": ["x", "y"]})
    made = preparation.prepare(
        {
            "price": tf.constant([20.0, -1.0]),
            "bucket": tf.constant([1.5, np.nan]),
            "city": tf.constant(["y", "elsewhere"]),
        }
    )
    assert made["numbers"].numpy()[:, 0] == pytest.approx([np.log(10), 0.0])
    assert made["ids.bucket"].numpy().tolist() == [[2], [0]]
    assert made["ids.city"].numpy().tolist() == [[4], [2]]
    assert len(preparation.tables) == 1


def test_probabilities_are_corrected_for_the_negatives_that_were_left_out() -> None:
    plain, corrected = (model_of("logistic", base_rate=0.3, kept=kept) for kept in (1.0, 0.1))
    rows = plain.preparation.prepare(batch())
    assert probability(plain, rows).numpy() == pytest.approx([0.3] * 3)
    assert probability(corrected, rows).numpy() == pytest.approx([0.3 / (0.3 + 0.7 / 0.1)] * 3)
