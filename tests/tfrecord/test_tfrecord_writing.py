"""DataFrames as TFRecords: what TensorFlow then reads, what a failure leaves behind, and what is refused before any row."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ctr_samples.errors import ContractError, CtrSamplesError, DamagedFile, InputError, PublishConflict
from ctr_samples.shards import Receipt, Table, open_storage
from ctr_samples.shards.storage import LocalStorage
from ctr_samples.sparksql.failures import as_expected_error
from ctr_samples.tfrecord.data_source import TfrecordSource
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.write_plan import plan_writing
from ctr_samples.tfrecord.writing import ReceiptMessage, TfrecordWriter, by_directory, write_partition
from tests.tfrecord.published_tables import publish_day, publish_table
from tests.tfrecord.tensorflow_files import as_dict, sequence_example, tensorflow_reads, tensorflow_writes, tf

Ddl = Callable[[str], StructType]
Read = Callable[..., list[dict[str, Any]]]


@pytest.mark.thorough
def test_tensorflow_and_spark_read_what_spark_wrote(tfrecord: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    schema = StructType.fromDDL("id bigint, score double, name string, tags array<string>, user struct<age: int>")
    schema = schema.add("v", VectorUDT())
    rows = [
        (1, 0.1, "Grüße", ["a", "b"], (30,), Vectors.dense([1.0, 2.0])),
        (2, None, None, [], None, Vectors.sparse(3, {1: 5.0})),
    ]
    frame = tfrecord.createDataFrame(rows, schema).coalesce(1)
    frame.write.format("tfrecord").mode("append").save(str(path))
    messages = tensorflow_reads(*path.glob("*.tfrecord"))
    assert sorted((as_dict(message) for message in messages), key=lambda features: features["id"]) == [
        {
            "id": [1],
            "score": [pytest.approx(0.1)],
            "name": ["Grüße".encode()],
            "tags": [b"a", b"b"],
            "user.age": [30],
            "v": [1.0, 2.0],
        },
        {"id": [2], "tags": [], "v": [0.0, 5.0, 0.0]},
    ]
    back = tfrecord.read.format("tfrecord").load(str(path))
    assert back.schema.simpleString() == (
        "struct<id:bigint,score:float,name:string,tags:array<string>,user:struct<age:int>,v:vector>"
    )
    assert [(row.id, row.name, row.user and row.user.age, row.v) for row in back.orderBy("id").collect()] == [
        (1, "Grüße", 30, Vectors.dense([1.0, 2.0])),
        (2, None, None, Vectors.dense([0.0, 5.0, 0.0])),
    ]


@pytest.mark.thorough
def test_an_overwrite_replaces_all_and_each_record_type_and_codec_is_tensorflows(
    tfrecord: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    steps = tfrecord.createDataFrame([(7, [[1], [2, 3]])], "id int, steps array<array<int>>").coalesce(1)
    write = steps.write.format("tfrecords").mode("append").option("recordType", "SequenceExample")
    write.option("codec", "org.apache.hadoop.io.compress.GzipCodec").save(str(path))
    (gzipped,) = path.glob("*.tfrecord.gz")
    (message,) = tensorflow_reads(gzipped)
    assert tf.train.SequenceExample.FromString(message) == tf.train.SequenceExample.FromString(
        sequence_example({"id": [7]}, {"steps": [[1], [2, 3]]})
    )
    messages = tfrecord.createDataFrame([(bytearray(message),)], "any binary").coalesce(1)
    write = messages.write.format("tfrecord").mode("overwrite").option("recordType", "ByteArray")
    write.option("compression", "zlib").save(str(path))
    assert not gzipped.exists()
    assert tensorflow_reads(*path.glob("part-*")) == [message]
    table = Table(open_storage(path)).current()
    assert table is not None
    assert (table.generation, table.record_type, table.records, len(table.shards)) == (2, "byte_array", 1, 1)


def test_a_task_that_fails_leaves_the_previous_version(
    tfrecord: SparkSession, tmp_path: Path, ddl: Ddl, read: Read
) -> None:
    publish_table(tmp_path, ddl("x bigint"), {"": [1, 2]})
    frame = tfrecord.range(1000).selectExpr("id as x", "if(id = 900, array(1, null), array(1)) as list")
    for mode in ("append", "overwrite"):
        with pytest.raises(PySparkException) as caught:
            frame.write.format("tfrecord").mode(mode).save(str(tmp_path))
        assert "Feature 'list', row 400 of the batch: the value has a null inside a list" in str(
            as_expected_error(caught.value)
        )
    assert read(tmp_path) == [{"x": 1}, {"x": 2}]
    assert sorted(path.name for path in (tmp_path / "_manifests").glob("*.json")) == ["00000001.json"]


def test_what_cannot_be_written_fails_in_spark_before_any_task(tfrecord: SparkSession, tmp_path: Path) -> None:
    frame = tfrecord.range(1).selectExpr("interval 1 day as span")
    with pytest.raises(
        PySparkException, match="ContractError: Column 'span' has the type interval day, which no record"
    ):
        frame.write.format("tfrecord").mode("append").save(str(tmp_path / "table"))
    assert not (tmp_path / "table").exists()


def plan(path: Path, schema: StructType, mode: Any = "append", **options: Any) -> Any:
    return plan_writing(Options(paths=(str(path),), **options), schema, mode)


def test_a_directory_with_files_of_others_is_not_written_to(tmp_path: Path, ddl: Ddl) -> None:
    tensorflow_writes(tmp_path / "theirs/a.tfrecord")
    publish_day(tmp_path / "nightly", "2019-06-05", train=[1], evaluation=[2])
    for path in (tmp_path / "theirs", tmp_path / "nightly"):
        for mode in ("append", "overwrite"):
            with pytest.raises(
                InputError, match="that ctr-samples did not write, such as .*; expected an empty or new"
            ):
                plan(path, ddl("x int"), mode)


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ("x string", {}, "Column 'x' of .* is bigint and then string"),
        (
            "x bigint",
            {"record_type": "sequence_example"},
            "has records of type example, but this write has records of type sequence_example",
        ),
        (
            "x bigint, c int",
            {"partition_columns": "c int"},
            r"is partitioned by nothing, but this write is partitioned by \['c'\]",
        ),
    ],
)
def test_an_append_that_does_not_fit_the_table_is_refused_and_an_overwrite_is_not(
    tmp_path: Path, ddl: Ddl, columns: str, options: dict[str, Any], problem: str
) -> None:
    publish_table(tmp_path, ddl("x bigint"), {"": [1]})
    settings = {name: ddl(value) if name == "partition_columns" else value for name, value in options.items()}
    with pytest.raises(CtrSamplesError, match=problem):
        plan(tmp_path, ddl(columns), **settings)
    assert plan(tmp_path, ddl(columns), "overwrite", **settings).mode == "overwrite"
    assert plan(tmp_path, ddl("x bigint, later double")).contract.names() == ["x", "later"]


def test_a_dataframe_without_columns_is_refused(tmp_path: Path, ddl: Ddl) -> None:
    with pytest.raises(ContractError, match="no columns to write; keep at least one besides those of partition_by"):
        plan(tmp_path, ddl("c int"), partition_columns=ddl("c int"))


def commit(writer: Any, *messages: Any) -> None:
    """As Spark does: the writer travels to another process first."""
    pickle.loads(pickle.dumps(writer)).commit(list(messages))


def test_two_writers_append_one_behind_the_other_but_only_one_comes_first(tmp_path: Path, ddl: Ddl) -> None:
    writers = [TfrecordWriter(plan(tmp_path, ddl("x int"), first_write=True)) for _ in range(2)]
    message = ReceiptMessage(Receipt(0, 0, ()))
    commit(writers[0], message)
    with pytest.raises(
        PublishConflict, match="Run .* published to .* first; this run published nothing. Choose another"
    ):
        commit(writers[1], message)
    for _ in range(2):
        commit(TfrecordWriter(plan(tmp_path, ddl("x int"))), message)
    table = Table(open_storage(tmp_path)).current()
    assert table is not None
    assert table.generation == 3


def test_an_abort_deletes_nothing_since_a_manifest_may_name_the_files(tmp_path: Path, ddl: Ddl, read: Read) -> None:
    writer = TfrecordWriter(plan(tmp_path, ddl("x bigint")))
    shards = publish_table(tmp_path, ddl("x bigint"), {"": [1]})
    writer.abort([ReceiptMessage(Receipt(0, 0, shards)), None])
    assert read(tmp_path) == [{"x": 1}]


def test_nothing_is_published_unless_each_partition_has_one_receipt(tmp_path: Path, ddl: Ddl) -> None:
    writer = TfrecordWriter(plan(tmp_path, ddl("x int")))
    first = ReceiptMessage(Receipt(0, 0, ()))
    for messages in ((first, None), (first, first), (ReceiptMessage(Receipt(3, 0, ())),)):
        with pytest.raises(DamagedFile, match="ended without a receipt|Expected one receipt for each"):
            commit(writer, *messages)
    assert Table(open_storage(tmp_path)).current() is None


def test_rows_go_to_their_directories_in_runs_without_the_columns_that_name_them() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1, 2, 3, 4], "c": ["US", "US", None, None], "d": ["1", "2", "2", "2"]})
    assert [(directory, rows.to_pydict()) for directory, rows in by_directory(batch, ("c", "d"))] == [
        ("c=US/d=1", {"x": [1]}),
        ("c=US/d=2", {"x": [2]}),
        ("c=__HIVE_DEFAULT_PARTITION__/d=2", {"x": [3, 4]}),
    ]
    assert [directory for directory, _ in by_directory(batch, ())] == [""]
    assert list(by_directory(batch.slice(0, 0), ("c", "d"))) == []


class OneTask:
    """A task's context, outside Spark."""

    def partitionId(self) -> int:  # noqa: N802
        return 3

    def taskAttemptId(self) -> int:  # noqa: N802
        return 17

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        return None


class CountingStorage(LocalStorage):
    """Knows how many of its files were open at once."""

    open_now = most = 0

    @contextmanager
    def new_file(self, path: str) -> Iterator[Any]:
        self.open_now += 1
        self.most = max(self.most, self.open_now)
        with super().new_file(path) as file:
            yield file
        self.open_now -= 1


def test_a_task_has_one_file_open_however_many_directories_it_fills(
    tmp_path: Path, ddl: Ddl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskContext, "get", OneTask)
    storage = CountingStorage(tmp_path)
    write = replace(plan(tmp_path, ddl("x bigint, c string"), partition_columns=ddl("c string")), storage=storage)
    batches = [pa.RecordBatch.from_pydict({"x": [n, n], "c": [f"c{n}", f"c{n + 1}"]}) for n in range(5)]
    receipt = write_partition(write, iter(batches))
    assert (storage.most, storage.open_now) == (1, 0)
    assert [(shard.split, shard.records) for shard in receipt.shards] == [
        ("c=c0", 1),
        ("c=c1", 2),
        ("c=c2", 2),
        ("c=c3", 2),
        ("c=c4", 2),
        ("c=c5", 1),
    ]
    assert all(Path(shard.path).name.startswith("part-00003-17-") for shard in receipt.shards)


def test_a_reader_made_for_the_executors_carries_no_list_of_files(tmp_path: Path, ddl: Ddl) -> None:
    publish_table(tmp_path, ddl("x bigint"), {"": [1]})
    reader = TfrecordSource({"path": str(tmp_path)}).reader(ddl("x bigint"))
    assert len(reader.partitions()) == 1
    assert pickle.loads(pickle.dumps(reader)).partitions() == []
