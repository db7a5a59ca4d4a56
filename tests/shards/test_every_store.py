"""What a directory and a bucket have in common: a file appears whole or not at all, and a name is taken once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from ctr_samples.errors import StorageError
from ctr_samples.shards import NameTaken, Storage
from tests.shards.files import everything_below, write, write_in_vain

PATH = "dt=2019-06-05/data/run/train/part.tfrecord"


def test_a_file_is_invisible_until_its_block_ends(store: Storage) -> None:
    with store.new_file(PATH) as file:
        assert file.write(b"one ") == 4
        assert file.write(memoryview(b"two")) == 3
        assert store.names("dt=2019-06-05/data/run/train") == []
        with pytest.raises(FileNotFoundError):
            store.size(PATH)
    assert store.read(PATH) == b"one two"
    assert everything_below(store) == [PATH]


@pytest.mark.parametrize("size", [5, 12 * 2**20])
@pytest.mark.parametrize("error", [FileNotFoundError("some other file"), KeyboardInterrupt()], ids=repr)
def test_an_error_inside_the_block_passes_unchanged_and_leaves_nothing(
    store: Storage, error: BaseException, size: int
) -> None:
    with pytest.raises(type(error)) as caught:
        write_in_vain(store, PATH, bytes(size), error)
    assert caught.value is error
    assert everything_below(store) == []


def test_a_name_is_taken_once_and_keeps_its_content(store: Storage) -> None:
    store.put_new("m/1.json", b"first")
    with pytest.raises(NameTaken):
        store.put_new("m/1.json", b"second")
    assert store.read("m/1.json") == b"first"
    assert everything_below(store) == ["m/1.json"]


def test_names_are_those_right_below_a_directory_in_order(store: Storage) -> None:
    for path in ("d/b", "d/a/x", "d/a/y", "d2/z"):
        store.put_new(path, b"")
    assert store.names("d") == ["a", "b"]
    assert store.names("") == ["d", "d2"]
    assert store.names("nowhere") == store.names("d/b") == []


def test_a_file_reads_back_whole_and_in_pieces_and_may_be_empty(store: Storage) -> None:
    store.put_new("x", b"abcdef")
    assert store.size("x") == 6
    with store.open("x") as file:
        assert [file.read(4), file.read(4), file.read(4)] == [b"abcd", b"ef", b""]
    write(store, "empty", b"")
    store.put_new("_SUCCESS", b"")
    assert [store.size("empty"), store.size("_SUCCESS"), store.read("empty")] == [0, 0, b""]


def test_a_missing_file_is_file_not_found_and_named(store: Storage) -> None:
    for call in (store.read, store.open, store.size):
        with pytest.raises(FileNotFoundError) as caught:
            call("a/b")
        assert str(caught.value) == f"[Errno 2] No such file or directory: '{store.locate('a/b')}'"


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "..", "a\\..\\x"])
def test_a_path_that_leaves_the_directory_is_refused_by_every_method(store: Storage, path: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: write(store, path, b""),
        lambda: store.put_new(path, b""),
        lambda: store.read(path),
        lambda: store.open(path),
        lambda: store.size(path),
        lambda: store.names(path),
        lambda: store.locate(path),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="leaves the output directory; expected a relative path"):
            call()
    assert everything_below(store) == []


def test_it_pickles_without_its_connection(store: Storage) -> None:
    before = pickle.dumps(store)
    store.put_new("x", b"1")
    assert pickle.dumps(store) == before
    copy = pickle.loads(before)
    assert (copy.url, copy.read("x")) == (store.url, b"1")
