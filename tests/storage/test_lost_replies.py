"""A gateway whose requests and replies are lost, refused or cut on the way: published once, or a clear error."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date

import pytest

from ctr_samples.errors import PublishConflict, PublishUnknown, StorageError
from ctr_samples.shards import Manifest, Storage, open_storage
from tests.storage import nightly_job
from tests.storage.published_generations import Look, look_at_day
from tests.support import ceph
from tests.support.ceph import Gateway
from tests.support.tampering_proxy import Fault, TamperingProxy, tampering_proxy

DAY = date(2019, 6, 5)
FIRST, SECOND = "/manifests/00000001.json", "/manifests/00000002.json"
ANSWERED: list[Fault] = ["error", "error after all", "slow down"]
"""Faults after which the client tries again by itself."""
LOST: list[Fault] = ["request lost", "reply lost"]
"""Faults after which it may give up: it cannot know whether a put that creates took effect."""
MIB = 2**20


@pytest.fixture
def proxy(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[TamperingProxy]:
    with tampering_proxy(gateway.port) as running:
        for variable, value in ceph.environ(running.port).items():
            monkeypatch.setenv(variable, value)
        yield running


@pytest.fixture
def storage(proxy: TamperingProxy, tmp_path_factory: pytest.TempPathFactory) -> Storage:
    """An empty place, all of whose requests go through the proxy."""
    return open_storage(f"s3://{ceph.BUCKET}/{tmp_path_factory.mktemp('lost').name}")


@pytest.fixture
def straight(storage: Storage, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """The same place without the proxy."""
    with monkeypatch.context() as environ:
        for variable, value in gateway.environ.items():
            environ.setenv(variable, value)
        direct = open_storage(storage.url)
        direct.names("")  # connects
    return direct


def run(storage: Storage) -> Manifest:
    return nightly_job.run(storage, DAY, nightly_job.KEEP_ALL)


def run_or_not(storage: Storage) -> list[Manifest]:
    """What was published without an error."""
    try:
        return [run(storage)]
    except StorageError:
        return []


def look(storage: Storage, *published: Manifest) -> Look:
    return look_at_day(storage, DAY, [(m.generation, m.run_id) for m in published])


@pytest.mark.parametrize("fault", ["reply lost", *ANSWERED])
def test_a_manifest_whose_put_fails_once_is_published_once(
    proxy: TamperingProxy, storage: Storage, straight: Storage, fault: Fault
) -> None:
    proxy.harm("PUT", FIRST, fault)
    manifest = run(storage)
    assert look(straight, manifest) == Look(1, [])
    assert straight.names("dt=2019-06-05") == ["_SUCCESS", "data", "manifests"]


def test_a_manifest_whose_put_never_arrives_is_put_again_or_not_published(
    proxy: TamperingProxy, storage: Storage, straight: Storage
) -> None:
    proxy.harm("PUT", FIRST, "request lost")
    published = run_or_not(storage)
    assert look(straight, *published) == Look(len(published), [])
    assert look(straight, *published, run(storage)) == Look(len(published) + 1, [])


@pytest.mark.parametrize("fault", [*LOST, *ANSWERED])
@pytest.mark.parametrize("part", ["/train/part-00002", "/eval/part-00001", "list-type=2"])
def test_a_request_that_may_be_sent_twice_may_fail_once(
    proxy: TamperingProxy, storage: Storage, straight: Storage, part: str, fault: Fault
) -> None:
    method = {"/train/part-00002": "PUT", "/eval/part-00001": "HEAD", "list-type=2": "GET"}[part]
    proxy.harm(method, part, fault)
    manifest = run(storage)
    assert proxy.count(method, part) > 1
    assert look(straight, manifest) == Look(1, [])


@pytest.mark.parametrize("fault", [*LOST, *ANSWERED])
@pytest.mark.parametrize("part", ["/probe", "/_SUCCESS"])
def test_a_put_beside_the_manifest_that_fails_once_never_publishes_twice(
    proxy: TamperingProxy, storage: Storage, straight: Storage, part: str, fault: Fault
) -> None:
    proxy.harm("PUT", part, fault)
    published = run_or_not(storage)
    assert published or fault in LOST
    there = 1 if part == "/_SUCCESS" else len(published)
    assert look(straight, *published) == Look(there, [])
    assert look(straight, *published, run(storage)) == Look(there + 1, [])


@pytest.mark.parametrize("fault", ["request lost", "reply lost", "error after all"])
def test_a_rival_that_publishes_while_a_put_is_tried_again_is_a_conflict_or_comes_too_late(
    proxy: TamperingProxy, storage: Storage, straight: Storage, fault: Fault
) -> None:
    rivals: list[Manifest] = []
    proxy.harm("PUT", FIRST, fault, meanwhile=lambda: rivals.append(run(straight)))
    if fault == "request lost":
        with pytest.raises(PublishConflict):
            run(storage)
        assert look(straight, *rivals) == Look(1, [])
    else:
        manifest = run(storage)
        assert (manifest.generation, [rival.generation for rival in rivals]) == (1, [2])
        assert look(straight, manifest, *rivals) == Look(2, [])


def test_a_put_that_is_refused_publishes_nothing_and_says_so(
    proxy: TamperingProxy, storage: Storage, straight: Storage
) -> None:
    before = run(storage)
    proxy.harm("PUT", SECOND, "refused", times=math.inf)  # a single refusal is tried again
    with pytest.raises(StorageError, match="Cannot write .*as the test says"):
        run(storage)
    assert look(straight, before) == Look(1, [])


def test_a_put_that_took_effect_and_was_called_refused_is_recognised(
    proxy: TamperingProxy, storage: Storage, straight: Storage
) -> None:
    proxy.harm("PUT", FIRST, "refused after all")
    manifest = run(storage)
    assert look(straight, manifest) == Look(1, [])


def test_a_put_of_which_nothing_can_be_learnt_is_unknown_and_a_run_after_it_is_the_next_generation(
    proxy: TamperingProxy, storage: Storage, straight: Storage
) -> None:
    proxy.harm("PUT", FIRST, "refused after all")
    proxy.harm("GET", FIRST, "refused", times=2)
    with pytest.raises(PublishUnknown, match="If its run_id is .*, this run is published"):
        run(storage)
    assert look(straight) == Look(1, [])
    after = run(storage)
    assert after.generation == 2
    assert look(straight, after) == Look(2, [])


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("size", [1_000, 25 * MIB])
def test_a_read_that_is_cut_gives_all_bytes_or_an_error(
    proxy: TamperingProxy, storage: Storage, straight: Storage, size: int, times: int
) -> None:
    data = os.urandom(size)
    with straight.new_file("part") as file:
        file.write(data)
    reads: list[Callable[[], bytes]] = [lambda: storage.read("part"), lambda: storage.open("part").read()]
    for read in reads:
        proxy.harm("GET", "/part", "reply cut", times=times)
        with suppress(StorageError):
            assert read() == data


@pytest.mark.parametrize("fault", [*LOST, *ANSWERED])
@pytest.mark.parametrize(("method", "part"), [("POST", "?uploads"), ("PUT", "partNumber=2"), ("POST", "?uploadId=")])
def test_a_large_file_whose_upload_fails_once_is_there_whole_or_not_at_all(
    proxy: TamperingProxy, storage: Storage, straight: Storage, method: str, part: str, fault: Fault
) -> None:
    data = os.urandom(25 * MIB)
    proxy.harm(method, part, fault)
    try:
        with storage.new_file("part") as file:
            file.write(data)
    except StorageError:
        assert straight.names("") in ([], ["part"])
    else:
        assert straight.names("") == ["part"]
    assert proxy.count(method, part) > 0
    if straight.names(""):
        assert straight.read("part") == data


def test_a_store_that_ignores_conditions_is_refused_before_anything_is_written(
    proxy: TamperingProxy, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    storage = open_storage(f"s3://{ceph.OPEN_BUCKET}/{tmp_path_factory.mktemp('lying').name}")
    proxy.stripped = "if-none-match"
    with pytest.raises(StorageError, match="Use a store that honours If-None-Match"):
        run(storage)
    assert {file.path.rsplit("/", 1)[-1] for file in storage.files("")} <= {"probe"}
    proxy.stripped = ""
    assert run(storage).generation == 1


def test_a_store_that_is_never_there_is_an_error_and_not_a_publication(
    proxy: TamperingProxy, storage: Storage, straight: Storage
) -> None:
    proxy.harm("PUT", "/train/part-00002", "refused", times=math.inf)
    with pytest.raises(StorageError):
        run(storage)
    assert look(straight) == Look(0, [])
    assert straight.names("dt=2019-06-05") == ["data"]
