"""CSV: the names in the first line, columns by position, and first lines that cannot be what the configuration says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from ctr_samples.config import CsvSource
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.listing import SourceFrame
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.samples.inputs.text_lines import _by_name
from ctr_samples.sparksql.expressions import MALFORMED
from ctr_samples.sparksql.failures import expected_errors
from tests.samples.inputs.reading import DAY, directory, rows_of


def read(spark: SparkSession, tmp_path: Path, text: str, schema: str, **more: Any) -> SourceFrame:
    (tmp_path / "t.csv").write_text(text)
    source = {"format": "csv", "path": str(tmp_path / "t.csv"), "schema": schema, "header": True, **more}
    return read_source(spark, "t", CsvSource.model_validate(source), DAY)


NAMES = """user_id:token|user id| user|a.b|back`tick|it's|say "hi"|1|*|current_date()|a; DROP TABLE t|${HOME}|ключ|""".split(
    "|"
)
NAMES[-1] = "x" * 300
CELLS = {"id": "1", "name": "x", "extra": "?"}
READ: dict[str, tuple[str, str, dict[str, Any], list[str], list[tuple[Any, ...]]]] = {
    **{
        f"columns are found by name in any order: {header}": (
            header + "\n" + ",".join(CELLS[name.strip('"\ufeff').lower()] for name in header.split(",")),
            "id INT, name STRING",
            {},
            ["id", "name", MALFORMED],
            [(1, "x", None)],
        )
        for header in ["ID,Name", 'extra,"name",id', "\ufeffname,id"]
    },
    "any name can be renamed and none is evaluated": (
        ",".join('"' + name.replace('"', '""') + '"' for name in NAMES)
        + ",,b\n"
        + ",".join(map(str, range(len(NAMES) + 1)))
        + ",x",
        ", ".join(f"key{n} INT" for n in range(len(NAMES) + 1)) + ", b STRING",
        {"rename": {name: f"key{n}" for n, name in enumerate([*NAMES, ""])}},
        [*[f"key{n}" for n in range(len(NAMES) + 1)], "b", MALFORMED],
        [(*range(len(NAMES) + 1), "x", None)],
    ),
    "a name may also stand in the schema": (
        "b,user:token,a.b`c\nx,7,9",
        "`user:token` INT, `a.b``c` INT",
        {},
        ["`user:token`", "`a.b``c`"],
        [(7, 9)],
    ),
    "a malformed value of a renamed column is marked": (
        ",k:token\n0,1\n1,one\n2\n3,4,5",
        "k INT",
        {"rename": {"k:token": "k"}},
        ["k", MALFORMED],
        [(1, None), (None, "1,one"), (None, "2"), (4, "3,4,5")],
    ),
    "a header may be skipped and columns taken by position": (
        "a,a\n1,2\n3,4",
        "first INT, second INT",
        {"by_position": True},
        ["first", "second", MALFORMED],
        [(1, 2, None), (3, 4, None)],
    ),
}
"""The lines of a file, its schema and further keys, what is selected, and the rows."""


def test_columns_of_csv_have_the_names_of_the_first_line_or_others(spark: SparkSession, tmp_path: Path) -> None:
    frames = {}
    for number, (name, (text, schema, more, select, _)) in enumerate(READ.items()):
        frame = read(spark, directory(tmp_path / f"{number}"), f"{text}\n", schema, **more).frame
        assert len(frame.columns) == schema.count(",") + 2, name
        frames[name] = frame, select
    assert rows_of(frames) == {name: rows for name, (*_, rows) in READ.items()}


REFUSED: list[tuple[list[str], dict[str, str], str]] = [
    (
        ["a", "b", "A"],
        {},
        ": the first line of t.csv names 'a' twice; set `by_position: true` to take columns in the order of `schema`.",
    ),
    (
        ["user:token", "b"],
        {},
        ": the first line of t.csv has no column 'user', only 'user:token', 'b'. Set "
        '`rename: {"name in the file": user}`, or `by_position: true` to take them in the order of '
        "`schema`, or `header: false` if that line is data.",
    ),
    (
        ["user:token", "b"],
        {"user:tokn": "user"},
        ".rename: t.csv has no column 'user:tokn'; did you mean 'user:token'?",
    ),
    (["user:token", "b"], {"user:token": "usr"}, ".rename.user:token: `schema` has no 'usr'; did you mean 'user'?"),
    (
        ["user:token", "b"],
        {"user:token": "b"},
        ".rename: t.csv has several columns that become 'b'; rename the others too.",
    ),
    (
        ["user\tb"],
        {},
        r""": the first line of t.csv has one column, 'user\tb'; did you mean `delimiter: "\t"`?""",
    ),
]
"""The values of a first line, what is renamed, and what is said where the columns `user` and `b` are expected."""


def test_names_in_a_first_line_that_do_not_fit_are_refused_with_a_way_out() -> None:
    for cells, rename, message in REFUSED:
        entry = {"format": "csv", "path": "t.csv", "schema": "user INT, b INT", "header": True, "rename": rename}
        with pytest.raises(InputError) as caught:
            _by_name("sources.t", CsvSource.model_validate(entry), ["user", "b"], "t.csv", cells, None)
        assert str(caught.value) == f"sources.t{message}"


def test_a_first_line_that_contradicts_the_schema_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^sources.t: the first line of file:.*/t.csv has one column, 'a;b'; did you"):
        read(spark, tmp_path, "a;b\n1;2\n", "a INT, b INT")
    with pytest.raises(InputError, match=r"/t.csv contains the column names; set `header: true`\.$"):
        read(spark, tmp_path, "User,item\nu1,i1\n", "user STRING, item STRING", header=False)


def test_another_file_of_the_source_with_other_columns_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("b,a\n1,2\n")
    frame = read(spark, tmp_path, "a,b\n1,2\n", "a INT, b INT", path=str(tmp_path)).frame
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
