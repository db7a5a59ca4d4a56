"""DataFrames as TFRecords: what TensorFlow then reads, what a failure leaves behind, and what is refused before any row."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import SparkSession, datasource
from pyspark.sql.types import StructType

from ctr_samples.errors import ContractError, CtrSamplesError, DamagedFile, InputError, PublishConflict
from ctr_samples.shards import Receipt, Shard, Table, open_storage
from ctr_samples.shards.storage import LocalStorage
from ctr_samples.sparksql.releases import arrow_schema
from ctr_samples.tfrecord.data_source import TfrecordSource
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.writing import ReceiptMessage, TfrecordWriter, by_directory, plan_writing, write_partition
from tests.support.tensorflow_files import as_dict, sequence_example, tensorflow_reads, tensorflow_writes, tf
from tests.tfrecord.published_tables import publish_day, publish_table
from tests.tfrecord.schemas import Ddl, Read, schema_from


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


RACES = [
    ("x bigint, new int", "x bigint, new string", {}, "Column 'new' of .* is int and then string"),
    ("x bigint, new date", "new timestamp", {}, "Column 'new' of .* is date and then timestamp"),
    ("new array<int>", "x bigint, new int", {}, "Column 'new' of .* is array<int> and then int"),
    ("x bigint, name string", "x bigint, Name string", {}, "Column 'Name' of .* differs only in case from 'name'"),
    ("a struct<b: int>", "`a.b` int", {}, "could not be read with these columns beside its own. .*'a.b'"),
    ("m map<string, int>", "`m.keys` array<string>", {}, "could not be read with these columns beside .*'m.keys'"),
    (
        "new string",
        "other string",
        {"record_type": "byte_array"},
        "could not be read with these columns beside its own",
    ),
]
"""Columns of two writers, each of which fits the table as it was before both."""


KINDS = ["append", "append to partitions", "overwrite of partitions", "stream"]


def of_kind(kind: str, path: Path, schema: StructType, record_type: str = "example") -> Callable[[], None]:
    """Plan a write that brings no rows; what is returned commits it, as Spark does."""
    options = {"path": str(path), "streamId": schema.simpleString(), "recordType": record_type.replace("_", "")}
    if kind.endswith("partitions"):
        day = schema_from("day int")
        options |= {"partitionColumns": day.json(), "partitionOverwriteMode": "dynamic"}
        schema = StructType([*schema, *day])
    source, message = TfrecordSource(options), ReceiptMessage(Receipt(0, 0, ()))
    if kind == "stream":
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            pytest.skip("Streams need Spark 4.1.")
        stream: Any = source.streamWriter(schema, False)
        return lambda: pickle.loads(pickle.dumps(stream)).commit([message], 0)
    writer = source.writer(schema, kind.startswith("overwrite"))
    return lambda: commit(writer, message)


@pytest.mark.parametrize(
    ("kind", "race", "there"),
    [(kind, race, (n + m) % 2 == 0) for n, kind in enumerate(KINDS) for m, race in enumerate(RACES)],
)
def test_of_two_writers_whose_columns_do_not_fit_only_the_faster_one_is_published(
    tmp_path: Path, ddl: Ddl, kind: str, race: tuple[str, str, dict[str, str], str], there: bool
) -> None:
    first, second, options, problem = race
    if there and not options:
        of_kind(kind, tmp_path, ddl("x bigint"))()
    faster, slower = (of_kind(kind, tmp_path, ddl(columns), **options) for columns in (first, second))
    faster()
    with pytest.raises(ContractError, match=problem):
        slower()
    source = TfrecordSource({"path": str(tmp_path)})
    assert source.reader(source.schema()).partitions() == []
    with pytest.raises(ContractError, match=problem):
        of_kind(kind, tmp_path, ddl(second), **options)


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_that_is_overtaken_while_it_commits_compares_its_columns_again(
    tmp_path: Path, ddl: Ddl, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_kind(kind, tmp_path, ddl("x bigint"))()
    others = [of_kind(kind, tmp_path, ddl("new string"))]
    mine = of_kind(kind, tmp_path, ddl("new bigint"))
    current = Table.current

    def overtaken(self: Table) -> Any:
        manifest = current(self)
        if others:  # between looking and putting, another writer commits
            others.pop()()
        return manifest

    monkeypatch.setattr(Table, "current", overtaken)
    with pytest.raises(ContractError, match="Column 'new' of .* is string and then bigint"):
        mine()


def test_of_many_writers_at_the_same_moment_those_of_one_type_are_published(tmp_path: Path, ddl: Ddl) -> None:
    types = ["int", "bigint", "string", "float"]
    writers = {(kind, number): of_kind("append", tmp_path, ddl(f"new {kind}")) for kind in types for number in (1, 2)}
    barrier, refused = Barrier(len(writers)), []

    def race(kind: str, write: Callable[[], None]) -> None:
        barrier.wait()
        try:
            write()
        except ContractError:
            refused.append(kind)

    with ThreadPoolExecutor(len(writers)) as threads:
        list(threads.map(lambda item: race(item[0][0], item[1]), writers.items()))
    (won,) = set(types) - set(refused)
    assert sorted(refused) == sorted([kind for kind in types if kind != won] * 2)
    assert TfrecordSource({"path": str(tmp_path)}).schema().simpleString() == f"struct<new:{won}>"


def test_an_overwrite_that_is_slower_replaces_the_columns_too_and_an_append_to_what_it_replaced_is_refused(
    tmp_path: Path, ddl: Ddl
) -> None:
    of_kind("append", tmp_path, ddl("x bigint"))()
    append, overwrite = (
        of_kind("append", tmp_path, ddl("x bigint, new int")),
        of_kind("overwrite", tmp_path, ddl("x string")),
    )
    late = of_kind("append", tmp_path, ddl("x bigint"))
    append()
    overwrite()
    assert TfrecordSource({"path": str(tmp_path)}).schema().simpleString() == "struct<x:string>"
    with pytest.raises(ContractError, match="Column 'x' of .* is string and then bigint"):
        late()


def test_a_batch_of_a_stream_that_is_published_stays_so_whatever_others_added(tmp_path: Path, ddl: Ddl) -> None:
    stream = of_kind("stream", tmp_path, ddl("x bigint"))
    stream()
    of_kind("overwrite", tmp_path, ddl("x string"))()
    stream()


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_columns_that_differ_only_in_case_are_refused_also_in_one_dataframe(
    tmp_path: Path, ddl: Ddl, mode: str
) -> None:
    with pytest.raises(
        ContractError, match="Column 'Name' of .* differs only in case from 'name', which Spark does not"
    ):
        plan(tmp_path, ddl("x int, name int, Name int"), mode)
    with pytest.raises(ContractError, match="Column 'Day' of .* differs only in case from 'day'|'day' .* from 'Day'"):
        plan(tmp_path, ddl("Day int, day int, x int"), mode, partition_columns=ddl("day int"))


def test_a_table_that_has_names_of_two_cases_takes_these_and_no_third(tmp_path: Path, ddl: Ddl) -> None:
    publish_table(tmp_path, ddl("name bigint"), {"": [1]})
    publish_table(tmp_path, ddl("Name bigint"), {"": [2]}, run_id="20190606T020000-bbbbbbbb")
    assert plan(tmp_path, ddl("Name bigint, name bigint")).contract.names() == ["Name", "name"]
    with pytest.raises(ContractError, match="Column 'NAME' of .* differs only in case from '[Nn]ame'"):
        plan(tmp_path, ddl("NAME bigint"))


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


def test_a_reader_made_for_the_executors_carries_no_list_of_files(tmp_path: Path, ddl: Ddl) -> None:
    publish_table(tmp_path, ddl("x bigint"), {"": [1]})
    reader = TfrecordSource({"path": str(tmp_path)}).reader(ddl("x bigint"))
    assert len(reader.partitions()) == 1
    assert pickle.loads(pickle.dumps(reader)).partitions() == []


def write_rows(
    path: Path, schema: StructType, rows: list[dict[str, Any]], mode: str = "append", **options: str
) -> None:
    """What Spark does with a DataFrame of one partition."""
    writer = TfrecordSource({"path": str(path), **options}).writer(schema, mode == "overwrite")
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(schema))
    commit(writer, writer.write(iter([batch])))  # type: ignore[attr-defined]


def shards_in(path: Path) -> tuple[Shard, ...]:
    """Those that readers see."""
    table = Table(open_storage(path)).current()
    assert table is not None
    return table.shards


def test_each_record_type_and_codec_is_that_of_tensorflow(tmp_path: Path, ddl: Ddl, task: dict[str, str]) -> None:
    steps = {"recordType": "SequenceExample", "codec": "org.apache.hadoop.io.compress.GzipCodec"}
    write_rows(tmp_path, ddl("id int, steps array<array<int>>"), [{"id": 7, "steps": [[1], [2, 3]]}], **steps)
    (gzipped,) = tmp_path.glob("*.tfrecord.gz")
    (message,) = tensorflow_reads(gzipped)
    assert tf.train.SequenceExample.FromString(message) == tf.train.SequenceExample.FromString(
        sequence_example({"id": [7]}, {"steps": [[1], [2, 3]]})
    )
    plain = {"recordType": "ByteArray", "compression": "zlib"}
    write_rows(tmp_path, ddl("any binary"), [{"any": message}], "overwrite", **plain)
    assert not gzipped.exists()
    assert tensorflow_reads(*tmp_path.glob("part-*")) == [message]


def test_files_hold_at_most_the_records_that_the_option_or_else_the_session_says(
    tmp_path: Path, ddl: Ddl, task: dict[str, str]
) -> None:
    rows = [{"id": n, "early": str(n < 4).lower()} for n in range(25)]
    days = {"partitionColumns": ddl("early string").json()}
    task["spark.sql.files.maxRecordsPerFile"] = "10"
    for name, schema, options, expected in (
        ("session", "id bigint", {}, [5, 10, 10]),
        ("option", "id bigint", {"maxRecordsPerFile": "7"}, [4, 7, 7, 7]),
        ("without", "id bigint", {"maxRecordsPerFile": "0"}, [25]),
        ("partitions", "id bigint, early string", {"maxRecordsPerFile": "7", **days}, [4, 7, 7, 7]),
    ):
        write_rows(tmp_path / name, ddl(schema), rows, **options)
        assert sorted(shard.records for shard in shards_in(tmp_path / name)) == expected


def test_a_dynamic_overwrite_by_rows_without_partitions_deletes_none(
    tmp_path: Path, ddl: Ddl, read: Read, task: dict[str, str]
) -> None:
    publish_table(tmp_path, ddl("id bigint, country string"), {"country=US": [1]}, ("country",))
    overwrite = partial(write_rows, tmp_path, ddl("id bigint"), [{"id": 2}], "overwrite")
    refused = r"is partitioned by country, but these rows have no partitions.*partition_by=\['country'\]"
    with pytest.raises(InputError, match=refused):
        overwrite(partitionOverwriteMode="dynamic")
    task["spark.sql.sources.partitionOverwriteMode"] = "DYNAMIC"
    with pytest.raises(InputError, match=refused):
        overwrite()
    assert read(tmp_path) == [{"id": 1, "country": "US"}]
    overwrite(partitionOverwriteMode="static")
    overwrite()  # now there are no partitions
    assert read(tmp_path) == [{"id": 2}]


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
    tmp_path: Path, ddl: Ddl, task: dict[str, str]
) -> None:
    storage = CountingStorage(tmp_path)
    write = replace(plan(tmp_path, ddl("x bigint, c string"), partition_columns=ddl("c string")), storage=storage)
    batches = [pa.RecordBatch.from_pydict({"x": [n, n], "c": [f"c{n}", f"c{n + 1}"]}) for n in range(3)]
    receipt = write_partition(write, iter(batches))
    assert (storage.most, storage.open_now) == (1, 0)
    assert [(s.split, s.records) for s in receipt.shards] == [("c=c0", 1), ("c=c1", 2), ("c=c2", 2), ("c=c3", 1)]
    assert all(Path(shard.path).name.startswith("part-00000-17-") for shard in receipt.shards)
