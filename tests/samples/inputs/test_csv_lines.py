"""CSV: the names in the first line, columns by position, and first lines that cannot be what the configuration says."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from ctr_samples.config import CsvSource
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.listing import SourceFrame
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.sparksql.expressions import MALFORMED
from ctr_samples.sparksql.failures import expected_errors

DAY = date(2019, 6, 5)


def read(spark: SparkSession, tmp_path: Path, text: str, schema: str, **more: Any) -> SourceFrame:
    (tmp_path / "t.csv").write_text(text)
    source = {"format": "csv", "path": str(tmp_path / "t.csv"), "schema": schema, "header": True, **more}
    return read_source(spark, "t", CsvSource.model_validate(source), DAY)


def refusal(spark: SparkSession, tmp_path: Path, text: str, schema: str, **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(spark, tmp_path, text, schema, **more)
    return str(caught.value).replace(f"file://{tmp_path}/", "").replace(f"file:{tmp_path}/", "")


@pytest.mark.parametrize("header", ["id,name", "name,id", "ID,Name", "extra,name,id", '"name","id"', "\ufeffname,id"])
def test_columns_are_found_by_name_in_any_order(spark: SparkSession, tmp_path: Path, header: str) -> None:
    cells = {"id": "1", "name": "x", "extra": "?"}
    values = ",".join(cells[name.strip('"\ufeff').lower()] for name in header.split(","))
    found = read(spark, tmp_path, f"{header}\n{values}\n", "id INT, name STRING")
    assert [(r["id"], r["name"], r[MALFORMED]) for r in found.frame.collect()] == [(1, "x", None)]
    assert sorted(found.frame.columns) == sorted(["id", "name", MALFORMED])


@pytest.mark.some(5)
@pytest.mark.parametrize(
    "name",
    [
        "user_id:token",
        "user id",
        " user",
        "a.b",
        "back`tick",
        "it's",
        'say "hi"',
        "1",
        "*",
        "current_date()",
        "a; DROP TABLE t",
        "${HOME}",
        "ключ",
        "x" * 300,
        "",
    ],
)
def test_any_name_can_be_renamed_and_none_is_evaluated(spark: SparkSession, tmp_path: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"' if name else ""
    found = read(spark, tmp_path, f"{quoted},b\n7,x\n", "key INT, b STRING", rename={name: "key"})
    assert [(r.key, r.b, r[MALFORMED]) for r in found.frame.collect()] == [(7, "x", None)]


def test_a_name_may_also_stand_in_the_schema(spark: SparkSession, tmp_path: Path) -> None:
    found = read(spark, tmp_path, "b,user:token,a.b`c\nx,7,9\n", "`user:token` INT, `a.b``c` INT")
    assert [(r["user:token"], r["a.b`c"]) for r in found.frame.collect()] == [(7, 9)]


def test_a_malformed_value_of_a_renamed_column_is_marked(spark: SparkSession, tmp_path: Path) -> None:
    found = read(spark, tmp_path, ",k:token\n0,1\n1,one\n2\n3,4,5\n", "k INT", rename={"k:token": "k"})
    assert [(r.k, r[MALFORMED]) for r in found.frame.collect()] == [
        (1, None),
        (None, "1,one"),
        (None, "2"),
        (4, "3,4,5"),
    ]


def test_a_header_may_be_skipped_and_columns_taken_by_position(spark: SparkSession, tmp_path: Path) -> None:
    found = read(spark, tmp_path, "a,a\n1,2\n3,4\n", "first INT, second INT", by_position=True)
    assert [(r.first, r.second, r[MALFORMED]) for r in found.frame.collect()] == [(1, 2, None), (3, 4, None)]


def test_a_name_that_stands_there_twice_is_refused_with_a_way_out(spark: SparkSession, tmp_path: Path) -> None:
    message = "sources.t: the first line of t.csv names 'a' twice; set `by_position: true` to take"
    assert refusal(spark, tmp_path, "a,b,A\n1,2,3\n", "b INT").startswith(message)


def test_a_missing_column_is_told_with_those_that_are_there(spark: SparkSession, tmp_path: Path) -> None:
    assert refusal(spark, tmp_path, "user:token,b\n1,2\n", "user INT, b INT") == (
        "sources.t: the first line of t.csv has no column 'user', only 'user:token', 'b'. Set "
        '`rename: {"name in the file": user}`, or `by_position: true` to take them in the order of '
        "`schema`, or `header: false` if that line is data."
    )


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"user:tokn": "user"}, "sources.t.rename: t.csv has no column 'user:tokn'; did you mean 'user:token'?"),
        ({"user:token": "usr"}, "sources.t.rename.user:token: `schema` has no 'usr'; did you mean 'user'?"),
        ({"user:token": "b"}, "sources.t.rename: t.csv has several columns that become 'b'; rename the others too."),
    ],
)
def test_a_renaming_that_fits_nothing_is_refused(
    spark: SparkSession, tmp_path: Path, rename: dict[str, str], message: str
) -> None:
    assert refusal(spark, tmp_path, "user:token,b\n1,2\n", "user INT, b INT", rename=rename) == message


@pytest.mark.parametrize(("delimiter", "hint"), [(";", "';'"), ("\t", '"\\t"'), ("|", "'|'")])
def test_another_delimiter_is_suggested(spark: SparkSession, tmp_path: Path, delimiter: str, hint: str) -> None:
    line = delimiter.join(["user", "item"])
    message = refusal(spark, tmp_path, f"{line}\n1{delimiter}2\n", "user INT, item INT")
    assert message == f"sources.t: the first line of t.csv has one column, {line!r}; did you mean `delimiter: {hint}`?"


def test_a_header_that_was_not_announced_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    message = "sources.t: the first line of t.csv contains the column names; set `header: true`."
    assert refusal(spark, tmp_path, "User,item\nu1,i1\n", "user STRING, item STRING", header=False) == message


def test_another_file_of_the_source_with_other_columns_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "in/2.csv").write_text("b,a\n1,2\n")
    source = {"format": "csv", "path": str(tmp_path / "in"), "schema": "a INT, b INT", "header": True}
    frame = read_source(spark, "t", CsvSource.model_validate(source), DAY).frame
    with (
        pytest.raises(
            InputError, match=r"^The first line of file:.*\.csv differs from that of the other files of its source"
        ),
        expected_errors(),
    ):
        frame.collect()


@pytest.mark.parametrize("more", [{"header": False}, {"by_position": True, "header": False}])
def test_renaming_needs_a_header(more: dict[str, Any]) -> None:
    source = {"format": "csv", "path": "t.csv", "schema": "a INT", "header": True, "rename": {"b": "a"}, **more}
    with pytest.raises(ValidationError, match="`rename` and `by_position` need `header: true`"):
        CsvSource.model_validate(source)
