"""One create-only put decides which run published; everything else is told apart from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from ctr_samples.errors import DamagedFile, InputError, PublishConflict, PublishUnknown, StorageError
from ctr_samples.shards import (
    Manifest,
    NameTaken,
    Storage,
    check_directory,
    check_shards,
    check_store,
    latest_manifest,
    mark_success,
    published_days,
    read_manifest,
    require_manifest,
)
from tests.support.small_publish import by_another_run, publish_literal, put_shards

DAY = date(2019, 6, 5)
MANIFEST = "dt=2019-06-05/manifests/00000001.json"
SUCCESS = "dt=2019-06-05/_SUCCESS"
OTHER_RUN = "20190606T020001-bbbbbbbb"


class Troubled:
    """A storage whose ``put_new`` and ``read`` of a manifest may be replaced; the rest is that of the real one."""

    def __init__(self, real: Storage, **calls: Callable[..., Any]) -> None:
        self._real = real
        self._calls = calls
        self.puts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def put_new(self, path: str, data: bytes) -> None:
        self.puts.append(path)
        self._of("put_new", path)(path, data)

    def read(self, path: str) -> bytes:
        return bytes(self._of("read", path)(path))

    def _of(self, name: str, path: str) -> Callable[..., Any]:
        real = getattr(self._real, name)
        return self._calls.get(name, real) if "/manifests/" in path else real


def timeout(*_: object) -> bytes:
    raise StorageError("Cannot reach s3://lake: timed out.")


def in_place(storage: Storage) -> tuple[list[str], list[str]]:
    return storage.names("dt=2019-06-05"), storage.names("dt=2019-06-05/manifests")


def test_each_generation_replaces_the_one_before_and_deletes_nothing(store: Storage, manifest: Manifest) -> None:
    assert latest_manifest(store, DAY) is None
    publish_literal(store, manifest)
    assert latest_manifest(store, DAY) == manifest
    assert store.read(SUCCESS) == b""
    with pytest.raises(FileNotFoundError):
        read_manifest(store, DAY, 2)
    second = by_another_run(manifest, OTHER_RUN, generation=2, parent=manifest.run_id)
    publish_literal(store, second)
    assert latest_manifest(store, DAY) == second
    assert read_manifest(store, DAY, 1) == manifest
    assert in_place(store) == (["_SUCCESS", "data", "manifests"], ["00000001.json", "00000002.json"])


def test_the_second_of_two_runs_is_a_conflict_and_changes_nothing(store: Storage, manifest: Manifest) -> None:
    publish_literal(store, manifest)
    before = store.read(MANIFEST)
    with pytest.raises(PublishConflict) as caught:
        publish_literal(store, by_another_run(manifest, OTHER_RUN))
    assert str(caught.value) == (
        f"Run 20190606T020000-aaaaaaaa published {store.locate(MANIFEST)} first; this run (20190606T020001-bbbbbbbb) "
        "published nothing. Run it again if its input is newer."
    )
    assert caught.value.exit_code == 4
    assert store.read(MANIFEST) == before
    assert in_place(store) == (["_SUCCESS", "data", "manifests"], ["00000001.json"])


def test_a_put_that_took_effect_is_recognised_and_marked_whatever_was_answered(
    storage: Storage, manifest: Manifest
) -> None:
    def put_then_fail(path: str, data: bytes) -> None:
        storage.put_new(path, data)
        timeout()

    def put_twice(path: str, data: bytes) -> None:
        storage.put_new(path, data)
        storage.put_new(path, data)  # the name is taken, by this very run

    for generation, put in enumerate((storage.put_new, put_then_fail, put_twice), 1):
        made, watched = replace(manifest, generation=generation), Troubled(storage, put_new=put)
        publish_literal(watched, made)
        assert latest_manifest(storage, DAY) == made
        assert watched.puts == [f"dt=2019-06-05/manifests/{generation:08}.json", SUCCESS]  # in this order
    refused = Troubled(storage)
    with pytest.raises(PublishConflict):
        publish_literal(refused, by_another_run(manifest, OTHER_RUN))
    assert refused.puts == [MANIFEST]


def test_a_put_that_failed_with_nothing_there_is_its_own_error(storage: Storage, manifest: Manifest) -> None:
    with pytest.raises(StorageError, match=r"^Cannot reach s3://lake: timed out\.$"):
        publish_literal(Troubled(storage, put_new=timeout), manifest)
    assert in_place(storage) == (["data"], [])


def test_an_answer_that_cannot_be_had_is_unknown_and_says_how_to_find_out(storage: Storage, manifest: Manifest) -> None:
    with pytest.raises(PublishUnknown) as caught:
        publish_literal(Troubled(storage, put_new=timeout, read=timeout), manifest)
    assert str(caught.value) == (
        f"It is unknown whether {storage.locate(MANIFEST)} was written (Cannot reach s3://lake: timed out). "
        "If its run_id is 20190606T020000-aaaaaaaa, this run is published; if it does not exist, run again."
    )
    assert caught.value.exit_code == 5
    assert storage.names("dt=2019-06-05") == ["data"]


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]", b"{}", b"[" * 100_000])
def test_a_manifest_that_cannot_be_parsed_is_unknown(storage: Storage, manifest: Manifest, content: bytes) -> None:
    storage.put_new(MANIFEST, content)
    with pytest.raises(PublishUnknown, match="the file there is not a manifest"):
        publish_literal(storage, manifest)
    assert storage.read(MANIFEST) == content
    assert storage.names("dt=2019-06-05") == ["data", "manifests"]


def test_a_name_that_is_taken_and_then_not_there_is_unknown(storage: Storage, manifest: Manifest) -> None:
    def absent(path: str) -> bytes:
        raise FileNotFoundError(path)

    storage.put_new(MANIFEST, b"{}")
    with pytest.raises(PublishUnknown, match="rejected it as existing, then could not find it"):
        publish_literal(Troubled(storage, read=absent), manifest)


def test_a_mark_of_success_that_is_there_already_is_right(store: Storage, manifest: Manifest) -> None:
    store.put_new(SUCCESS, b"")
    publish_literal(store, manifest)
    mark_success(store, manifest)
    assert latest_manifest(store, DAY) == manifest


def test_a_mark_that_fails_says_that_the_samples_are_published(storage: Storage, manifest: Manifest) -> None:
    class MarkFails(Troubled):
        def put_new(self, path: str, data: bytes) -> None:
            timeout() if path == SUCCESS else super().put_new(path, data)

    with pytest.raises(StorageError) as caught:
        publish_literal(MarkFails(storage), manifest)
    assert str(caught.value) == (
        "Generation 1 of 2019-06-05 is published and can be read, but is not marked with _SUCCESS, which schedulers "
        "wait for. Cannot reach s3://lake: timed out."
    )
    assert latest_manifest(storage, DAY) == manifest


# What readers find.


def test_published_days_are_those_with_a_manifest_in_order(store: Storage, manifest: Manifest) -> None:
    for day in ("2019-06-07", "2019-06-05"):
        publish_literal(store, by_another_run(manifest, manifest.run_id, run_date=day))
    store.put_new("dt=2019-06-06/data/run/train/part", b"a run that never published")
    store.put_new("dt=2019-02-30/manifests/00000001.json", b"no day")
    store.put_new("notes/manifests/00000001.json", b"no day")
    assert published_days(store) == [date(2019, 6, 5), date(2019, 6, 7)]


def test_a_day_that_is_not_there_says_which_days_are(storage: Storage, manifest: Manifest) -> None:
    with pytest.raises(InputError) as caught:
        require_manifest(storage, DAY)
    assert str(caught.value) == (
        f"{storage.url} has no samples of 2019-06-05; nothing is published there. Run the job for that day first."
    )
    for day in ("2019-06-01", "2019-06-03"):
        publish_literal(storage, by_another_run(manifest, manifest.run_id, run_date=day))
    with pytest.raises(InputError) as caught:
        require_manifest(storage, DAY)
    assert str(caught.value) == (
        f"{storage.url} has no samples of 2019-06-05; it has 2019-06-01 to 2019-06-03 (2 day(s)). "
        "Run the job for that day first."
    )


def test_a_damaged_latest_manifest_is_an_error_and_never_the_one_before(storage: Storage, manifest: Manifest) -> None:
    publish_literal(storage, manifest)
    storage.put_new("dt=2019-06-05/manifests/00000002.json", b"")
    with pytest.raises(DamagedFile, match=r"00000002\.json is not a manifest"):
        require_manifest(storage, DAY)


# What is checked before.


def test_a_shard_that_is_missing_or_of_another_size_is_named(store: Storage, manifest: Manifest) -> None:
    put_shards(store, manifest)
    check_shards(store, manifest.shards)
    last = manifest.shards[-1]
    with pytest.raises(DamagedFile) as caught:
        check_shards(store, [*manifest.shards, replace(last, path="dt=2019-06-05/lost")])
    assert str(caught.value) == (f"{store.locate('dt=2019-06-05/lost')} is missing, though a task wrote it; run again.")
    with pytest.raises(DamagedFile) as caught:
        check_shards(store, [*manifest.shards[:-1], replace(last, bytes=8)])
    assert str(caught.value) == f"{store.locate(last.path)} has 7 bytes, but its task wrote 8; run again."


def test_a_store_that_refuses_a_second_put_passes_the_check_though_an_answer_was_lost(store: Storage) -> None:
    class Twice(Troubled):
        def put_new(self, path: str, data: bytes) -> None:
            self._real.put_new(path, data)
            self._real.put_new(path, data)

    for checked in (store, Twice(store)):
        check_store(checked, "dt=2019-06-05/data/run")
        assert store.files("") == []


def test_a_store_whose_create_only_puts_overwrite_is_refused(storage: Storage) -> None:
    class Overwrites(Troubled):
        def put_new(self, path: str, data: bytes) -> None:
            with self._real.new_file(path) as file:
                file.write(data)

    class Lies(Overwrites):
        def put_new(self, path: str, data: bytes) -> None:
            super().put_new(path, data)
            raise NameTaken(path)

    for kind, problem in (
        (Overwrites, "Use a store that honours If-None-Match"),
        (Lies, "let a create-only put replace"),
    ):
        with pytest.raises(StorageError, match=problem):
            check_store(kind(storage), "run")


def test_a_day_in_which_others_have_put_files_is_refused(store: Storage, manifest: Manifest) -> None:
    check_directory(store, manifest.day)
    publish_literal(store, manifest)
    store.put_new("dt=2019-06-05/data/run/train/x", b"")
    store.put_new(f"dt=2019-06-05/._SUCCESS.{'0' * 32}", b"")
    check_directory(store, manifest.day)
    store.put_new("dt=2019-06-05/part-00000.parquet", b"")
    with pytest.raises(InputError) as caught:
        check_directory(store, manifest.day)
    assert str(caught.value) == (
        f"{store.locate('dt=2019-06-05')} holds part-00000.parquet, which ctr-samples did not write; expected an empty or "
        "new directory. Choose another `output.path`, or move it away."
    )
