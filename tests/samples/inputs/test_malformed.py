"""What is said of lines that are malformed: the value, its type and a better one, another width or delimiter."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, DecimalType, DoubleType, IntegerType, LongType, StructField, TimestampType

from ctr_samples.config import CsvSource, JsonSource
from ctr_samples.samples.inputs.listing import LOG_DAY
from ctr_samples.samples.inputs.malformed import LineCounts, _advice, line_counts, line_kinds, reasons
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.sparksql.expressions import MALFORMED
from ctr_samples.sparksql.observations import aggregated, counted
from ctr_samples.sparksql.session import run_session


def reason(spark: SparkSession, tmp_path: Path, lines: list[str], schema: str, kind: str = "csv", **more: Any) -> str:
    (tmp_path / "t").write_text("".join(f"{line}\n" for line in lines))
    model = CsvSource if kind == "csv" else JsonSource
    source = model.model_validate({"format": kind, "path": str(tmp_path / "t"), "schema": schema, **more})
    count = len(lines) - bool(more.get("header"))
    session = run_session(spark, "UTC")
    return reasons(read_source(session, "t", source, date(2019, 6, 5)), source, count)


def test_a_type_is_advised_that_takes_all_values_of_a_column() -> None:
    time = "STRING, and say its form where it is used, as in to_timestamp(id, 'dd.MM.yyyy HH:mm')"
    rows: list[tuple[DataType, str, str | None, str]] = [
        (LongType(), "10000169349117863715", "integers", "STRING or DECIMAL(20)"),
        (IntegerType(), "3000000000", "integers", "BIGINT"),
        (IntegerType(), "3000000000", None, "STRING"),
        (IntegerType(), "9" * 39, "integers", "STRING"),
        (LongType(), "1.5", "numbers", "DOUBLE"),
        (DoubleType(), "n/a", None, "STRING"),
        (DecimalType(3, 0), "12345", "integers", "STRING or DECIMAL(5)"),
        (TimestampType(), "5.6.2019", None, time),
    ]
    for kind, value, all_are, advice in rows:
        assert _advice(value, StructField("id", kind), all_are) == advice


SAID: dict[str, tuple[list[str], str, dict[str, Any], str]] = {
    "an integer that is too great is told with a type that takes it": (
        ["x,1", "x,10000169349117863715", "x,9"],
        "name STRING, id BIGINT",
        {},
        "`id` = '10000169349117863715' is not a BIGINT in 1 of 3 lines; use STRING or DECIMAL(20)",
    ),
    "of several wrong values the longest is told": (
        ['{"id": "u1"}', '{"id": 3000000000}', '{"id": 2}'],
        "name STRING, id INT",
        {"kind": "json"},
        "`id` = '3000000000' is not an INT in 2 of 3 lines; use STRING",
    ),
    "each column is counted and the worst comes first": (
        ["a,b", "1,x", "1.5,x", "3,4"],
        "a INT, b INT",
        {"header": True},
        "`b` = 'x' is not an INT in 2 of 3 lines; use STRING; `a` = '1.5' is not an INT in 1 of 3 lines; use DOUBLE",
    ),
    "lines of another width are shown": (
        ["1,2", "1,2,3", "4,5"],
        "a INT, b INT",
        {},
        "1 have a different number of columns, expected 2, such as '1,2,3'",
    ),
    "also where all columns are text below a header": (
        ["a,b", "1,x", "2", "3,y,z"],
        "a STRING, b STRING",
        {"header": True},
        "2 have a different number of columns, expected 2, such as '3,y,z'",
    ),
    "a header that was not announced is suspected": (
        ["user:token,at:float", "u1,1.5", "u2,2.5"],
        "user STRING, at DOUBLE",
        {},
        "`at` = 'at:float' is not a DOUBLE in 1 of 3 lines; use STRING; the first line looks like a header: set "
        "`header: true`",
    ),
    "a first line that is as bad as all others is no header": (
        ["u1,x", "u2,y"],
        "user STRING, at DOUBLE",
        {},
        "`at` = 'y' is not a DOUBLE in 2 of 2 lines; use STRING",
    ),
    "lines that are no JSON are shown": (
        ['{"a": 1}', "torn", '{"a": 1', '{"a": 1}{"a": 2}'],
        "a INT",
        {"kind": "json"},
        '3 are not a single JSON object, such as \'{"a": 1}{"a": 2}\'',
    ),
    "another delimiter is suggested": (
        ["1\t2\tx", "3\t4\ty"],
        "a INT, b INT, c STRING",
        {"header": True, "by_position": True},
        "1 have one column, expected 3, such as '3\\t4\\ty'; did you mean `delimiter: \"\\t\"`?",
    ),
    "quotes that are plain text are told": (
        ["1,x,u", '2,"Alexa,u', "3,y,u"],
        "a INT, b STRING, c STRING",
        {},
        "1 have a different number of columns, expected 3, such as '2,\"Alexa,u'; it has 3 if \" is plain text; "
        "did you mean `quote: ''`?",
    ),
}


@pytest.mark.some(3)
@pytest.mark.parametrize("what", SAID)
def test_what_is_wrong_with_lines_is_said(spark: SparkSession, tmp_path: Path, what: str) -> None:
    lines, schema, more, said = SAID[what]
    assert reason(spark, tmp_path, lines, schema, **more) == said


def test_lines_are_counted_for_each_day_of_the_log(frame: Callable[..., DataFrame]) -> None:
    first, third = date(2019, 6, 5), date(2019, 6, 7)
    rows = frame(
        f"{LOG_DAY} date, {MALFORMED} string", [(str(day), bad) for day in (first, third, third) for bad in (None, "{")]
    )
    for days, expected in (
        ([third, first], {first: LineCounts(2, 1), third: LineCounts(4, 2)}),
        ([], {None: LineCounts(6, 3)}),
    ):
        kinds = line_kinds("log", rows, days)
        sketches = rows.select(*[aggregated(kind).alias(name) for name, kind in kinds.items()]).first()
        assert line_counts("log", {name: counted(sketches[name]) for name in kinds}) == expected
