"""Text that does not depend on the elements of a list is made once for each row, and changes no value."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.sparksql.expressions import compile_expression
from ctr_samples.sparksql.lambdas import taken_out
from tests.support.literal_frames import Frame


def taken_out_of(spark: SparkSession, text: str) -> str:
    parser: Any = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    return taken_out(parser.parseExpression(text), text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "map_filter(m, (k, w) -> startswith(k, concat(cast(n as string), ':')))",
            "transform(array(named_struct('c0', concat(cast(n as string), ':'))), "
            "_outside -> map_filter(m, (k, w) -> startswith(k, _outside.c0)))[0]",
        ),
        (
            "1 + size(filter(l, x -> x = lower(a) or x = upper(b) or lower(a) = '')) -- two texts, one of them twice",
            "1 + size(transform(array(named_struct('c0', lower(a), 'c1', upper(b))), "
            "_outside -> filter(l, x -> x = _outside.c0 or x = _outside.c1 or _outside.c0 = ''))[0]) "
            "-- two texts, one of them twice",
        ),
        (
            "exists(l, x -> x = a || '-') and exists(l, x -> x = '-' || b)",
            "transform(array(named_struct('c0', a || '-')), _outside -> exists(l, x -> x = _outside.c0))[0] and "
            "transform(array(named_struct('c0', '-' || b)), _outside -> exists(l, x -> x = _outside.c0))[0]",
        ),
        (
            "transform(l, x -> transform(l, y -> concat(x, y, lower(a))))",
            "transform(array(named_struct('c0', lower(a))), "
            "_outside -> transform(l, x -> transform(l, y -> concat(x, y, _outside.c0))))[0]",
        ),
        (
            "transform(l, x -> concat(x, lower(_outside)))",
            "transform(array(named_struct('c0', lower(_outside))), "
            "_outside_ -> transform(l, x -> concat(x, _outside_.c0)))[0]",
        ),
    ],
)
def test_made_text_is_taken_out_of_the_outermost_function(spark: SparkSession, text: str, expected: str) -> None:
    assert taken_out_of(spark, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "lower(a)",
        "transform(l, x -> lower(x))",
        "transform(l, x -> concat(x, a))",
        "transform(l, A -> concat(A, lower(a)))",
        "filter(l, x -> x = concat(a, b))",  # may put lists together, whose elements may not fit
        "filter(l, x -> x = cast(a as int))",  # fails for text that is no number, also where the list is empty
        "filter(l, x -> x = concat('a', 'b'))",
        "filter(l, x -> x = substring(a, n, 1))",
    ],
)
def test_what_depends_on_an_element_or_may_fail_stays(spark: SparkSession, text: str) -> None:
    assert taken_out_of(spark, text) == text


SAME = [
    "map_filter(m, (k, w) -> startswith(k, concat(cast(n as string), ':')))",
    "aggregate(transform(l, x -> coalesce(m[concat(cast(n as string), ':', x)], 0D)), 0D, (sum, w) -> sum + w)",
    "transform(l, x -> concat_ws('-', x, a, b))",
    "exists(l, x -> x = lower(a)) or a is null",
    "case when size(l) > 1 then filter(l, x -> x <> upper(b)) end",
    "transform(l, x -> transform(l, y -> concat(x, y, lower(a), string(n))))",
    "zip_with(l, l, (x, y) -> if(x = lower(a), y, concat(x, lower(a))))",
]


@pytest.mark.thorough
def test_values_stay_the_same(frame: Frame) -> None:
    rows = [
        (1, "A", None, ["a", "7:a", None], {"1:a": 1.0, "2:a": 2.0, "1:7:a": None}),
        (2, None, "B", ["b"], {"2:b": 3.0, "": 4.0}),
        (None, "", "", [], {}),
        (4, "D", "d", None, None),
    ]
    of = frame("n int, a string, b string, l array<string>, m map<string, double>", rows)
    made = of.select(*[compile_expression(of, text, "features.one.expr").alias(text) for text in SAME])
    plain = of.select(*[F.expr(text).alias(text) for text in SAME])
    assert made.collect() == plain.collect()
    assert made.dtypes == plain.dtypes
