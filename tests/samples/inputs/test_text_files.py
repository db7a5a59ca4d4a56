"""Lines of text: names in the first line of CSV, encodings, and what is said of lines that are malformed."""

from __future__ import annotations

import gzip
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, DecimalType, DoubleType, IntegerType, LongType, StructField, TimestampType

from ctr_samples.config import CsvSource
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.listing import LOG_DAY, SourceFrame
from ctr_samples.samples.inputs.malformed import LineCounts, _advice, line_counts, line_kinds, reasons
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.samples.inputs.text_lines import _by_name
from ctr_samples.sparksql.expressions import MALFORMED
from ctr_samples.sparksql.failures import expected_errors
from ctr_samples.sparksql.observations import aggregated, counted
from ctr_samples.sparksql.session import run_session
from tests.samples.inputs.reading import DAY, directory, rows_of, source_of
from tests.support.literal_frames import Frame


def read(spark: SparkSession, tmp_path: Path, text: str, schema: str, **more: Any) -> SourceFrame:
    (tmp_path / "t.csv").write_text(text)
    source = source_of(more.pop("path", tmp_path / "t.csv"), format="csv", schema=schema, **{"header": True, **more})
    return read_source(spark, "t", source, DAY)


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


WORDS = {
    "UTF-8": ["Informática", "x\N{REPLACEMENT CHARACTER}y", "日本語", '😀, "so"', "plain"],
    "ISO-8859-1": ["Informática", "Ã©", "ÿþ", 'plain, "so"'],
    "windows-1252": ["Informática", '“quoted”, "so"', "5 €"],
    "GBK": ["信息学", "脱|颖", "乗\\", 'plain, "so"'],
    "Shift_JIS": ["日本語", "ソ表", "plain"],
    "UTF-16": ["Informática", 'ਅā, "so"', "😀", "日本語\u0a0a\u000bx"],
    "UTF-16LE": ["Informática", "ਅĀ"],
    "UTF-32": ["Informática"],
}


def csv_source(path: Path, **keys: Any) -> Any:
    return source_of(path, **{"format": "csv", "schema": "n INT, `wörd` STRING", "header": True, **keys})


def json_source(path: Path, **keys: Any) -> Any:
    return source_of(path, **{"schema": "n INT, word STRING", **keys})


def read_in_utc(spark: SparkSession, source: Any) -> SourceFrame:
    return read_source(run_session(spark, "UTC"), "log", source, DAY)


CSV_FILES = [
    ("UTF-8", "¦", True),
    ("windows-1252", "|", True),
    ("ISO-8859-1", "¦", True),
    ("UTF-16", ",", True),
    ("GBK", ",", False),
    ("Shift_JIS", "|", False),
]
"""Encoding, delimiter, and whether there is a header."""
JSON_FILES = ["UTF-8", "windows-1252", "GBK", "UTF-16", "UTF-16LE", "UTF-32"]


@pytest.mark.thorough
def test_text_of_a_file_is_that_of_its_encoding_split_by_any_delimiter(spark: SparkSession, tmp_path: Path) -> None:
    frames, expected = {}, {}
    for encoding, delimiter, header in CSV_FILES:
        path, words = directory(tmp_path / f"csv in {encoding}"), WORDS[encoding]
        quoted = ['"' + word.replace('"', '""') + '"' for word in words]
        lines = [f"{n}{delimiter}{word}\n" for n, word in enumerate(quoted)]
        text = "".join([f"n{delimiter}wörd\n"] * header + lines).encode(encoding)
        (path / "one.csv").write_bytes(text)
        (path / "two.csv.gz").write_bytes(gzip.compress(text))
        source = csv_source(path, encoding=encoding, delimiter=delimiter, header=header)
        frames[path.name] = read_in_utc(spark, source).frame, ["n", "`wörd`", MALFORMED]
        expected[path.name] = sorted([(n, word, None) for n, word in enumerate(words)] * 2)
    for encoding in JSON_FILES:
        path, words = tmp_path / f"{encoding}.json", WORDS[encoding]
        text = "".join(json.dumps({"n": n, "word": word}, ensure_ascii=False) + "\n\n" for n, word in enumerate(words))
        path.write_bytes(text.encode(encoding))
        frames[path.name] = read_in_utc(spark, json_source(path, encoding=encoding)).frame, ["n", "word", MALFORMED]
        expected[path.name] = [(n, word, None) for n, word in enumerate(words)]
    assert {name: sorted(found) for name, found in rows_of(frames).items()} == expected


LATIN = '{"n": 2, "word": "Inform\N{REPLACEMENT CHARACTER}tica"}'
UNDECODED: dict[str, tuple[str, bytes, list[tuple[int, str]], int, str]] = {
    "csv": (
        "UTF-8",
        "n,word\n1,Informática\n2,caf\N{REPLACEMENT CHARACTER}\n".encode()
        + "3,Informática\n4,ok\nfive,é".encode("latin-1"),
        [(1, "Informática"), (2, "caf\N{REPLACEMENT CHARACTER}"), (4, "ok")],
        5,
        "2 are not UTF-8; is it Latin-1? Set `encoding: ISO-8859-1`, as in ",
    ),
    "json": (
        "UTF-8",
        '{"n": 1, "word": "á\N{REPLACEMENT CHARACTER}"}\n'.encode()
        + '{"n": 2, "word": "Informática"}\n'.encode("latin-1"),
        [(1, "á\N{REPLACEMENT CHARACTER}")],
        2,
        f"1 are not UTF-8; is it Latin-1? Set `encoding: ISO-8859-1`, as in '{LATIN}'",
    ),
    "csv of another encoding": (
        "windows-1252",
        b"n,word\n1,\x80\n2,\x81\n",
        [(1, "€")],
        2,
        "1 are not windows-1252; is `encoding` right?, as in ",
    ),
}
"""Encoding, bytes, the rows that are sound, how many lines there are, and how what is said of the others begins."""


def test_lines_with_bytes_that_are_no_text_in_their_encoding_are_malformed(spark: SparkSession, tmp_path: Path) -> None:
    frames = {}
    for name, (encoding, content, _, count, said) in UNDECODED.items():
        (tmp_path / name).write_bytes(content)
        source_of = csv_source if name.startswith("csv") else json_source
        source = source_of(tmp_path / name, encoding=encoding, schema="n INT, word STRING")
        found = read_in_utc(spark, source)
        frames[name] = found.frame.where(f"{MALFORMED} IS NULL"), ["n", "word"]
        assert reasons(found, source, count).startswith(said), name
    assert rows_of(frames) == {name: sound for name, (_, _, sound, *_) in UNDECODED.items()}


def test_columns_of_bytes_or_any_form_keep_the_bytes_and_text_of_a_csv_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "raw.csv").write_bytes("n,raw\n1,é\n".encode() + b"2,\xff\x80a\n")
    raw = read_in_utc(spark, csv_source(tmp_path / "raw.csv", schema="n INT, raw BINARY")).frame
    (tmp_path / "any.csv").write_text("n,any\n1,é\n2,25\n3,x\n4,\n")
    anything = read_in_utc(spark, csv_source(tmp_path / "any.csv", schema="n INT, any VARIANT")).frame
    values = ["n", "variant_get(any, '$', 'string')", "schema_of_variant(any)"]
    assert rows_of({"raw": (raw, ["hex(raw)", MALFORMED]), "any": (anything, values)}) == {
        "raw": [("C3A9", None), ("FF8061", None)],
        "any": [(1, "é", "STRING"), (2, "25", "STRING"), (3, "x", "STRING"), (4, None, "VOID")],
    }


def test_an_encoding_that_nobody_knows_and_a_first_line_in_another_one_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ValidationError, match="found 'latin-15x', expected an encoding such as ISO-8859-1"):
        csv_source(tmp_path, encoding="latin-15x")
    (tmp_path / "log").write_bytes("n,wörd\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"sources\.log\.encoding: found 'utf_8_sig', which Java does not know"):
        read_in_utc(spark, json_source(tmp_path / "log", encoding="utf_8_sig"))
    with pytest.raises(InputError, match=r"the first line of .*log is not UTF-8; is it Latin-1\? Set `encoding: ISO"):
        read_in_utc(spark, csv_source(tmp_path / "log"))


def reason(spark: SparkSession, tmp_path: Path, lines: list[str], schema: str, kind: str = "csv", **more: Any) -> str:
    (tmp_path / "t").write_text("".join(f"{line}\n" for line in lines))
    source: Any = source_of(tmp_path / "t", format=kind, schema=schema, **more)
    return reasons(read_in_utc(spark, source), source, len(lines) - bool(more.get("header")))


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


def test_lines_are_counted_for_each_day_of_the_log(frame: Frame) -> None:
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
