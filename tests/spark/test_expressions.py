"""SQL expressions from a configuration: what passes, what never does, and the sentence for the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from ctr_samples.errors import ExpressionError, InputError
from ctr_samples.spark.expressions import compile_expression, referenced_paths

Frame = Callable[..., DataFrame]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price * 2", 7.0),
        ("log1p(price - 3.5)", 0.0),
        ("coalesce(nothing, 'none')", "none"),
        ("case when price > 3 then 'dear' else 'cheap' end", "dear"),
        ("param.action = 'click'", True),
        ("tags['b']", 2),
        ("aggregate(transform(list, x -> x + 1), 0, (sum, x) -> sum + x)", 9),
        ("hour(timestamp_millis(0))", 0),
        ("price between 1 and 5 and not isnull(price)", True),
        ("try_cast('x' as int)", None),
    ],
)
def test_an_expression_of_allowed_parts_is_computed(frame: Frame, text: str, expected: object) -> None:
    schema = "price double, nothing string, param struct<action: string>, tags map<string, int>, list array<int>"
    rows = frame(schema, [(3.5, None, ("click",), {"a": 1, "b": 2}, [1, 2, 3])])
    assert rows.select(compile_expression(rows, text, "here")).first()[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'getenv', 'HOME')",
        "java_method('java.lang.Runtime', 'getRuntime')",
        "`reflect`('java.lang.System', 'getenv', 'HOME')",
        "system.builtin.reflect('a', 'b')",
        "(select first(value) from text.`/etc/hostname`)",
        "exists(select 1)",
        "price in (select 1)",
        "transform(list, x -> reflect('a', 'b'))",
        "rand()",
        "current_timestamp()",
        "input_file_name()",
        "unix_timestamp()",
        "timestamp'now'",
        'date "today"',
        "count(*)",
        "sum(price) over ()",
        "explode(list)",
        "*",
    ],
)
def test_what_could_do_harm_or_change_between_runs_is_refused(frame: Frame, text: str) -> None:
    rows = frame("price double, list array<int>", [(3.5, [1])])
    with pytest.raises(ExpressionError, match=r"^here: .*not allowed"):
        compile_expression(rows, text, "here")


@pytest.mark.parametrize("text", ["1; drop table x", "price +", "price price price", "'open"])
def test_text_that_is_no_expression_is_refused(frame: Frame, text: str) -> None:
    with pytest.raises(ExpressionError, match="is not a Spark SQL expression"):
        compile_expression(frame("price double", []), text, "here")


def test_a_function_name_with_a_slip_is_answered_with_the_right_one(frame: Frame) -> None:
    with pytest.raises(ExpressionError, match="the function colaesce is not allowed; did you mean 'coalesce'?"):
        compile_expression(frame("price double", []), "colaesce(price, 1)", "here")


def test_a_column_that_is_not_there_is_answered_with_the_nearest(frame: Frame) -> None:
    with pytest.raises(InputError, match="here: there is no column 'prise'; did you mean 'price'?"):
        compile_expression(frame("price double", []), "prise + 1", "here")


def test_a_name_that_sql_would_read_as_the_user_or_date_is_a_missing_column(frame: Frame) -> None:
    with pytest.raises(InputError, match="no column 'current_date'"):
        compile_expression(frame("price double", []), "CURRENT_DATE", "here")


def test_types_that_do_not_fit_give_one_sentence(frame: Frame) -> None:
    with pytest.raises(InputError) as caught:
        compile_expression(frame("list array<int>", []), "list + 1", "features.x")
    assert str(caught.value).startswith("features.x: Cannot resolve ")
    assert "\n" not in str(caught.value)


def test_the_names_in_an_expression_are_found(spark: SparkSession) -> None:
    text = "coalesce(item.price.net, transform(user.tags, t -> t)[0])"
    assert referenced_paths(spark, text, "here") == [("item", "price", "net"), ("user", "tags")]


def test_the_names_inside_a_lambda_are_found_but_for_its_parameters(spark: SparkSession) -> None:
    text = "transform(item.topics, t -> user.weights[concat(item.channel, T.name)])"
    names = [("item", "topics"), ("user", "weights"), ("item", "channel")]
    assert referenced_paths(spark, text, "here") == names
    assert referenced_paths(spark, "aggregate(a, 0, (sum, w) -> sum + w + user.age)", "here") == [
        ("a",),
        ("user", "age"),
    ]
    nested = "transform(a, x -> exists(b, y -> y = x AND y > c) OR y)"
    assert referenced_paths(spark, nested, "here") == [("a",), ("b",), ("c",), ("y",)]


def test_a_column_that_is_not_there_is_named_also_inside_a_lambda(frame: Frame) -> None:
    with pytest.raises(InputError, match="features.x: there is no column 'limit'; did you mean 'limits'?"):
        compile_expression(frame("list array<int>, limits int", []), "filter(list, x -> x < limit)", "features.x")
