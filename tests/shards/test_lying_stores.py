"""Stores whose replies are lost on the wire, and stores that do not tell the truth about what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ctr_samples.errors import CtrSamplesError, DamagedFile, PublishConflict, StorageError
from ctr_samples.shards import NameTaken, check_store, latest_manifest, open_storage
from ctr_samples.shards.generations import last_forgotten, mark_forgotten
from ctr_samples.shards.naming import generations_among
from ctr_samples.shards.storage import LocalStorage, objects
from tests.support.small_publish import DAY, append, publish_day, runs_of_day, runs_of_table
from tests.support.tampering_proxy import Answer, TamperingProxy, tampering_proxy


@pytest.fixture
def proxy(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[TamperingProxy]:
    """The bucket ``lake`` behind a proxy."""
    with tampering_proxy(urlsplit(s3.meta.endpoint_url).port or 0) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{running.port}")
        yield running


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits before it is repeated."""
    short = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    monkeypatch.setitem(objects.PATIENT, "backoff", short)
    monkeypatch.setattr(objects, "_PAUSES", (0.0, 0.0))


# Replies that are lost on the wire. The client tries again by itself, and meets what it has done.


@pytest.mark.thorough
def test_a_manifest_whose_reply_is_lost_is_put_twice_refused_and_recognised(proxy: TamperingProxy) -> None:
    storage = open_storage("s3://lake/samples")
    proxy.harm("PUT", "manifests/00000001.json", "reply left out")
    publish_day(storage, 1)
    assert proxy.count("PUT", "manifests/00000001.json") == 2
    assert runs_of_day(storage) == [1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "part"),
    [
        ("PUT", "/probe"),
        ("POST", "?delete"),
        ("PUT", "/train/part-00001"),
        pytest.param("GET", "/probe", marks=pytest.mark.slow),
        pytest.param("HEAD", "/train/part-00001", marks=pytest.mark.slow),
        pytest.param("GET", "list-type=2", marks=pytest.mark.slow),
        pytest.param("PUT", "_SUCCESS", marks=pytest.mark.slow),
    ],
)
def test_any_reply_that_is_lost_once_changes_nothing(proxy: TamperingProxy, method: str, part: str) -> None:
    storage = open_storage("s3://lake/samples")
    proxy.harm(method, part, "reply left out")
    publish_day(storage, 1)
    assert proxy.count(method, part) >= 2
    assert runs_of_day(storage) == [1]


@pytest.mark.thorough
def test_a_commit_to_a_table_whose_reply_is_lost_is_not_committed_twice(proxy: TamperingProxy) -> None:
    storage = open_storage("s3://lake/table")
    append(storage, 1)
    proxy.harm("PUT", "_manifests/00000002.json", "reply left out")
    append(storage, 2)
    assert runs_of_table(storage) == [1, 2]


# Answers that are not true, of a put that creates.

KEYS = ["manifests/00000002.json", "_SUCCESS", "/probe", "/.clock.", "forgotten", ""]
STATUSES = [409, 412, 429, 500, 503]
ANSWERS = [(status, key, (n + m) % 2 == 0) for n, status in enumerate(STATUSES) for m, key in enumerate(KEYS)]
"""All pairs of a status, a key, and whether the object is stored in spite of the status."""


@pytest.mark.thorough
@pytest.mark.parametrize(("status", "key", "stored"), ANSWERS)
def test_what_a_store_answers_to_a_put_that_creates_is_not_believed(
    proxy: TamperingProxy, quick: None, status: int, stored: bool, key: str
) -> None:
    storage = open_storage("s3://lake/samples")
    proxy.harm("PUT", key, Answer(status, stored), creations=True)
    publish_day(storage, 1)
    mark_forgotten(storage, DAY, 2)
    publish_day(storage, 2)
    assert proxy.count("PUT", key)
    assert storage.names("dt=2019-06-05") == ["_SUCCESS", "data", "manifests"]
    assert generations_among(storage.names("dt=2019-06-05/manifests")) == [1, 2]
    assert last_forgotten(storage, DAY) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("status", [409, 500])
def test_a_table_is_written_whatever_a_store_answers_once(
    proxy: TamperingProxy, quick: None, status: int, stored: bool
) -> None:
    storage = open_storage("s3://lake/table")
    proxy.harm("PUT", "", Answer(status, stored), creations=True)
    append(storage, 1)
    append(storage, 2)
    assert runs_of_table(storage) == [1, 2]
    assert "_SUCCESS" in storage.names("")


def test_a_store_that_never_takes_a_manifest_ends_the_run_with_what_it_answered(
    proxy: TamperingProxy, quick: None
) -> None:
    storage = open_storage("s3://lake/samples")
    proxy.harm("PUT", "manifests/00000001.json", Answer(409, False), times=99, creations=True)
    with pytest.raises(StorageError, match=r"Cannot write s3://lake/.*00000001.json: .*as the test says"):
        publish_day(storage, 1)
    assert latest_manifest(storage, DAY) is None


def test_another_run_that_was_faster_is_still_a_conflict(proxy: TamperingProxy, quick: None) -> None:
    storage = open_storage("s3://lake/samples")
    storage.put_new("name", b"theirs")
    for status in (409, 500):
        proxy.harm("PUT", "name", Answer(status, True), creations=True)
        with pytest.raises(NameTaken):
            storage.put_new("name", b"ours")
    assert storage.read("name") == b"theirs"


# Stores that do not tell the truth.


class Lying(LocalStorage):
    """A directory that looks different from what it is."""

    unseen = "nothing"
    unreadable = "nothing"
    grown = 0

    def names(self, directory: str) -> list[str]:
        return [name for name in super().names(directory) if name != self.unseen]

    def read(self, path: str) -> bytes:
        if path.endswith(f"/{self.unreadable}"):
            raise FileNotFoundError(path)
        return super().read(path)

    def size(self, path: str) -> int:
        return super().size(path) + self.grown


@pytest.fixture
def lying(tmp_path: Path) -> Lying:
    return Lying(tmp_path / "out")


def test_a_list_that_does_not_show_the_newest_manifest_makes_a_conflict_and_replaces_nothing(
    lying: Lying,
) -> None:
    publish_day(lying, 1)
    lying.unseen = "00000001.json"
    with pytest.raises(PublishConflict, match="Run 20190606T020000-00000001 published .*00000001.json first"):
        publish_day(lying, 2)
    lying.unseen = "nothing"
    assert runs_of_day(lying) == [1]


def test_an_append_to_a_table_whose_newest_manifest_is_never_listed_gives_up_and_replaces_nothing(
    lying: Lying,
) -> None:
    append(lying, 1)
    append(lying, 2)
    lying.unseen = "00000002.json"
    with pytest.raises(PublishConflict, match="100 other writers of .* were faster"):
        append(lying, 3)
    lying.unseen = "nothing"
    assert runs_of_table(lying) == [1, 2]


def test_a_shard_whose_size_is_told_wrong_is_never_published(lying: Lying) -> None:
    lying.grown = 1
    with pytest.raises(DamagedFile, match=r"has \d+ bytes, but its task wrote \d+; run again"):
        publish_day(lying, 1)
    assert latest_manifest(lying, DAY) is None


def test_a_manifest_that_is_listed_and_not_found_is_an_expected_error(lying: Lying) -> None:
    publish_day(lying, 1)
    lying.unreadable = "00000001.json"
    with pytest.raises(CtrSamplesError, match="00000001.json"):
        publish_day(lying, 2)


def test_a_probe_that_exists_and_is_not_found_is_refused(lying: Lying) -> None:
    lying.unreadable = "probe"
    with pytest.raises(StorageError, match="Use a store that honours If-None-Match"):
        check_store(lying, "run")
