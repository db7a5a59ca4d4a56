"""Times, keys and lists of keys, as logs really write them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.errors import InputError
from ctr_samples.sparksql.columns import (
    boolean_column,
    content_hash,
    key_column,
    key_list_column,
    number_column,
    order_column,
    stable_hash,
    time_column,
)
from tests.support.literal_frames import Frame, literal

LISTS: dict[str | None, list[str] | None] = {
    "[18577, 14299]": ["18577", "14299"],
    "[18577]": ["18577"],
    "  [ 18577 ,14299 ]  ": ["18577", "14299"],
    '["a-1", "b-2"]': ["a-1", "b-2"],
    "42": ["42"],
    "[7, 7]": ["7", "7"],
    "[]": [],
    "[ ]": [],
    "[1, 2": None,
    "1, 2]": None,
    "[1,, 2]": None,
    "[1 2]": None,
    "": None,
    "  ": None,
    "[[1], 2]": None,
    "__import__('os').abort() or [1, 2]": None,
    None: None,
}


TIMES = {"1970-01-01 00:00:01.5": 1_500_000, "yesterday": None, "": None, "10:15:35": None, "2019": None}
NUMBERS = {"12": 12.0, "12 ms": None, "": None}
KEYS = [("1", "23"), ("12", "3"), (None, "123"), ("123", None), ("", "123"), ("42", "")]
SPARE = {"ids": "[]", "at": "", "ms": "", "a": "", "b": ""}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, dict[str, Any]]:
    """What is read of each text, by one query."""
    texts: list[dict[str, Any]] = [
        *[{"ids": text} for text in LISTS],
        *[{"at": text} for text in TIMES],
        *[{"ms": text} for text in NUMBERS],
        *[{"a": a, "b": b} for a, b in KEYS],
    ]
    schema = "ids string, at string, ms string, a string, b string"
    rows = literal(spark, [tuple((SPARE | row).values()) for row in texts], schema)
    read = rows.withColumns(
        {
            "list": key_list_column(rows, "ids", "here"),
            "time": F.unix_micros(time_column(rows, "at", "here")),
            "number": number_column(rows, "ms", "here"),
            "zero": number_column(rows.withColumn("zero", F.lit(-0.0)), "-0.0D", "here"),
            "millis": F.unix_micros(time_column(rows, "timestamp_millis(1500)", "here")),
            "both": stable_hash("s", [F.col("a"), F.col("b")]),
            "alone": stable_hash("split", [F.col("a")]),
        }
    ).collect()
    of = [(row.asDict(), text) for row, text in zip(read, texts, strict=True)]
    return {
        "lists": {text["ids"]: row["list"] for row, text in of if "ids" in text},
        "times": {text["at"]: row["time"] for row, text in of if "at" in text},
        "numbers": {text["ms"]: row["number"] for row, text in of if "ms" in text},
        "keys": {(text["a"], text["b"]): row for row, text in of if "a" in text},
    }


Found = dict[str, dict[str, Any]]


def test_text_that_holds_a_list_is_read_or_refused_whole_and_never_run(found: Found) -> None:
    assert found["lists"] == LISTS


def test_text_is_a_time_or_a_number_and_text_that_is_none_or_has_no_date_is_null(found: Found) -> None:
    assert found["times"] == TIMES
    assert found["numbers"] == NUMBERS


def test_a_number_has_one_zero_and_is_a_time_once_its_unit_is_said(found: Found) -> None:
    (row, *_) = found["keys"].values()
    assert str(row["zero"]) == "0.0", "no order of rows decides its sign"
    assert row["millis"] == 1_500_000


def test_composite_keys_do_not_run_into_each_other_and_a_hash_is_the_same_for_ever(found: Found) -> None:
    assert len({row["both"] for row in found["keys"].values()}) == len(KEYS)
    assert found["keys"]["42", ""]["alone"] == HASH_OF_42


HASH_OF_42 = 700954104730259316  # a change here moves every user to another split


def test_any_integer_is_a_bigint_key_and_an_array_of_them_a_list_of_keys(frame: Frame) -> None:
    integers = ("tinyint", "smallint", "int", "bigint")
    rows = frame(", ".join(f"{kind} {kind}" for kind in integers) + ", ids array<int>", [])
    keys = [key_column(rows, kind, "here").alias(kind) for kind in integers]
    kinds = rows.select(*keys, key_list_column(rows, "ids", "here").alias("ids")).dtypes
    assert kinds == [*[(kind, "bigint") for kind in integers], ("ids", "array<bigint>")]


REFUSED: list[tuple[Callable[..., Any], str, str, str]] = [
    (key_column, "id double", "id", "id is double, expected a key: text or an integer."),
    (
        key_column,
        "ids array<int>",
        "ids",
        "set `explode: {shown: ids}` of its source (`sources.<name>.explode`) for a row of each element",
    ),
    (boolean_column, "click int", "click", "click is int, expected a condition, such as `click = 1`."),
    (number_column, "list array<int>", "list", "list is array<int>, expected a number; set `explode: {shown: list}`"),
    (time_column, "at bigint", "at", "at is bigint, expected a time; say its unit: timestamp_seconds(at)"),
]


def test_columns_that_cannot_be_what_is_asked_of_them_are_refused(frame: Frame) -> None:
    for column, schema, text, said in REFUSED:
        with pytest.raises(InputError) as refused:
            column(frame(schema, []), text, "views.x.key")
        assert str(refused.value).startswith("views.x.key: ")
        assert said in str(refused.value)


@pytest.mark.thorough
def test_text_under_a_collation_is_refused_where_bytes_are_compared_unless_a_cast_frees_it(
    spark: SparkSession,
) -> None:
    rows = spark.sql(
        "select 'Ann' collate unicode_ci as user, array('Ann' collate unicode_ci) as list, "
        "named_struct('id', 'Ann' collate unicode_ci) as profile, 'Ann' collate utf8_binary as plain"
    )
    cases: list[tuple[Callable[..., Any], str]] = [
        (key_column, "`user`"),
        (key_column, "profile.id"),
        (key_column, "lower(user)"),
        (key_list_column, "list"),
        (key_list_column, "user"),
        (order_column, "user"),
    ]
    for column, text in cases:
        with pytest.raises(InputError) as refused:
            column(rows, text, "views.x.key")
        assert str(refused.value) == (
            f"views.x.key: {text} is text under the collation UNICODE_CI, expected text that is compared by its bytes; write "
            f"`cast({text} AS STRING)`, or `cast(lower({text}) AS STRING)` on all sides to ignore case."
        )
    texts = ("cast(user as string)", "cast(lower(user) as string)", "plain")
    assert tuple(rows.select(*[key_column(rows, text, "here") for text in texts]).first()) == ("Ann", "ann", "Ann")


DIFFERENT_VALUES = {
    "double": ["null", "0.0d", "-0.0d", "1.0d", "-1.0d", "double('nan')"],
    "float": ["null", "0f", "-0f", "float(1.0)"],
    "string": ["null", "''", "'null'", "'0.0'", "'a'", "'A'"],
    "string collate utf8_lcase": ["null", "'a' collate utf8_lcase", "'A' collate utf8_lcase"],
    "array<int>": ["null", "array()", "array(1)", "array(1, null)", "array(null, 1)", "array(null)"],
    "array<string>": ["array('b', 'a')", "array('b', null, 'a')", "array('ba')", "array('b', 'null', 'a')", "array('b,a')"],
    "array<double>": ["array(1d, 2d)", "array(1d, null, 2d)", "array(0d)", "array(-0d)", "array(0d, -0d)", "array(-0d, 0d)"],
    "array<array<float>>": ["array(array(0f), array())", "array(array(-0f), array())", "array(array(), array(0f))"],
    "map<string, double>": ["map('a', 0d)", "map('a', -0d)", "map('a', null)", "map('a', 0d, 'b', 1d)",
                            "map('b', 1d, 'a', 0d)"],
    "struct<a: int, b: int>": ["null", "named_struct('a', null, 'b', null)", "named_struct('a', 1, 'b', null)",
                               "named_struct('a', null, 'b', 1)"],
    "array<struct<a: string>>": ["array(named_struct('a', null))", "array(null)", "array(named_struct('a', 'x'), null)",
                                 "array(null, named_struct('a', 'x'))"],
    "map<string, timestamp>": ["map('a', timestamp'2026-01-01 00:00:00.000001')", "map('a', timestamp'2026-01-01 00:00:00')"],
    "variant": ["null", "parse_json('1')", "parse_json('\"1\"')", "parse_json('null')", "parse_json('{}')"],
}  # fmt: skip


@pytest.mark.some(2)
@pytest.mark.parametrize("around", ["{}", "array({})", "named_struct('x', {})", "map('k', array({}))"])
def test_values_that_a_sample_can_tell_apart_have_different_hashes(spark: SparkSession, around: str) -> None:
    hashed = []
    for kind, values in DIFFERENT_VALUES.items():
        every = ", ".join(around.format(f"cast({value} as {kind})") for value in values)
        rows = spark.sql(f"select explode(array({every})) as value")
        hashed.append(rows.select(F.lit(kind).alias("kind"), content_hash(rows).alias("hash")))
    found = reduce(DataFrame.union, hashed).groupBy("kind").agg(F.count_distinct("hash")).collect()
    assert dict(map(tuple, found)) == {kind: len(values) for kind, values in DIFFERENT_VALUES.items()}


@pytest.mark.thorough
def test_a_content_hash_sees_which_column_is_null(frame: Frame) -> None:
    rows = frame("a int, b int, m map<string, int>", [(None, 1, None), (1, None, None), (1, None, {"x": 1})])
    assert len({r[0] for r in rows.select(content_hash(rows)).collect()}) == 3
