"""Features: the value on the wire for each kind, and the sentence for data of another form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from ctr_samples.config import Feature
from ctr_samples.errors import InputError
from ctr_samples.samples.features.one_feature import feature_column

Frame = Callable[..., DataFrame]

SCHEMA = (
    "item struct<price: double, shown: boolean, city: string, tags: map<string, double>, vector: array<float>, "
    "ids: array<int>, weight: decimal(10,2), at: timestamp>"
)


def value(frame: Frame, item: tuple[Any, ...], **feature: Any) -> Any:
    rows = frame(SCHEMA, [(item,)])
    first = rows.select(feature_column(rows, "f", Feature.model_validate(feature))).first()
    assert first is not None
    return first[0]


FULL = (2.5, True, "Lund", {"a": 0.1, "b": 0.9, "c": 0.5}, [1.0, 2.0], [3, 4], None, None)
EMPTY = (None,) * 8


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("feature", "full", "empty"),
    [
        ({"from": "item.price", "dtype": "float32"}, 2.5, 0.0),
        ({"from": "item.price", "dtype": "float32", "default": -1}, 2.5, -1.0),
        ({"from": "item.shown", "dtype": "int64"}, 1, 0),
        ({"from": "item.city", "dtype": "string"}, "Lund", ""),
        ({"from": "item.city", "dtype": "string", "default": "?"}, "Lund", "?"),
        ({"expr": "log1p(item.price - 2.5)", "dtype": "float32", "default": 9}, 0.0, 9.0),
        ({"from": "item.vector", "dtype": "float32", "shape": [2]}, [1.0, 2.0], [0.0, 0.0]),
        ({"from": "item.ids", "dtype": "int64", "shape": [2], "default": -1}, [3, 4], [-1, -1]),
        ({"from": "item.tags", "dtype": "float32", "shape": [2], "top_k": 2}, [0.9, 0.5], [0.0, 0.0]),
        ({"from": "item.tags", "dtype": "float32", "shape": [5], "top_k": 5}, [0.9, 0.5, 0.1, 0.0, 0.0], [0.0] * 5),
        ({"from": "item.vector", "dtype": "float32", "shape": [1], "top_k": 1}, [2.0], [0.0]),
        ({"expr": "item.tags['b']", "dtype": "float32"}, 0.9, 0.0),
    ],
)
def test_a_feature_has_its_value_or_its_default(frame: Frame, feature: dict[str, Any], full: Any, empty: Any) -> None:
    assert value(frame, FULL, **feature) == full
    assert value(frame, EMPTY, **feature) == empty


@pytest.mark.parametrize("order", ["greatest", "smallest"])
@pytest.mark.parametrize("tags", [{"a": -0.0, "b": 0.0}, {"a": 0.0, "b": -0.0}])
def test_numbers_in_order_have_one_zero(frame: Frame, order: str, tags: dict[str, float]) -> None:
    item = (None, None, None, tags, None, None, None, None)
    taken = value(frame, item, **{"from": "item.tags", "dtype": "float32", "shape": [2], "top_k": 2, "order": order})
    assert str(taken) == "[0.0, 0.0]"


def test_the_greatest_numbers_leave_out_nan_and_null(frame: Frame) -> None:
    item = (None, None, None, {"a": float("nan"), "b": None, "c": 0.5}, None, None, None, None)
    assert value(frame, item, **{"from": "item.tags", "dtype": "float32", "shape": [2], "top_k": 2}) == [0.5, 0.0]


def test_a_hashed_id_is_stable_below_its_limit_and_differs_between_features(frame: Frame) -> None:
    rows = frame("item struct<city: string>", [((f"city {n}",),) for n in range(200)])
    feature = Feature.model_validate({"from": "item.city", "dtype": "int64", "hash_buckets": 10})
    one, other = (
        [r[0] for r in rows.select(feature_column(rows, name, feature)).collect()] for name in ("one", "other")
    )
    assert set(one) == set(range(1, 10))
    assert one != other
    assert one[:3] == FIRST_THREE


def test_a_missing_value_has_an_id_that_no_value_has(frame: Frame) -> None:
    rows = frame("item struct<city: string>", [(("a",),), ((None,),), (None,), (("b",),)])
    feature = Feature.model_validate({"from": "item.city", "dtype": "int64", "hash_buckets": 2})
    assert [r[0] for r in rows.select(feature_column(rows, "city", feature)).collect()] == [1, 0, 0, 1]


def test_single_values_and_lists_share_the_ids_of_a_salt(frame: Frame) -> None:
    rows = frame("item struct<city: string, cities: array<string>>", [(("a", ["b", "a"]),), (("b", []),)])
    of = {"dtype": "int64", "hash_buckets": 1000, "salt": "city"}
    one = Feature.model_validate({"from": "item.city", **of})
    many = Feature.model_validate({"from": "item.cities", "shape": [2], "pad": True, **of})
    a, b = rows.select(feature_column(rows, "one", one), feature_column(rows, "many", many)).collect()
    assert (a[1], b[1]) == ([b[0], a[0]], [0, 0])


FIRST_THREE = [5, 9, 1]  # a change here moves every id of every trained embedding


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"from": "item.price", "dtype": "int64"}, "features.f: found double, expected an integer or boolean"),
        ({"from": "item.city", "dtype": "float32"}, "features.f: found string, expected a number"),
        ({"from": "item.price", "dtype": "string"}, "features.f: found double, expected text or binary"),
        ({"from": "item.at", "dtype": "int64"}, "features.f: found timestamp, expected an integer"),
        ({"from": "item.vector", "dtype": "float32"}, r"found array<float>, expected a number .* set `shape: "),
        ({"from": "item.price", "dtype": "float32", "shape": [2]}, r"`shape: \[2\]` needs an array, found double"),
        ({"from": "item.price", "dtype": "float32", "shape": [2], "top_k": 2}, "`top_k` needs an array or a map"),
        ({"from": "item.prize", "dtype": "float32"}, "features.f: No such struct field `prize`"),
        ({"from": "itm.price", "dtype": "float32"}, "features.f: there is no column 'itm'; did you mean 'item'?"),
    ],
)
def test_data_of_another_form_are_refused_before_anything_runs(
    frame: Frame, feature: dict[str, Any], message: str
) -> None:
    rows = frame(SCHEMA, [])
    with pytest.raises(InputError, match=message):
        feature_column(rows, "f", Feature.model_validate(feature))
