"""What is no failure of a store is not told as one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.errors import StorageError
from ctr_samples.shards import CheckedFile, Shard, Storage, open_storage
from ctr_samples.shards.clean import Cleanup, carry_out
from ctr_samples.shards.storage.interface import reading, writing


@pytest.mark.parametrize("asking", [reading, writing])
def test_a_mistake_in_the_code_passes_unchanged(asking: Any) -> None:
    mistake = TypeError("unsupported operand")
    with pytest.raises(TypeError) as caught, asking("s3://lake/x"):
        raise mistake
    assert caught.value is mistake


@pytest.mark.parametrize("path", ["a\nb", "run/\x7f", "d/\u202egpj.exe", "\0"])
def test_a_name_with_a_character_that_cannot_be_seen_is_refused(storage: Storage, path: str) -> None:
    with pytest.raises(StorageError, match="has a character that cannot be seen; expected a plain name"):
        storage.put_new(path, b"")
    assert not Path(storage.url).exists()


def test_a_name_may_have_blanks_and_joined_characters_of_any_script(storage: Storage) -> None:
    names = ["\U0001f469\u200d\U0001f33e", "\u6771\u3000\u4eac", "New\u00a0York"]
    for name in names:
        storage.put_new(f"d/{name}", b"")
    assert storage.names("d") == sorted(names)


def test_what_no_one_reads_of_a_file_is_checked_too() -> None:
    file = CheckedFile(io.BytesIO(b"123456789"))
    assert file.read(2) == b"12"
    file.drain()
    assert (file.size, file.crc32c) == (9, 0xE3069283)
    assert file.difference(Shard("part", "train", 0, 1, 9, 0xE3069283)) is None


def test_files_that_were_never_completed_are_removed_with_the_directories(storage: Storage) -> None:
    for path in ("run/train/part", "run/.part.0", "other/part", "_SUCCESS"):
        storage.put_new(path, b"")
    carry_out(storage, Cleanup(directories=("run",), files=("other/part", "other/gone")))
    assert [file.path for file in storage.files("")] == ["_SUCCESS"]


def test_a_storage_shows_where_it_is(tmp_path: Path) -> None:
    assert repr(open_storage(tmp_path)) == f"LocalStorage('{tmp_path}')"
    assert repr(open_storage("s3://lake/samples/")) == "ObjectStorage('s3://lake/samples')"


def test_a_directory_of_a_bucket_goes_with_all_below_it_and_no_neighbour(s3: Any) -> None:
    bucket = open_storage("s3://lake/samples")
    for path in ("run/train/a", "run/train/b", "run/eval/c", "run2/train/d", "e"):
        bucket.put_new(path, b"1")
    bucket.delete_directory("run")
    assert [file.path for file in bucket.files("")] == ["e", "run2/train/d"]
    bucket.delete_directory("run")  # again, as after an error
    bucket.delete_directory("nowhere")
    assert [file.path for file in bucket.files("")] == ["e", "run2/train/d"]
