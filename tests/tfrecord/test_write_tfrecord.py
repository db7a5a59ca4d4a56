"""``ctr_samples.write_tfrecord``: partitions and modes that Spark refuses to Python data sources."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import ctr_samples
from ctr_samples.errors import ContractError, EncodeError, InputError, PublishConflict, UsageError
from ctr_samples.tfrecord import public
from tests.tfrecord.published_tables import publish_table

Frame = Callable[..., DataFrame]


@pytest.mark.thorough
def test_partitions_may_have_blanks_and_joined_characters_of_any_script(tfrecord: SparkSession, tmp_path: Path) -> None:
    path, names = str(tmp_path / "table"), ["\u6771\u3000\u4eac", "New\u00a0York", "\U0001f469\u200d\U0001f33e"]
    frame = tfrecord.createDataFrame(list(enumerate(names)), "id int, city string").coalesce(1)
    ctr_samples.write_tfrecord(frame, path, partition_by=["city"])
    back = tfrecord.read.format("tfrecord").load(path)
    assert sorted(map(tuple, back.select("id", "city").collect())) == list(enumerate(names))


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


def test_a_mode_says_what_happens_to_data_that_are_there(
    tfrecord: SparkSession, tmp_path: Path, read: Callable[..., list[dict[str, Any]]]
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
    assert ids() == [1]
    write(4, mode="append", compression="gzip")
    assert ids() == [1, 4]
    write(5, 1000, mode="overwrite", shard_size="1KiB")
    assert ids() == list(range(5, 1005))
    sizes = [file.stat().st_size for file in (tmp_path / "t").glob("part-*")]
    assert len(sizes) > 20
    assert max(sizes) < 1200  # they roll once they have the size that was asked for


def test_a_writer_who_was_slower_is_told_or_keeps_still(
    tfrecord: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ddl: Any
) -> None:
    publish_table(tmp_path, ddl("id bigint"), {"": [1]})
    monkeypatch.setattr(public, "_exists", lambda path: False)  # when it was asked, there was nothing yet
    rows = tfrecord.range(2)
    with pytest.raises(PublishConflict, match="published to .* first; this run published nothing"):
        ctr_samples.write_tfrecord(rows, str(tmp_path))
    ctr_samples.write_tfrecord(rows, str(tmp_path), mode="ignore")
    assert len(list((tmp_path / "_manifests").glob("*.json"))) == 1


@pytest.mark.thorough
@pytest.mark.parametrize(("mode", "partitions"), [("append", []), ("append", ["id"]), ("overwrite", ["id"])])
def test_a_slower_writer_with_another_type_of_a_new_column_is_told_and_the_table_stays_readable(
    tfrecord: SparkSession, tmp_path: Path, ddl: Any, mode: Any, partitions: list[str]
) -> None:
    path = str(tmp_path / "t")
    options: dict[str, Any] = {"partition_by": partitions, "partition_overwrite_mode": "dynamic"}
    ctr_samples.write_tfrecord(tfrecord.range(3).selectExpr("id", "id as x"), path, **options)
    columns = ddl("new string, id bigint") if partitions else ddl("new string")
    theirs = {"id=1" if partitions else "": ["a"]}

    def while_another_is_faster(batches: Any) -> Any:
        publish_table(Path(path), columns, theirs, tuple(partitions), run_id="20190606T020000-bbbbbbbb")
        yield from batches

    slower = tfrecord.range(5, 6, 1, 1).mapInArrow(while_another_is_faster, "id bigint").selectExpr("id", "id as new")
    with pytest.raises(ContractError, match="Column 'new' of .*/t is string and then bigint; give each type"):
        ctr_samples.write_tfrecord(slower, path, mode=mode, **options)
    back = tfrecord.read.format("tfrecord").load(path)
    assert sorted(map(str, (row.new or row.x for row in back.collect()))) == ["0", "1", "2", "a"]


def test_an_error_in_a_task_is_ours_and_nothing_is_published(frame: Frame, tmp_path: Path) -> None:
    rows = frame("x array<int>", [([1, None],)])
    with pytest.raises(
        EncodeError, match="Feature 'x', row 0 of the batch: the value has a null inside a list; declare `fill` or"
    ):
        ctr_samples.write_tfrecord(rows, str(tmp_path / "t"))
    assert not list((tmp_path / "t").rglob("*.json"))


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
    frame: Frame, tmp_path: Path, options: dict[str, Any], error: type[Exception], problem: str
) -> None:
    rows = frame("id int, country string, at timestamp", [])
    with pytest.raises(error, match=problem):
        ctr_samples.write_tfrecord(rows, str(tmp_path / "t"), **options)


def test_the_public_names_are_there_without_importing_them_and_no_others() -> None:
    assert callable(ctr_samples.register)
    joins = ["as_of_join", "attribute_labels", "join_history", "windowed_aggregates"]
    assert sorted(ctr_samples.__all__) == sorted(["__version__", "preview", "register", "write_tfrecord", *joins])
    with pytest.raises(AttributeError, match="module 'ctr_samples' has no attribute 'registr'"):
        _ = ctr_samples.registr


@pytest.fixture
def sales(tfrecord: SparkSession, tmp_path: Path) -> str:
    """A table with a partition for each of two countries."""
    path = str(tmp_path / "sales")
    rows = tfrecord.createDataFrame([(1, "US"), (2, "DE")], "id bigint, country string").coalesce(1)
    ctr_samples.write_tfrecord(rows, path, partition_by=["country"])
    return path


@pytest.fixture
def dynamic(tfrecord: SparkSession) -> Iterator[None]:
    """A session in which an overwrite replaces the partitions that get rows."""
    tfrecord.conf.set("spark.sql.sources.partitionOverwriteMode", "DYNAMIC")
    yield
    tfrecord.conf.unset("spark.sql.sources.partitionOverwriteMode")


def sold(spark: SparkSession, path: str) -> list[tuple[int, str]]:
    return sorted(map(tuple, spark.read.format("tfrecord").load(path).select("id", "country").collect()))


def overwrite_sales(spark: SparkSession, path: str, rows: list[tuple[int, str]], **options: Any) -> None:
    frame = spark.createDataFrame(rows, "id bigint, country string").coalesce(1)
    ctr_samples.write_tfrecord(frame, path, partition_by=["country"], mode="overwrite", **options)


def test_a_static_overwrite_replaces_all_partitions(tfrecord: SparkSession, sales: str) -> None:
    overwrite_sales(tfrecord, sales, [(3, "US")])
    assert sold(tfrecord, sales) == [(3, "US")]


@pytest.mark.thorough
def test_a_dynamic_overwrite_replaces_the_partitions_that_get_rows_as_parquet_does(
    tfrecord: SparkSession, sales: str, dynamic: None, tmp_path: Path
) -> None:
    parquet = str(tmp_path / "parquet")
    for rows in ([(1, "US"), (2, "DE")], [(3, "US"), (4, "FR"), (5, "US")], []):
        overwrite_sales(tfrecord, sales, rows)
        frame = tfrecord.createDataFrame(rows, "id bigint, country string")
        frame.write.partitionBy("country").mode("overwrite").parquet(parquet)
    assert sold(tfrecord, sales) == [(2, "DE"), (3, "US"), (4, "FR"), (5, "US")]
    assert sold(tfrecord, sales) == sorted(map(tuple, tfrecord.read.parquet(parquet).collect()))
    assert len(list(Path(sales).rglob("part-*"))) == 3  # what was replaced is gone


@pytest.mark.thorough
def test_the_argument_of_a_write_wins_over_the_session(tfrecord: SparkSession, sales: str, dynamic: None) -> None:
    overwrite_sales(tfrecord, sales, [(3, "US")], partition_overwrite_mode="dynamic")
    assert sold(tfrecord, sales) == [(2, "DE"), (3, "US")]
    overwrite_sales(tfrecord, sales, [(4, "US")], partition_overwrite_mode="static")
    assert sold(tfrecord, sales) == [(4, "US")]
    with pytest.raises(UsageError, match="partitionOverwriteMode is 'both'; expected static or dynamic"):
        overwrite_sales(tfrecord, sales, [(5, "US")], partition_overwrite_mode="both")


@pytest.mark.thorough
def test_a_dynamic_overwrite_by_rows_of_which_spark_says_no_partition_is_refused_and_deletes_nothing(
    tfrecord: SparkSession, sales: str, tmp_path: Path, dynamic: None
) -> None:
    writer = tfrecord.range(1).write.format("tfrecord").mode("overwrite")
    refused = r"is partitioned by country, but these rows have no partitions.*partition_by=\['country'\]"
    with pytest.raises(PySparkException, match=refused):  # the tasks see what the session says
        writer.save(sales)
    with pytest.raises(PySparkException, match=refused):
        writer.option("partitionOverwriteMode", "dynamic").save(sales)
    assert sold(tfrecord, sales) == [(1, "US"), (2, "DE")]
    writer.option("partitionOverwriteMode", "static").save(sales)
    assert tfrecord.read.format("tfrecord").load(sales).columns == ["id"]


def test_a_dynamic_overwrite_of_a_table_without_partitions_replaces_all_of_it(
    tfrecord: SparkSession, tmp_path: Path, dynamic: None
) -> None:
    for rows in (tfrecord.range(0, 2, 1, 1), tfrecord.range(2, 4, 1, 1)):
        rows.write.format("tfrecord").mode("overwrite").save(str(tmp_path / "t"))
    assert sorted(row.id for row in tfrecord.read.format("tfrecord").load(str(tmp_path / "t")).collect()) == [2, 3]
