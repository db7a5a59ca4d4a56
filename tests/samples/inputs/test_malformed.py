"""What is said of lines that are malformed: the value, its type and a better one, another width or delimiter."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import CsvSource, JsonSource
from ctr_samples.samples.inputs.malformed import reasons
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.sparksql.session import run_session


def reason(spark: SparkSession, tmp_path: Path, lines: list[str], schema: str, kind: str = "csv", **more: Any) -> str:
    (tmp_path / "t").write_text("".join(f"{line}\n" for line in lines))
    model = CsvSource if kind == "csv" else JsonSource
    source = model.model_validate({"format": kind, "path": str(tmp_path / "t"), "schema": schema, **more})
    count = len(lines) - bool(more.get("header"))
    session = run_session(spark, "UTC")
    return reasons(read_source(session, "t", source, date(2019, 6, 5)), source, count)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (
            "BIGINT",
            ["1", "10000169349117863715", "9"],
            "'10000169349117863715' is not a BIGINT in 1 of 3 lines; use STRING or DECIMAL(20)",
        ),
        ("INT", ["1", "3000000000"], "'3000000000' is not an INT in 1 of 2 lines; use BIGINT"),
        ("BIGINT", ["1", "1.5"], "'1.5' is not a BIGINT in 1 of 2 lines; use DOUBLE"),
        ("INT", ["u1", "3000000000", "2"], "'3000000000' is not an INT in 2 of 3 lines; use STRING"),
        ("DOUBLE", ["1", "n/a"], "'n/a' is not a DOUBLE in 1 of 2 lines; use STRING"),
        ("BOOLEAN", ["true", "yes"], "'yes' is not a BOOLEAN in 1 of 2 lines; use STRING"),
        ("DECIMAL(3,0)", ["1", "12345"], "'12345' is not a DECIMAL(3,0) in 1 of 2 lines; use STRING or DECIMAL(5)"),
        (
            "TIMESTAMP",
            ["2019-06-05 10:00:00", "5.6.2019"],
            "'5.6.2019' is not a TIMESTAMP in 1 of 2 lines; use STRING, and say its form where it is used, as in "
            "to_timestamp(id, 'dd.MM.yyyy HH:mm')",
        ),
    ],
)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_malformed_value_is_named_with_its_type_and_a_better_one(
    spark: SparkSession, tmp_path: Path, form: str, kind: str, values: list[str], expected: str
) -> None:
    written = {"csv": "x,{}", "json": '{{"name": "x", "id": "{}"}}'}[form]
    bare = {"csv": "x,{}", "json": '{{"name": "x", "id": {}}}'}[form]
    numeric = kind in ("BIGINT", "INT", "DECIMAL(3,0)")
    lines = [(bare if numeric and value[0] in "0123456789" else written).format(value) for value in values]
    if form == "json" and kind in ("DOUBLE", "BOOLEAN"):
        lines[0] = bare.format(values[0])
    assert reason(spark, tmp_path, lines, f"name STRING, id {kind}", form) == f"`id` = {expected}"


SAID: dict[str, tuple[list[str], str, dict[str, Any], str]] = {
    "each column is counted and the worst comes first": (
        ["a,b", "1,x", "y,x", "3,4"],
        "a INT, b INT",
        {"header": True},
        "`b` = 'x' is not an INT in 2 of 3 lines; use STRING; `a` = 'y' is not an INT in 1 of 3 lines; use STRING",
    ),
    "columns of a header in another order are named": (
        ["x,id:token", "1,u1", "2,7"],
        "id INT",
        {"header": True, "rename": {"id:token": "id"}},
        "`id` = 'u1' is not an INT in 1 of 2 lines; use STRING",
    ),
    "lines of another width are shown": (
        ["1,2", "1,2,3", "4,5"],
        "a INT, b INT",
        {},
        "1 have a different number of columns, expected 2, such as '1,2,3'",
    ),
    "also where all columns are text": (
        ["1,x", "2", "3,y,z"],
        "a STRING, b STRING",
        {},
        "2 have a different number of columns, expected 2, such as '3,y,z'",
    ),
    "and below a header": (
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
    "a value inside a list is told by its column": (
        ['{"a": [1]}', '{"a": [1, "x"]}'],
        "a ARRAY<INT>",
        {"kind": "json"},
        "`a` = '[1,\"x\"]' is not an ARRAY<INT> in 1 of 2 lines; use STRING",
    ),
    "quotes that are plain text are told": (
        ["1,x,u", '2,"Alexa,u', "3,y,u"],
        "a INT, b STRING, c STRING",
        {},
        "1 have a different number of columns, expected 3, such as '2,\"Alexa,u'; it has 3 if \" is plain text; "
        "did you mean `quote: ''`?",
    ),
}


@pytest.mark.parametrize("what", SAID)
def test_what_is_wrong_with_lines_is_said(spark: SparkSession, tmp_path: Path, what: str) -> None:
    lines, schema, more, said = SAID[what]
    assert reason(spark, tmp_path, lines, schema, **more) == said


@pytest.mark.some(3)
@pytest.mark.parametrize(("delimiter", "hint"), [(";", "';'"), ("\t", '"\\t"'), ("|", "'|'"), (" ", "' '")])
@pytest.mark.parametrize("header", [False, True])
def test_another_delimiter_is_suggested(
    spark: SparkSession, tmp_path: Path, delimiter: str, hint: str, header: bool
) -> None:
    lines = [delimiter.join(values) for values in (("1", "2", "x"), ("3", "4", "y"))]
    count = 1 if header else 2
    assert reason(spark, tmp_path, lines, "a INT, b INT, c STRING", header=header, by_position=header) == (
        f"{count} have one column, expected 3, such as {lines[1]!r}; did you mean `delimiter: {hint}`?"
    )
