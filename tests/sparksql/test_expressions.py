"""SQL expressions from a configuration: what passes, what never does, and the sentence for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.errors import ExpressionError, InputError
from ctr_samples.sparksql.expressions import compile_expression, referenced_paths, typed_expression
from tests.support.literal_frames import Frame, literal

NEEDS_4_3 = pytest.mark.skipif(pyspark.__version__ < "4.3", reason="no nanoseconds, and no TIME as a timestamp")


VALUES_OF: dict[str, Any] = {
    "price * 2": 7.0,
    "log1p(price - 3.5)": 0.0,
    "coalesce(nothing, 'none')": "none",
    "case when price > 3 then 'dear' else 'cheap' end": "dear",
    "param.action = 'click'": True,
    "tags['b']": 2,
    "aggregate(transform(list, x -> x + 1), 0, (sum, x) -> sum + x)": 9,
    "hour(timestamp_millis(0))": 0,
    "price between 1 and 5 and not isnull(price)": True,
    "try_cast('x' as int)": None,
    "year(timestamp '2019-06-05 10:00:00') + year(date'2018-01-01') + year('2017-02-03')": 6054,
    "unix_micros(to_timestamp('2019-06-05 10:00:00'))": 1_559_728_800_000_000,
    "cast(cast(null as string) as timestamp)": None,
    # sizes that stand there and are small
    "rpad(city, 3, 'y')": "xyy",
    "lpad(city, -1)": "",
    "concat(lpad(n, 2, '0'), lpad(n, 2, '0'), lpad(n, 2, '0'))": "010101",
    "array_join(array_repeat(city, 3), '')": "xxx",
    "array_join(sequence(0, 9, 3), ' ')": "0 3 6 9",
    "array_join(sequence(2, -2), ' ')": "2 1 0 -1 -2",
    "format_string('%05d %s', n, city)": "00001 x",
    "cast(round(1.25D, 1) as string)": "1.3",
    "concat('" + "(" * 64 + "', city)": "(" * 64 + "x",
    # times in JSON and in lists, with a format or without one that is needed
    "hour(clock)": 10,
    "transform(dates, x -> year(to_timestamp(x, 'yyyy-MM-dd')))": [2019],
    "year(from_json(day, 'a TIMESTAMP', map('timestampFormat', 'yyyy-MM-dd')).a)": 2019,
    "year(from_json(time, 'a TIMESTAMP', map('timestampFormat', 'yyyy-MM-dd')).a)": None,
    "year(from_json(day, 'a TIMESTAMP', map('TIMESTAMPFORMAT', 'yyyy-MM-dd')).a)": 2019,
    "year(from_json(day, 'a TIMESTAMP', map('timestampFormat', concat('yyyy', '-MM-dd'))).a)": 2019,
    "year(from_json(day, 'a DATE').a)": 2019,
    "from_json(day, 'a STRING, timestamp INT').a": "2019-06-05",
}


def test_expressions_of_allowed_parts_are_computed(frame: Frame) -> None:
    columns = {
        "price double": 3.5,
        "nothing string": None,
        "param struct<action: string>": ("click",),
        "tags map<string, int>": {"a": 1, "b": 2},
        "list array<int>": [1, 2, 3],
        "n int": 1,
        "city string": "x",
        "clock string": "2019-06-05 10:00:00",
        "dates array<string>": ["2019-06-05"],
        "day string": '{"a": "2019-06-05"}',
        "time string": '{"a": "12:30"}',
    }
    rows = frame(", ".join(columns), [tuple(columns.values())])
    compiled = [typed_expression(rows, text, "here")[0] for text in VALUES_OF]
    assert dict(zip(VALUES_OF, rows.select(*compiled).first(), strict=True)) == VALUES_OF


SCHEMA = (
    "price double, list array<int>, limits int, a int, at timestamp, text string, texts array<string>, "
    "x string, x_1 string"
)
REFUSED: dict[str, list[str]] = {
    # what could do harm or change between runs
    r"^here: .*not allowed": [
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
        "timestamp r'now'",
        r"timestamp '\u006eow'",
        "timestamp /* a moment */ 'now'",
        "timestamp_ntz 'tomorrow'",
        "timestamp '12:30'",
        "timestamp 'T12:30:01'",
        "timestamp_ltz '12:30'",
        "timestamp 'now  '",
        "date '\x01today'",
        "count(*)",
        "sum(price) over ()",
        "explode(list)",
        "*",
    ],
    "is not a Spark SQL expression": ["1; drop table x", "price +", "price price price", "'open"],
    # what is misspelt, also inside a lambda, and names that SQL would read as the user or the date
    "the function colaesce is not allowed; did you mean 'coalesce'?": ["colaesce(price, 1)"],
    "here: there is no column 'prise'; did you mean 'price'?": ["prise + 1"],
    "here: there is no column 'limit'; did you mean 'limits'?": ["filter(list, x -> x < limit)"],
    "no column 'current_date'": ["CURRENT_DATE"],
    # types that do not fit give one sentence
    r"^here: Cannot resolve [^\n]*$": ["list + 1"],
    # constant text that names no day
    "depends on when the job runs, which is not allowed": [
        "cast('now' as timestamp)",
        "cast('12:30' as timestamp_ntz)",
        "date('today')",
        "to_timestamp('now')",
        "try_to_timestamp(' NOW ')",
        "'now'::timestamp",
        "cast(concat('n', 'ow') as timestamp)",
        "cast(reverse('yadretsey') as date)",
        "year('tomorrow')",
        "extract(year from 'now')",
        "at > 'now'",
        "to_timestamp('12:30')",
        "date_trunc('day', 'T1:2:3')",
    ],
    # text inside of a value, and a parameter of a lambda, which is not the column of its name
    r"^here reads text as a time, and text without a date would become a time on .* give the format, as in (to_time|from_)": [
        "cast(texts as array<timestamp>)",
        "cast(array('12:30') as array<timestamp>)",
        "cast(map('a', text) as map<string, timestamp>)",
        "cast(named_struct('a', text) as struct<a: timestamp>)",
        "from_json(text, 'a TIMESTAMP')",
        "transform(texts, x -> to_timestamp(x))",
        "transform(texts, x -> try_to_timestamp(x))",
        "filter(texts, x -> hour(x) = 12)",
    ],
    # values of any size
    r"^here: .*; expected ": [
        "rpad(text, 2000000000, 'y')",
        "lpad(text, 2000000000, 'y')",
        "RPAD(text, 1 + 2000000000)",
        "rpad(text, a, 'y')",
        "array_repeat(a, 1000000000)",
        "array_repeat(array_repeat(array_repeat(a, 1000), 1000), 1000)",
        "sequence(1, 1000000000)",
        "sequence(1, a)",
        "sequence(-1000000000, 5, 2)",
        "sequence(date'2019-01-01', date'9999-01-01', interval 1 day)",
        "transform(sequence(1, 100000), x -> rpad('y', 100000))",
        "format_string('%2000000000s', text)",
        "format_string('%-2000000000d', a)",
        "format_string('%.2000000000f', 1.5D)",
        "format_string(text, a)",
        "round(1.5BD, 2000000000)",
        "ceil(1.5BD, a)",
    ],
}


@pytest.mark.parametrize("message", REFUSED)
def test_an_expression_that_is_not_allowed_is_refused_in_a_sentence(frame: Frame, message: str) -> None:
    rows = frame(SCHEMA, [])
    for text in REFUSED[message]:
        with pytest.raises((ExpressionError, InputError)) as caught:
            typed_expression(rows, text, "here")
        assert re.search(message, str(caught.value)), text


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


TEXTS = ["2019-06-05 10:00:00", "2019-06-05", "12:30", "T12:30", " 7:05:00", "", None, "no time"]


READ_AS_TIMES = [
    "try_to_timestamp(at)",
    "try_cast(at as timestamp)",
    "try_to_timestamp(param.at)",
    "coalesce(try_to_timestamp(at), timestamp '2000-01-01 00:00:00')",
    "date_trunc('day', try_to_timestamp(concat(at, '')))",
    "try_to_timestamp(coalesce(param.at, at))",
]


@pytest.mark.parametrize("alias", ["", "log"])  # the columns of a table have its name
def test_text_without_a_date_never_becomes_a_time_of_the_day_of_the_run(frame: Frame, alias: str) -> None:
    rows = frame("at string, param struct<at: string>", [(one, (one,)) for one in TEXTS])
    rows = rows.alias(alias) if alias else rows
    years = [F.year(compile_expression(rows, text, "here")) for text in READ_AS_TIMES]
    # This one reads it as a time unasked.
    hour = compile_expression(rows, "hour(if(at LIKE '%1%' OR at LIKE '%7%', at, NULL))", "here")
    found = dict(zip([*READ_AS_TIMES, "hour"], zip(*rows.select(*years, hour).collect(), strict=True), strict=True))
    none = (None,) * 6
    expected = dict.fromkeys(READ_AS_TIMES, (2019, 2019, *none)) | {"hour": (10, 0, *none)}
    expected[READ_AS_TIMES[3]] = (2019, 2019, None, None, None, 2000, 2000, 2000)
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 2000 + "a" + ")" * 2000, "brackets are nested 2,000 deep, expected at most 50."),
        ("abs(" * 60 + "a" + ")" * 60, "brackets are nested 60 deep, expected at most 50."),
        ("a" + " + a" * 300, "is nested more than 250 levels deep; split it, or write it with fewer operators."),
        ("a" + "+a" * 9000, "is nested more than 250 levels deep; split it, or write it with fewer operators."),
        ("not " * 4000 + "true", "is nested more than 250 levels deep; split it, or write it with fewer operators."),
        ("a in (" + "1, " * 10_000 + "1)", "has 30,008 characters, expected at most 20,000; compute a part"),
    ],
)
def test_an_expression_that_would_overflow_a_stack_is_refused(frame: Frame, text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        typed_expression(frame("a int", [(1,)]), text, "features.f")
    assert message in str(caught.value)


# Times that would be on the day of the run

UNDATED = ["12:30", "T12:30", "T7", "7:05:00", "12:30:01.5", "12:30 +05:00", "23:59 Asia/Tokyo"]
TRIMMED = [chr(code) for code in (*range(0x21), 0x7F)]
"""What Spark passes over around a text that it reads as a time."""


@pytest.fixture(params=["unset", "true"])
def newer_types(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """What the session says about TIME and about timestamps of nanoseconds, which are off by default."""
    names = ("spark.sql.timeType.enabled", "spark.sql.timestampNanosTypes.enabled")
    for name in names if request.param != "unset" else ():
        spark.conf.set(name, request.param)
    yield request.param
    for name in names:
        spark.conf.unset(name)


@pytest.fixture
def far_apart(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """Two zones in which it is never the same day: what is told by local time and depends on the clock differs."""
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    yield "Etc/GMT+12", "Pacific/Kiritimati"
    spark.conf.set("spark.sql.session.timeZone", before)


def local_times(spark: SparkSession, rows: DataFrame, text: str, zones: tuple[str, str]) -> list[list[str | None]]:
    """What an expression gives for each row, as local time, in each zone."""
    found = []
    for zone in zones:
        spark.conf.set("spark.sql.session.timeZone", zone)
        column = compile_expression(rows, text, "here").cast("string").alias("v")
        found.append([row.v for row in rows.select(column).collect()])
    return found


@pytest.mark.thorough
def test_text_that_spark_reads_as_a_time_of_today_is_null_whatever_is_around_it(
    spark: SparkSession, far_apart: tuple[str, str]
) -> None:
    texts = [before + text + after for before in ["", *TRIMMED] for text in UNDATED for after in ("", "\x07", " ")]
    dated = [before + "2019-06-05 10:00:00" + after for before in ["", *TRIMMED] for after in ("", "\x1f")]
    rows = literal(spark, [(text,) for text in (*texts, *dated)], "at string").coalesce(1)
    for text in ("try_to_timestamp(at)", "try_cast(at AS timestamp)", "date_trunc('second', try_to_timestamp(at))"):
        west, east = local_times(spark, rows, text, far_apart)
        assert west == east == [None] * len(texts) + ["2019-06-05 10:00:00"] * len(dated)


def test_each_character_that_spark_passes_over_before_a_time_is_known(spark: SparkSession) -> None:
    around = [chr(code) for code in (*range(0x250), *range(0x2000, 0x2070), 0x3000, 0xFEFF)]
    rows = literal(spark, [(one,) for one in around], "c string")
    read = rows.where("try_to_timestamp(concat(c, '2019-06-05')) IS NOT NULL AND c NOT RLIKE '[0-9+-]'")
    assert sorted(row.c for row in read.collect()) == TRIMMED


VALUES = {
    "text": "'12:30'",
    "made text": "concat('12:', '30')",
    "trimmed text": "concat(char_of, '12:30')",
    "column": "at",
    "json": "from_json(json, 'a TIMESTAMP').a",
    "json of a computed schema": "from_json(json, concat('a TIME', 'STAMP')).a",
    "json of an escaped schema": r"from_json(json, 'a \u0074imestamp').a",
    "json with a comment": "from_json(json, 'a TIMESTAMP' /* timestampFormat */).a",
    "json with a format of dates": "from_json(json, 'a TIMESTAMP', map('dateFormat', 'timestampFormat')).a",
    "json with a field of the name": "from_json(json, 'timestampFormat INT, a TIMESTAMP').a",
    "json that falls back": (
        "from_json(json, 'a TIMESTAMP', map('timestampFormat', 'yyyy', 'enableDateTimeParsingFallback', 'true')).a"
    ),
    "json of lists": "from_json(concat('[', json, ']'), 'ARRAY<STRUCT<a: TIMESTAMP>>')[0].a",
    "json of a map": "from_json(json, 'MAP<STRING, TIMESTAMP>')['a']",
    "json with nanoseconds": "from_json(json, 'a TIMESTAMP(9)').a",
    "json in a lambda": "transform(array(json), x -> from_json(x, 'a TIMESTAMP').a)[0]",
    "variant": "variant",
    "variant of json": "from_json(json, 'a VARIANT').a",
}
TIMES_OF_DAY = {
    "literal": "time '12:30'",
    "cast": "cast('12:30' AS time)",
    "column": "cast(at AS time)",
    "in a list": "array(time '12:30')[0]",
    "chosen": "if(isnull(at), time '12:30', time '12:31')",
    "in a struct": "named_struct('t', time '12:30').t",
}
USES = [
    "cast({} AS timestamp)",
    "try_cast({} AS timestamp)",
    "timestamp({})",
    "date_trunc('hour', {})",
    "cast(array({}) AS array<timestamp>)[0]",
    "cast(named_struct('a', {}) AS struct<a: timestamp>).a",
    "to_utc_timestamp({}, 'UTC')",
    "coalesce({}, timestamp '2019-06-05 00:00:00')",
    "timestamp_micros(unix_micros(cast({} AS timestamp)))",
    "cast(cast({} AS date) AS timestamp)",
    "try_to_timestamp({})",
    "cast({} AS timestamp_ntz)",
    "cast(cast({} AS timestamp(9)) AS string)",
    "cast(cast({} AS timestamp_ltz(7)) AS string)",
    "cast(try_cast({} AS timestamp_ntz(8)) AS string)",
    "cast(cast(array({}) AS array<timestamp(9)>)[0] AS string)",
]


def check_uses(spark: SparkSession, value: str, zones: tuple[str, str]) -> int:
    """Each use of a value is refused with a sentence, or tells the same local time on two days; how many are refused."""
    refused = 0
    made = spark.sql(
        """SELECT '12:30' AS at, '{"a": "12:30"}' AS json, parse_json('"12:30"') AS variant, '\\u0001' AS char_of"""
    )
    for use in USES:
        text = use.format(value)
        try:
            west, east = local_times(spark, made, text, zones)
        except (ExpressionError, InputError):
            refused += 1
        except PySparkException as error:  # a value that is no time is an error of the row
            if not re.search("CAST_INVALID_INPUT|INVALID_VARIANT_CAST", str(error)):
                raise
        else:
            assert west == east, text
    return refused


@pytest.mark.thorough
@pytest.mark.parametrize("value", [pytest.param(VALUES[name], id=name) for name in VALUES])
def test_no_use_of_undated_text_depends_on_the_day(
    spark: SparkSession, far_apart: tuple[str, str], newer_types: str, value: str
) -> None:
    refused = check_uses(spark, value, far_apart)
    assert refused or value == VALUES["trimmed text"]


@pytest.mark.some(1)
@pytest.mark.parametrize("value", [pytest.param(TIMES_OF_DAY[name], id=name) for name in TIMES_OF_DAY])
def test_no_use_of_a_time_of_day_depends_on_the_day(
    spark: SparkSession, far_apart: tuple[str, str], newer_types: str, value: str
) -> None:
    check_uses(spark, value, far_apart)


@NEEDS_4_3
@pytest.mark.parametrize("text", ["hour(cast('now' AS timestamp(9)))", "hour(cast('12:30' AS timestamp_ltz(7)))"])
def test_a_constant_of_nanoseconds_needs_a_date_too(frame: Frame, newer_types: str, text: str) -> None:
    reason = (
        "Nanosecond-precision timestamp types is not enabled" if newer_types == "unset" else "depends on when the job"
    )
    with pytest.raises(ExpressionError, match=f"^here: .*{reason}"):
        compile_expression(frame("price double", []), text, "here")


@NEEDS_4_3
def test_a_time_of_day_is_a_timestamp_only_with_a_date(frame: Frame) -> None:
    rows = frame("at string", [("12:30",)])
    dated = compile_expression(rows, "hour(make_timestamp(date '2019-06-05', time '12:30'))", "here")
    assert rows.select(dated).first()[0] == 12
    with pytest.raises(
        ExpressionError, match=r"here: a time of day as timestamp depends on when the job runs.*make_timestamp"
    ):
        compile_expression(rows, "hour(date_trunc('hour', time '12:30'))", "here")
