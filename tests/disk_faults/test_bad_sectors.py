"""A disk that cannot read back what it once took: readers name the file, and look at the others."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from ctr_samples.errors import CtrSamplesError
from ctr_samples.records.read import damage_of, first_examples
from ctr_samples.shards import Manifest, Storage, Table, open_storage, require_manifest
from ctr_samples.shards.published import find
from tests.disk_faults.mounted_disk import Disk
from tests.support.small_publish import CONTRACT, DAY, publish_day


@pytest.fixture
def published(disk: Disk, tmp_path: Path) -> tuple[Storage, Manifest]:
    publish_day(open_storage(tmp_path / "out"), 1)
    storage = open_storage(disk.fresh(tmp_path / "out"))
    return storage, require_manifest(storage, DAY)


def calls_of(disk: Disk, operation: str, read: Callable[[], object]) -> range:
    """The numbers of the calls that an undisturbed reader makes."""
    disk.work()
    read()
    return range(1, disk.work()[operation] + 1)


@pytest.mark.parametrize("operation", ["open", "read"])
def test_each_read_of_a_verification_that_fails_in_turn_is_one_sentence(
    disk: Disk, published: tuple[Storage, Manifest], operation: str
) -> None:
    storage, manifest = published
    for number in calls_of(disk, operation, lambda: list(damage_of(storage, manifest.shards))):
        disk.fail(operation, number, errno.EIO)
        (sentence,) = damage_of(storage, manifest.shards)
        named = [shard for shard in manifest.shards if storage.locate(shard.path) in sentence]
        assert len(named) == 1
        assert "Input/output error" in sentence
        disk.work()
        assert list(damage_of(storage, manifest.shards)) == []


@pytest.mark.parametrize("operation", ["list", "open", "read"])
def test_each_read_of_the_first_examples_that_fails_in_turn_is_an_expected_error(
    disk: Disk, published: tuple[Storage, Manifest], operation: str
) -> None:
    storage, _ = published

    def read() -> int:
        return len(first_examples(storage, find(storage, DAY).shards, CONTRACT, 8))

    for number in calls_of(disk, operation, read):
        disk.fail(operation, number, errno.EIO)
        with pytest.raises(CtrSamplesError, match=rf"{storage.url}/.*Input/output error"):
            read()
        disk.work()
        assert read() == 8


@pytest.mark.parametrize("number", [1, 2])
def test_a_directory_that_cannot_be_listed_is_not_taken_for_one_without_files(
    disk: Disk, tmp_path: Path, number: int
) -> None:
    (tmp_path / "out" / "others").mkdir(parents=True)
    (tmp_path / "out" / "others" / "notes.txt").touch()
    storage = open_storage(disk.fresh(tmp_path / "out"))
    disk.fail("list", number, errno.EIO)
    with pytest.raises(CtrSamplesError, match="Input/output error"):
        Table(storage).check_writable("20190606T020000-00000002")
    disk.work()
