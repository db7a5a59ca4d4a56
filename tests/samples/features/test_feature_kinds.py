"""Each kind of feature: what goes in, what comes out, what a missing value becomes."""

from __future__ import annotations

from collections.abc import Callable
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

Frame = Callable[..., DataFrame]

SCHEMA = (
    "item struct<price: double, count: int, city: string, tags: map<string, double>, words: array<string>, "
    "vector: array<float>, matrix: array<array<float>>, seen: timestamp, "
    "picture: binary, by_channel: map<int, array<double>>, channel: int>"
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
}
EMPTY: dict[str, Any] = dict.fromkeys(FULL)

MOMENTS = FittedMoments((4,), (10.0,), (3.0,), (1.0,), (21.0,))
QUARTILES = (5.0, 18.0, 20.0)
NAN = pytest.approx(float("nan"), nan_ok=True)
STATE = FittedState(
    name="s",
    lineage="l",
    version=1,
    run_id="r",
    created_at="",
    days=("2019-06-04",),
    declared={},
    vocabularies={"cities": FittedVocabulary(("Oslo", "Lund"), 3, 10), "words": FittedVocabulary(("y", "x"), 1, 4)},
    moments={"f": MOMENTS},
    boundaries={"f": QUARTILES},
)


def job(**features: dict[str, Any]) -> JobConfig:
    return JobConfig.model_validate(
        {
            "name": "s",
            "timezone": "UTC",
            "sources": {"a": {"format": "json", "path": "x", "schema": "t timestamp, item string"}},
            "impressions": {"source": "a", "time": "t", "article": "item", "user": "item"},
            "labels": {"clicked": {"source": "a", "where": "true", "window": "1h"}},
            "features": features,
            "vocabularies": {"cities": {"capacity": 10, "oov_buckets": 3}, "words": {"capacity": 4}},
            "fitted": {"path": "state"},
            "output": {"path": "out"},
        }
    )


def with_ids(rows: DataFrame, config: JobConfig, state: FittedState) -> DataFrame:
    return with_joined_ids(rows, joined_ids(rows, config, state))


def value(frame: Frame, item: dict[str, Any], **features: dict[str, Any]) -> Any:
    """What the feature ``f`` becomes, beside which others may stand."""
    config = job(**features)
    rows = with_ids(frame(SCHEMA, [(tuple(item.values()),)]), config, STATE)
    column = feature_column(rows, "f", config.features["f"], config, STATE)
    first = rows.select(column).first()
    assert first is not None
    return first[0]


def of(column: str, dtype: str = "int64", **more: Any) -> dict[str, Any]:
    return {"from": f"item.{column}", "dtype": dtype, **more}


KINDS: list[tuple[dict[str, Any], Any, Any]] = [
    (of("count"), 25, 0),
    (of("price", "float32", clip=[0, 10]), 10.0, 0.0),
    (of("price", "float32", clip=[20, 30]), 20.0, 0.0),
    (of("price", "float32", clip=[0, 19], log1p=True), pytest.approx(2.9957323), 0.0),
    (of("price", "float32", scale="standardise"), 3.0, 0.0),
    (of("price", "float32", scale="min_max"), 0.9, 0.0),
    (of("price", "float32", scale="min_max", default=-1), 0.9, -1.0),
    (of("price", boundaries=[19, 20]), 2, 0),
    (of("price", boundaries=[10, 18.5, 19.5, 30]), 3, 0),
    (of("price", quantiles=4), 3, 0),
    (of("vector", boundaries=[3.5], ragged=True), [1, 2], []),
    (of("city", vocabulary="cities"), 6, 1),
    (of("words", vocabulary="words", shape=[4]), [4, 2, 3, 0], [0, 0, 0, 0]),
    (of("words", vocabulary="words", shape=[2]), [4, 2], [0, 0]),
    (of("words", vocabulary="words", ragged=True), [4, 2, 3], []),
    (of("words", "float32", vocabulary="words", multi_hot=True), [0, 0, 1, 1, 1, 0, 0], [0] * 7),
    (of("tags", "float32", top_k=2, shape=[2]), [0.9, 0.9], [0.0, 0.0]),
    (of("tags", "float32", top_k=2, shape=[2], order="smallest"), [0.1, 0.9], [0.0, 0.0]),
    (of("tags", "string", top_k=2, shape=[2], part="keys"), ["b", "c"], ["", ""]),
    (of("tags", "string", part="keys", ragged=True), ["b", "c", "a"], []),
    (of("tags", "float32", part="values", ragged=True), [0.9, 0.9, 0.1], []),
    (of("tags", "float32", at="item.words[0]"), 0.0, 0.0),
    (of("tags", "float32", at="'a'"), 0.1, 0.0),
    (of("by_channel", "float32", at="item.channel", top_k=3, shape=[3]), [0.5, 0.25, 0.0], [0.0] * 3),
    (of("by_channel", "float32", at="item.channel + 1", top_k=1, shape=[1]), [0.0], [0.0]),
    (of("seen", date_part="hour"), 23, 0),
    (of("seen", date_part="weekday"), 5, 0),
    (of("seen", date_part="day"), 8, 0),
    (of("seen", date_part="month"), 6, 0),
    (of("seen", date_part="hour_of_week"), 143, 0),
    (of("seen", date_part="weekend"), 1, 0),
    (of("picture", "bytes"), b"\xff\xd8", b""),
    (of("city", "string"), "Lund", ""),
    (of("matrix", "float32", shape=[2, 2]), [[1, 2], [3, 4]], [[0, 0], [0, 0]]),
    (of("matrix", "float32", shape=[2, 2], encoding="tensor"), [[1, 2], [3, 4]], [[0, 0], [0, 0]]),
    (of("vector", "float32", shape=[3], pad=True), [3, 4, 0], [0, 0, 0]),
    (of("vector", "float32", shape=[1], pad=True), [3], [0]),
    (of("price", "float32", nulls="omit"), 19.0, None),
    (of("city", vocabulary="cities", nulls="omit"), 6, None),
    (of("words", vocabulary="words", ragged=True, nulls="fail"), [4, 2, 3], None),
    (of("price", "float32", clip=[0, 9], scale="standardise", computed="model"), 19.0, 0.0),
    (of("words", "string", vocabulary="words", ragged=True, computed="model"), ["x", "new", "y"], []),
    (of("price", "float32", boundaries=[19, 20], computed="model"), 19.0, NAN),
    (of("vector", "float32", boundaries=[9], shape=[3], pad=True, computed="model"), [3.0, 4.0, NAN], [NAN] * 3),
    (of("picture", "string"), b"\xff\xd8", b""),
]
"""A feature, its value in FULL, and its value in EMPTY."""


@pytest.fixture(scope="module")
def values(spark: SparkSession) -> tuple[Row, Row]:
    """All of KINDS at once: for FULL and for EMPTY."""
    features = {f"f{n}": feature for n, (feature, _, _) in enumerate(KINDS)}
    config = job(**features)
    state = replace(STATE, moments=dict.fromkeys(features, MOMENTS), boundaries=dict.fromkeys(features, QUARTILES))
    rows = spark.createDataFrame([(tuple(FULL.values()),), (tuple(EMPTY.values()),)], SCHEMA)
    rows = with_ids(rows.coalesce(1), config, state)
    columns = [feature_column(rows, name, config.features[name], config, state).alias(name) for name in features]
    full, empty = rows.select(*columns).collect()
    return full, empty


@pytest.mark.parametrize("n", range(len(KINDS)), ids=lambda n: " ".join(f"{k}={v}" for k, v in KINDS[n][0].items()))
def test_a_feature_of_each_kind_has_its_value_or_what_stands_for_a_missing_one(values: tuple[Row, Row], n: int) -> None:
    _, full, empty = KINDS[n]
    assert (values[0][n], values[1][n]) == (full, empty)


def test_negative_zero_is_zero_where_a_number_is_hashed_or_looked_up(frame: Frame) -> None:
    features = {
        "f": of("price", hash_buckets=1000),
        "g": of("vector", hash_buckets=1000, ragged=True),
        "h": {"expr": "map('0.0', 7)", "at": "item.price", "dtype": "int64"},
    }
    config = job(**features)
    rows = frame(SCHEMA, [(tuple((FULL | {"price": zero, "vector": [zero, 0.1]}).values()),) for zero in (0.0, -0.0)])
    columns = [feature_column(rows, name, config.features[name], config, STATE) for name in features]
    plain, negative = rows.select(*columns).collect()
    assert plain == negative
    assert plain[1][1] == bucket_of(prefix_of("g"), [b"0.1"], 999) + 1, "the text of a float stays that of a float"
    assert plain[2] == 7


@pytest.mark.thorough
def test_nan_stays_nan_and_is_a_missing_value_where_numbers_become_ids(frame: Frame) -> None:
    item = FULL | {"price": float("nan")}
    assert str(value(frame, item, f=of("price", "float32", clip=[0, 10], scale="min_max"))) == "nan"
    assert value(frame, item, f=of("price", boundaries=[1.0, 2.0])) == 0


@pytest.mark.parametrize(("number", "bucket"), [(-1.0, 1), (9.999, 1), (10.0, 2), (19.999, 2), (20.0, 3), (1e9, 3)])
def test_a_boundary_belongs_to_the_bucket_above_it(frame: Frame, number: float, bucket: int) -> None:
    assert value(frame, FULL | {"price": number}, f=of("price", boundaries=[10, 20])) == bucket


@pytest.mark.thorough
def test_an_unseen_token_shares_an_oov_bucket_that_never_changes(frame: Frame) -> None:
    buckets = [
        value(frame, FULL | {"city": city}, f=of("city", vocabulary="cities")) for city in ("Rome", "Bonn", "Kiel")
    ]
    assert buckets == UNSEEN
    assert all(2 <= bucket < 5 for bucket in buckets)


UNSEEN = [3, 4, 3]


@pytest.mark.thorough
def test_a_single_value_and_a_list_have_the_same_ids_in_one_vocabulary(frame: Frame) -> None:
    for word in ("x", "y", "unseen"):
        (in_list,) = value(frame, FULL | {"words": [word]}, f=of("words", vocabulary="cities", ragged=True))
        assert value(frame, FULL | {"city": word}, f=of("city", vocabulary="cities")) == in_list


def test_a_missing_token_in_a_list_is_not_padding(frame: Frame) -> None:
    item = FULL | {"words": ["y", None]}
    assert value(frame, item, f=of("words", vocabulary="words", shape=[3])) == [3, 1, 0]


@pytest.mark.thorough
def test_an_empty_text_is_a_missing_token(frame: Frame) -> None:
    assert value(frame, FULL | {"city": ""}, f=of("city", vocabulary="cities")) == 1
    assert value(frame, FULL | {"city": ""}, f=of("city", vocabulary="cities", nulls="omit")) is None
    assert value(frame, FULL | {"words": ["y", ""]}, f=of("words", vocabulary="words", shape=[3])) == [3, 1, 0]


def test_what_is_missing_in_a_list_for_the_model_is_what_its_steps_take_for_missing(frame: Frame) -> None:
    tokens = of("words", "string", vocabulary="words", ragged=True, computed="model")
    assert value(frame, FULL | {"words": ["y", None]}, f=tokens) == ["y", ""]
    buckets = of("vector", "float32", boundaries=[2], ragged=True, computed="model")
    assert value(frame, FULL | {"vector": [1.0, None]}, f=buckets) == [1.0, NAN]


@pytest.mark.slow
def test_a_thousand_boundaries_are_no_deep_expression(frame: Frame) -> None:
    many = of("price", boundaries=[n / 50 for n in range(1, 1001)])
    assert value(frame, FULL, f=many) == 951


def test_a_list_of_vectors_from_a_history_is_cut_or_padded_to_whole_vectors(frame: Frame) -> None:
    rows = frame(SCHEMA, [(tuple(FULL.values()),)])
    for shape, expected in (([3, 2], [[1, 2], [3, 4], [0, 0]]), ([1, 2], [[1, 2]])):
        config = job(f=of("matrix", "float32", shape=shape))
        (row,) = rows.select(feature_column(rows, "f", config.features["f"], config, STATE, ["item"])).collect()
        assert row[0] == expected


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


@pytest.mark.thorough
def test_hashed_ids_of_a_list_leave_0_for_padding_and_share_a_salt(frame: Frame) -> None:
    many = FULL | {"words": [f"w{n}" for n in range(50)]}
    ids = value(frame, many, f=of("words", hash_buckets=5, ragged=True))
    assert set(ids) == {1, 2, 3, 4}
    short = value(frame, FULL | {"words": ["w0"]}, f=of("words", hash_buckets=5, shape=[3]))
    assert short == [ids[0], 0, 0]
    salted = of("words", hash_buckets=1000, ragged=True, salt="both")
    assert value(frame, many, f=salted) == value(frame, many, f=salted | {"salt": "both"})
    assert value(frame, many, f=salted) != value(frame, many, f=salted | {"salt": "other"})


def test_a_null_in_a_list_of_numbers_takes_the_fill(frame: Frame) -> None:
    item = FULL | {"vector": [1.0, None]}
    assert value(frame, item, f=of("vector", "float32", shape=[2], fill=-1)) == [1.0, -1.0]


def test_a_vector_is_scaled_by_the_moments_of_each_place(frame: Frame) -> None:
    moments = FittedMoments((2, 2), (1.0, 2.0), (2.0, 0.0), (0.0, 2.0), (3.0, 2.0))
    state = replace(STATE, moments={"f": moments})
    config = job(f=of("vector", "float32", shape=[2], scale="standardise"))
    rows = frame(SCHEMA, [(tuple(FULL.values()),)])
    (row,) = rows.select(feature_column(rows, "f", config.features["f"], config, state)).collect()
    assert row[0] == [1.0, 2.0]  # (3 - 1) / 2 and, where all were equal, 4 - 2


def test_padding_is_not_scaled_and_what_is_beyond_the_shape_is_cut_off(frame: Frame) -> None:
    moments = FittedMoments((2, 2), (1.0, 2.0), (2.0, 4.0), (0.0, 2.0), (3.0, 2.0))
    config = job(f=of("vector", "float32", shape=[2], pad=True, scale="standardise", default=-9))
    rows = frame(SCHEMA, [(tuple((FULL | {"vector": v}).values()),) for v in ([5.0], [5.0, 10.0, 7.0], None)])
    state = replace(STATE, moments={"f": moments})
    column = feature_column(rows, "f", config.features["f"], config, state)
    assert [row[0] for row in rows.select(column).collect()] == [[2.0, -9.0], [2.0, 2.0], [-9.0, -9.0]]


@pytest.mark.thorough
def test_a_cross_tells_combinations_apart_and_depends_on_no_order_of_rows(frame: Frame) -> None:
    cross: dict[str, Any] = {"cross": ["city", "hour"], "dtype": "int64", "hash_buckets": 2**40}
    others = {"city": of("city", "string"), "hour": of("seen", date_part="hour")}
    one = value(frame, FULL, f=cross, **others)
    assert one == value(frame, FULL, f=cross, **others) == CROSSED
    assert one != value(frame, FULL | {"city": "Oslo"}, f=cross, **others)
    assert one != value(frame, FULL | {"seen": datetime(2019, 6, 8, 22, tzinfo=UTC)}, f=cross, **others)


CROSSED = 946875532976  # a change here moves every crossed id


def test_id_25_of_1_to_25_has_a_place_of_its_own(frame: Frame) -> None:
    """The old system had 25 buckets for the channels 1 to 25, and the last one was out of range."""
    channels = FittedVocabulary(tuple(str(n) for n in range(1, 26)), 1, 25)
    state = replace(STATE, vocabularies={"cities": channels})
    config = job(f=of("count", vocabulary="cities"))
    rows = with_ids(frame(SCHEMA, [(tuple((FULL | {"count": n}).values()),) for n in range(1, 26)]), config, state)
    ids = [r[0] for r in rows.select(feature_column(rows, "f", config.features["f"], config, state)).collect()]
    assert sorted(ids) == list(range(3, 28))
    assert channels.buckets == 28


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        (of("price", vocabulary="cities"), "features.f: found double, expected text, an integer, a boolean or a date"),
        (of("city", boundaries=[1]), "features.f: found string, expected a number for `dtype: int64`"),
        (of("price", "float32", at="'a'"), "features.f: `at` needs a map, found double"),
        (of("words", "string", part="keys", ragged=True, top_k=2), "`part: keys` needs a map, found array<string>"),
        (of("words", "string", part="keys", ragged=True), "`part: keys` needs a map, found array<string>"),
        (of("matrix", "float32", multi_hot=True, hash_buckets=9), "found array<array<float>>, .* nested 2 deep"),
        (of("words", "float32", top_k=2, shape=[2]), "found string in array<string>, expected numbers to sort by"),
        (of("matrix", "float32", shape=[4]), r"nested 2 deep, but `shape: \[4\]` has 1 dimension"),
        (of("price", "float32", shape=[2, 2]), r"`shape: \[2, 2\]` needs an array, found double"),
        (of("words", vocabulary="words"), "found array<string>, expected an integer or boolean .* set `shape: "),
        (of("city", date_part="hour"), None),
        (of("count", date_part="hour"), "is int, expected a time; say its unit"),
    ],
)
def test_data_of_another_form_are_refused_before_anything_runs(
    frame: Frame, feature: dict[str, Any], message: str | None
) -> None:
    rows = frame(SCHEMA, [])
    config = job(f=feature)
    if message is None:  # text may hold times
        feature_column(rows, "f", config.features["f"], config, STATE)
        return
    with pytest.raises(InputError, match=message):
        feature_column(with_ids(rows, config, STATE), "f", config.features["f"], config, STATE)


def test_a_number_without_a_logarithm_ends_the_run_and_says_what_helps(frame: Frame) -> None:
    with pytest.raises(
        Exception, match=r"features.f: found -2.0, expected a number above -1 .* set `clip: \[0, ...\]`"
    ):
        value(frame, FULL | {"price": -2.0}, f=of("price", "float32", log1p=True))


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"dtype": "int64"}, "give exactly one of `from`, `expr` and `cross`"),
        (of("a", vocabulary="v", hash_buckets=3), "give `hash_buckets` or `vocabulary`, not both"),
        (of("a", "string", vocabulary="v"), "`vocabulary` makes ids: set `dtype: int64`"),
        (of("a", boundaries=[2, 1]), "expected finite numbers in ascending order"),
        (of("a", "float32", clip=[1, 1]), "two finite numbers, the smaller one first"),
        (of("a", clip=[0, 1]), "this makes a number: set `dtype: float32`"),
        (of("a", "float32", boundaries=[1]), "`boundaries` makes ids: set `dtype: int64`"),
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
        (of("a", multi_hot=True, hash_buckets=9, default=1), "a missing value has an id of its own"),
        (of("a", "float32", multi_hot=True, hash_buckets=9, clip=[0, 1]), "`hash_buckets` makes ids"),
        ({"cross": ["x", "y"], "dtype": "float32", "hash_buckets": 9, "multi_hot": True}, "`cross` makes one id"),
        (of("a", fill=1), "`fill` is for lists"),
        (of("a", "float32", shape=[2, 2], scale="standardise"), "a shape has at most one dimension here"),
        (of("a", "string", vocabulary="v", shape=[2], computed="model"), "a model cannot tell padding from"),
        (of("a", date_part="hour", at="1"), "`date_part` takes a part of one time"),
        (of("a", date_part="hour", top_k=1, shape=[1]), "`date_part` takes a part of one time"),
        (of("a", date_part="hour", default=24), "found `default: 24`, expected 0 to 23 for `date_part: hour`"),
        (of("a", boundaries=list(range(1001))), "found 1001 `boundaries`, expected at most 1000"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(feature: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Feature.model_validate(feature)


def test_a_vocabulary_too_large_for_lists_is_refused_with_advice(frame: Frame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctr_samples.samples.features.values.MOST_TOKENS_OF_A_LIST", 1)
    with pytest.raises(CtrSamplesError, match="2 tokens, but a list is looked up in at most 1; use `hash_buckets`"):
        value(frame, FULL, f=of("words", vocabulary="words", ragged=True))
