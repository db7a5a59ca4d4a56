"""The joins as public functions: their examples are programs, and keys, times and names may be any."""

from __future__ import annotations

import doctest
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import ctr_samples
from ctr_samples import dataframes
from ctr_samples.errors import InputError
from tests.support.literal_frames import Frame


@pytest.fixture(autouse=True, params=["false", pytest.param("true", marks=pytest.mark.thorough)])
def large_types(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Let Spark hand text and bytes to Python with offsets of 32 bits, and then of 64 bits."""
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", request.param)
    yield
    spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")


@pytest.mark.parametrize("name", dataframes.__all__)
def test_an_example_prints_what_it_says(spark: SparkSession, name: str) -> None:
    function = getattr(ctr_samples, name)
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, globs={"spark": spark, name: function})
    assert test.examples
    results = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(test)
    assert results.failed == 0


@pytest.fixture
def shown(frame: Frame) -> DataFrame:
    """Three keys of two columns, one of them null; the names are those that the job uses itself."""
    return frame(
        "user string, article int, impression timestamp, label string",
        [
            ("a", 1, "2019-06-05 10:00:00", "x"),
            ("a", 11, "2019-06-05 10:00:00", "y"),
            (None, 1, "2019-06-05 10:00:00", "z"),
        ],
    )


@pytest.mark.thorough
def test_several_columns_make_one_key_and_a_null_in_it_matches_nothing(frame: Frame, shown: DataFrame) -> None:
    features = frame(
        "user string, article int, since timestamp, until timestamp, price int",
        [
            ("a", 1, "2019-06-05 08:00:00", None, 10),
            ("a", 1, "2019-06-05 09:00:00", "2019-06-05 09:30:00", 8),
            ("a", 11, "2019-06-05 08:00:00", "2019-06-05 09:00:00", 20),
            (None, 1, "2019-06-05 08:00:00", None, 30),
        ],
    )
    for method in ("union", "intervals"):
        joined = ctr_samples.as_of_join(
            shown,
            features,
            on=["user", "article"],
            time="impression",
            event_time="since",
            valid_to="until",
            columns=["price"],
            method=method,
        )
        assert joined.columns == [*shown.columns, "features"]
        found = {row.label: (row.features.price, row.features.matched) for row in joined.collect()}
        assert found == {"x": (10, True), "y": (None, False), "z": (None, False)}


@pytest.mark.thorough
def test_labels_counts_and_histories_keep_each_impression_once(frame: Frame, shown: DataFrame) -> None:
    log = frame(
        "user string, article int, at timestamp, seconds int",
        [("a", 1, "2019-06-05 10:05:00", 30), ("a", 1, "2019-06-05 10:06:00", 12), ("a", 11, "2019-06-05 09:00:00", 7)],
    )
    keys = ["user", "article"]
    labelled = ctr_samples.attribute_labels(
        shown,
        log,
        on=keys,
        time="impression",
        action_time="at",
        window="1h",
        value="seconds",
        reduce="sum",
        name="dwell",
    )
    counted = ctr_samples.windowed_aggregates(
        labelled, log, on=keys, time="impression", event_time="at", windows=["2h"], sums={"spent": "seconds"}
    )
    whole = ctr_samples.join_history(
        counted,
        log,
        on="user",
        time="impression",
        action_time="at",
        item="article",
        last=2,
        columns={"took": "seconds"},
    )
    rows = {
        r.label: (r.dwell, r.dwell__mask, r.aggregates.spent_2h, r.history["items"], r.history.took)
        for r in whole.collect()
    }
    assert rows == {
        "x": (42.0, 1, 0.0, [11], [7]),
        "y": (0.0, 0, 7.0, [11], [7]),
        "z": (0.0, 0, 0.0, [], []),
    }


def test_keys_under_a_collation_are_refused_by_each_join(frame: Frame) -> None:
    plain = frame("user string, at timestamp, item bigint", [("u", "2019-06-05 10:00:00", 1)])
    rows = plain.selectExpr("user collate utf8_lcase as user", "at", "item")
    refused = pytest.raises(InputError, match="on: `user` is text under the collation UTF8_LCASE, expected")
    with refused:
        ctr_samples.as_of_join(plain, rows, on="user", time="at", event_time="at")
    with refused:
        ctr_samples.windowed_aggregates(
            plain, rows, on="user", time="at", event_time="at", windows=["1h"], counts={"n": "true"}
        )
    with refused:
        ctr_samples.attribute_labels(rows, plain, on="user", time="at", action_time="at", window="1h")
    with refused:
        ctr_samples.join_history(plain, rows, on="user", time="at", action_time="at", item="item", last=2)


def test_other_columns_may_have_a_collation(frame: Frame) -> None:
    rows = frame("user string, at timestamp, taste string", [("u", "2019-06-05 10:00:00", "Tea")])
    tastes = rows.selectExpr("user", "at", "taste collate utf8_lcase as taste")
    later = tastes.selectExpr("user", "timestamp'2019-06-05 11:00:00' as at", "taste as mood")
    joined = ctr_samples.as_of_join(later, tastes, on="user", time="at", event_time="at", columns=["taste"])
    assert [(row.mood, row.features.taste) for row in joined.collect()] == [("Tea", "Tea")]


def test_a_name_that_the_impressions_have_is_refused(shown: DataFrame) -> None:
    with pytest.raises(InputError, match="name: the impressions have a column 'Label' already; choose another name."):
        ctr_samples.as_of_join(shown, shown, on="user", time="impression", event_time="impression", name="Label")


def test_columns_of_a_history_may_have_the_names_of_parts_of_an_action_but_none_that_every_history_has(
    frame: Frame,
) -> None:
    rows = frame("user string, at timestamp, item bigint", [("u", "2019-06-05 10:00:00", 1)])
    later = rows.selectExpr("user", "timestamp'2019-06-05 11:00:00' AS at")

    def joined(*columns: str) -> DataFrame:
        by = {"on": "user", "time": "at", "action_time": "at", "item": "item", "last": 2}
        return ctr_samples.join_history(later, rows, **by, columns=dict.fromkeys(columns, "item + 1"))

    (row,) = joined("time", "item", "Request").collect()
    assert [row.history[name] for name in ("items", "time", "item", "Request")] == [[1], [2], [2], [2]]
    for name in ("items", "ages_s", "Length", "matched"):
        with pytest.raises(
            InputError, match=f"columns: '{name}' is a name that every history has; choose another name."
        ):
            joined(name)
