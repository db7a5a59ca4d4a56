"""Each kind of feature: what goes in, what comes out, what a missing value becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from ctr_samples.config import Feature, JobConfig
from ctr_samples.errors import CtrSamplesError, InputError
from ctr_samples.samples.features.contracts import columns_contract
from ctr_samples.samples.features.one_feature import feature_column
from ctr_samples.samples.features.values import joined_ids, with_joined_ids
from ctr_samples.serving.hashing import bucket_of, prefix_of
from ctr_samples.vocabulary import FittedMoments, FittedState, FittedVocabulary
from tests.support.literal_frames import Frame, literal
from tests.support.minimal_config import minimal

Values = dict[str, dict[str, Any]]
"""The features of each item."""

SCHEMA = (
    "item struct<price: double, count: int, city: string, tags: map<string, double>, words: array<string>, "
    "vector: array<float>, matrix: array<array<float>>, seen: timestamp, "
    "picture: binary, by_channel: map<int, array<double>>, channel: int, shown: boolean, ids: array<int>, "
    "weight: decimal(10,2), noted: string>"
)
FULL: dict[str, Any] = {
    "price": 19.0,
    "count": 25,
    "city": "Lund",
    "tags": {"a": 0.1, "b": 0.9, "c": 0.9},
    "words": ["x", "new", "y"],
    "vector": [3.0, 4.0],
    "matrix": [[1.0, 2.0], [3.0, 4.0]],
    "seen": datetime(2019, 6, 8, 23, 30, tzinfo=UTC),  # a Saturday
    "picture": bytearray(b"\xff\xd8"),
    "by_channel": {7: [0.5, 0.25]},
    "channel": 7,
    "shown": True,
    "ids": [3, 4],
    "weight": None,
    "noted": "2019-06-08 07:30:00",
}
EMPTY: dict[str, Any] = dict.fromkeys(FULL)

MOMENTS = FittedMoments((4,), (10.0,), (3.0,), (1.0,), (21.0,))
QUARTILES = (5.0, 18.0, 20.0)
NAN = pytest.approx(float("nan"), nan_ok=True)
VOCABULARIES = {
    "cities": FittedVocabulary(("Oslo", "Lund"), 3, 10),
    "words": FittedVocabulary(("y", "x"), 1, 4),
}
STATE = FittedState("s", "l", 1, "r", "", (), {}, VOCABULARIES, {"f": MOMENTS}, {"f": QUARTILES})


def job(**features: dict[str, Any]) -> JobConfig:
    source = {"format": "json", "path": "x", "schema": "at timestamp, item string"}
    vocabularies = {"cities": {"capacity": 10, "oov_buckets": 3}, "words": {"capacity": 4}}
    return minimal(sources={"log": source}, features=features, vocabularies=vocabularies, fitted={"path": "state"})


def with_ids(rows: DataFrame, config: JobConfig, state: FittedState) -> DataFrame:
    return with_joined_ids(rows, joined_ids(rows, config, state))


def of(column: str, dtype: str = "int64", **more: Any) -> dict[str, Any]:
    return {"from": f"item.{column}", "dtype": dtype, **more}


KINDS: list[tuple[dict[str, Any], Any, Any]] = [
    (of("count"), 25, 0),
    (of("price", "float32"), 19.0, 0.0),
    (of("price", "float32", default=-1), 19.0, -1.0),
    (of("shown"), 1, 0),
    ({"expr": "log1p(item.price - 19)", "dtype": "float32", "default": 9}, 0.0, 9.0),
    ({"expr": "item.tags['b']", "dtype": "float32"}, 0.9, 0.0),
    (of("ids", shape=[2], default=-1), [3, 4], [-1, -1]),
    (of("tags", "float32", shape=[5], top_k=5), [0.9, 0.9, 0.1, 0.0, 0.0], [0.0] * 5),
    (of("city", "string", default="?"), "Lund", "?"),
    (of("price", "float32", clip=[20, 30]), 20.0, 0.0),
    (of("price", "float32", clip=[0, 19], log1p=True), pytest.approx(2.9957323), 0.0),
    (of("price", "float32", scale="standardise"), 3.0, 0.0),
    (of("price", "float32", scale="min_max", default=-1), 0.9, -1.0),
    (of("price", boundaries=[19, 20]), 2, 0),
    (of("price", quantiles=4), 3, 0),
    (of("vector", boundaries=[3.5], ragged=True), [1, 2], []),
    (of("city", vocabulary="cities"), 6, 1),
    (of("words", vocabulary="words", shape=[4]), [4, 2, 3, 0], [0, 0, 0, 0]),
    (of("words", vocabulary="words", ragged=True), [4, 2, 3], []),
    (of("words", "float32", vocabulary="words", multi_hot=True), [0, 0, 1, 1, 1, 0, 0], [0] * 7),
    (of("tags", "float32", top_k=2, shape=[2], order="smallest"), [0.1, 0.9], [0.0, 0.0]),
    (of("tags", "string", top_k=2, shape=[2], part="keys"), ["b", "c"], ["", ""]),
    (of("tags", "string", part="keys", ragged=True), ["b", "c", "a"], []),
    (of("tags", "float32", at="'a'"), 0.1, 0.0),
    (of("by_channel", "float32", at="item.channel", top_k=3, shape=[3]), [0.5, 0.25, 0.0], [0.0] * 3),
    (of("by_channel", "float32", at="item.channel + 1", top_k=1, shape=[1]), [0.0], [0.0]),
    (of("seen", date_part="hour"), 23, 0),
    (of("noted", date_part="hour"), 7, 0),
    (of("seen", date_part="weekday"), 5, 0),
    (of("seen", date_part="day"), 8, 0),
    (of("seen", date_part="month"), 6, 0),
    (of("seen", date_part="hour_of_week"), 143, 0),
    (of("seen", date_part="weekend"), 1, 0),
    (of("picture", "bytes"), b"\xff\xd8", b""),
    (of("city", "string"), "Lund", ""),
    (of("matrix", "float32", shape=[2, 2]), [[1, 2], [3, 4]], [[0, 0], [0, 0]]),
    (of("vector", "float32", shape=[3], pad=True), [3, 4, 0], [0, 0, 0]),
    (of("vector", "float32", shape=[1], pad=True), [3], [0]),
    (of("price", "float32", nulls="omit"), 19.0, None),
    (of("words", vocabulary="words", ragged=True, nulls="fail"), [4, 2, 3], None),
    (of("price", "float32", clip=[0, 9], scale="standardise", computed="model"), 19.0, 0.0),
    (of("words", "string", vocabulary="words", ragged=True, computed="model"), ["x", "new", "y"], []),
    (of("price", "float32", boundaries=[19, 20], computed="model"), 19.0, NAN),
    (of("vector", "float32", boundaries=[9], shape=[3], pad=True, computed="model"), [3.0, 4.0, NAN], [NAN] * 3),
    (of("picture", "string"), b"\xff\xd8", b""),
]
"""A feature, its value in FULL, and its value in EMPTY."""


def columns_of(
    spark: SparkSession,
    items: Sequence[dict[str, Any]],
    named: dict[str, dict[str, Any]],
    moments: dict[str, FittedMoments] | None = None,
) -> list[Row]:
    """A row for each item with all the features, computed at once."""
    config = job(**named)
    of_each = dict.fromkeys(named, MOMENTS) | (moments or {})
    state = replace(STATE, moments=of_each, boundaries=dict.fromkeys(named, QUARTILES))
    rows = literal(spark, [(tuple(item.values()),) for item in items], SCHEMA)
    rows = with_ids(rows.coalesce(1), config, state)
    return rows.select(
        *[feature_column(rows, name, config.features[name], config, state).alias(name) for name in named]
    ).collect()


def name_of(feature: dict[str, Any]) -> str:
    return f"f{EVERY.index(feature)}"


@pytest.mark.parametrize("n", range(len(KINDS)), ids=lambda n: " ".join(f"{k}={v}" for k, v in KINDS[n][0].items()))
def test_a_feature_of_each_kind_has_its_value_or_what_stands_for_a_missing_one(values: Values, n: int) -> None:
    feature, full, empty = KINDS[n]
    assert (values["full"][name_of(feature)], values["empty"][name_of(feature)]) == (full, empty)


TOKEN = of("city", vocabulary="cities")
TWO = of("price", boundaries=[10, 20])
TOP = of("tags", "float32", top_k=2, shape=[2])
LEAST = {**TOP, "order": "smallest"}
WORDS = of("words", vocabulary="words", shape=[3])
TOKENS = of("words", "string", vocabulary="words", ragged=True, computed="model")
BUCKETS = of("vector", "float32", boundaries=[2], ragged=True, computed="model")
FIFTIETHS = of("price", boundaries=[n / 50 for n in range(1, 1001)])
ZEROS = [{"a": -0.0, "b": 0.0}, {"a": 0.0, "b": -0.0}]
CASES: dict[str, list[tuple[dict[str, Any], dict[str, Any], Any]]] = {
    "nan stays nan, and is a missing value where numbers become ids": [
        ({"price": float("nan")}, of("price", "float32", clip=[0, 10], scale="min_max"), NAN),
        ({"price": float("nan")}, TWO, 0),
    ],
    "a boundary belongs to the bucket above it": [
        ({"price": number}, TWO, bucket) for number, bucket in ((-1.0, 1), (9.999, 1), (10.0, 2), (20.0, 3))
    ],
    # A change here moves every unseen token.
    "an unseen token shares an oov bucket": [
        ({"city": city}, TOKEN, bucket) for city, bucket in (("Rome", 3), ("Bonn", 4), ("Kiel", 3))
    ],
    "a missing token in a list is not padding": [({"words": ["y", None]}, WORDS, [3, 1, 0])],
    "an empty text is a missing token": [
        ({"city": ""}, TOKEN, 1),
        ({"city": ""}, {**TOKEN, "nulls": "omit"}, None),
        ({"words": ["y", ""]}, WORDS, [3, 1, 0]),
    ],
    "what is missing in a list for the model is what its steps take for missing": [
        ({"words": ["y", None]}, TOKENS, ["y", ""]),
        ({"vector": [1.0, None]}, BUCKETS, [1.0, NAN]),
    ],
    "a thousand boundaries are no deep expression": [({}, FIFTIETHS, 951)],
    "a null in a list of numbers takes the fill": [
        ({"vector": [1.0, None]}, of("vector", "float32", shape=[2], fill=-1), [1.0, -1.0])
    ],
    "numbers in order have one zero": [({"tags": tags}, how, [0.0, 0.0]) for tags in ZEROS for how in (TOP, LEAST)],
    "the greatest numbers leave out nan and null": [
        ({"tags": {"a": float("nan"), "b": None, "c": 0.5}}, TOP, [0.5, 0.0])
    ],
}
"""What changes in FULL, a feature, and its value then."""


OF_CASES = [(what, FULL | changed, feature) for what, some in CASES.items() for changed, feature, _ in some]
EVERY: list[dict[str, Any]] = []
"""The features of KINDS and CASES, each once."""
for one in (*[kind for kind, _, _ in KINDS], *[feature for *_, feature in OF_CASES]):
    if one not in EVERY:
        EVERY.append(one)
SALTED = {"hash_buckets": 1000, "salt": "both"}
NAMED: dict[str, dict[str, Any]] = {
    "one": of("city", hash_buckets=10),
    "other": of("city", hash_buckets=10),
    "two_ids": of("city", hash_buckets=2),
    "token": TOKEN,
    "tokens": of("words", vocabulary="cities", ragged=True),
    "salted": of("city", **SALTED),
    "all_salted": of("words", ragged=True, **SALTED),
    "of_another_salt": of("words", ragged=True, **SALTED | {"salt": "other"}),
    "few": of("words", hash_buckets=5, ragged=True, salt="few"),
    "few_padded": of("words", hash_buckets=5, shape=[3], salt="few"),
    "zero": of("price", hash_buckets=1000),
    "zeros": of("vector", hash_buckets=1000, ragged=True),
    "at_zero": {"expr": "map('0.0', 7)", "at": "item.price", "dtype": "int64"},
    "scaled": of("vector", "float32", shape=[2], scale="standardise"),
    "padded": of("vector", "float32", shape=[2], pad=True, scale="standardise", default=-9),
    "city": of("city", "string"),
    "hour": of("seen", date_part="hour"),
    "f": {"cross": ["city", "hour"], "dtype": "int64", "hash_buckets": 2**40},
}
WORDS_OF = ["x", "y", "unseen"]
ITEMS = {
    "full": FULL,
    "empty": EMPTY,
    **{f"case {n}": item for n, (_, item, _) in enumerate(OF_CASES)},
    **{f"city {n}": FULL | {"city": f"city {n}"} for n in range(60)},
    **{word: FULL | {"city": word, "words": [word]} for word in WORDS_OF},
    "many words": FULL | {"words": [f"w{n}" for n in range(50)]},
    "one word": FULL | {"words": ["w0"]},
    "plain zero": FULL | {"price": 0.0, "vector": [0.0, 0.1]},
    "negative zero": FULL | {"price": -0.0, "vector": [-0.0, 0.1]},
    "short": FULL | {"vector": [5.0]},
    "long": FULL | {"vector": [5.0, 10.0, 7.0]},
    "in Oslo": FULL | {"city": "Oslo"},
    "at ten": FULL | {"seen": datetime(2019, 6, 8, 22, tzinfo=UTC)},
}


@pytest.fixture(scope="module")
def values(spark: SparkSession) -> Values:
    """The features of each item, by two queries: many features of few items, and few of many."""
    of_vectors = {
        "scaled": FittedMoments((2, 2), (1.0, 2.0), (2.0, 0.0), (0.0, 2.0), (3.0, 2.0)),
        "padded": FittedMoments((2, 2), (1.0, 2.0), (2.0, 4.0), (0.0, 2.0), (3.0, 2.0)),
    }
    kinds = {name_of(feature): feature for feature in EVERY}
    few = {name: item for name, item in ITEMS.items() if name in ("full", "empty") or name.startswith("case ")}
    rows = columns_of(spark, list(ITEMS.values()), NAMED, of_vectors)
    found = {name: row.asDict() for name, row in zip(ITEMS, rows, strict=True)}
    for name, row in zip(few, columns_of(spark, list(few.values()), kinds), strict=True):
        found[name] |= row.asDict()
    return found


@pytest.mark.parametrize("what", CASES)
def test_a_value_that_is_special(values: Values, what: str) -> None:
    found = [values[f"case {n}"][name_of(feature)] for n, (case, _, feature) in enumerate(OF_CASES) if case == what]
    assert found == [expected for *_, expected in CASES[what]]
    assert "-0.0" not in str(found) or "zero" not in what


def test_negative_zero_is_zero_where_a_number_is_hashed_or_looked_up(values: Values) -> None:
    plain, negative = values["plain zero"], values["negative zero"]
    assert [plain[name] for name in ("zero", "zeros")] == [negative[name] for name in ("zero", "zeros")]
    assert plain["zeros"][1] == bucket_of(prefix_of("zeros"), [b"0.1"], 999) + 1, (
        "the text of a float stays that of a float"
    )
    assert plain["at_zero"] == negative["at_zero"] == 7


def test_single_values_and_lists_share_ids_and_a_missing_value_has_one_that_no_value_has(values: Values) -> None:
    alike = [values[word] for word in WORDS_OF]
    assert [[row["token"]] for row in alike] == [row["tokens"] for row in alike]
    assert [[row["salted"]] for row in alike] == [row["all_salted"] for row in alike]
    long, short = values["many words"], values["one word"]
    assert long["all_salted"] != long["of_another_salt"], "salts"
    assert {*long["few"]} == {1, 2, 3, 4}, "0 is for padding"
    assert short["few_padded"] == [short["few"][0], 0, 0]
    assert ([row["two_ids"] for row in alike], values["empty"]["two_ids"]) == ([1, 1, 1], 0)


def test_a_hashed_id_is_stable_below_its_limit_and_differs_between_features(values: Values) -> None:
    one, other = ([values[f"city {n}"][name] for n in range(60)] for name in ("one", "other"))
    assert set(one) == set(range(1, 10))
    assert one != other
    assert one[:3] == FIRST_THREE


FIRST_THREE = [5, 9, 1]  # a change here moves every id of every trained embedding


def test_a_list_of_vectors_from_a_history_is_cut_or_padded_to_whole_vectors(frame: Frame) -> None:
    rows = frame(SCHEMA, [(tuple(FULL.values()),)])
    config = job(cut=of("matrix", "float32", shape=[1, 2]), padded=of("matrix", "float32", shape=[3, 2]))
    columns = [feature_column(rows, name, config.features[name], config, STATE, ["item"]) for name in config.features]
    assert rows.select(columns).collect() == [([[1, 2]], [[1, 2], [3, 4], [0, 0]])]


@pytest.mark.parametrize(
    ("feature", "buckets"),
    [
        (of("seen", date_part="hour"), 24),
        (of("seen", date_part="hour", hash_buckets=50), 50),
        (of("seen", date_part="hour", vocabulary="cities"), 15),
        (of("seen", date_part="hour", boundaries=[6, 12]), 4),
        (of("seen", "float32", date_part="hour"), None),
        (of("seen", "float32", date_part="hour", clip=[1, 5], computed="model"), None),
    ],
)
def test_the_contract_has_as_many_ids_as_the_feature_can_have(feature: dict[str, Any], buckets: int | None) -> None:
    assert columns_contract(job(f=feature), STATE)["f"].buckets == buckets


def test_a_vector_is_scaled_by_the_moments_of_each_place_but_its_padding_is_not(values: Values) -> None:
    assert values["full"]["scaled"] == [1.0, 2.0]  # (3 - 1) / 2 and, where all were equal, 4 - 2
    found = [values[name]["padded"] for name in ("short", "long", "empty")]
    assert found == [[2.0, -9.0], [2.0, 2.0], [-9.0, -9.0]], "what is beyond the shape is cut off"


def test_a_cross_tells_combinations_apart_and_depends_on_no_order_of_rows(values: Values) -> None:
    one, town, hour, again = (values[name]["f"] for name in ("full", "in Oslo", "at ten", "one word"))
    assert one == again == CROSSED
    assert len({one, town, hour}) == 3


CROSSED = 946875532976  # a change here moves every crossed id


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        (of("price"), "features.f: found double, expected an integer or boolean"),
        (of("city", "float32"), "features.f: found string, expected a number"),
        (of("seen"), "features.f: found timestamp, expected an integer"),
        (of("vector", "float32"), r"found array<float>, expected a number .* set `shape: "),
        (of("price", "float32", shape=[2]), r"`shape: \[2\]` needs an array, found double"),
        (of("price", "float32", shape=[2], top_k=2), "`top_k` needs an array or a map"),
        (of("prize", "float32"), "features.f: No such struct field `prize`"),
        ({"from": "itm.price", "dtype": "float32"}, "features.f: there is no column 'itm'; did you mean 'item'?"),
        (of("price", vocabulary="cities"), "features.f: found double, expected text, an integer, a boolean or a date"),
        (of("city", boundaries=[1]), "features.f: found string, expected a number for `dtype: int64`"),
        (of("price", "float32", at="'a'"), "features.f: `at` needs a map, found double"),
        (of("words", "string", part="keys", ragged=True, top_k=2), "`part: keys` needs a map, found array<string>"),
        (of("matrix", "float32", multi_hot=True, hash_buckets=9), "found array<array<float>>, .* nested 2 deep"),
        (of("words", "float32", top_k=2, shape=[2]), "found string in array<string>, expected numbers to sort by"),
        (of("matrix", "float32", shape=[4]), r"nested 2 deep, but `shape: \[4\]` has 1 dimension"),
        (of("count", date_part="hour"), "is int, expected a time; say its unit"),
    ],
)
def test_data_of_another_form_are_refused_before_anything_runs(
    frame: Frame, feature: dict[str, Any], message: str
) -> None:
    rows = frame(SCHEMA, [])
    config = job(f=feature)
    with pytest.raises(InputError, match=message):
        feature_column(with_ids(rows, config, STATE), "f", config.features["f"], config, STATE)


def test_a_number_without_a_logarithm_ends_the_run_and_says_what_helps(spark: SparkSession) -> None:
    with pytest.raises(
        Exception, match=r"features.f: found -2.0, expected a number above -1 .* set `clip: \[0, ...\]`"
    ):
        columns_of(spark, [FULL | {"price": -2.0}], {"f": of("price", "float32", log1p=True)})


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"dtype": "int64"}, "give exactly one of `from`, `expr`, `cross`, `lookup`, `overlap` and `dot`"),
        (of("a", "string", vocabulary="v"), "`vocabulary` makes ids: set `dtype: int64`"),
        (of("a", boundaries=[2, 1]), "expected finite numbers in ascending order"),
        (of("a", "float32", clip=[1, 1]), "two finite numbers, the smaller one first"),
        (of("a", clip=[0, 1]), "this makes a number: set `dtype: float32`"),
        (of("a", boundaries=[1], computed="model"), "set `dtype: float32`, from which the model makes them"),
        (of("a", "string", vocabulary="v", scale="min_max"), "`vocabulary` makes ids and takes no `clip`"),
        (of("a", salt="x"), "`salt` is for `hash_buckets`"),
        (of("a", "float32", multi_hot=True), "`multi_hot` needs the ids"),
        (of("a", "float32", multi_hot=True, hash_buckets=5000), "`multi_hot` is for at most 4096 ids"),
        (of("a", order="smallest"), "`order` is for `top_k`"),
        (of("a", hash_buckets=3, computed="model"), "`hash_buckets` is computed in the sample"),
        (of("a", computed="model"), "`computed: model` needs `clip`"),
        (of("a", "string", encoding="raw"), "`encoding` is for tensors of numbers"),
        (of("a", nulls="omit", default=1), "`nulls: omit` writes no `default`"),
        ({"cross": ["x"], "dtype": "int64", "hash_buckets": 9}, "`cross` takes two or more features"),
        ({"cross": ["x", "y"], "dtype": "int64"}, "needs `hash_buckets`"),
        (of("a", vocabulary="v", default=1), "a missing value has an id of its own"),
        (of("a", "float32", multi_hot=True, hash_buckets=9, clip=[0, 1]), "`hash_buckets` makes ids"),
        ({"cross": ["x", "y"], "dtype": "float32", "hash_buckets": 9, "multi_hot": True}, "`cross` makes one id"),
        (of("a", fill=1), "`fill` is for lists"),
        (of("a", "float32", shape=[2, 2], scale="standardise"), "a shape has at most one dimension here"),
        (of("a", "string", vocabulary="v", shape=[2], computed="model"), "a model cannot tell padding from"),
        (of("a", date_part="hour", at="1"), "`date_part` takes a part of one time"),
        (of("a", date_part="hour", default=24), "found `default: 24`, expected 0 to 23 for `date_part: hour`"),
        (of("a", boundaries=list(range(1001))), "found 1001 `boundaries`, expected at most 1000"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(feature: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Feature.model_validate(feature)


def test_a_vocabulary_too_large_for_lists_is_refused_with_advice(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctr_samples.samples.features.values.MOST_TOKENS_OF_A_LIST", 1)
    with pytest.raises(CtrSamplesError, match="2 tokens, but a list is looked up in at most 1; use `hash_buckets`"):
        columns_of(spark, [FULL], {"f": of("words", vocabulary="words", ragged=True)})
