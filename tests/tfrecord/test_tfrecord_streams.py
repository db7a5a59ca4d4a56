"""Streams: each micro-batch is published once, however often Spark tries it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, datasource

from ctr_samples.errors import InputError, UsageError
from ctr_samples.shards import Receipt, Table, open_storage
from ctr_samples.tfrecord.data_source import TfrecordSource
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.stream_reading import stream_id
from ctr_samples.tfrecord.writing import ReceiptMessage
from tests.support.tensorflow_files import example, tensorflow_writes
from tests.tfrecord.published_tables import publish_table


@pytest.mark.slow
def test_a_batch_that_spark_runs_again_after_a_crash_is_published_once(
    tfrecord: SparkSession, tmp_path: Path, read: Callable[..., list[dict[str, Any]]]
) -> None:
    source, table, checkpoint = tmp_path / "in", tmp_path / "table", tmp_path / "checkpoint"

    def run() -> None:
        stream = tfrecord.readStream.schema("id bigint").json(str(source))
        query = stream.writeStream.format("tfrecord").option("checkpointLocation", str(checkpoint))
        query.trigger(availableNow=True).start(str(table)).awaitTermination()

    def generation() -> int:
        current = Table(open_storage(table)).current()
        assert current is not None
        return current.generation

    source.mkdir()
    (source / "a.json").write_text('{"id": 1}\n{"id": 2}\n')
    run()
    assert generation() == 1
    # What a driver leaves that was killed between its commit and Spark's note of it.
    for name in ("commits/0", "commits/.0.crc"):
        (checkpoint / name).unlink()
    run()
    assert generation() == 1
    (source / "b.json").write_text('{"id": 3}\n')
    run()
    assert sorted(row["id"] for row in read(table)) == [1, 2, 3]
    # A stream that begins anew is another stream, though its checkpoint has the same path and its batches the same numbers.
    shutil.rmtree(checkpoint)
    run()
    assert sorted(row["id"] for row in read(table)) == [1, 1, 2, 2, 3, 3]


@pytest.mark.slow
def test_a_stream_reads_each_file_of_others_once_also_after_a_restart(tfrecord: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    def run() -> list[list[int]]:
        """The rows of each micro-batch until nothing is left."""
        batches: list[list[int]] = []
        stream = tfrecord.readStream.format("tfrecord").schema("id bigint").load(str(lake)).writeStream
        stream.foreachBatch(lambda frame, _: batches.append(sorted(row.id for row in frame.collect())))
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        stream.start().awaitTermination()
        return batches

    for number in (1, 2, 3):
        tensorflow_writes(lake / f"{number}", example(id=[number]))
    assert run() == [[1, 2, 3]]
    assert run() == []
    tensorflow_writes(lake / "0", example(id=[4]))  # before the others by name
    assert run() == [[4]]


class Stream:
    """A query that reads a directory, as Spark goes on with it from offset to offset."""

    def __init__(self, path: Path, ddl: Any, **options: str) -> None:
        self.reader: Any = TfrecordSource({"path": str(path), **options}).streamReader(ddl("id bigint"))
        self._offset = self.reader.initialOffset()

    def batch(self, limit: Any = None) -> list[int]:
        """The rows of the next micro-batch."""
        start, self._offset = self._offset, self.reader.latestOffset(self._offset, limit)
        batches = [b for task in self.reader.partitions(start, self._offset) for b in self.reader.read(task)]
        return [row["id"] for batch in batches for row in batch.to_pylist()]


def test_a_stream_takes_at_most_the_files_of_a_trigger(tmp_path: Path, ddl: Any) -> None:
    for number in (1, 2, 3):
        tensorflow_writes(tmp_path / f"{number}", example(id=[number]))
    stream = Stream(tmp_path, ddl, maxFilesPerTrigger="2")
    limit = stream.reader.getDefaultReadLimit()
    assert [stream.batch(limit) for _ in range(3)] == [[1, 2], [3], []]
    assert Stream(tmp_path, ddl).reader.getDefaultReadLimit() != limit


def test_a_stream_takes_files_that_come_later_unless_its_trigger_is_for_those_that_are_there(
    tmp_path: Path, ddl: Any
) -> None:
    tensorflow_writes(tmp_path / "1", example(id=[1]))
    endless, for_now = Stream(tmp_path, ddl), Stream(tmp_path, ddl)
    for_now.reader.prepareForTriggerAvailableNow()
    tensorflow_writes(tmp_path / "0", example(id=[2]))
    assert (endless.batch(), for_now.batch()) == ([2, 1], [1])
    (tmp_path / "0").unlink()
    with pytest.raises(
        InputError, match="1 file\\(s\\) that the stream planned to read are gone, such as .*/0; restore"
    ):
        endless.reader.partitions({"files": []}, {"files": [f"{tmp_path}/0"]})


def test_a_stream_reads_what_a_table_gains_and_nothing_that_no_manifest_names(tmp_path: Path, ddl: Any) -> None:
    (shard,) = publish_table(tmp_path, ddl("id bigint"), {"": [0, 1, 2]})
    stream = Stream(tmp_path, ddl)
    assert stream.batch() == [0, 1, 2]
    (tmp_path / "part-00009-9-0123abcd.tfrecord").write_bytes((tmp_path / shard.path).read_bytes())
    publish_table(tmp_path, ddl("id bigint"), {"": [7, 8]}, run_id="20190606T020000-bbbbbbbb")
    assert stream.batch() == [7, 8]


def test_the_id_of_a_stream_is_that_of_its_query_or_an_option(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "3f6c"}))
    assert stream_id(Options(("/x",), checkpoint=str(tmp_path))) == "3f6c"
    assert stream_id(Options(("/x",), checkpoint=f"file:{tmp_path}")) == "3f6c"
    assert stream_id(Options(("/x",), checkpoint=str(tmp_path), stream_id="clicks")) == "clicks"


def test_a_stream_whose_batches_could_not_be_told_apart_does_not_begin(tmp_path: Path, ddl: Any) -> None:
    with pytest.raises(UsageError, match="needs the option checkpointLocation on the writer itself, or streamId"):
        TfrecordSource({"path": str(tmp_path)}).streamWriter(ddl("x int"), False)
    (tmp_path / "metadata").write_text("{}")
    for checkpoint in (tmp_path, tmp_path / "missing", "dbfs:/checkpoint"):
        with pytest.raises(InputError, match="cannot be read from .*/metadata .* set the option streamId"):
            stream_id(Options(("/x",), checkpoint=str(checkpoint)))


def test_a_spark_without_arrow_streams_says_which_one_is_needed(
    tmp_path: Path, ddl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(datasource, "DataSourceStreamArrowWriter")
    with pytest.raises(UsageError, match="need pyspark 4.1 or newer; batch writes do not"):
        TfrecordSource({"path": str(tmp_path), "streamId": "s"}).streamWriter(ddl("x int"), False)


def test_a_stream_in_complete_mode_replaces_the_table_with_each_batch(tmp_path: Path, ddl: Any) -> None:
    def commit(batch: int, overwrite: bool) -> None:
        source = TfrecordSource({"path": str(tmp_path), "streamId": "counts"})
        source.streamWriter(ddl("x int"), overwrite).commit([ReceiptMessage(Receipt(0, 0, ()))], batch)

    for batch, overwrite in ((0, True), (1, True), (1, True), (2, False)):
        commit(batch, overwrite)
    table = Table(open_storage(tmp_path)).current()
    assert table is not None
    assert (table.generation, dict(table.streams)) == (3, {"counts": 2})
