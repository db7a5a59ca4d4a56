"""Times, keys and lists of keys, as logs really write them."""

from __future__ import annotations

from collections.abc import Callable
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

Frame = Callable[..., DataFrame]


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


def test_text_that_holds_a_list_is_read_or_refused_whole_and_never_run(frame: Frame) -> None:
    rows = frame("ids string", [(text,) for text in LISTS])
    found = rows.select("ids", key_list_column(rows, "ids", "here")).collect()
    assert dict(map(tuple, found)) == LISTS


def test_any_integer_is_a_bigint_key_and_an_array_of_them_a_list_of_keys(frame: Frame) -> None:
    integers = ("tinyint", "smallint", "int", "bigint")
    rows = frame(", ".join(f"{kind} {kind}" for kind in integers) + ", ids array<int>", [])
    keys = [key_column(rows, kind, "here").alias(kind) for kind in integers]
    kinds = rows.select(*keys, key_list_column(rows, "ids", "here").alias("ids")).dtypes
    assert kinds == [*[(kind, "bigint") for kind in integers], ("ids", "array<bigint>")]


def test_a_fraction_is_no_key(frame: Frame) -> None:
    with pytest.raises(InputError, match="views.x.key: id is double, expected a key: text or an integer."):
        key_column(frame("id double", []), "id", "views.x.key")


def test_a_list_where_one_key_is_expected_hints_at_explode(frame: Frame) -> None:
    with pytest.raises(
        InputError,
        match=r"set `explode: \{shown: ids\}` of its source \(`sources\.<name>\.explode`\) for a row of each element",
    ):
        key_column(frame("ids array<int>", []), "ids", "impressions.keys.item")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (key_column, "`user`"),
        (key_column, "profile.id"),
        (key_column, "lower(user)"),
        (key_list_column, "list"),
        (key_list_column, "user"),
        (order_column, "user"),
    ],
)
def test_text_under_a_collation_is_refused_where_bytes_are_compared(
    spark: SparkSession, column: Callable[..., Any], text: str
) -> None:
    rows = spark.sql(
        "select 'Ann' collate unicode_ci as user, array('Ann' collate unicode_ci) as list, "
        "named_struct('id', 'Ann' collate unicode_ci) as profile"
    )
    with pytest.raises(InputError) as refused:
        column(rows, text, "views.x.key")
    assert str(refused.value) == (
        f"views.x.key: {text} is text under the collation UNICODE_CI, expected text that is compared by its bytes; write "
        f"`cast({text} AS STRING)`, or `cast(lower({text}) AS STRING)` on all sides to ignore case."
    )


def test_text_that_a_cast_frees_of_its_collation_is_a_key(spark: SparkSession) -> None:
    rows = spark.sql("select 'Ann' collate utf8_lcase as user, 'Ann' collate utf8_binary as plain")
    texts = ("cast(user as string)", "cast(lower(user) as string)", "plain")
    assert tuple(rows.select(*[key_column(rows, text, "here") for text in texts]).first()) == ("Ann", "ann", "Ann")


def test_text_is_a_time_and_text_that_is_none_or_has_no_date_is_null(frame: Frame) -> None:
    texts = {"1970-01-01 00:00:01.5": 1_500_000, "yesterday": None, "": None, "10:15:35": None, "2019": None}
    rows = frame("at string", [(text,) for text in texts])
    found = rows.select("at", F.unix_micros(time_column(rows, "at", "here"))).collect()
    assert dict(map(tuple, found)) == texts


def test_a_condition_must_be_true_or_false(frame: Frame) -> None:
    with pytest.raises(InputError, match="labels.x.where: click is int, expected a condition, such as `click = 1`."):
        boolean_column(frame("click int", []), "click", "labels.x.where")


def test_a_value_must_be_a_number_or_text_that_may_hold_one(frame: Frame) -> None:
    rows = frame("ms string, list array<int>", [("12", None), ("12 ms", None), ("", None)])
    assert [r[0] for r in rows.select(number_column(rows, "ms", "here")).collect()] == [12.0, None, None]
    zero = frame("value double", [(-0.0,)])
    one_zero = zero.select(number_column(zero, "value", "here")).first()[0]
    assert str(one_zero) == "0.0", "no order of rows decides its sign"
    with pytest.raises(InputError, match="here: list is array<int>, expected a number."):
        number_column(rows, "list", "here")


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


@pytest.mark.some(14)
@pytest.mark.parametrize("kind", DIFFERENT_VALUES)
@pytest.mark.parametrize("around", ["{}", "array({})", "named_struct('x', {})", "map('k', array({}))"])
def test_values_that_a_sample_can_tell_apart_have_different_hashes(spark: SparkSession, kind: str, around: str) -> None:
    values = [around.format(f"cast({value} as {kind})") for value in DIFFERENT_VALUES[kind]]
    rows = spark.sql(" union all ".join(f"select {value} as value" for value in values))
    hashes = [row[0] for row in rows.select(content_hash(rows)).collect()]
    assert len(set(hashes)) == len(values), dict(zip(values, hashes, strict=True))


@pytest.mark.thorough
def test_a_content_hash_sees_which_column_is_null(frame: Frame) -> None:
    rows = frame("a int, b int, m map<string, int>", [(None, 1, None), (1, None, None), (1, None, {"x": 1})])
    assert len({r[0] for r in rows.select(content_hash(rows)).collect()}) == 3


def test_a_number_is_no_time_until_its_unit_is_said(frame: Frame) -> None:
    rows = frame("at bigint", [(1500,)])
    with pytest.raises(InputError, match=r"at is bigint, expected a time; say its unit: timestamp_seconds\(at\)"):
        time_column(rows, "at", "here")
    assert rows.select(F.unix_micros(time_column(rows, "timestamp_millis(at)", "here"))).first()[0] == 1_500_000


def test_composite_keys_do_not_run_into_each_other_and_a_hash_is_the_same_for_ever(frame: Frame) -> None:
    rows = frame(
        "a string, b string", [("1", "23"), ("12", "3"), (None, "123"), ("123", None), ("", "123"), ("42", "")]
    )
    both, alone = stable_hash("s", [F.col("a"), F.col("b")]), stable_hash("split", [F.col("a")])
    hashes = [tuple(row) for row in rows.select(both, alone).collect()]
    assert len({both for both, _ in hashes}) == 6
    assert hashes[-1][1] == HASH_OF_42


HASH_OF_42 = 700954104730259316  # a change here moves every user to another split
