"""Files of sources: what is there, what is missing, what is empty and what is malformed."""

from __future__ import annotations

import json
import os
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyarrow import orc
from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ctr_samples.config import CatalogSource, ColumnarSource, Source
from ctr_samples.day_paths import DayPath
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.periods import Whole
from ctr_samples.samples.inputs.file_columns import wider
from ctr_samples.samples.inputs.listing import LOG_DAY, InputFile, days_there
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.sparksql.columns import time_column
from ctr_samples.sparksql.expressions import MALFORMED
from ctr_samples.sparksql.failures import expected_errors
from ctr_samples.sparksql.session import run_session
from tests.samples.inputs.reading import DAY, SOURCE, directory, lines, rows_of, source_of
from tests.support.minimal_config import problem, with_lines

FOURTH, FIFTH = "dt=2019-06-04", "dt=2019-06-05"
NOON = datetime(2019, 6, 5, 12)
ONE = pa.table({"a": [1]})


def log(root: Path, **keys: Any) -> Any:
    return source_of(f"{root}/dt={{date}}", **keys)


# Lines that are malformed

GLUED = [
    '{"a": 1, "b": "x"}{"a": 2, "b": "y"}',
    '{"a": 1, "b": "x"},',
    '{"a": 1, "b": "x"}}',
    '{"a": 1, "b": "x"}{"a": 2, "b',
    '{"a": 1, "b{"a": 2, "b": "y"}',
    '{"a": 1, "b": "x"} 2019-06-05 ERROR lost the connection',
    '{"a": 1, "b": "x"}, "b": {"c": 2}',
    '{"a": 1, "p": [{"q": 1}, {"q": 2}], "b": "x"} x',
    '{"a": 1, "b": "}"}}{',
    '{"a": 1, "b": "{"}}',
    '[{"a": 1, "b": "x"}]',
    "null",
]
WHOLE = [
    '{"a": 1, "b": "x"}',
    ' {"a": 1, "b": "x"} \t',
    '{"a": 1, "b": "\\"}{\\""}',
    '{"a": 1, "p": [{"q": 1}, {"q": 2}], "b": "x} "}',
    '{"a": 1, "p": {"q": 1}, "b": "},null]}"}',
    '{"a": 1, "p": {"q": {"r": {"s": {"t": NaN}}}}}',
]
TIMES = ["2019-06-05", "2019-06-05 10:00:00.5", "2019-06-05T10:00:00+08:00", "2019-06-05 10:00 Asia/Shanghai"]
NO_TIMES = ["12:30", "T12:30:01", "7:05", "now"]
OF_TIMES = [(2019, True)] * 4 + [(None, False)] * 4
YEARS = {"schema": "at TIMESTAMP", "select": ["year(at)", f"{MALFORMED} IS NULL"]}
CSV: dict[str, Any] = {"format": "csv", "header": True}
LINES: dict[str, tuple[list[str], dict[str, Any], list[tuple[Any, ...]]]] = {
    "a line that is torn or of another type is marked with its text": (
        ['{"a": 1, "b": "x"}', '{"a": 1, "b": "x', '{"a": "one"}'],
        {"select": [MALFORMED]},
        [(None,), ('{"a": 1, "b": "x',), ('{"a": "one"}',)],
    ),
    "a line that is more than one object is malformed and hides none": (
        [*GLUED, "", *WHOLE, " \t "],
        {"select": [f"coalesce({MALFORMED}, string(a))"]},
        [(text,) for text in GLUED] + [("1",)] * len(WHOLE),
    ),
    "a time without a date is malformed and no time of today": (
        [json.dumps({"at": text}) for text in (*TIMES, *NO_TIMES)],
        YEARS,
        OF_TIMES,
    ),
    "a time without a date, in CSV": ([*TIMES, *NO_TIMES], {**YEARS, "format": "csv"}, OF_TIMES),
    "a line of another width": (
        ["a,b", "1,x", "2", "3,x,y", "four,x"],
        {**CSV, "select": ["a", MALFORMED]},
        [(1, None), (2, "2"), (3, "3,x,y"), (None, "four,x")],
    ),
    "quotes within quotes are doubled": (
        ["a,b", '1,"say ""hi"", you"', '2,"a\\b"'],
        CSV,
        [(1, 'say "hi", you', None), (2, "a\\b", None)],
    ),
} | {
    f"{more} of {line}": (["a,b", line, "2,x"], {**CSV, **more}, [(1, value, None), (2, "x", None)])
    for more, line, value in [
        ({"quote": ""}, r"1,a\"b", r"a\"b"),
        ({"quote": "'"}, "1,'a, b'", "a, b"),
        ({"escape": "\\"}, r'1,"say \"hi\", you"', 'say "hi", you'),
    ]
}
"""The lines of a file, the keys of its source and what is selected, and the rows."""


def test_lines_are_read_or_marked_as_malformed_with_their_text(spark: SparkSession, tmp_path: Path) -> None:
    session, frames = run_session(spark, "UTC"), {}
    for number, (name, (text, keys, _)) in enumerate(LINES.items()):
        lines(tmp_path / f"{number}", *text)
        source = source_of(tmp_path / f"{number}", **{key: keys[key] for key in keys if key != "select"})
        frame = read_source(session, "t", source, DAY).frame
        frames[name] = frame, keys.get("select", ["a", "b", MALFORMED])
    assert rows_of(frames) == {name: rows for name, (_, _, rows) in LINES.items()}


@pytest.mark.thorough
def test_a_string_of_21_million_characters_is_read(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / f"{FIFTH}/x.json", json.dumps({"a": 1, "b": "x" * 21_000_000}))
    (row,) = read_source(spark, "log", log(tmp_path), DAY).frame.selectExpr("length(b)", MALFORMED).collect()
    assert tuple(row) == (21_000_000, None)


# Files below the paths of days

AWKWARD = ["plain.json", "ä ö.json", "50%25 off.json", "a#b?c+d.json", "[x]{y}.json", "back`tick.json", "a=b.json"]
TWO_DAYS = [f"{day}/{name}" for day in (FOURTH, FIFTH) for name in AWKWARD]
BOTH = {"days_before": 1, "days_after": 1}
OF_HOURS = ["hour=00/x.json", "hour=23/host1/x.json"]
LAYOUTS: dict[str, tuple[str, list[str], dict[str, Any], list[str] | None]] = {
    "the days around the run date": (
        "dt={date}",
        [f"{FOURTH}/x.json", f"{FIFTH}/x.json", "dt=2019-06-09/x.json"],
        BOTH,
        [f"{FOURTH}/x.json", f"{FIFTH}/x.json"],
    ),
    "the nearest directory of the name gives the day": (
        "dt=2001-01-01/*/dt={date}",
        [f"dt=2001-01-01/b/{FIFTH}/x.json"],
        {},
        None,
    ),
} | {
    f"awkward names below {path}": (path, TWO_DAYS, BOTH, None) for path in ("dt={date}", "dt={date}/*", "d[t]={date}")
}
for path in ("dt={date}", "{date}", "year/dt={date}/log"):
    of_hours = [f"{path.format(date=day)}/{file}" for day in ("2019-06-04", "2019-06-05") for file in OF_HOURS]
    LAYOUTS[f"hours of {path}"] = path, of_hours, {"days_before": 1}, None
"""The path of a source, the files that are there, keys, and the files that are read unless all are."""


def test_each_file_of_the_days_is_listed_and_read_once(spark: SparkSession, tmp_path: Path) -> None:
    session, frames, expected = run_session(spark, "UTC"), {}, {}
    for number, (name, (path, files, keys, some)) in enumerate(LAYOUTS.items()):
        root = tmp_path / f"ü log 100%20 {number}"
        for a, file in enumerate(files):
            lines(root / file, f'{{"a": {a}}}')
        found = read_source(session, "log", source_of(f"{root}/{path}", **keys), DAY)
        read = [files.index(file) for file in (files if some is None else some)]
        assert sorted(f.path for f in found.files or ()) == sorted(f"file:{root}/{files[a]}" for a in read), name
        assert found.snapshot["files"] == len(read), name
        assert found.missing_days == ((date(2019, 6, 6),) if keys == BOTH else ()), name
        hours = "hour" if "hours" in name else "NULL"
        frames[name] = found.frame, ["a", hours]
        expected[name] = [(a, re.search("hour=(..)", files[a])[1] if "hours" in name else None) for a in read]  # type: ignore[index]
        if "hours" in name:
            assert found.frame.columns == ["a", "b", MALFORMED, "hour", *(["dt"] if "dt=" in path else [])], name
    assert {name: sorted(rows) for name, rows in rows_of(frames).items()} == expected


def test_a_path_may_be_a_file_or_relative_and_sizes_and_times_are_those_of_the_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "t.json"
    lines(file, '{"a": 1}')
    os.utime(file, (1_559_700_000, 1_559_700_000))
    for path in (str(file), os.path.relpath(file), f"file://{file}"):
        found = read_source(spark, "t", source_of(path), DAY)
        assert found.files == (InputFile(f"file:{file}", 9, 1_559_700_000_000),)


def test_a_day_of_empty_files_is_missing_and_the_snapshot_changes_with_any_other_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    for day in (FOURTH, FIFTH):
        (directory(tmp_path / day) / "x.json").touch()
    source, snapshots = log(tmp_path, days_before=1), []
    for name in ("y", "y", "z"):
        lines(tmp_path / f"{FIFTH}/{name}.json", '{"a": 5}')
        os.utime(tmp_path / f"{FIFTH}/{name}.json", (1_559_700_000, 1_559_700_000))
        found = read_source(spark, "log", source, DAY)
        assert found.missing_days == (date(2019, 6, 4),)
        snapshots.append(found.snapshot)
    assert [snapshot["files"] for snapshot in snapshots] == [1, 1, 2]
    assert snapshots[0] == snapshots[1]
    assert snapshots[1]["fingerprint"] != snapshots[2]["fingerprint"]


NO_FILES: dict[str, str] = {}
OF_OTHER_KINDS = "the files under .*dt={date} lie in different `key=value` .* "
REFUSED: list[tuple[str, dict[str, str], dict[str, Any], type[Exception], str]] = [
    ("dt={date}", NO_FILES, {}, InputError, "there is no .*/dt=2019-06-05; check the path, or wait"),
    ("dt={date}", {f"{FIFTH}/_SUCCESS": ""}, {}, InputError, ".*/dt=2019-06-05 exists but contains no data file"),
    ("dt={date}", {f"{FIFTH}/x.json": ""}, {}, InputError, ".*/dt=2019-06-05 exists but contains no data file"),
    (
        "t.parquet",
        {"t.parquet": "this is no parquet"},
        {"format": "parquet"},
        InputError,
        r"cannot read .*t.parquet as parquet: [^.]*t.parquet\.$",
    ),
    ("t", {"t": "{}"}, {"schema": "a INTEGERS"}, ConfigError, ""),
    ("t", {"t": "{}"}, {"schema": "INT"}, ConfigError, "found INT, expected columns such as `a INT, b STRING`"),
    *[
        ("dt={date}", {first: "{}", second: "{}"}, {"days_before": 1}, InputError, OF_OTHER_KINDS + kinds)
        for first, second, kinds in [
            (f"{FIFTH}/x.json", f"{FIFTH}/hour=01/x.json", r"\(hour and none\)"),
            (f"{FOURTH}/x.json", f"{FIFTH}/hour=01/x.json", r"\(hour and none\)"),
            (f"{FIFTH}/minute=02/x.json", f"{FIFTH}/hour=01/x.json", r"\(hour and minute\)"),
            (f"{FIFTH}/host1/hour=01/x.json", f"{FIFTH}/host2/hour=01/x.json", r"\([*]/hour\)"),
            # Spark takes them for parts of several tables.
            (f"{FIFTH}/a=1/host/b=1/x.json", f"{FIFTH}/a=2/host/b=1/x.json", ".*a/[*]/b"),
        ]
    ],
    (
        "*{date}*",
        {"2019-06-04_2019-06-05/x.json": "{}"},
        {"days_before": 1},
        InputError,
        "file:.* is matched by .*[*]2019-06-04[*] and by .*2019-06-05",
    ),
]


def test_files_that_cannot_be_read_as_a_source_says_are_refused_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, (path, files, keys, error, message) in enumerate(REFUSED):
        root = directory(tmp_path / f"{number}")
        for file, text in files.items():
            directory((root / file).parent)
            (root / file).write_text(text)
        key = ".schema" if error is ConfigError else ""
        with pytest.raises(error, match=f"^sources.log{key}: {message}"):
            read_source(spark, "log", source_of(f"{root}/{path}", **keys), DAY)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a:b", "URISyntaxException: Relative path in absolute URI: a:b"),
        ("/logs/[x", "IOException: Illegal file pattern: .*"),
        ("nothing://bucket/x", 'UnsupportedFileSystemException: No FileSystem for scheme "nothing"'),
        ("file://host/x", "Wrong FS: file://host/x, expected: file:///"),
    ],
)
def test_a_path_that_hadoop_cannot_use_is_named(spark: SparkSession, path: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read_source(spark, "log", source_of(path), DAY)
    found = f"sources.log: {path} cannot be listed; check the path and its permissions: "
    assert re.fullmatch(rf"{re.escape(found)}{reason}\.", str(caught.value))


@pytest.mark.some(1)
@pytest.mark.parametrize("path", ["day={date:%Y%m%d}", "{date:%Y/%m/%d}/[ab]", "l ö-{date:%m%d%Y}.*"])
def test_a_day_may_be_named_in_any_form(spark: SparkSession, tmp_path: Path, path: str) -> None:
    written = {date(2024, 3, 4): 1, date(2024, 3, 3): 2, date(2024, 2, 25): 3, date(2024, 2, 24): 4}
    for day, a in written.items():
        file = tmp_path / DayPath(path).filled(day, None).replace("[ab]", "b").replace(".*", ".json")
        lines(file if file.suffix else file / "x.json", f'{{"a": {a}}}')
    frames = {}
    for days, missing in ((1, 0), (8, 6)):
        read = read_source(
            spark, "log", source_of(f"{tmp_path}/{path}", schema="a INT", days_before=days), date(2024, 3, 4)
        )
        assert ("day", "date") in read.frame.dtypes or "day={date:%Y" not in path
        assert len(read.missing_days) == missing
        frames[f"{days}"] = read.rows, ["a", LOG_DAY]
    whole = source_of(f"{tmp_path}/{path}", schema="a INT")
    assert days_there(spark, "log", whole.days) == sorted(written)
    frames["whole"] = read_source(spark, "log", whole, Whole()).frame, ["a"]
    rows = {name: sorted(some) for name, some in rows_of(frames).items()}
    dated = [(a, str(day)) for day, a in written.items()]
    assert rows == {"1": dated[:2], "8": dated[:3], "whole": [(1,), (2,), (3,), (4,)]}


@pytest.mark.thorough
def test_values_of_directories_are_text_whatever_the_first_day_has_unless_the_schema_has_their_type_and_orc_keeps_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = run_session(spark, "UTC")
    for day, json_value, parquet_value in ((FOURTH, "1", "2019-06-05"), (FIFTH, "00", "00")):
        lines(tmp_path / f"json/{day}/shard={json_value}/x.json", '{"a": 1}')
        pq.write_table(ONE, directory(tmp_path / f"parquet/{day}/shard={parquet_value}") / "x.parquet")
    lines(tmp_path / f"typed/{FIFTH}/hour=07/x.json", '{"a": 1}')
    for country in ("CA", "NL"):
        pq.write_table(ONE, directory(tmp_path / f"items/country={country}") / "x.parquet")
    session.sql("select 1 a, timestamp '2019-06-05 12:00:00' t").write.orc(f"{tmp_path}/orc/{FIFTH}")

    def read(source: Source, *columns: str) -> tuple[DataFrame, list[str]]:
        return read_source(session, "log", source, DAY).frame, ["a", *columns]

    frames = {
        "json": read(log(tmp_path / "json", days_before=1, schema="a INT"), "shard"),
        "parquet": read(log(tmp_path / "parquet", format="parquet", days_before=1), "shard"),
        "typed": read(log(tmp_path / "typed", schema="a INT, hour INT"), "hour"),
        "items": read(source_of(tmp_path / "items", format="parquet", schema=None), "country"),
        "orc": read(log(tmp_path / "orc", format="orc", schema=None), "cast(t AS string)"),
    }
    assert {name: {*rows} for name, rows in rows_of(frames).items()} == {
        "json": {(1, "1"), (1, "00")},
        "parquet": {(1, "2019-06-05"), (1, "00")},
        "typed": {(1, 7)},
        "items": {(1, "CA"), (1, "NL")},
        "orc": {(1, "2019-06-05 12:00:00")},
    }


# Columns of files


@pytest.mark.thorough
def test_a_column_that_only_some_days_have_is_null_in_the_others_and_numbers_have_the_widest_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    narrow = {"b": pa.array([0.5], pa.float32()), "c": pa.array([[1]], pa.list_(pa.int8()))}
    wide = {"b": pa.array([0.1]), "c": pa.array([[2**40]])}
    frames = {}
    for number, (kind, path) in enumerate(
        [("parquet", "dt={date}/x"), ("parquet", "{date}.parquet"), ("orc", "{date}/hour=1/x")]
    ):
        root, write = tmp_path / f"{number}", pq.write_table if kind == "parquet" else orc.write_table
        days = {"2019-06-04": {"a": [1], "gone": [4], **narrow}, "2019-06-05": {"a": [2], "new": [3], **wide}}
        for day, columns in days.items():
            file = root / path.replace("{date}", day)
            directory(file.parent)
            write(pa.table(columns if kind == "parquet" else {**columns, **wide}), str(file))
        source = source_of(root / path.partition("/")[0], format=kind, schema=None, days_before=1)
        found = read_source(spark, "log", source, DAY)
        assert found.by_day is not None
        days_alone = [found.by_day.only([day]).frame for day in (DAY, date(2019, 6, 4))]
        assert [frame.schema for frame in days_alone] == [found.frame.schema] * 2
        for name, frame in (("at once", found.frame), ("one by one", days_alone[0].union(days_alone[1]))):
            frames[f"{kind} {path} {name}"] = frame, ["a", "gone", "new", "b", "c"]
    for name, rows in rows_of(frames).items():
        first = (0.1, [2**40]) if "orc" in name else (0.5, [1])
        assert sorted(rows) == [(1, 4, None, *first), (2, None, 3, 0.1, [2**40])], name


INSTANTS, LOCAL = pa.array([NOON], pa.timestamp("us", "UTC")), pa.array([NOON], pa.timestamp("us"))
MIXED = {
    "of two days": (
        {f"{FOURTH}/b.parquet": INSTANTS, f"{FIFTH}/c.parquet": LOCAL},
        "`T` is timestamp in {}, but timestamp_ntz in {}; expected one type in all files that a run reads",
    ),
    "of one day": (
        {f"{FIFTH}/b.parquet": pa.array(["1"]), f"{FIFTH}/c.parquet": pa.array([1], pa.int32())},
        "`T` is string in {}, but int in {}",
    ),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("what", MIXED)
def test_files_that_disagree_on_a_type_are_both_named(spark: SparkSession, tmp_path: Path, what: str) -> None:
    columns, problem = MIXED[what]
    for file, column in columns.items():
        pq.write_table(pa.table({"T": column}), directory((tmp_path / file).parent) / Path(file).name)
    pq.write_table(pa.table({"other": [1]}), tmp_path / FIFTH / "a.parquet")
    with pytest.raises(InputError) as caught:
        read_source(spark, "log", log(tmp_path, format="parquet", days_before=1), DAY)
    assert problem.format(*[f"file:{tmp_path}/{file}" for file in columns]) in str(caught.value)


def test_the_type_that_holds_the_values_of_two_is_the_wider_of_integers_or_of_floats() -> None:
    byte, long, single, double = ByteType(), LongType(), FloatType(), DoubleType()
    of_byte, of_single = StructField("a", byte), StructField("b", single)
    rows: list[tuple[DataType, DataType, DataType | None]] = [
        (byte, long, long),
        (long, byte, long),
        (single, double, double),
        (long, double, None),
        (StringType(), long, None),
        (TimestampType(), TimestampNTZType(), None),
        (ArrayType(byte), ArrayType(long), ArrayType(long)),
        (ArrayType(TimestampType()), ArrayType(TimestampNTZType()), None),
        (MapType(byte, single), MapType(long, double), MapType(long, double)),
        (MapType(byte, single), MapType(byte, long), None),
        (StructType([of_byte]), StructType([of_single]), StructType([of_byte, of_single])),
        (StructType([of_byte]), StructType([StructField("a", double)]), None),
    ]
    for one, other, both in rows:
        assert wider(one, other) == both


@pytest.mark.skipif(pyspark.__version__ < "4.3", reason="Spark 4.2 passes over no empty file")
def test_empty_files_beside_parquet_do_no_harm(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "m.parquet")
    for name in ("a.parquet", "z.parquet"):
        (tmp_path / name).touch()
    found = read_source(spark, "t", source_of(tmp_path, format="parquet", schema=None), DAY)
    assert found.snapshot["files"] == found.frame.count() == 1


@pytest.mark.thorough
def test_a_large_file_is_listed_unopened(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / f"{FIFTH}/x.json", '{"a": 5}')
    os.truncate(tmp_path / f"{FIFTH}/x.json", 5 << 30)
    assert read_source(spark, "log", log(tmp_path), DAY).snapshot["bytes"] == 5 << 30


@pytest.mark.thorough
def test_listing_takes_few_calls_for_any_number_of_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def calls(root: Path) -> int:
        sent = []
        client = type(spark._jvm._gateway_client)
        send = client.send_command
        with monkeypatch.context() as patch:
            patch.setattr(client, "send_command", lambda *args, **more: sent.append(args) or send(*args, **more))
            read_source(spark, "log", source_of(f"{root}/*"), DAY)
        return len([args for args in sent if not args[1].startswith("m\n")])  # but for releases of objects

    lines(tmp_path / "one/0.json", '{"a": 1}')
    for n in range(50):
        lines(tmp_path / f"many/{n}.json", '{"a": 1}')
    calls(tmp_path / "one")
    assert abs(calls(tmp_path / "one") - calls(tmp_path / "many")) < 10


def optional_source(root: Path | str, kind: str = "parquet") -> Source:
    schema = "a INT, weights MAP<INT, ARRAY<DOUBLE>>"
    return source_of(f"{root}/dt={{date}}", format=kind, schema=schema, days_before=1, optional=True)


@pytest.mark.thorough
def test_an_optional_source_or_table_that_is_not_there_is_empty_with_the_columns_of_its_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = read_source(spark, "t", optional_source(tmp_path / "none"), DAY)
    assert [(f.name, f.dataType.simpleString()) for f in found.frame.schema] == [
        ("a", "int"),
        ("weights", "map<int,array<double>>"),
        ("dt", "date"),
    ]
    assert found.absent == f"{tmp_path}/none/dt={{date}}"
    assert found.snapshot == {
        "files": 0,
        "bytes": 0,
        "fingerprint": "e3b0c44298fc1c14",
        "missing_days": ["2019-06-04", "2019-06-05"],
        "absent": True,
    }
    lines = read_source(spark, "t", optional_source(tmp_path / "none", "json"), DAY).frame
    assert lines.columns == ["a", "weights", MALFORMED, "dt"]
    entry = {"format": "table", "table": "no.such", "schema": "a INT", "optional": True}
    source = CatalogSource.model_validate(entry)
    table = read_source(spark, "t", source, DAY)
    assert (table.frame.columns, table.absent) == (["a"], "table no.such")
    assert rows_of({"files": (found.frame, ["a"]), "table": (table.frame, ["a"])}) == {"files": [], "table": []}
    with pytest.raises(InputError, match="sources.t: the table no such cannot be read"):
        read_source(spark, "t", source.model_copy(update={"table": "no such"}), DAY)


def test_an_optional_source_that_is_there_is_read_as_any_other(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "bad/dt=2019-06-05/x.parquet", "this is no parquet")
    with pytest.raises(InputError, match=r"^sources.t: cannot read .* as parquet"):
        read_source(spark, "t", optional_source(tmp_path / "bad"), DAY)
    with pytest.raises(InputError, match=r"^sources.t: nothing://bucket/x/dt=2019-06-0. cannot be listed"):
        read_source(spark, "t", optional_source("nothing://bucket/x"), DAY)
    pq.write_table(pa.table({"a": [1], "b": [2]}), directory(tmp_path / "t/dt=2019-06-04") / "x.parquet")
    source = optional_source(tmp_path / "t")
    with pytest.raises(InputError, match=r"^sources.t: there is no .*/dt=2019-06-05; check the path, or wait"):
        read_source(spark, "t", source, DAY)
    (tmp_path / "t/dt=2019-06-05").mkdir()
    with pytest.raises(InputError, match=r"^sources.t: .*/dt=2019-06-05 exists but contains no data file"):
        read_source(spark, "t", source, DAY)
    found = read_source(spark, "t", source, date(2019, 6, 4))
    assert found.frame.columns == ["a", "b", "dt"]
    assert found.absent is None
    assert "absent" not in found.snapshot


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"format": "parquet", "path": "x"}, "`optional` needs `schema`: the columns of a source that is not there"),
        ({"format": "table", "table": "t"}, "`optional` needs `schema`"),
        ({"format": "jdbc", "url": "jdbc:derby:x", "table": "t"}, "optional\n  Extra inputs"),
    ],
)
def test_optional_is_refused_where_an_empty_source_has_no_columns(source: dict[str, str], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        SOURCE.validate_python({**source, "optional": True})


@pytest.mark.parametrize(("optional", "which"), [("log", "impressions"), ("actions", "labels.clicked")])
def test_impressions_and_labels_cannot_be_optional(tmp_path: Path, optional: str, which: str) -> None:
    sources = "{log: {format: json, path: a, schema: a INT}, actions: {format: json, path: b, schema: a INT}}"
    label = "{clicked: {source: actions, window: 1m, time: t, user: u, article: i}}"
    said = problem(tmp_path, with_lines(sources=sources, labels=label), f"sources.{optional}.optional=true")
    assert f"without rows `{which}` would be wrong; remove it." in said


@pytest.mark.thorough
def test_the_day_of_a_path_is_a_column_of_all_formats_unless_the_files_have_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    for day in (FOURTH, FIFTH):
        lines(tmp_path / f"json/{day}/x", '{"a": 1}')
        lines(tmp_path / f"csv/{day}/x", "1")
        lines(tmp_path / f"named/{day}/x", "b,a", "x,1")
        lines(tmp_path / f"deep/{day}/hour=07/x", '{"a": 1}')
        pq.write_table(ONE, directory(tmp_path / f"parquet/{day}") / "x")
        orc.write_table(ONE, str(directory(tmp_path / f"orc/{day}") / "x"))
    lines(tmp_path / f"own json/{FIFTH}/x", '{"a": 1, "dt": "2018-01-01"}', '{"a": 2}')
    lines(tmp_path / f"own csv/{FIFTH}/x", "1,2018-01-01")
    lines(tmp_path / f"own named/{FIFTH}/x", "DT,a", "2018-01-01,1")
    own = pa.table({"a": [1], "Dt": ["2018-01-01"]})
    pq.write_table(own, directory(tmp_path / f"own parquet/{FIFTH}") / "x")
    frames, formats = {}, {"named": "csv", "deep": "json"}
    for place in tmp_path.iterdir():
        kind = place.name.removeprefix("own ")
        of_files = {"schema": "a INT, dt STRING"} if "own" in place.name else {"schema": "a INT", "days_before": 1}
        source = log(place, format=formats.get(kind, kind), **of_files, **({"header": True} if kind == "named" else {}))
        frames[place.name] = read_source(spark, "t", source, DAY).frame, ["a", "dt"]
    found = rows_of(frames)
    assert found.pop("own json") == [(1, "2018-01-01"), (2, "2019-06-05")]
    for name, rows in found.items():
        days = ["2018-01-01"] if "own" in name else ["2019-06-04", "2019-06-05"]
        assert sorted(rows) == [(1, day) for day in days], name


@pytest.mark.some(1)
@pytest.mark.parametrize(("zone", "types_of_nanoseconds"), [(None, "true"), ("UTC", "false")])
def test_parquet_as_pandas_writes_it_is_read_or_refused_with_the_remedy(
    spark: SparkSession, tmp_path: Path, zone: str | None, types_of_nanoseconds: str, request: pytest.FixtureRequest
) -> None:
    spark.conf.set("spark.sql.timestampNanosTypes.enabled", types_of_nanoseconds)
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.timestampNanosTypes.enabled"))
    at = pd.Series(pd.to_datetime(["2019-06-05 10:00:00.123456789"])).astype("datetime64[ns]").dt.tz_localize(zone)
    table = pd.DataFrame({"t": at}).set_index(pd.Index([7]))
    table.to_parquet(tmp_path / "ns.parquet")
    refused = ColumnarSource.model_validate({"format": "parquet", "path": str(tmp_path / "ns.parquet")})
    with pytest.raises(InputError) as caught:
        read_source(spark, "t", refused, DAY)
    assert str(caught.value) == (
        f"sources.t: cannot read {tmp_path}/ns.parquet as parquet: its times are in nanoseconds, which Spark does not read; "
        "write times in microseconds, in pandas with "
        "`to_parquet(path, coerce_timestamps='us', allow_truncated_timestamps=True)`."
    )
    other = spark.read.schema("t timestamp_ntz").parquet(str(tmp_path))  # as if another file had told the types
    with (
        pytest.raises(InputError, match=r"ns\.parquet: `t` is INT64, .* timestamp_ntz, .* write times in micro"),
        expected_errors(),
    ):
        other.collect()
    table.to_parquet(tmp_path / "us.parquet", coerce_timestamps="us", allow_truncated_timestamps=True)
    source = ColumnarSource.model_validate({"format": "parquet", "path": str(tmp_path / "us.parquet")})
    frame = read_source(spark, "t", source, DAY).frame
    times = frame.select("__index_level_0__", time_column(frame, "t", "views.t.event_time").cast("string").alias("t"))
    assert [tuple(row) for row in times.collect()] == [(7, "2019-06-05 10:00:00.123456")]
