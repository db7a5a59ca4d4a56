"""Directories of many shapes: the format reads the files, and the partition columns, that Spark reads of Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ctr_samples.errors import InputError
from ctr_samples.tfrecord.data_source import TfrecordSource
from tests.support.tensorflow_files import example, tensorflow_writes
from tests.tfrecord.schemas import Read

SHAPES = {
    "flat": ["a", "b"],
    "hidden": ["a", "_x/b", ".x/c", "_y", ".y", "c._COPYING_"],
    "nested": ["a", "sub/b", "sub/deeper/c"],
    "nested alone": ["sub/a", "sub/deeper/b"],
    "days": ["day=1/a", "day=2/b"],
    "days with something below": ["day=1/sub/a", "day=1/sub/deeper/b", "day=2/c"],
    "days with something hidden below": ["day=1/_x/a", "day=1/b", "day=2/.c", "day=3/_temporary/0/d"],
    "days and loose files": ["a", "day=1/b"],
    "days and a directory of others": ["sub/a", "day=1/b"],
    "days of two depths": ["day=1/a", "day=1/hour=2/b"],
    "two columns": ["day=1/hour=a/x", "day=2/hour=b/y"],
    "two columns in two orders": ["day=1/hour=1/a", "hour=1/day=1/b"],
    "two columns, one for each": ["day=1/a", "hour=1/b"],
    "a column further down": ["sub/day=1/a", "sub/day=2/b"],
    "a column further down, beside loose files": ["sub/day=1/a", "b"],
    "a column below two directories": ["sub/day=1/a", "other/day=2/b"],
    "a column, a gap and another": ["day=1/sub/hour=2/a"],
    "a column in two spellings": ["day=1/a", "Day=2/b"],
    "a column twice": ["day=1/day=2/a"],
    "a column that begins with an underscore": ["_day=1/a", "_day=2/b"],
    "a value with an equals sign": ["day=a=b/a"],
    "values with unusual characters": ["day=a%20b/a", "day=__HIVE_DEFAULT_PARTITION__/b", "day=München/c"],
    "no value": ["day=/a"],
    "no name": ["=1/a"],
}
LOADS: list[tuple[str, dict[str, str]]] = [
    *((shape, {"recursiveFileLookup": recursive}) for recursive in ("false", "true") for shape in SHAPES),
    ("nested/*", {}),
    ("nested/sub", {}),
    ("nested/{a,sub}", {}),
    ("days/day=*", {}),
    ("days/*/*", {}),
    ("days/day=1", {}),
    ("days/day=1/a", {}),
    ("hidden/_x", {}),
    ("two columns/day=1", {}),
    ("two columns/day=*", {}),
    ("two columns/day=*/hour=a", {}),
    ("a column further down/*", {}),
    ("days/day=2", {"basePath": "days"}),
    ("days/day=*", {"basePath": "days"}),
    ("days/day=1/a", {"basePath": "days"}),
    ("two columns/day=1/*", {"basePath": "two columns"}),
    ("two columns/day=1/hour=a", {"basePath": "two columns/day=1"}),
    ("nested/sub", {"basePath": "nested"}),
    ("flat", {"pathGlobFilter": "{a,c}"}),
    ("days", {"pathGlobFilter": "[^b]"}),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each shape twice: as Parquet and as TFRecords. A row says which file it comes from."""
    root = tmp_path_factory.mktemp("lake")
    for shape, files in SHAPES.items():
        for name in files:
            place = root / "parquet" / shape / name
            place.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"file": [name]}), place)
            tensorflow_writes(root / "tfrecord" / shape / name, example(file=[name.encode()]))
    return root


def rows_of_parquet(spark: SparkSession, path: str, options: dict[str, str]) -> Any:
    """Column names (Spark takes any of several spellings) and rows, or that Spark refuses the directory."""
    try:
        frame = spark.read.schema("file string").options(**options).parquet(path)
        return [name.lower() for name in frame.columns], sorted(map(tuple, frame.collect()), key=str)
    except PySparkException:
        return "refused"


def rows_of_tfrecord(read: Read, path: str, options: dict[str, str]) -> Any:
    try:
        source = TfrecordSource({"path": path, **options})
        empty = source.reader(StructType.fromDDL("file string")).partitions() == []
        schema = StructType.fromDDL("file string") if empty else source.schema()
        rows = [] if empty else read(path, **options)
        return [name.lower() for name in schema.names], sorted((tuple(row.values()) for row in rows), key=str)
    except InputError:
        return "refused"


@pytest.mark.some(16)
@pytest.mark.parametrize(("path", "options"), LOADS, ids=["-".join([path, *more.values()]) for path, more in LOADS])
def test_of_each_shape_those_files_and_columns_are_read_that_spark_reads_of_parquet(
    spark: SparkSession, lake: Path, read: Read, path: str, options: dict[str, str]
) -> None:
    def below(kind: str) -> tuple[str, dict[str, str]]:
        root = lake / kind
        return str(root / path), {k: str(root / v) if k == "basePath" else v for k, v in options.items()}

    assert rows_of_tfrecord(read, *below("tfrecord")) == rows_of_parquet(spark, *below("parquet"))


def test_an_empty_directory_has_no_rows_and_a_missing_one_is_refused(tmp_path: Path, read: Read) -> None:
    (tmp_path / "empty/day=1").mkdir(parents=True)
    (tmp_path / "marked").mkdir()
    (tmp_path / "marked/_SUCCESS").touch()
    for path in ("empty", "empty/day=1", "marked"):
        assert read(tmp_path / path, "x int") == []
        with pytest.raises(InputError, match="hold no TFRecord files to infer a schema from; give a schema, or"):
            read(tmp_path / path)
    for path in ("missing", "missing/*", "marked/*.tfrecord"):
        with pytest.raises(InputError, match=f"^{tmp_path}/.* does not exist; expected a directory, a file or a glob"):
            read(tmp_path / path, "x int")


def test_partition_columns_that_begin_in_two_places_are_told_with_what_to_do(lake: Path, read: Read) -> None:
    with pytest.raises(
        InputError, match=r"start at different levels: \., sub\. Load these separately, set the option basePath"
    ):
        read(lake / "tfrecord/days and a directory of others")
    with pytest.raises(InputError, match=r"day=1/day=2/a: the partition column 'day=2' is there twice; rename"):
        read(lake / "tfrecord/a column twice")
