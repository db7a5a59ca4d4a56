"""Tables: what readers see after appends, overwrites, races, repeated stream batches and writers that die."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import DamagedFile, InputError, PublishConflict, PublishUnknown, StorageError
from ctr_samples.shards import NameTaken, Shard, Storage, open_storage
from ctr_samples.shards.table import Table, TableManifest, TableWrite, next_manifest, on_disk

SCHEMA = {"fields": ["id"]}


@pytest.fixture
def table(store: Storage) -> Table:
    return Table(store)


def shard(name: str, storage: Storage | None = None, directory: str = "") -> Shard:
    """One shard of six bytes; written if a storage is given."""
    path = f"{directory}part-00000-1-{name:>08}.tfrecord"
    if storage is not None:
        with storage.new_file(path) as file:
            file.write(b"record")
    return Shard(path, directory.rstrip("/"), 0, 2, 6, 0)


def write(*shards: Shard, run: str = "r1", mode: Any = "append", **more: Any) -> TableWrite:
    return TableWrite(run, mode, "example", shards, schema=SCHEMA, **more)


def contract_of(*names: str) -> dict[str, Any]:
    """As its manifest reads back."""
    features = tuple(FeatureSpec(name, "int64") for name in names)
    return dict(json.loads(json.dumps(ExampleContract(features).to_dict())))


def seen(table: Table) -> list[str]:
    """The paths of the shards that readers see."""
    current = table.current()
    return [s.path[-12:-9] for s in current.shards] if current else []


def test_a_directory_without_a_manifest_is_no_table_yet(table: Table) -> None:
    assert table.current() is None


def test_appends_add_up_and_an_overwrite_starts_anew(table: Table) -> None:
    one, two, three = (shard(name, table.storage) for name in ("1", "2", "3"))
    table.commit(write(one))
    table.commit(write(two))
    assert seen(table) == ["001", "002"]
    last = table.commit(write(three, mode="overwrite"))
    assert seen(table) == ["003"]
    assert (last.generation, last.parent, last.records, last.schemas) == (3, "r1", 2, (SCHEMA,))
    assert [f.path for f in table.storage.files("")] == [
        "_SUCCESS",
        *(f"_manifests/{g:08}.json" for g in (1, 2, 3)),
        three.path,
    ]


def test_a_manifest_of_an_append_names_only_what_it_adds_and_every_sixteenth_names_all() -> None:
    def append(current: TableManifest | None, number: int) -> tuple[TableManifest, TableManifest]:
        written = write(shard(str(number)))
        manifest = next_manifest(current, written, "2026-01-01T00:00:00+00:00")
        return manifest, on_disk(manifest, written)

    current, lengths = None, []
    for number in range(1, 34):
        current, put = append(current, number)
        assert len(current.shards) == number
        lengths.append((put.complete, len(put.shards)))
    complete = [(number, length) for number, (whole, length) in enumerate(lengths, 1) if whole]
    assert complete == [(1, 1), (16, 16), (17, 17), (32, 32), (33, 33)]
    assert {length for whole, length in lengths if not whole} == {1}


@pytest.mark.thorough
def test_a_long_chain_of_appends_is_read_back_in_order(table: Table) -> None:
    for number in range(1, 36):
        table.commit(write(shard(str(number), table.storage)))
    assert seen(table) == [f"{number:03}" for number in range(1, 36)]
    assert len(table.at(20).shards) == 20


def test_a_manifest_reads_back_as_it_was(table: Table) -> None:
    written = write(shard("1", table.storage), partition_by=("country",), stream=("s", 3), contract=contract_of("id"))
    put = table.commit(written)
    assert table.current() == put
    assert put.streams == {"s": 3}


def test_a_batch_of_a_stream_counts_once_however_often_it_is_committed(table: Table) -> None:
    table.commit(write(shard("1", table.storage), stream=("clicks", 0)))
    table.commit(write(shard("2", table.storage), run="r2", stream=("clicks", 0)))
    assert seen(table) == ["001"]
    table.commit(write(shard("3", table.storage), stream=("views", 0)))
    table.commit(write(shard("4", table.storage), stream=("clicks", 1)))
    table.commit(write(shard("5", table.storage), stream=("clicks", 1)))
    assert seen(table) == ["001", "003", "004"]


def test_what_is_known_of_one_stream_outlives_other_streams_later_batches_and_overwrites(table: Table) -> None:
    def try_again(number: int, **of: Any) -> None:
        before = seen(table)
        table.commit(write(shard(str(number), table.storage), run=f"r{number}", **of))
        assert seen(table) == before

    table.commit(write(shard("1", table.storage), stream=("clicks", 0)))
    table.commit(write(shard("2", table.storage), stream=("views", 7)))
    try_again(3, stream=("clicks", 0))
    try_again(4, stream=("views", 6))  # a batch before the last one
    table.commit(write(shard("5", table.storage), mode="overwrite"))
    assert seen(table) == ["005"]
    try_again(6, stream=("views", 7))
    try_again(7, stream=("clicks", 0))


@pytest.fixture
def overtaken_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[TableWrite], None]:
    """``overtaken_by(a_write)``: between looking and putting of the next writer, another one commits this."""

    def overtaken_by(other: TableWrite) -> None:
        current, others = Table.current, [other]

        def current_then_overtaken(self: Table) -> TableManifest | None:
            manifest = current(self)
            if others:
                self.commit(others.pop())
            return manifest

        monkeypatch.setattr(Table, "current", current_then_overtaken)

    return overtaken_by


def test_an_append_that_loses_a_race_goes_behind_the_winner(
    table: Table, overtaken_by: Callable[[TableWrite], None]
) -> None:
    one, two = shard("1", table.storage), shard("2", table.storage)
    overtaken_by(write(one, run="other"))
    assert table.commit(write(two)).generation == 2
    assert seen(table) == ["001", "002"]


def test_an_overwrite_of_partitions_that_loses_a_race_replaces_what_the_winner_added_to_them(
    table: Table, overtaken_by: Callable[[TableWrite], None]
) -> None:
    parts = {"partition_by": ("day",)}
    table.commit(write(shard("1", table.storage, "day=1/"), **parts))
    mine = write(shard("4", table.storage, "day=1/"), run="mine", mode="overwrite_partitions", **parts)
    theirs = [shard("2", table.storage, "day=1/"), shard("3", table.storage, "day=2/")]
    overtaken_by(write(*theirs, run="other", **parts))
    assert table.commit(mine).generation == 3
    assert seen(table) == ["003", "004"]


def test_a_put_whose_answer_was_lost_is_this_writers_own(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    one = shard("1", table.storage)
    put_new = type(table.storage).put_new

    def lost(self: Storage, path: str, data: bytes) -> None:
        put_new(self, path, data)
        if "_manifests" in path:
            raise StorageError("Cannot write: the connection was reset.")

    monkeypatch.setattr(type(table.storage), "put_new", lost)
    assert table.commit(write(one)).generation == 1
    assert seen(table) == ["001"]


def test_a_store_that_does_not_answer_leaves_the_old_files_alone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = shard("1", table.storage), shard("2", table.storage)
    table.commit(write(one))
    kind = type(table.storage)
    read = kind.read

    def no_put(self: Storage, path: str, data: bytes) -> None:
        raise NameTaken(path)

    def no_read(self: Storage, path: str) -> bytes:
        if path.endswith("00000002.json"):
            raise StorageError("Cannot read: no answer.")
        return read(self, path)

    with monkeypatch.context() as broken:
        broken.setattr(kind, "put_new", no_put)
        broken.setattr(kind, "read", no_read)
        with pytest.raises(PublishUnknown, match="It is unknown whether"):
            table.commit(write(two, mode="overwrite"))
    assert seen(table) == ["001"]
    assert table.storage.read(one.path) == b"record"


def test_an_append_of_another_kind_is_refused_and_an_overwrite_is_not(table: Table) -> None:
    table.commit(write(shard("1", table.storage)))
    two = shard("2", table.storage)
    with pytest.raises(
        InputError, match="has records of type example, but this write has records of type byte_array; use another"
    ):
        table.commit(replace(write(two), record_type="byte_array"))
    for mode in ("append", "overwrite_partitions"):
        with pytest.raises(
            InputError, match=r"is partitioned by nothing, but this write is partitioned by \['country'\]"
        ):
            table.commit(write(two, mode=mode, partition_by=("country",)))
    table.commit(replace(write(two, mode="overwrite"), record_type="byte_array"))
    assert seen(table) == ["002"]


def test_a_table_that_is_to_be_created_must_not_be_there(table: Table) -> None:
    table.commit(write(shard("1", table.storage), mode="create"))
    with pytest.raises(PublishConflict) as caught:
        table.commit(write(shard("2", table.storage), mode="create"))
    assert str(caught.value) == (
        f"Run r1 published to {table.storage.url} first; this run published nothing. "
        "Choose another directory, or append or overwrite."
    )
    assert seen(table) == ["001"]


def test_an_overwrite_of_partitions_replaces_those_that_it_brings_and_no_others(table: Table) -> None:
    def add(name: str, day: int, run: str, mode: str = "append") -> TableManifest:
        day_shard = shard(name, table.storage, f"day={day}/")
        return table.commit(write(day_shard, run=run, mode=mode, partition_by=("day",)))

    add("1", 1, "r1", "overwrite_partitions")  # there is no table yet
    add("2", 2, "r2")
    add("3", 2, "r3")
    add("4", 20, "r4")
    last = add("5", 2, "r5", "overwrite_partitions")
    assert seen(table) == ["001", "004", "005"]
    assert (last.parent, last.schemas) == ("r4", (SCHEMA,))
    assert [file.path for file in table.storage.files("") if file.path.startswith("day=")] == [
        "day=1/part-00000-1-00000001.tfrecord",
        "day=2/part-00000-1-00000005.tfrecord",
        "day=20/part-00000-1-00000004.tfrecord",
    ]
    table.commit(write(run="r6", mode="overwrite_partitions", partition_by=("day",)))  # no rows: no partition
    add("7", 3, "r7")
    assert seen(table) == ["001", "004", "005", "007"]


def test_a_shard_that_is_not_there_is_never_published(table: Table) -> None:
    with pytest.raises(DamagedFile, match="is missing, though a task wrote it"):
        table.commit(write(shard("1")))
    assert table.current() is None


@pytest.mark.parametrize("path", ["part-00000-9bcc-c000.tfrecord", "country=US/notes.txt", "_manifests_old/x"])
def test_a_directory_with_files_of_others_is_refused(table: Table, path: str) -> None:
    table.storage.put_new(path, b"x")
    with pytest.raises(InputError) as caught:
        table.check_writable("r1")
    assert str(caught.value) == (
        f"{table.storage.url} holds 1 file(s) that ctr-samples did not write, such as {path}; "
        "expected an empty or new directory. Write to another one, or move these away."
    )


def test_a_directory_with_what_a_killed_first_write_left_is_written(table: Table) -> None:
    shard("1", table.storage)
    table.storage.put_new("country=US/.part-00000-1-00000002.tfrecord." + "0" * 32, b"half")
    table.check_writable("r1")
    assert not [f for f in table.storage.files("_manifests") if f.path.endswith("json")]


def test_a_first_writer_that_was_killed_while_it_looked_at_the_store_keeps_no_one_out(table: Table) -> None:
    table.storage.put_new("_manifests/r0/probe", b"first")
    table.check_writable("r1")


def test_schemas_and_contracts_of_all_appends_are_known_once_each_oldest_first(table: Table) -> None:
    def commit(number: int, schema: Any, contract: Any, mode: Any = "append") -> tuple[Any, Any]:
        new = shard(str(number), table.storage)
        manifest = table.commit(replace(write(new, mode=mode), schema=schema, contract=contract))
        assert table.current() == manifest
        return manifest.schemas, manifest.contracts

    old, wider = {"fields": ["id"]}, {"fields": ["id", "age"]}
    assert commit(1, old, {}) == ((old,), ())
    one, two = contract_of("id"), contract_of("id", "age")
    assert commit(2, wider, one) == ((old, wider), (one,))
    assert commit(3, old, one) == ((old, wider), (one,))
    assert commit(4, {}, two) == ((old, wider), (one, two))
    assert commit(5, wider, {}, "overwrite") == ((wider,), ())


def test_a_store_without_conditions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(tmp_path)

    def overwrite(self: Storage, path: str, data: bytes) -> None:
        with self.new_file(path) as file:
            file.write(data)

    monkeypatch.setattr(type(storage), "put_new", overwrite)
    with pytest.raises(StorageError, match="Use a store that honours If-None-Match"):
        Table(storage).check_writable("r1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"00000001\.json is not a manifest of a table"),
        (
            json.dumps({"format": "ctr-samples table 9"}).encode(),
            "has format 'ctr-samples table 9'; this release reads",
        ),
        (json.dumps({"format": "ctr-samples table 1"}).encode(), "is not a manifest of a table"),
    ],
)
def test_what_is_no_manifest_is_named(table: Table, content: bytes, message: str) -> None:
    table.storage.put_new("_manifests/00000001.json", content)
    with pytest.raises(DamagedFile, match=message):
        table.current()


def test_a_generation_that_another_builds_upon_is_missed_by_name(table: Table) -> None:
    for name in "123":
        table.commit(write(shard(name, table.storage)))
    table.storage.delete("_manifests/00000002.json")
    with pytest.raises(DamagedFile, match=r"00000002\.json is missing, though a later generation builds on it"):
        table.current()


def test_a_success_mark_or_an_old_file_that_cannot_be_changed_does_not_fail_a_write(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = shard("1", table.storage), shard("2", table.storage)
    table.commit(write(one))

    def fail(*_: object) -> None:
        raise StorageError("Cannot write: Permission denied.")

    monkeypatch.setattr(type(table.storage), "delete", fail)
    table.commit(write(two, mode="overwrite"))
    assert seen(table) == ["002"]
    put_new = type(table.storage).put_new
    monkeypatch.setattr(
        type(table.storage), "put_new", lambda *given: fail() if given[1] == "_SUCCESS" else put_new(*given)
    )
    assert table.commit(write(one)).generation == 3
