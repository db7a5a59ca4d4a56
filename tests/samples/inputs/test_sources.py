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
from pyspark.sql import SparkSession

from ctr_samples.config import CatalogSource, ColumnarSource, Source, load_config
from ctr_samples.day_paths import DayPath
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.job import run as job
from ctr_samples.periods import Whole
from ctr_samples.samples.inputs.listing import LOG_DAY, InputFile, days_there
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.sparksql.columns import time_column
from ctr_samples.sparksql.expressions import MALFORMED
from ctr_samples.sparksql.failures import expected_errors
from ctr_samples.sparksql.session import run_session
from tests.samples.inputs.reading import DAY, SOURCE, directory, lines, rows_of, source_of

FOURTH, FIFTH, SIXTH = "dt=2019-06-04", "dt=2019-06-05", "dt=2019-06-06"


def log(root: Path, **keys: Any) -> Any:
    return source_of(f"{root}/dt={{date}}", **keys)


# Lines that are malformed

GLUED = [
    '{"a": 1, "b": "x"}{"a": 2, "b": "y"}',
    '{"a": 1, "b": "x"} {"a": 2, "b": "y"}',
    '{"a": 1, "b": "x"}, {"a": 2, "b": "y"}',
    '{"a": 1, "b": "x"},',
    '{"a": 1, "b": "x"}]',
    '{"a": 1, "b": "x"}}',
    '{"a": 1, "b": "x"}{"a": 2, "b',
    '{"a": 1, "b{"a": 2, "b": "y"}',
    '{"a": 1, "b": "x"} 2019-06-05 ERROR lost the connection',
    '{"a": 1, "b": "x"}"b": "y"}',
    '{"a": 1, "b": "x"}, "b": {"c": 2}',
    '{"a": 1, "p": {"q": {}}}{"a": 2}',
    '{"a": 1, "p": {"q": 1}, "b": "x"}{"a": 2, "b": "y"}',
    '{"a": 1, "p": [{"q": 1}, {"q": 2}], "b": "x"} x',
    '{"a": 1, "b": "}"}}{',
    '[{"a": 1, "b": "x"}]',
    "null",
    "7",
]
WHOLE = [
    '{"a": 1, "b": "x"}',
    ' {"a": 1, "b": "x"} \t',
    '{"a": 1, "b": "}{"}',
    '{"a": 1, "b": "{"}',
    '{"a": 1, "b": "\\"}{\\""}',
    '{"a": 1, "p": {"q": {}}}',
    '{"a": 1, "p": {"q": 1}, "b": "x"}',
    '{"a": 1, "p": [{"q": 1}, {"q": 2}], "b": "x} "}',
    '{"a": 1, "p": {"q": 1}, "b": "},1,1,1]"}',
    ' {"a": 1, "n": NaN}',
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
        ({"quote": ""}, '1,"Alexa" is up', '"Alexa" is up'),
        ({"quote": ""}, '1,"never closed', '"never closed'),
        ({"quote": ""}, r"1,a\"b", r"a\"b"),
        ({"quote": "'"}, "1,'a, b'", "a, b"),
        ({"quote": "'"}, '1,"a"', '"a"'),
        ({"escape": "\\"}, r'1,"say \"hi\", you"', 'say "hi", you'),
        ({"escape": "\\"}, r'1,"a\\"', "a\\"),
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
OF_HOURS = [f"{{0}}/{file}" for file in ("hour=00/x.json", "hour=23/host1/x.json")]
LAYOUTS: dict[str, tuple[str, list[str], dict[str, Any], list[str] | None]] = {
    "the days around the run date": (
        "dt={date}",
        [f"{FOURTH}/x.json", f"{FIFTH}/x.json", "dt=2019-06-09/x.json"],
        BOTH,
        [f"{FOURTH}/x.json", f"{FIFTH}/x.json"],
    ),
    "hidden names": (
        "dt={date}",
        [
            f"{FIFTH}/{n}"
            for n in ("x.json", "_SUCCESS", ".x.json.crc", "_temporary/x.json", ".h/x.json", "x._COPYING_")
        ],
        {},
        [f"{FIFTH}/x.json"],
    ),
    "plain directories": (
        "dt={date}",
        [f"{FIFTH}/{name}" for name in ("x.json", "host1/x.json", "host2/deep/x.json")],
        {},
        None,
    ),
    "the nearest directory of the name gives the day": (
        "dt=2001-01-01/*/dt={date}",
        [f"dt=2001-01-01/b/{FIFTH}/x.json"],
        {},
        None,
    ),
    "hours of days by key": (
        "dt={date}",
        [file.format(day) for day in (FOURTH, FIFTH) for file in OF_HOURS],
        {"days_before": 1},
        None,
    ),
    "hours of days": (
        "{date}",
        [file.format(day[3:]) for day in (FOURTH, FIFTH) for file in OF_HOURS],
        {"days_before": 1},
        None,
    ),
    "hours below a directory of days": (
        "year/dt={date}/log",
        [file.format(f"year/{day}/log") for day in (FOURTH, FIFTH) for file in OF_HOURS],
        {"days_before": 1},
        None,
    ),
} | {
    f"awkward names below {path}": (path, TWO_DAYS, BOTH, None)
    for path in ("dt={date}", "dt={date}/", "/dt={date}", "dt={date}/*", "d[t]={date}")
}
"""The path of a source, the files that are there, keys, and the files that are read unless all are."""
COLUMNS_OF_DIRECTORIES = {
    "hours of days by key": ["hour", "dt"],
    "hours of days": ["hour"],
    "hours below a directory of days": ["hour", "dt"],
}


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
        if columns := COLUMNS_OF_DIRECTORIES.get(name):
            assert found.frame.columns == ["a", "b", MALFORMED, *columns], name
    assert {name: sorted(rows) for name, rows in rows_of(frames).items()} == expected


def test_a_path_may_be_a_file_or_relative_and_sizes_and_times_are_those_of_the_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "t.json"
    lines(file, '{"a": 1}')
    os.utime(file, (1_559_700_000, 1_559_700_000))
    frames = {}
    for path in (str(file), os.path.relpath(file), f"file://{file}"):
        found = read_source(spark, "t", source_of(path), DAY)
        assert found.files == (InputFile(f"file:{file}", 9, 1_559_700_000_000),)
        frames[path] = found.frame, ["a"]
    assert list(rows_of(frames).values()) == [[(1,)]] * 3


def test_a_day_of_empty_files_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    for day in (FOURTH, FIFTH):
        (directory(tmp_path / day) / "x.json").touch()
    lines(tmp_path / f"{FIFTH}/y.json", '{"a": 5}')
    found = read_source(spark, "log", log(tmp_path, days_before=1), DAY)
    assert found.missing_days == (date(2019, 6, 4),)
    assert found.snapshot["files"] == found.frame.count() == 1


def test_the_snapshot_changes_with_any_input_file(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / f"{FIFTH}/x.json", '{"a": 1}')
    source = log(tmp_path)
    before = read_source(spark, "log", source, DAY).snapshot
    assert read_source(spark, "log", source, DAY).snapshot == before
    lines(tmp_path / f"{FIFTH}/y.json", '{"a": 2}')
    after = read_source(spark, "log", source, DAY).snapshot
    assert after["fingerprint"] != before["fingerprint"]
    assert after["files"] == 2


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


@pytest.mark.parametrize(
    "path",
    [
        "day={date:%Y%m%d}",
        "{date:%Y/%m/%d}/[ab]",
        "year={date:%Y}/month={date:%-m}/day={date:%-d}",
        "l ö-{date:%m%d%Y}.*",
    ],
)
@pytest.mark.some(1)
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


def test_values_of_directories_are_text_whatever_the_first_day_has_unless_the_schema_has_their_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    session, frames = run_session(spark, "UTC"), {}
    for first in ("1", "two", "2019-06-05"):
        for day, value in ((FOURTH, first), (FIFTH, "00")):
            lines(tmp_path / f"json-{first}/{day}/shard={value}/x.json", '{"a": 1}')
            pq.write_table(
                pa.table({"a": [1]}), directory(tmp_path / f"parquet-{first}/{day}/shard={value}") / "x.parquet"
            )
        for kind in ("json", "parquet"):
            source = log(tmp_path / f"{kind}-{first}", format=kind, days_before=1, schema="a INT")
            frames[f"{kind} {first}"] = read_source(session, "log", source, DAY).frame, ["a", "shard"]
    lines(tmp_path / f"typed/{FIFTH}/hour=07/x.json", '{"a": 1}')
    typed = read_source(session, "log", log(tmp_path / "typed", schema="a INT, hour INT"), DAY).frame
    frames["typed"] = typed, ["a", "hour"]
    assert {name: {*rows} for name, rows in rows_of(frames).items()} == {
        f"{kind} {first}": {(1, first), (1, "00")}
        for first in ("1", "two", "2019-06-05")
        for kind in ("json", "parquet")
    } | {"typed": {(1, 7)}}


# Columns of files


def test_an_undated_directory_keeps_its_key_value_columns_and_orc_its_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    for country in ("CA", "NL"):
        pq.write_table(pa.table({"a": [1]}), directory(tmp_path / f"items/country={country}") / "x.parquet")
    items = read_source(spark, "items", source_of(tmp_path / "items", format="parquet", schema=None), DAY).frame
    spark.sql("select 1 a, timestamp '2019-06-05 10:00:00' t").write.orc(f"{tmp_path}/t/{FIFTH}")
    timed = read_source(spark, "t", log(tmp_path / "t", format="orc", schema=None), DAY)
    assert timed.snapshot["files"] == 1
    found = rows_of({"items": (items, ["a", "country"]), "orc": (timed.frame, ["a", "cast(t AS string)"])})
    assert sorted(found["items"]) == [(1, "CA"), (1, "NL")]
    assert found["orc"] == [(1, "2019-06-05 10:00:00")]


def test_a_column_that_only_some_days_have_is_null_in_the_others(spark: SparkSession, tmp_path: Path) -> None:
    frames = {}
    for kind, below in (("parquet", ""), ("parquet", "/hour=1"), ("orc", ""), ("orc", "/hour=1")):
        root = tmp_path / f"{kind}{below.replace('/', ' ')}"
        write = pq.write_table if kind == "parquet" else orc.write_table
        write(pa.table({"a": [1], "gone": [4]}), str(directory(root / f"{FOURTH}{below}") / "x"))
        write(pa.table({"a": [2], "new": [3]}), str(directory(root / f"{FIFTH}{below}") / "x"))
        found = read_source(spark, "log", log(root, format=kind, schema=None, days_before=1), DAY)
        assert found.by_day is not None
        one_by_one = found.by_day.only([DAY]).frame.union(found.by_day.only([date(2019, 6, 4)]).frame)
        for name, frame in (("at once", found.frame), ("one by one", one_by_one)):
            frames[f"{kind}{below} {name}"] = frame, ["a", "gone", "new"]
    for name, rows in rows_of(frames).items():
        assert sorted(rows) == [(1, 4, None), (2, None, 3)], name


NOON = datetime(2019, 6, 5, 12)
MIXED = [
    ("local times beside instants", pa.array([NOON], pa.timestamp("us", "UTC")), pa.array([NOON], pa.timestamp("us")),
     "`T` is timestamp in {0}, but timestamp_ntz in {1}; expected one type in all files that a run reads"),
    ("integers beside floats", pa.array([1], pa.int64()), pa.array([1.5], pa.float64()),
     "`T` is bigint in {0}, but double in {1}"),
    ("text beside numbers", pa.array(["1"]), pa.array([1], pa.int32()), "`T` is string in {0}, but int in {1}"),
    ("lists of local times", pa.array([[NOON]], pa.list_(pa.timestamp("us", "UTC"))),
     pa.array([[NOON]], pa.list_(pa.timestamp("us"))), "`T` is array<timestamp> in {0}, but array<timestamp_ntz> in {1}"),
]  # fmt: skip


@pytest.mark.some(2)
@pytest.mark.parametrize(("first", "second", "problem"), [case[1:] for case in MIXED], ids=[case[0] for case in MIXED])
@pytest.mark.parametrize("days", [("2019-06-04", "2019-06-05"), ("2019-06-05", "2019-06-05")])
@pytest.mark.parametrize("turned", [False, True])
def test_files_that_disagree_on_a_type_are_both_named(
    spark: SparkSession,
    tmp_path: Path,
    first: pa.Array,
    second: pa.Array,
    problem: str,
    days: tuple[str, str],
    turned: bool,
) -> None:
    names = ("b.parquet", "c.parquet") if days[0] == days[1] else ("b.parquet", "b.parquet")
    paths = [directory(tmp_path / f"dt={day}") / name for day, name in zip(days, names, strict=True)]
    if turned:
        paths.reverse()
    pq.write_table(pa.table({"T": first}), paths[0])
    pq.write_table(pa.table({"T": second}), paths[1])
    pq.write_table(pa.table({"other": [1]}), directory(tmp_path / "dt=2019-06-05") / "a.parquet")
    source = log(tmp_path, format="parquet", days_before=1)
    with pytest.raises(InputError) as caught:
        read_source(spark, "log", source, DAY)
    names = [f"file:{path}" for path in paths]
    texts = (problem.format(*names), _turned(problem, names))
    assert any(text in str(caught.value) for text in texts), str(caught.value)


def _turned(problem: str, names: list[str]) -> str:
    """The problem with the other file first."""
    first, second = re.fullmatch(r"`T` is (.*) in \{0\}, but (.*) in \{1\}(?:.*)", problem).groups()  # type: ignore[union-attr]
    return f"`T` is {second} in {names[1]}, but {first} in {names[0]}"


def test_files_whose_numbers_are_wider_on_some_days_are_read(spark: SparkSession, tmp_path: Path) -> None:
    narrow = {
        "a": pa.array([1], pa.int32()),
        "b": pa.array([0.5], pa.float32()),
        "c": pa.array([[1]], pa.list_(pa.int8())),
    }
    wide = {"a": pa.array([2**40]), "b": pa.array([0.1]), "c": pa.array([[2**40]])}
    for day, columns in (("2019-06-04", narrow), ("2019-06-05", wide)):
        for name in ("x", "y"):
            pq.write_table(pa.table(columns), directory(tmp_path / f"dt={day}") / f"{name}.parquet")
    pq.write_table(pa.table(wide), tmp_path / "dt=2019-06-04/z.parquet")
    found = read_source(spark, "log", log(tmp_path, format="parquet", days_before=1), DAY)
    rows = sorted((row.a, row.b, row.c) for row in found.frame.collect())
    assert rows == [(1, 0.5, [1])] * 2 + [(2**40, 0.1, [2**40])] * 3


def test_single_days_have_the_columns_and_types_of_the_first_day(spark: SparkSession, tmp_path: Path) -> None:
    frames = {}
    for number, path in enumerate(("{date}.parquet", "dt={date}", "{date}")):
        root = directory(tmp_path / f"{number}")
        for day, columns in (("2019-06-04", {"a": [1], "b": ["old"]}), ("2019-06-05", {"a": [2], "c": ["new"]})):
            file = root / path.replace("{date}", day)
            pd.DataFrame(columns).to_parquet(file if file.suffix else directory(file) / "x.parquet")
        source = source_of(f"{root}/{path}", format="parquet", schema=None, days_before=1)
        read = read_source(spark, "log", source, DAY)
        assert read.by_day is not None
        rows = read.by_day.only([DAY]).frame
        assert rows.schema == read.frame.schema
        frames[path] = rows, ["a", "b"]
    assert list(rows_of(frames).values()) == [[(2, None)]] * 3


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


LATE_CONFIG = """
name: late
timezone: UTC
sources:
  log: {format: json, path: "LOG/dt={date}", schema: "at STRING, act STRING, who STRING, what INT", days_after: 1}
impressions: {source: log, where: act = 'shown', time: at, user: who, article: what, dedup: 1s}
labels: {clicked: {source: log, where: act = 'click', window: 30m}}
features: {position: {from: impression.position, dtype: int64}}
output: {path: OUT, partitions: 1}
"""


@pytest.mark.slow
def test_late_lines_are_found_in_the_next_days_file_and_doubled_ones_count_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    shown = '{"at": "2019-06-05 23:50:00", "act": "shown", "who": "u1", "what": 7}'
    click = '{"at": "2019-06-05 23:52:00", "act": "click", "who": "u1", "what": 7}'
    late = '{"at": "2019-06-05 23:40:00", "act": "shown", "who": "u2", "what": 8}'
    lines(tmp_path / "dt=2019-06-05/x.json", shown, shown)
    lines(tmp_path / "dt=2019-06-06/x.json", click, click, late)
    text = LATE_CONFIG.replace("LOG", str(tmp_path)).replace("OUT", str(tmp_path / "out"))
    (tmp_path / "c.yaml").write_text(text)
    manifest = job.run(spark, load_config(tmp_path / "c.yaml"), DAY).manifest
    assert {key: manifest.accounting[key] for key in ("impressions", "samples", "repeated")} == {
        "impressions": 3,
        "samples": 2,
        "repeated": 1,
    }
    assert manifest.label_sum("clicked") == 1
    assert manifest.labels["clicked"]["actions"] == 2


def optional_source(root: Path | str, kind: str = "parquet") -> Source:
    schema = "a INT, weights MAP<INT, ARRAY<DOUBLE>>"
    return source_of(f"{root}/dt={{date}}", format=kind, schema=schema, days_before=1, optional=True)


def test_an_optional_source_that_is_not_there_is_empty_with_the_columns_of_its_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = read_source(spark, "t", optional_source(tmp_path / "none"), DAY)
    assert found.frame.collect() == []
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


def test_an_optional_source_that_is_there_is_read_as_any_other(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "bad/dt=2019-06-05/x.parquet", "this is no parquet")
    with pytest.raises(InputError, match=r"^sources.t: cannot read .* as parquet"):
        read_source(spark, "t", optional_source(tmp_path / "bad"), DAY)
    with pytest.raises(InputError, match=r"^sources.t: nothing://bucket/x/dt=2019-06-0. cannot be listed"):
        read_source(spark, "t", optional_source("nothing://bucket/x"), DAY)
    spark.sql("select 1 a, 2 b").write.parquet(f"{tmp_path}/t/dt=2019-06-04")
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


def test_an_optional_table_that_the_catalog_does_not_know_is_empty(spark: SparkSession) -> None:
    source = CatalogSource.model_validate({"format": "table", "table": "no.such", "schema": "a INT", "optional": True})
    found = read_source(spark, "t", source, DAY)
    assert (found.frame.columns, found.frame.count(), found.absent) == (["a"], 0, "table no.such")
    wrong = source.model_copy(update={"table": "no such"})
    with pytest.raises(InputError, match="sources.t: the table no such cannot be read"):
        read_source(spark, "t", wrong, DAY)


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
    text = """
name: x
timezone: UTC
sources:
  log: {format: json, path: a, schema: a INT}
  actions: {format: json, path: b, schema: a INT}
impressions: {source: log, time: t, user: u, article: i}
labels: {clicked: {source: actions, window: 1m, time: t, user: u, article: i}}
features: {f: {from: impression.position, dtype: int64}}
output: {path: out}
"""
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.yaml", [f"sources.{optional}.optional=true"])
    assert f"without rows `{which}` would be wrong; remove it." in str(caught.value)


@pytest.mark.thorough
def test_the_day_of_a_path_is_a_column_of_all_formats(spark: SparkSession, tmp_path: Path) -> None:
    frames = {}
    for day in ("2019-06-04", "2019-06-05"):
        lines(tmp_path / f"json/dt={day}/x", '{"a": 1}')
        lines(tmp_path / f"csv/dt={day}/x", "1")
        lines(tmp_path / f"named/dt={day}/x", "b,a", "x,1")
        lines(tmp_path / f"deep/dt={day}/hour=07/x", '{"a": 1}')
        spark.sql("select 1 a").write.parquet(f"{tmp_path}/parquet/dt={day}")
        spark.sql("select 1 a").write.orc(f"{tmp_path}/orc/dt={day}")
    for kind, form in {"named": "csv", "deep": "json"}.items() | {(f, f) for f in ("json", "csv", "parquet", "orc")}:
        more = {"header": True} if kind == "named" else {}
        source = log(tmp_path / kind, format=form, schema="a INT", days_before=1, **more)
        frames[kind] = read_source(spark, "t", source, DAY).frame, ["a", "dt"]
    for kind, rows in rows_of(frames).items():
        assert sorted(rows) == [(1, "2019-06-04"), (1, "2019-06-05")], kind


@pytest.mark.thorough
def test_files_that_have_the_column_of_the_path_keep_their_own(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "json/dt=2019-06-05/x", '{"a": 1, "dt": "2018-01-01"}', '{"a": 2}')
    lines(tmp_path / "csv/dt=2019-06-05/x", "1,2018-01-01")
    lines(tmp_path / "named/dt=2019-06-05/x", "DT,a", "2018-01-01,1")
    spark.sql("select 1 a, '2018-01-01' Dt").write.parquet(f"{tmp_path}/parquet/dt=2019-06-05")
    for kind, form in {"named": "csv", "csv": "csv", "json": "json", "parquet": "parquet"}.items():
        more = {"header": True} if kind == "named" else {}
        source = log(tmp_path / kind, format=form, schema="a INT, dt STRING", **more)
        frame = read_source(spark, "t", source, DAY).frame
        assert [tuple(r) for r in frame.select("a", "dt").where("a = 1").collect()] == [(1, "2018-01-01")], kind
    rest = read_source(spark, "t", log(tmp_path / "json", schema="a INT, dt STRING"), DAY).frame
    assert [r.dt for r in rest.where("a = 2").collect()] == ["2019-06-05"]


@pytest.mark.some(2)
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("types_of_nanoseconds", ["false", "true"])
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
    table.to_parquet(tmp_path / "us.parquet", coerce_timestamps="us", allow_truncated_timestamps=True)
    source = ColumnarSource.model_validate({"format": "parquet", "path": str(tmp_path / "us.parquet")})
    frame = read_source(spark, "t", source, DAY).frame
    times = frame.select("__index_level_0__", time_column(frame, "t", "views.t.event_time").cast("string").alias("t"))
    assert [tuple(row) for row in times.collect()] == [(7, "2019-06-05 10:00:00.123456")]


def test_one_file_of_another_type_is_refused_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    at = pd.Series(pd.to_datetime(["2019-06-05 10:00:00"])).astype("datetime64[ns]")
    (tmp_path / "in").mkdir()
    pd.DataFrame({"t": at}).to_parquet(tmp_path / "in/2.parquet")
    frame = spark.read.schema("t timestamp_ntz").parquet(str(tmp_path / "in"))
    with (
        pytest.raises(InputError, match=r"2\.parquet: `t` is INT64, .* timestamp_ntz, .* write times in micro"),
        expected_errors(),
    ):
        frame.collect()
