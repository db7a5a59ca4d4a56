"""``ctr_samples.write_tfrecord``: partitions and modes that Spark refuses to Python data sources."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import validate
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import ctr_samples
from ctr_samples.errors import ContractError, EncodeError, InputError, PublishConflict, UsageError
from ctr_samples.tfrecord import public
from tests.tfrecord.published_tables import publish_table
from tests.tfrecord.schemas import Read


@pytest.mark.thorough
def test_a_thread_that_registers_the_format_may_write_in_it(tfrecord: SparkSession, tmp_path: Path) -> None:
    def write() -> None:
        ctr_samples.register(tfrecord)
        tfrecord.range(3).write.format("tfrecord").mode("append").save(str(tmp_path / "table"))

    with ThreadPoolExecutor(1) as threads:
        threads.submit(write).result()
    assert tfrecord.read.format("tfrecord").load(str(tmp_path / "table")).count() == 3


@pytest.mark.slow
def test_partitions_become_directories_and_columns_again_and_a_path_chooses_among_them(
    tfrecord: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    rows = [(1, "US", "2019-06-05"), (2, "a/b", "2019-06-05"), (3, "US", "2019-06-06"), (4, None, "2019-06-06")]
    frame = tfrecord.createDataFrame(rows * 2, "id int, country string, day string").selectExpr(
        "id", "country", "cast(day as date) as day"
    )
    ctr_samples.write_tfrecord(frame.coalesce(1), path, partition_by=["day", "country"])
    # The rows of a directory came together: one file for each, though they were mixed.
    assert sorted(str(one.parent.relative_to(path)) for one in Path(path).rglob("part-*")) == [
        "day=2019-06-05/country=US",
        "day=2019-06-05/country=a%2Fb",
        "day=2019-06-06/country=US",
        "day=2019-06-06/country=__HIVE_DEFAULT_PARTITION__",
    ]
    back = tfrecord.read.format("tfrecord").load(path)
    assert back.schema.simpleString() == "struct<id:int,day:date,country:string>"
    wanted = tfrecord.read.format("tfrecord").load(f"{path}/day=2019-06-06").where("id > 0")
    assert wanted.rdd.getNumPartitions() == 2  # of four files
    assert sorted(map(tuple, wanted.collect())) == [
        (3, date(2019, 6, 6), "US"),
        (3, date(2019, 6, 6), "US"),
        (4, date(2019, 6, 6), None),
        (4, date(2019, 6, 6), None),
    ]


@pytest.mark.thorough
def test_the_manifests_that_spark_writes_follow_their_published_schema(tfrecord: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    frame = tfrecord.range(0, 4, 1, 1).selectExpr(
        "id", "array(id) as ids", "id % 2 as half", "cast(id as decimal(9,2)) as d"
    )
    for _ in range(2):
        ctr_samples.write_tfrecord(frame, str(path), partition_by=["half"], mode="append")
    schema = json.loads((Path(ctr_samples.__file__).parent / "shards/table.schema.json").read_text())
    for number in (1, 2):
        manifest = json.loads((path / f"_manifests/0000000{number}.json").read_text())
        assert manifest["complete"] is (number == 1)
        validate(manifest, schema)


def test_the_public_names_are_there_without_importing_them_and_no_others() -> None:
    assert callable(ctr_samples.register)
    joins = ["as_of_join", "attribute_labels", "join_history", "windowed_aggregates"]
    assert sorted(ctr_samples.__all__) == sorted(["__version__", "preview", "register", "write_tfrecord", *joins])
    with pytest.raises(AttributeError, match="module 'ctr_samples' has no attribute 'registr'"):
        _ = ctr_samples.registr


@pytest.mark.thorough
def test_a_mode_says_what_happens_to_data_that_are_there(
    tfrecord: SparkSession, tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(number: int, rows: int = 1, **options: Any) -> None:
        ctr_samples.write_tfrecord(tfrecord.range(number, number + rows, 1, 1), str(tmp_path / "t"), **options)

    def ids() -> list[int]:
        return [row["id"] for row in read(tmp_path / "t")]

    write(1)
    for mode in ("errorifexists", "error"):
        with pytest.raises(InputError, match=r"/t exists already; choose another directory, or the mode append"):
            write(2, mode=mode)
    write(3, mode="ignore")
    with monkeypatch.context() as slower:
        slower.setattr(public, "_exists", lambda path: False)  # when it was asked, there was nothing yet
        with pytest.raises(PublishConflict, match="published to .* first; this run published nothing"):
            write(2)
        write(3, mode="ignore")
    assert ids() == [1]
    write(4, 3, mode="append", compression="gzip", max_records_per_file=2)
    assert ids() == [1, 4, 5, 6]
    assert len(list((tmp_path / "t").glob("*.gz"))) == 2
    write(5, 1000, mode="overwrite", shard_size="1KiB")
    assert ids() == list(range(5, 1005))
    sizes = [file.stat().st_size for file in (tmp_path / "t").glob("part-*")]
    assert len(sizes) > 20
    assert max(sizes) < 1200  # they roll once they have the size that was asked for


@pytest.mark.thorough
def test_an_error_in_a_task_is_ours_and_leaves_the_previous_version(
    tfrecord: SparkSession, tmp_path: Path, ddl: Any, read: Read
) -> None:
    publish_table(tmp_path, ddl("x bigint"), {"": [1, 2]})
    rows = tfrecord.range(1000).selectExpr("id as x", "if(id = 900, array(1, null), array(1)) as list")
    with pytest.raises(
        EncodeError, match="Feature 'list', row 400 of the batch: the value has a null inside a list; declare `fill` or"
    ):
        ctr_samples.write_tfrecord(rows, str(tmp_path), mode="overwrite")
    assert read(tmp_path) == [{"x": 1}, {"x": 2}]
    assert [path.name for path in (tmp_path / "_manifests").glob("*.json")] == ["00000001.json"]


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"mode": "replace"}, UsageError, "mode is 'replace'; expected errorifexists, append, overwrite or ignore"),
        ({"partition_by": ["contry"]}, UsageError, "no column 'contry' to partition by; did you mean 'country'"),
        ({"partition_by": "x"}, UsageError, "no column 'x' to partition by; it has id, country, at"),
        ({"partition_by": ["id", "id"]}, UsageError, "names a column twice: id, id"),
        ({"partition_by": ["at"]}, ContractError, "'at' has the type timestamp, which cannot name a directory"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused_at_once(
    ddl: Any, options: dict[str, Any], error: type[Exception], problem: str
) -> None:
    rows: Any = SimpleNamespace(schema=ddl("id int, country string, at timestamp"))
    with pytest.raises(error, match=problem):
        ctr_samples.write_tfrecord(rows, "/nowhere", **options)


@pytest.mark.thorough
def test_an_overwrite_replaces_the_partitions_that_the_argument_or_the_session_says_as_parquet_does(
    tfrecord: SparkSession, tmp_path: Path, read: Read
) -> None:
    def overwrite(rows: list[tuple[int, str]], **options: Any) -> list[tuple[int, str]]:
        frame = tfrecord.createDataFrame(rows, "id bigint, country string").coalesce(1)
        ctr_samples.write_tfrecord(frame, str(tmp_path / "t"), partition_by=["country"], mode="overwrite", **options)
        frame.write.partitionBy("country").mode("overwrite").parquet(str(tmp_path / "parquet"))
        return sorted((row["id"], row["country"]) for row in read(tmp_path / "t"))

    both = [(1, "US"), (2, "DE")]
    overwrite(both)
    assert overwrite([(3, "US")]) == [(3, "US")]
    assert overwrite(both, partition_overwrite_mode="dynamic") == both
    assert overwrite([(3, "US")], partition_overwrite_mode="dynamic") == [(2, "DE"), (3, "US")]
    with pytest.raises(UsageError, match="partitionOverwriteMode is 'both'; expected static or dynamic"):
        overwrite(both, partition_overwrite_mode="both")
    tfrecord.conf.set("spark.sql.sources.partitionOverwriteMode", "DYNAMIC")
    try:
        assert overwrite(both, partition_overwrite_mode="static") == both
        overwrite([(3, "US"), (4, "FR"), (5, "US")])
        seen = overwrite([])
        with pytest.raises(PySparkException, match="is partitioned by country, but these rows have no partitions"):
            tfrecord.range(1).write.format("tfrecord").mode("overwrite").save(str(tmp_path / "t"))
    finally:
        tfrecord.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert seen == [(2, "DE"), (3, "US"), (4, "FR"), (5, "US")]
    assert seen == sorted(map(tuple, tfrecord.read.parquet(str(tmp_path / "parquet")).collect()))
    assert len(list((tmp_path / "t").rglob("part-*"))) == 3  # what was replaced is gone
