"""Inputs: what is there, what is missing, what is empty and what is malformed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
from datetime import UTC, date, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pydantic import TypeAdapter, ValidationError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import (
    CatalogSource,
    ColumnarSource,
    CsvSource,
    DatabaseSource,
    JsonSource,
    LoadedConfig,
    Source,
    explain,
    load_config,
)
from ctr_samples.day_paths import DayPath
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.job import run as job
from ctr_samples.periods import Whole
from ctr_samples.samples.inputs.databases import database_error, errors_of_sources
from ctr_samples.samples.inputs.listing import LOG_DAY, InputFile, days_there
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.sparksql.columns import time_column
from ctr_samples.sparksql.expressions import MALFORMED
from ctr_samples.sparksql.failures import expected_errors
from ctr_samples.sparksql.session import run_session
from tests.support.command_line import invoke

DAY = date(2019, 6, 5)


def lines(path: Path, *text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text) + "\n")


SOURCE: TypeAdapter[Source] = TypeAdapter(Source)


def json_source(root: Path, **more: object) -> Source:
    return SOURCE.validate_python(
        {"format": "json", "path": f"{root}/dt={{date}}", "schema": "a INT, b STRING", **more}
    )


def test_the_days_around_the_run_date_are_read_and_missing_ones_reported(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-04/x.json", '{"a": 4}')
    lines(tmp_path / "dt=2019-06-05/x.json", '{"a": 5}')
    lines(tmp_path / "dt=2019-06-09/x.json", '{"a": 9}')
    found = read_source(spark, "log", json_source(tmp_path, days_before=1, days_after=1), DAY)
    assert sorted(r.a for r in found.frame.collect()) == [4, 5]
    assert found.missing_days == (date(2019, 6, 6),)
    assert found.snapshot["files"] == 2


def test_a_missing_path_and_an_empty_directory_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^sources.log: there is no .*/dt=2019-06-05; check the path, or wait"):
        read_source(spark, "log", json_source(tmp_path), DAY)
    (tmp_path / "dt=2019-06-05").mkdir()
    (tmp_path / "dt=2019-06-05/_SUCCESS").touch()
    with pytest.raises(InputError, match=r"^sources.log: .*/dt=2019-06-05 exists but contains no data file"):
        read_source(spark, "log", json_source(tmp_path), DAY)


def test_malformed_lines_are_marked_with_their_text(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", '{"a": 1, "b": "x"}', '{"a": 1, "b": "x', '{"a": "one"}')
    rows = read_source(spark, "log", json_source(tmp_path), DAY).frame.collect()
    assert [r[MALFORMED] for r in rows] == [None, '{"a": 1, "b": "x', '{"a": "one"}']


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


def test_a_line_that_is_more_than_one_object_is_malformed_and_hides_none(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", *GLUED, "", *WHOLE, " \t ")
    rows = read_source(spark, "log", json_source(tmp_path), DAY).frame.collect()
    assert [r[MALFORMED] for r in rows] == [*GLUED, *[None] * len(WHOLE)]
    assert {r.a for r in rows[len(GLUED) :]} == {1}


TIMES = ["2019-06-05", "2019-06-05 10:00:00.5", "2019-06-05T10:00:00+08:00", "2019-06-05 10:00 Asia/Shanghai"]
NO_TIMES = ["12:30", "T12:30:01", "7:05", "now"]


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_time_without_a_date_is_malformed_and_no_time_of_today(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    texts = [*TIMES, *NO_TIMES]
    lines(tmp_path / f"x.{kind}", *[json.dumps({"at": text}) if kind == "json" else text for text in texts])
    source = SOURCE.validate_python({"format": kind, "path": str(tmp_path / f"x.{kind}"), "schema": "at TIMESTAMP"})
    rows = read_source(spark, "log", source, DAY).frame.select(F.year("at"), MALFORMED).collect()
    assert [year for year, _ in rows] == [2019] * 4 + [None] * 4
    assert [malformed is None for _, malformed in rows] == [True] * 4 + [False] * 4


@pytest.mark.thorough
def test_a_string_of_21_million_characters_is_read(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", json.dumps({"a": 1, "b": "x" * 21_000_000}))
    (row,) = read_source(spark, "log", json_source(tmp_path), DAY).frame.selectExpr("length(b)", MALFORMED).collect()
    assert tuple(row) == (21_000_000, None)


def test_csv_lines_of_another_width_are_malformed(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "t.csv", "a,b", "1,x", "2", "3,x,y", "four,x")
    source = CsvSource.model_validate(
        {"format": "csv", "path": str(tmp_path / "t.csv"), "schema": "a INT, b STRING", "header": True}
    )
    rows = read_source(spark, "t", source, DAY).frame.collect()
    assert [r[MALFORMED] for r in rows] == [None, "2", "3,x,y", "four,x"]


def csv_source(path: Path, **more: object) -> CsvSource:
    return CsvSource.model_validate(
        {"format": "csv", "path": str(path), "schema": "a INT, b STRING", "header": True, **more}
    )


def test_csv_quotes_within_quotes_are_doubled(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "t.csv", "a,b", '1,"say ""hi"", you"', '2,"a\\b"')
    rows = read_source(spark, "t", csv_source(tmp_path / "t.csv"), DAY).frame.collect()
    assert [(r.a, r.b, r[MALFORMED]) for r in rows] == [(1, 'say "hi", you', None), (2, "a\\b", None)]


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("more", "line", "value"),
    [
        ({"quote": ""}, '1,"Alexa" is up', '"Alexa" is up'),
        ({"quote": ""}, '1,"never closed', '"never closed'),
        ({"quote": ""}, r"1,a\"b", r"a\"b"),
        ({"quote": "'"}, "1,'a, b'", "a, b"),
        ({"quote": "'"}, '1,"a"', '"a"'),
        ({"escape": "\\"}, r'1,"say \"hi\", you"', 'say "hi", you'),
        ({"escape": "\\"}, r'1,"a\\"', "a\\"),
    ],
)
def test_csv_has_the_quotes_that_the_source_says(
    spark: SparkSession, tmp_path: Path, more: dict[str, str], line: str, value: str
) -> None:
    lines(tmp_path / "t.csv", "a,b", line, "2,x")
    rows = read_source(spark, "t", csv_source(tmp_path / "t.csv", **more), DAY).frame.collect()
    assert [(r.a, r.b, r[MALFORMED]) for r in rows] == [(1, value, None), (2, "x", None)]


def test_the_snapshot_changes_with_any_input_file(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", '{"a": 1}')
    source = json_source(tmp_path)
    before = read_source(spark, "log", source, DAY).snapshot
    assert read_source(spark, "log", source, DAY).snapshot == before
    lines(tmp_path / "dt=2019-06-05/y.json", '{"a": 2}')
    after = read_source(spark, "log", source, DAY).snapshot
    assert after["fingerprint"] != before["fingerprint"]
    assert after["files"] == 2


PASSES_OVER_EMPTY_FILES = pytest.mark.skipif(pyspark.__version__ < "4.3", reason="Spark 4.2 passes over no empty file")


def test_a_file_of_another_format_is_named(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "t.parquet", "this is no parquet")
    source = ColumnarSource.model_validate({"format": "parquet", "path": str(tmp_path / "t.parquet")})
    with pytest.raises(InputError, match=r"^sources.t: cannot read .*t.parquet as parquet: [^.]*t.parquet\.$"):
        read_source(spark, "t", source, DAY)


def test_a_schema_that_is_no_schema_is_a_config_error(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", "{}")
    with pytest.raises(ConfigError, match=r"sources.log.schema: "):
        read_source(spark, "log", json_source(tmp_path, schema="a INTEGERS"), DAY)


def test_a_schema_that_is_one_type_is_a_config_error(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", "{}")
    with pytest.raises(
        ConfigError, match=r"^sources.log.schema: found INT, expected columns such as `a INT, b STRING`"
    ):
        read_source(spark, "log", json_source(tmp_path, schema="INT"), DAY)


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
    source = JsonSource.model_validate({"format": "json", "path": path, "schema": "a INT"})
    with pytest.raises(InputError) as caught:
        read_source(spark, "log", source, DAY)
    found = f"sources.log: {path} cannot be listed; check the path and its permissions: "
    assert re.fullmatch(rf"{re.escape(found)}{reason}\.", str(caught.value))


AWKWARD = ["plain.json", "ä ö.json", "50%25 off.json", "a#b?c+d.json", "[x]{y}.json", "back`tick.json", "a=b.json"]


@pytest.mark.some(2)
@pytest.mark.parametrize("path", ["/dt={date}", "/dt={date}/", "//dt={date}", "/dt={date}/*", "/d[t]={date}"])
def test_awkward_names_are_listed_and_read_once(spark: SparkSession, tmp_path: Path, path: str) -> None:
    root = tmp_path / "ü log 100%20"
    for day in ("2019-06-04", "2019-06-05"):
        for name in AWKWARD:
            lines(root / f"dt={day}" / name, '{"a": 1}')
    source = JsonSource.model_validate(
        {"format": "json", "path": f"{root}{path}", "schema": "a INT", "days_before": 1, "days_after": 1}
    )
    found = read_source(spark, "log", source, DAY)
    assert found.files is not None
    assert sorted(f.path for f in found.files) == sorted(
        f"file:{root}/dt={day}/{name}" for day in ("2019-06-04", "2019-06-05") for name in AWKWARD
    )
    assert {f.bytes for f in found.files} == {9}
    assert found.frame.count() == 2 * len(AWKWARD)
    assert found.missing_days == (date(2019, 6, 6),)


def test_sizes_and_times_are_those_of_the_file(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", '{"a": 1}')
    os.utime(tmp_path / "dt=2019-06-05/x.json", (1_559_700_000, 1_559_700_000))
    found = read_source(spark, "log", json_source(tmp_path), DAY)
    assert found.files == (InputFile(f"file:{tmp_path}/dt=2019-06-05/x.json", 9, 1_559_700_000_000),)


def test_a_path_may_be_a_file_or_relative(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "t.json", '{"a": 1}')
    nearby = os.path.relpath(tmp_path / "t.json")
    for path in (str(tmp_path / "t.json"), nearby, f"file://{tmp_path}/t.json"):
        source = JsonSource.model_validate({"format": "json", "path": path, "schema": "a INT"})
        found = read_source(spark, "t", source, DAY)
        assert found.snapshot["files"] == found.frame.count() == 1


def test_hidden_names_are_neither_listed_nor_read(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("x.json", "_SUCCESS", ".x.json.crc", "_temporary/x.json", ".hidden/x.json", "x.json._COPYING_"):
        lines(tmp_path / "dt=2019-06-05" / name, '{"a": 1}')
    found = read_source(spark, "log", json_source(tmp_path), DAY)
    assert found.snapshot["files"] == found.frame.count() == 1


def test_files_in_plain_directories_are_read(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", '{"a": 1}')
    lines(tmp_path / "dt=2019-06-05/host1/x.json", '{"a": 2}')
    lines(tmp_path / "dt=2019-06-05/host2/deep/x.json", '{"a": 3}')
    found = read_source(spark, "log", json_source(tmp_path), DAY)
    assert sorted(r.a for r in found.frame.collect()) == [1, 2, 3]
    assert found.snapshot["files"] == 3


@pytest.mark.parametrize("day", ["dt={date}", "{date}", "year/dt={date}/log"])
def test_key_value_directories_are_columns_over_several_days(spark: SparkSession, tmp_path: Path, day: str) -> None:
    for written in ("2019-06-04", "2019-06-05"):
        root = tmp_path / day.replace("{date}", written)
        lines(root / "hour=00/x.json", '{"a": 0}')
        lines(root / "hour=23/host1/x.json", '{"a": 23}')
    source = JsonSource.model_validate(
        {"format": "json", "path": f"{tmp_path}/{day}", "schema": "a INT", "days_before": 1}
    )
    found = read_source(spark, "log", source, DAY)
    assert sorted((r.a, r.hour) for r in found.frame.collect()) == [(0, 0), (0, 0), (23, 23), (23, 23)]
    assert found.frame.columns == ["a", MALFORMED, "hour", *(["dt"] if "dt" in day else [])]
    assert found.snapshot["files"] == 4


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "path",
    [
        "day={date:%Y%m%d}",
        "{date:%Y/%m/%d}/[ab]",
        "year={date:%Y}/month={date:%-m}/day={date:%-d}",
        "l ö-{date:%m%d%Y}.*",
    ],
)
@pytest.mark.parametrize("days", [1, 8])
def test_a_day_may_be_named_in_any_form(spark: SparkSession, tmp_path: Path, path: str, days: int) -> None:
    written = {date(2024, 3, 4): 1, date(2024, 3, 3): 2, date(2024, 2, 25): 3, date(2024, 2, 24): 4}
    for day, a in written.items():
        file = tmp_path / DayPath(path).filled(day, None).replace("[ab]", "b").replace(".*", ".json")
        file = file if file.suffix else file / "x.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{{"a": {a}}}\n')
    source = JsonSource.model_validate(
        {"format": "json", "path": f"{tmp_path}/{path}", "schema": "a INT", "days_before": days}
    )
    read = read_source(spark, "log", source, date(2024, 3, 4))
    rows = {(row["a"], row[LOG_DAY]) for row in read.rows.collect()}
    assert rows == {(a, day) for day, a in written.items() if a <= (2 if days == 1 else 3)}
    assert ("day", "date") in read.frame.dtypes or "day={date:%Y" not in path
    assert len(read.missing_days) == days - (1 if days == 1 else 2)
    whole = source.model_copy(update={"days_before": 0})
    assert days_there(spark, "log", whole.days) == sorted(written)
    assert read_source(spark, "log", whole, Whole()).frame.count() == 4


@pytest.mark.some(2)
@pytest.mark.parametrize("first", ["1", "two", "2019-06-05"])
def test_values_of_directories_are_text_whatever_the_first_day_has(
    spark: SparkSession, tmp_path: Path, first: str
) -> None:
    session = run_session(spark, "UTC")
    for day, value in (("2019-06-04", first), ("2019-06-05", "00")):
        lines(tmp_path / f"json/dt={day}/shard={value}/x.json", '{"a": 1}')
        pq.write_table(pa.table({"a": [1]}), directory(tmp_path / f"parquet/dt={day}/shard={value}") / "x.parquet")
    for kind in ("json", "parquet"):
        source = json_source(tmp_path / kind, format=kind, days_before=1, schema="a INT")
        rows = read_source(session, "log", source, DAY).frame.collect()
        assert sorted((row.a, row.shard) for row in rows) == sorted([(1, first), (1, "00")])


def test_a_schema_of_lines_types_the_values_of_directories(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/hour=07/x.json", '{"a": 1}')
    rows = read_source(run_session(spark, "UTC"), "log", json_source(tmp_path, schema="a INT, hour INT"), DAY).frame
    assert [(row.a, row.hour) for row in rows.collect()] == [(1, 7)]


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        ("dt=2019-06-05/x.json", "dt=2019-06-05/hour=01/x.json", "hour and none"),
        ("dt=2019-06-04/x.json", "dt=2019-06-05/hour=01/x.json", "hour and none"),
        ("dt=2019-06-05/minute=02/x.json", "dt=2019-06-05/hour=01/x.json", "hour and minute"),
        ("dt=2019-06-05/host1/hour=01/x.json", "dt=2019-06-05/host2/hour=01/x.json", "[*]/hour"),
    ],
)
def test_directories_of_different_kinds_are_refused(
    spark: SparkSession, tmp_path: Path, first: str, second: str, kinds: str
) -> None:
    lines(tmp_path / first, '{"a": 1}')
    lines(tmp_path / second, '{"a": 2}')
    with pytest.raises(
        InputError, match=rf"^sources.log: the files under .*dt={{date}} lie in different `key=value` .* \({kinds}\)"
    ):
        read_source(spark, "log", json_source(tmp_path, days_before=1), DAY)


def test_directories_that_spark_takes_for_parts_of_several_tables_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines(tmp_path / "dt=2019-06-05/a=1/host/b=1/x.json", '{"a": 1}')
    lines(tmp_path / "dt=2019-06-05/a=2/host/b=1/x.json", '{"a": 2}')
    with pytest.raises(InputError, match="^sources.log: the files under .*a/[*]/b"):
        read_source(spark, "log", json_source(tmp_path), DAY)


def test_an_undated_directory_keeps_its_key_value_columns(spark: SparkSession, tmp_path: Path) -> None:
    for country in ("CA", "NL"):
        spark.sql("select 1 a").write.parquet(f"{tmp_path}/items/country={country}")
    source = ColumnarSource.model_validate({"format": "parquet", "path": f"{tmp_path}/items"})
    found = read_source(spark, "items", source, DAY)
    assert sorted((r.a, r.country) for r in found.frame.collect()) == [(1, "CA"), (1, "NL")]


@pytest.mark.some(2)
@pytest.mark.parametrize("below", ["", "/hour=1"])
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_column_that_only_some_days_have_is_null_in_the_others(
    spark: SparkSession, tmp_path: Path, kind: str, below: str
) -> None:
    spark.sql("select 1 a, 4 gone").write.format(kind).save(f"{tmp_path}/dt=2019-06-04{below}")
    spark.sql("select 2 a, 3 new").write.format(kind).save(f"{tmp_path}/dt=2019-06-05{below}")
    found = read_source(spark, "log", json_source(tmp_path, format=kind, days_before=1), DAY)
    assert found.by_day is not None
    for frame in (found.frame, found.by_day.only([DAY]).frame.union(found.by_day.only([date(2019, 6, 4)]).frame)):
        assert sorted((row.a, row.gone, row.new) for row in frame.select("a", "gone", "new").collect()) == [
            (1, 4, None),
            (2, None, 3),
        ]


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
    source = json_source(tmp_path, format="parquet", days_before=1)
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
    found = read_source(spark, "log", json_source(tmp_path, format="parquet", days_before=1), DAY)
    rows = sorted((row.a, row.b, row.c) for row in found.frame.collect())
    assert rows == [(1, 0.5, [1])] * 2 + [(2**40, 0.1, [2**40])] * 3


def directory(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("path", ["{date}.parquet", "dt={date}", "{date}"])
def test_single_days_have_the_columns_and_types_of_the_first_day(
    spark: SparkSession, tmp_path: Path, path: str
) -> None:
    for day, columns in (("2019-06-04", {"a": [1], "b": ["old"]}), ("2019-06-05", {"a": [2], "c": ["new"]})):
        file = path.replace("{date}", day) + ("" if path.endswith(".parquet") else "/x.parquet")
        (tmp_path / file).parent.mkdir(exist_ok=True)
        pd.DataFrame(columns).to_parquet(tmp_path / file)
    source = SOURCE.validate_python({"format": "parquet", "path": f"{tmp_path}/{path}", "days_before": 1})
    read = read_source(spark, "log", source, DAY)
    assert read.by_day is not None
    rows = read.by_day.only([DAY]).frame
    assert rows.schema == read.frame.schema
    assert rows.select("a", "b").collect() == [(2, None)]


def test_a_file_of_two_days_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "2019-06-04_2019-06-05/x.json", '{"a": 1}')
    source = JsonSource.model_validate(
        {"format": "json", "path": f"{tmp_path}/*{{date}}*", "schema": "a INT", "days_before": 1}
    )
    with pytest.raises(InputError, match=r"^sources.log: file:.* is matched by .*[*]2019-06-04[*] and by .*2019-06-05"):
        read_source(spark, "log", source, DAY)


def test_a_day_of_empty_files_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("2019-06-04", "2019-06-05"):
        (tmp_path / f"dt={day}").mkdir()
        (tmp_path / f"dt={day}/x.json").touch()
    with pytest.raises(InputError, match=r"^sources.log: .*/dt=2019-06-05 exists but contains no data file"):
        read_source(spark, "log", json_source(tmp_path), DAY)
    lines(tmp_path / "dt=2019-06-05/y.json", '{"a": 5}')
    found = read_source(spark, "log", json_source(tmp_path, days_before=1), DAY)
    assert found.missing_days == (date(2019, 6, 4),)
    assert found.snapshot["files"] == found.frame.count() == 1


@PASSES_OVER_EMPTY_FILES
@pytest.mark.parametrize("name", ["a.parquet", "z.parquet"])
def test_an_empty_file_beside_parquet_does_no_harm(spark: SparkSession, tmp_path: Path, name: str) -> None:
    spark.sql("select 1 a").write.parquet(f"{tmp_path}/t")
    (tmp_path / "t" / name).touch()
    source = ColumnarSource.model_validate({"format": "parquet", "path": f"{tmp_path}/t"})
    found = read_source(spark, "t", source, DAY)
    assert found.snapshot["files"] == found.frame.count() == 1


@pytest.mark.thorough
def test_a_large_file_is_listed_unopened(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", '{"a": 5}')
    os.truncate(tmp_path / "dt=2019-06-05/x.json", 5 << 30)
    assert read_source(spark, "log", json_source(tmp_path), DAY).snapshot["bytes"] == 5 << 30


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
            source = JsonSource.model_validate({"format": "json", "path": f"{root}/*", "schema": "a INT"})
            read_source(spark, "log", source, DAY)
        return len([args for args in sent if not args[1].startswith("m\n")])  # but for releases of objects

    lines(tmp_path / "one/0.json", '{"a": 1}')
    for n in range(50):
        lines(tmp_path / f"many/{n}.json", '{"a": 1}')
    calls(tmp_path / "one")
    assert abs(calls(tmp_path / "one") - calls(tmp_path / "many")) < 10


def test_a_table_is_read_by_name_and_pruned_by_its_date_column(spark: SparkSession) -> None:
    spark.sql(
        "create or replace temp view v as select 1 a, '2019-06-04' dt union select 2, '2019-06-05' union select 3, '2019-06-07'"
    )
    source = CatalogSource.model_validate({"format": "table", "table": "v", "date_column": "dt", "days_before": 1})
    found = read_source(spark, "t", source, DAY)
    assert sorted(r.a for r in found.frame.collect()) == [1, 2]
    assert found.snapshot["fingerprint"] is None


TIMES_OF_ROWS = {
    "the last microsecond of the day before": "2019-06-04 23:59:59.999999",
    "midnight": "2019-06-05 00:00:00",
    "the last microsecond": "2019-06-05 23:59:59.999999",
    "the next midnight": "2019-06-06 00:00:00",
    "the day after the next": "2019-06-07 00:00:00",
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["timestamp_ltz", "timestamp_ntz"])
def test_a_time_is_of_the_day_that_the_clocks_of_the_configuration_show(spark: SparkSession, kind: str) -> None:
    session = run_session(spark, "Asia/Shanghai")
    rows = session.createDataFrame([*TIMES_OF_ROWS.items(), ("no time", None)], "name string, time string")
    rows.select("name", F.col("time").cast(kind).alias("at.time")).createOrReplaceTempView("times")
    source = CatalogSource.model_validate({"format": "table", "table": "times", "date_column": "AT.time"})
    found = read_source(session, "t", source, DAY)
    assert sorted(r.name for r in found.frame.collect()) == ["midnight", "the last microsecond"]
    later = read_source(session, "t", source.model_copy(update={"days_before": 1, "days_after": 3}), DAY)
    assert sorted(r.name for r in later.frame.collect()) == sorted(TIMES_OF_ROWS)
    assert later.missing_days == (date(2019, 6, 8),)
    with pytest.raises(InputError, match="^sources.t: the table times has no rows with AT.time = 2019-06-08; wait for"):
        read_source(session, "t", source, date(2019, 6, 8))


def test_a_time_is_of_its_day_where_the_clocks_skip_midnight(spark: SparkSession) -> None:
    session = run_session(spark, "America/Sao_Paulo")  # 2018-11-04 began at 1:00
    session.sql(
        "create or replace temp view skipped as select timestamp'2018-11-04 02:59:59Z' + (n * interval 1 second) as at, n "
        "from values (0), (1), (82800), (82801) as t (n)"
    )
    source = CatalogSource.model_validate({"format": "table", "table": "skipped", "date_column": "at"})
    assert sorted(r.n for r in read_source(session, "t", source, date(2018, 11, 4)).frame.collect()) == [1, 82800]


@pytest.mark.parametrize("kind", ["int", "boolean", "array<date>"])
def test_a_date_column_of_another_type_is_refused(spark: SparkSession, kind: str) -> None:
    spark.sql(f"create or replace temp view typed as select cast(null as {kind}) dt")
    source = CatalogSource.model_validate({"format": "table", "table": "typed", "date_column": "DT"})
    with pytest.raises(InputError) as caught:
        read_source(spark, "t", source, DAY)
    assert str(caught.value) == (
        f"sources.t.date_column: 'DT' of the table typed is of type {kind}; expected a date, a timestamp, or text such as "
        "2019-06-05. Name another column, or make a date of it in a view or a query."
    )


@pytest.mark.parametrize("written", ["'2019-06-04'", "date'2019-06-04'"])
def test_a_table_without_rows_of_the_run_date_is_refused(spark: SparkSession, written: str) -> None:
    spark.sql(f"create or replace temp view v3 as select 1 a, {written} dt")
    source = CatalogSource.model_validate({"format": "table", "table": "v3", "date_column": "dt", "days_before": 1})
    with pytest.raises(InputError) as caught:
        read_source(spark, "t", source, DAY)
    assert str(caught.value) == (
        "sources.t: the table v3 has no rows with dt = 2019-06-05; wait for the job that writes it."
    )
    found = read_source(spark, "t", source, date(2019, 6, 4))
    assert [r.a for r in found.frame.collect()] == [1]


def test_days_that_a_table_lacks_after_the_run_date_are_missing(spark: SparkSession) -> None:
    spark.sql("create or replace temp view v4 as select 1 a, '2019-06-05' dt union select 2, '2019-06-07'")
    source = CatalogSource.model_validate(
        {"format": "table", "table": "v4", "date_column": "dt", "days_before": 2, "days_after": 3}
    )
    found = read_source(spark, "t", source, DAY)
    assert found.missing_days == (date(2019, 6, 6), date(2019, 6, 8))
    assert found.snapshot["missing_days"] == ["2019-06-06", "2019-06-08"]


def test_a_table_that_is_not_there_hints_at_hive_while_its_catalog_is_off(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = CatalogSource.model_validate({"format": "table", "table": "no.such"})
    hint = " If it is a Hive table, run with `--conf spark.sql.catalogImplementation=hive`."
    with pytest.raises(InputError) as caught:
        read_source(spark, "t", source, DAY)
    assert str(caught.value).endswith(hint)
    monkeypatch.setattr(type(spark.conf), "get", lambda *_: "hive")
    with pytest.raises(InputError) as caught:
        read_source(spark, "t", source, DAY)
    assert "`no`.`such` cannot be found" in str(caught.value)
    assert hint not in str(caught.value)


@pytest.mark.thorough
def test_a_table_or_date_column_that_is_not_there_is_named(spark: SparkSession) -> None:
    nowhere = CatalogSource.model_validate({"format": "table", "table": "no.such"})
    with pytest.raises(
        InputError, match=r"sources.t: the table no.such cannot be read: The table or view `no`.`such` cannot be found"
    ):
        read_source(spark, "t", nowhere, DAY)
    spark.sql("create or replace temp view v2 as select 1 a")
    undated = CatalogSource.model_validate({"format": "table", "table": "v2", "date_column": "dt"})
    with pytest.raises(InputError, match="the table v2 has no column 'dt'"):
        read_source(spark, "t", undated, DAY)


def test_orc_is_read_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("select 1 a, timestamp '2019-06-05 10:00:00' t").write.orc(f"{tmp_path}/t/dt=2019-06-05")
    source = ColumnarSource.model_validate({"format": "orc", "path": f"{tmp_path}/t/dt={{date}}"})
    found = read_source(spark, "t", source, DAY)
    assert found.frame.select("a", F.col("t").cast("string")).collect() == [(1, "2019-06-05 10:00:00")]
    assert found.snapshot["files"] == 1


SHOP = "jdbc:derby:memory:shop"


@pytest.fixture(scope="module")
def shop(spark: SparkSession) -> str:
    """A database in this process with a table of ten rows on two days."""
    jvm = spark._jvm
    jvm.java.lang.Class.forName("org.apache.derby.iapi.jdbc.AutoloadedDriver")
    connection = jvm.java.sql.DriverManager.getConnection(f"{SHOP};create=true")
    statement = connection.createStatement()
    statement.execute("create table items (id bigint, seen timestamp, day date, dt varchar(10), city varchar(20))")
    insert = connection.prepareStatement("insert into items values (?, ?, ?, ?, ?)")
    for i in range(10):
        day = f"2019-06-0{4 + i % 2}"
        for place, value in enumerate((str(i), f"{day} 10:00:00", day, day, f"city {i}"), 1):
            insert.setString(place, value)
        insert.executeUpdate()
    connection.close()
    return SHOP


def jdbc(**more: object) -> DatabaseSource:
    return DatabaseSource.model_validate({"format": "jdbc", "url": SHOP, **more})


@pytest.mark.slow
def test_a_table_or_query_of_a_database_is_read_by_one_or_more_tasks(spark: SparkSession, shop: str) -> None:
    whole = read_source(spark, "items", jdbc(table="items"), DAY)
    assert whole.frame.count() == 10
    assert whole.snapshot["fingerprint"] is None
    cut = {"column": "id", "lower": 2, "upper": 8, "count": 3}
    some = jdbc(query="select id, city from items where id > 3", partition=cut)
    rows = read_source(spark, "items", some, DAY).frame
    assert rows.rdd.getNumPartitions() == 3
    assert sorted((r.ID, r.CITY) for r in rows.collect()) == [(i, f"city {i}") for i in range(4, 10)]


@pytest.mark.parametrize("column", ["day", "DT", "seen"])
def test_only_the_days_needed_are_read_from_a_database(spark: SparkSession, shop: str, column: str) -> None:
    source = jdbc(table="items", date_column=column, days_after=1)
    found = read_source(spark, "items", source, DAY)
    assert sorted(r.ID for r in found.frame.collect()) == [1, 3, 5, 7, 9]
    assert found.missing_days == (date(2019, 6, 6),)
    with pytest.raises(InputError, match=f"the table items of {SHOP} has no rows with {column} = 2019-06-07; wait"):
        read_source(spark, "items", source, date(2019, 6, 7))
    if column == "day":
        plan = found.frame._jdf.queryExecution().executedPlan().toString()
        assert re.search(r"PushedFilters: \[[^]]*DAY", plan), "the database looks the days up"


def test_a_time_of_a_database_is_one_of_the_configured_zone(spark: SparkSession, shop: str) -> None:
    session = run_session(spark, "Asia/Shanghai")
    frame = read_source(session, "items", jdbc(table="items"), DAY).frame.where("id = 1")
    micros = frame.select(F.unix_micros(time_column(frame, "seen", "here"))).collect()[0][0]
    assert micros == datetime(2019, 6, 5, 2, tzinfo=UTC).timestamp() * 1_000_000


def test_a_database_that_cannot_be_reached_is_named_with_what_its_driver_says(spark: SparkSession) -> None:
    with pytest.raises(InputError) as caught:
        read_source(spark, "items", jdbc(url="jdbc:derby:memory:nowhere;password=hush", table="items"), DAY)
    place = "sources.items: the table items of jdbc:derby:memory:nowhere"
    assert str(caught.value) == f"{place} cannot be read: Database 'memory:nowhere' not found."


@pytest.mark.parametrize(("driver", "which"), [(None, "for its address"), ("org.nosuch.Driver", "org.nosuch.Driver")])
def test_a_driver_that_is_not_there_is_one_sentence_with_what_to_do(
    spark: SparkSession, driver: str | None, which: str
) -> None:
    source = jdbc(url="jdbc:nosuch://db:5432/shop", table="items", driver=driver)
    with pytest.raises(InputError) as caught:
        read_source(spark, "items", source, DAY)
    assert str(caught.value) == (
        f"sources.items: the table items of jdbc:nosuch://db:5432/shop cannot be read: Spark does not find the driver {which}; "
        "give its jar to spark-submit by `--jars`, or its coordinates by `--packages`, and name its class, as in "
        "`driver: org.postgresql.Driver`."
    )


def test_no_error_of_a_database_tells_a_secret(spark: SparkSession, shop: str) -> None:
    for url, more in (
        ("jdbc:nosuch://u:hush@db:5432/shop?password=hush", {"table": "items"}),
        ("jdbc:derby:memory:nosuch;user=sa;password=hush", {"table": "items"}),
        (f"{SHOP};password=hush", {"table": "nosuch", "user": "sa", "password": "hush"}),
        (f"{SHOP};password=hush", {"query": "selekt 'hush'", "user": "sa", "password": "hush"}),
    ):
        with pytest.raises(InputError, match="^sources.items: the (table|query)") as caught:
            read_source(spark, "items", jdbc(url=url, **more), DAY)
        assert "hush" not in str(caught.value)
        assert "\n" not in str(caught.value)


LOGGED = """
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from ctr_samples.config import DatabaseSource
from ctr_samples.samples.inputs.databases import open_database_table
from ctr_samples.sparksql.session import run_session
settings = {"master": "local[1]", "ui.enabled": "false", "eventLog.enabled": "true", "eventLog.compress": "false",
            "eventLog.dir": Path(sys.argv[1]).as_uri()}
builder = SparkSession.builder
for key, value in settings.items():
    builder = builder.config(f"spark.{key}", value)
spark = builder.getOrCreate()
url = "jdbc:derby:memory:logged;create=true;password=hush-in-url"
statement = spark._jvm.java.sql.DriverManager.getConnection(url).createStatement()
statement.execute("create table items (id int)")
statement.execute("insert into items values (1)")
login = {"user": "hush_user", "password": "hush-password"}
for what in ({"table": "app.items"}, {"query": "select 1 / (id - 1) as never from app.items"}):
    source = DatabaseSource.model_validate({"format": "jdbc", "url": url, **login, **what})
    try:
        open_database_table(run_session(spark, "UTC"), source).groupBy().count().show()
        open_database_table(run_session(spark, "UTC"), source).collect()
    except Exception:
        print("failed")
spark.stop()
"""


@pytest.mark.slow
def test_the_event_log_holds_no_login_of_a_database(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOGGED, str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    log = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert "failed" in run.stdout
    assert "JDBCRelation(app.items)" in log
    assert "SparkListenerTaskEnd" in log
    assert "hush" not in log


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("select id, 10 / (id - 3) as share from APP.items", "Attempt to divide by zero"),
        ("select id, cast(city as int) as share from APP.items", "Invalid character string format for type INTEGER"),
    ],
)
def test_no_error_of_a_task_that_reads_a_database_tells_a_secret(
    spark: SparkSession, shop: str, query: str, reason: str
) -> None:
    source = jdbc(url=f"{SHOP};password=hush", query=query, user="sa", password="hush")
    frame = read_source(spark, "items", source, DAY).frame
    with pytest.raises(InputError) as caught, errors_of_sources({"items": source}):
        frame.collect()
    assert str(caught.value) == f"sources.items: the query of {SHOP} cannot be read: {reason}."
    assert caught.value.__cause__ is None, "what Spark threw may hold the address"
    assert "hush" not in "".join(traceback.format_exception(caught.value))


TASK_FAILED = "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Lost task 0.0 in stage 3.0 (TID 3) (h exec 1): java.sql.SQLException: No suitable driver found for URL\n\tat x",
            "sources.items: the table items of jdbc:postgresql://db:5432/shop cannot be read: No suitable driver found for "
            "jdbc:postgresql://db:5432/shop.",
        ),
        (
            "Lost task (h executor 1): org.apache.spark.SparkSQLException: [FAILED_JDBC.CONNECTION] Failed JDBC URL\n"
            'Caused by: org.postgresql.util.PSQLException: FATAL: password authentication failed for user "u"\n\tat x',
            "sources.items: the table items of jdbc:postgresql://db:5432/shop cannot be read: FATAL: password authentication "
            'failed for user "u".',
        ),
        (
            "Lost task: com.mysql.cj.jdbc.exceptions.CommunicationsException: no link with hush\n",
            "sources.items: the table items of jdbc:postgresql://db:5432/shop cannot be read: the database refused with a "
            "message that contains a secret.",
        ),
        (
            "Lost task: java.io.IOException: while reading URL\n",
            "sources.items: the table items of jdbc:postgresql://db:5432/shop cannot be read: a task failed while reading "
            "its rows.",
        ),
        ("Lost task: java.lang.OutOfMemoryError: Java heap space\n", None),
        ("Lost task: org.apache.spark.sql.AnalysisException: [X] no such column\n", None),
    ],
)
def test_what_drivers_say_on_executors_is_told_without_the_address(text: str, said: str | None) -> None:
    url = "jdbc:postgresql://u:hush@db:5432/shop?password=hush"
    sources = {"items": jdbc(url=url, table="items"), "log": ColumnarSource(format="parquet", path="log")}
    found = database_error(RuntimeError(TASK_FAILED + text.replace("URL", url)), sources)
    assert (found and str(found)) == said
    assert database_error(RuntimeError(TASK_FAILED + text), {"log": sources["log"]}) is None


SHOP_CONFIG = """
name: shop
timezone: UTC
sources: {log: {format: jdbc, url: "URL", table: APP.items, user: sa, password: "PASSWORD"}}
impressions: {source: log, time: seen, user: city, article: id}
labels: {clicked: {source: log, where: false, window: 1m}}
features: {position: {from: impression.position, dtype: int64}}
output: {path: OUT, partitions: 1}
"""


def shop_config(root: Path, url: str, password: str) -> LoadedConfig:
    text = SHOP_CONFIG.replace("URL", url).replace("PASSWORD", password).replace("OUT", str(root / "out"))
    (root / "c.yaml").write_text(text)
    return load_config(root / "c.yaml", environ={"SECRET": "hush-hush"})


@pytest.mark.slow
def test_a_password_of_the_environment_is_written_nowhere(spark: SparkSession, shop: str, tmp_path: Path) -> None:
    loaded = shop_config(tmp_path, f"{SHOP};password=${{SECRET}}", "${SECRET}")
    assert loaded.config.sources["log"].password == "hush-hush"
    assert job.run(spark, loaded, DAY).manifest.records == 5
    assert "hush" not in explain(loaded.config)
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or b"hush" not in file.read_bytes()


@pytest.mark.parametrize(
    ("url", "password", "key"),
    [
        (SHOP, "hush", "password"),
        (f"{SHOP};password=hush", "${SECRET}", "url"),
        ("jdbc:postgresql://sa:hush@db/shop", "${SECRET}", "url"),
    ],
)
def test_a_password_that_stands_in_the_file_is_refused(
    spark: SparkSession, tmp_path: Path, url: str, password: str, key: str
) -> None:
    with pytest.raises(ConfigError, match=f"sources.log.{key} holds a secret, which would be written") as caught:
        job.run(spark, shop_config(tmp_path, url, password), DAY)
    assert "hush" not in str(caught.value)
    found = invoke("config", "--config", str(tmp_path / "c.yaml"), env={"SECRET": "hush-hush"})
    assert (found.exit_code, "holds a secret" in found.stderr, "hush" in found.output) == (2, True, False)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"format": "jdbc", "table": "t"}, "url\n  Field required"),
        (
            {"format": "jdbc", "url": SHOP, "table": "t", "query": "select 1"},
            "needs either `table` or `query`",
        ),
        ({"format": "jdbc", "url": SHOP, "table": "t", "schema": "a INT"}, "schema\n  Extra inputs"),
        ({"format": "jdbc", "url": "http://db", "table": "t"}, "String should match pattern"),
        ({"format": "parquet", "path": "p", "user": "sa"}, "user\n  Extra inputs"),
    ],
)
def test_a_database_needs_an_address_and_one_thing_to_read(source: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SOURCE.validate_python(source)


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


def optional_source(root: Path, kind: str = "parquet") -> Source:
    return SOURCE.validate_python(
        {
            "format": kind,
            "path": f"{root}/dt={{date}}",
            "schema": "a INT, weights MAP<INT, ARRAY<DOUBLE>>",
            "days_before": 1,
            "optional": True,
        }
    )


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


def test_an_optional_source_whose_place_cannot_be_looked_at_is_an_error(spark: SparkSession) -> None:
    source = ColumnarSource.model_validate(
        {"format": "parquet", "path": "nothing://bucket/x", "schema": "a INT", "optional": True}
    )
    with pytest.raises(InputError, match=r"^sources.t: nothing://bucket/x cannot be listed"):
        read_source(spark, "t", source, DAY)


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
    for day in ("2019-06-04", "2019-06-05"):
        lines(tmp_path / f"json/dt={day}/x", '{"a": 1}')
        lines(tmp_path / f"csv/dt={day}/x", "1")
        lines(tmp_path / f"named/dt={day}/x", "b,a", "x,1")
        lines(tmp_path / f"deep/dt={day}/hour=07/x", '{"a": 1}')
        spark.sql("select 1 a").write.parquet(f"{tmp_path}/parquet/dt={day}")
        spark.sql("select 1 a").write.orc(f"{tmp_path}/orc/dt={day}")
    for kind, form in {"named": "csv", "deep": "json"}.items() | {(f, f) for f in ("json", "csv", "parquet", "orc")}:
        more = {"header": True} if kind == "named" else {}
        source = json_source(tmp_path / kind, format=form, schema="a INT", days_before=1, **more)
        found = read_source(spark, "t", source, DAY).frame.select("a", "dt").collect()
        assert sorted(map(tuple, found)) == [(1, date(2019, 6, 4)), (1, date(2019, 6, 5))], kind


@pytest.mark.thorough
def test_files_that_have_the_column_of_the_path_keep_their_own(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "json/dt=2019-06-05/x", '{"a": 1, "dt": "2018-01-01"}', '{"a": 2}')
    lines(tmp_path / "csv/dt=2019-06-05/x", "1,2018-01-01")
    lines(tmp_path / "named/dt=2019-06-05/x", "DT,a", "2018-01-01,1")
    spark.sql("select 1 a, '2018-01-01' Dt").write.parquet(f"{tmp_path}/parquet/dt=2019-06-05")
    for kind, form in {"named": "csv", "csv": "csv", "json": "json", "parquet": "parquet"}.items():
        more = {"header": True} if kind == "named" else {}
        source = json_source(tmp_path / kind, format=form, schema="a INT, dt STRING", **more)
        frame = read_source(spark, "t", source, DAY).frame
        assert [tuple(r) for r in frame.select("a", "dt").where("a = 1").collect()] == [(1, "2018-01-01")], kind
    rest = read_source(spark, "t", json_source(tmp_path / "json", schema="a INT, dt STRING"), DAY).frame
    assert [r.dt for r in rest.where("a = 2").collect()] == ["2019-06-05"]


def test_the_nearest_directory_of_the_name_gives_the_day(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2001-01-01/b/dt=2019-06-05/x.json", '{"a": 1}')
    (row,) = read_source(spark, "t", json_source(tmp_path / "dt=2001-01-01/*"), DAY).frame.collect()
    assert row.dt == DAY


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
