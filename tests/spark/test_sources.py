"""Inputs: what is there, what is missing, what is empty and what is malformed."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import Source
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.spark.sources import MALFORMED, read_source

DAY = date(2019, 6, 5)


def lines(path: Path, *text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text) + "\n")


def json_source(root: Path, **more: object) -> Source:
    return Source.model_validate({"format": "json", "path": f"{root}/dt={{date}}", "schema": "a INT, b STRING", **more})


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
    with pytest.raises(InputError, match=r"^sources.log: .*/dt=2019-06-05 is there but holds no data file"):
        read_source(spark, "log", json_source(tmp_path), DAY)


def test_malformed_lines_are_marked_with_their_text(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", '{"a": 1, "b": "x"}', '{"a": 1, "b": "x', '{"a": "one"}')
    rows = read_source(spark, "log", json_source(tmp_path), DAY).frame.collect()
    assert [r[MALFORMED] for r in rows] == [None, '{"a": 1, "b": "x', '{"a": "one"}']


def test_csv_lines_of_another_width_are_malformed(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "t.csv", "a,b", "1,x", "2", "3,x,y", "four,x")
    source = Source.model_validate(
        {"format": "csv", "path": str(tmp_path / "t.csv"), "schema": "a INT, b STRING", "header": True}
    )
    rows = read_source(spark, "t", source, DAY).frame.collect()
    assert [r[MALFORMED] for r in rows] == [None, "2", "3,x,y", "four,x"]


def test_the_snapshot_changes_with_any_input_file(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", '{"a": 1}')
    source = json_source(tmp_path)
    before = read_source(spark, "log", source, DAY).snapshot
    assert read_source(spark, "log", source, DAY).snapshot == before
    lines(tmp_path / "dt=2019-06-05/y.json", '{"a": 2}')
    after = read_source(spark, "log", source, DAY).snapshot
    assert after["fingerprint"] != before["fingerprint"]
    assert after["files"] == 2


def test_a_file_of_another_format_is_named(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "t.parquet", "this is no parquet")
    source = Source.model_validate({"format": "parquet", "path": str(tmp_path / "t.parquet")})
    with pytest.raises(InputError, match=r"sources.t: cannot read .*t.parquet"):
        read_source(spark, "t", source, DAY)


def test_a_schema_that_is_no_schema_is_a_config_error(spark: SparkSession, tmp_path: Path) -> None:
    lines(tmp_path / "dt=2019-06-05/x.json", "{}")
    with pytest.raises(ConfigError, match=r"sources.log.schema: "):
        read_source(spark, "log", json_source(tmp_path, schema="a INTEGERS"), DAY)


def test_a_table_is_read_by_name_and_pruned_by_its_date_column(spark: SparkSession) -> None:
    spark.sql(
        "create or replace temp view v as select 1 a, '2019-06-04' dt union select 2, '2019-06-05' union select 3, '2019-06-07'"
    )
    source = Source.model_validate({"format": "table", "table": "v", "date_column": "dt", "days_before": 1})
    found = read_source(spark, "t", source, DAY)
    assert sorted(r.a for r in found.frame.collect()) == [1, 2]
    assert found.snapshot["fingerprint"] is None


def test_a_table_or_date_column_that_is_not_there_is_named(spark: SparkSession) -> None:
    nowhere = Source.model_validate({"format": "table", "table": "no.such"})
    with pytest.raises(
        InputError, match=r"sources.t: the table no.such cannot be read: The table or view `no`.`such` cannot be found"
    ):
        read_source(spark, "t", nowhere, DAY)
    spark.sql("create or replace temp view v2 as select 1 a")
    undated = Source.model_validate({"format": "table", "table": "v2", "date_column": "dt"})
    with pytest.raises(InputError, match="the table v2 has no column 'dt'"):
        read_source(spark, "t", undated, DAY)
