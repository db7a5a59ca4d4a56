"""What publishing needs of a storage, at every kind of store that there is a real server for."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from ctr_samples.errors import StorageError
from ctr_samples.shards import NameTaken, Storage

MIB = 2**20
LARGE = 25 * MIB + 7  # three parts of an upload, and a few bytes over


class Trouble(Exception):
    """Raised by a block that writes."""


def write(storage: Storage, path: str, data: bytes) -> None:
    with storage.new_file(path) as file:
        assert file.write(data) == len(data)


def write_in_vain(storage: Storage, path: str, data: bytes) -> None:
    def work() -> None:
        with storage.new_file(path) as file:
            file.write(data)
            raise Trouble

    with pytest.raises(Trouble):
        work()


def paths(storage: Storage, directory: str = "") -> list[str]:
    return [file.path for file in storage.files(directory)]


# A file appears whole or not at all.


def test_a_file_appears_when_its_block_ends_and_not_before(storage: Storage) -> None:
    with storage.new_file("d/part") as file:
        assert file.write(b"one ") == 4
        assert file.write(memoryview(b"two")) == 3
        assert storage.names("d") == []
        with pytest.raises(FileNotFoundError):
            storage.read("d/part")
    assert storage.names("d") == ["part"]
    assert storage.read("d/part") == b"one two"


@pytest.mark.parametrize("size", [0, 5, LARGE])
def test_a_file_whose_block_raised_never_appears_and_leaves_nothing(storage: Storage, size: int) -> None:
    write_in_vain(storage, "d/part", bytes(size))
    assert storage.names("d") == []
    assert paths(storage) == []


def test_a_file_whose_block_raised_leaves_the_one_before_it_as_it_was(storage: Storage) -> None:
    write(storage, "part", b"first")
    write_in_vain(storage, "part", b"second")
    assert storage.read("part") == b"first"
    write(storage, "part", b"third")
    assert storage.read("part") == b"third"


@pytest.mark.parametrize("size", [0, 1, LARGE])
def test_what_was_written_is_read_back(storage: Storage, size: int) -> None:
    data = os.urandom(size)
    with storage.new_file("part") as file:
        for first in range(0, size, 3 * MIB):
            file.write(data[first : first + 3 * MIB])
    assert storage.size("part") == size
    assert storage.read("part") == data


def test_an_open_file_is_read_piece_by_piece(storage: Storage) -> None:
    data = os.urandom(LARGE)
    write(storage, "part", data)
    with storage.open("part") as file:
        assert file.read(10) == data[:10]
        assert b"".join(iter(lambda: file.read(3 * MIB), b"")) == data[10:]
        assert file.read() == b""
    with storage.open("part") as file:
        assert file.read() == data


def test_threads_may_share_a_storage(storage: Storage) -> None:
    def work(number: int) -> None:
        for file in range(5):
            write(storage, f"{number}/{file}", b"%d" % number * 1000)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths(storage) == [f"{n}/{file}" for n in range(8) for file in range(5)]
    assert storage.read("7/4") == b"7" * 1000


# A name is created once.


def test_a_name_is_taken_once_and_keeps_its_content(storage: Storage) -> None:
    storage.put_new("m/1.json", b"first")
    for data in (b"second", b"first", b""):
        with pytest.raises(NameTaken):
            storage.put_new("m/1.json", data)
    assert storage.read("m/1.json") == b"first"
    assert paths(storage) == ["m/1.json"]


def test_a_name_that_was_written_or_deleted_is_taken_or_free(storage: Storage) -> None:
    write(storage, "x", b"written")
    with pytest.raises(NameTaken):
        storage.put_new("x", b"put")
    storage.delete("x")
    storage.put_new("x", b"put")
    assert storage.read("x") == b"put"


def test_an_empty_file_takes_its_name_too(storage: Storage) -> None:
    storage.put_new("_SUCCESS", b"")
    with pytest.raises(NameTaken):
        storage.put_new("_SUCCESS", b"")
    assert (storage.size("_SUCCESS"), storage.read("_SUCCESS")) == (0, b"")


def test_of_two_threads_that_put_one_name_exactly_one_wins(storage: Storage) -> None:
    start = threading.Barrier(2)
    won: list[tuple[int, str]] = []
    lost: list[int] = []

    def race(name: str) -> None:
        for number in range(50):
            start.wait()
            try:
                storage.put_new(f"m/{number:08d}.json", name.encode())
                won.append((number, name))
            except NameTaken:
                lost.append(number)

    threads = [threading.Thread(target=race, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(lost) == list(range(50))
    assert sorted(won) == [(n, storage.read(f"m/{n:08d}.json").decode()) for n in range(50)]


def test_of_two_processes_that_put_one_name_exactly_one_wins(
    storage: Storage, race: Callable[[str, str], tuple[str, str]]
) -> None:
    for number in range(50):
        path = f"m/{number:08d}.json"
        answers = race(storage.url, path)
        assert sorted(answers) == ["lost", "won"]
        assert storage.read(path) == [b"one", b"two"][answers.index("won")]


# Listing and deleting.


def test_names_are_those_right_below_a_directory(storage: Storage) -> None:
    for path in ("d/b", "d/a/x", "d/a/y", "d2/z", "top"):
        storage.put_new(path, b"")
    assert storage.names("d") == ["a", "b"]
    assert storage.names("") == ["d", "d2", "top"]
    assert storage.names("nowhere") == []
    assert storage.names("d/b") == []


def test_files_are_those_below_a_directory_at_any_depth(storage: Storage) -> None:
    assert storage.files("") == []
    before = datetime.now(UTC)
    for path, data in {"d/b": b"12", "d/a/x": b"", "d/a/deep/y": b"123", "d2/z": b"1", "dd": b""}.items():
        storage.put_new(path, data)
    found = storage.files("d")
    assert [(file.path, file.size) for file in found] == [("d/a/deep/y", 3), ("d/a/x", 0), ("d/b", 2)]
    assert paths(storage) == ["d/a/deep/y", "d/a/x", "d/b", "d2/z", "dd"]
    assert storage.files("nowhere") == []
    second = timedelta(seconds=1)  # some stores count whole seconds
    assert all(before - second <= file.modified <= datetime.now(UTC) + second for file in found)


def test_more_files_than_one_page_of_a_listing_are_all_found(storage: Storage) -> None:
    if storage.url.startswith("s3"):  # a page has 1,000 names
        for number in range(1_050):
            storage.put_new(f"many/{number:04d}", b"")
        assert len(storage.names("many")) == len(storage.files("many")) == 1_050
        storage.delete_directory("many")
        assert storage.files("many") == []


def test_a_deleted_file_is_gone_and_its_neighbours_are_not(storage: Storage) -> None:
    for path in ("d/a", "d/ab", "d/b"):
        storage.put_new(path, b"1")
    storage.delete("d/a")
    assert storage.names("d") == ["ab", "b"]
    storage.delete("d/a")  # a second clean-up finds less
    with pytest.raises(FileNotFoundError):
        storage.size("d/a")


def test_a_deleted_directory_is_gone_with_all_below_and_its_neighbours_are_not(storage: Storage) -> None:
    for path in ("d/run/a", "d/run/train/b", "d/run2/c", "e"):
        storage.put_new(path, b"1")
    storage.delete_directory("d/run")
    assert paths(storage) == ["d/run2/c", "e"]
    assert storage.names("d") == ["run2"]
    storage.delete_directory("d/run")


def test_a_missing_file_is_file_not_found_and_named(storage: Storage) -> None:
    storage.put_new("a/file", b"")
    for call in (storage.read, storage.open, storage.size):
        for path in ("nowhere", "a/nowhere"):
            with pytest.raises(FileNotFoundError) as caught:
                call(path)
            assert str(caught.value) == f"[Errno 2] No such file or directory: '{storage.locate(path)}'"


# Names.

ODD_NAMES = ["a b", "a%20b", "city=S%C3%A3o", "a+b&c", "头条-ü", "it's", "a,b;c", "(1)[2]{3}", "a..b..", "~a!@$^"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_odd_name_is_a_name_like_any_other(storage: Storage, name: str) -> None:
    path = f"d/{name}/{name}"
    write(storage, path, b"1")
    with pytest.raises(NameTaken):
        storage.put_new(path, b"2")
    assert (storage.read(path), storage.size(path)) == (b"1", 1)
    assert (storage.names("d"), storage.names(f"d/{name}"), paths(storage)) == ([name], [name], [path])
    storage.delete(path)
    assert paths(storage) == []


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a\\x"])
def test_a_path_that_leaves_the_storage_is_refused_by_every_method(storage: Storage, path: str) -> None:
    for call in (
        storage.read,
        storage.open,
        storage.size,
        storage.names,
        storage.files,
        storage.delete,
        storage.delete_directory,
        storage.locate,
        lambda path: storage.put_new(path, b""),
        lambda path: write(storage, path, b""),
    ):
        with pytest.raises(StorageError, match="^The path "):
            call(path)
    assert paths(storage) == []


@pytest.mark.parametrize("name", ["\u6771\u3000\u4eac", "New\u00a0York", "\U0001f469\u200d\U0001f33e", "e\u0301"])
def test_a_name_of_any_script_is_kept(storage: Storage, name: str) -> None:
    write(storage, f"city={name}/a", b"new")
    storage.put_new(f"city={name}/b", b"put")
    assert storage.names("") == [f"city={name}"]
    assert paths(storage) == [f"city={name}/a", f"city={name}/b"]
    assert (storage.read(f"city={name}/a"), storage.size(f"city={name}/b")) == (b"new", 3)


@pytest.mark.parametrize("path", ["a\nx", "a\u202ex", "d\x7f/x"])
def test_no_file_is_made_under_a_name_that_cannot_be_seen_and_none_is_found(storage: Storage, path: str) -> None:
    for make in (lambda: storage.put_new(path, b""), lambda: write(storage, path, b"")):
        with pytest.raises(StorageError, match="^The path .* has a character that cannot be seen"):
            make()
    for read in (storage.read, storage.open, storage.size):
        with pytest.raises((FileNotFoundError, StorageError)):
            read(path)
    assert paths(storage) == []


# Processes.


def test_it_works_in_another_process_after_a_pickle(storage: Storage) -> None:
    before = pickle.dumps(storage)
    storage.put_new("x", b"1")
    assert pickle.dumps(storage) == before
    assert pickle.loads(before).read("x") == b"1"


@pytest.mark.parametrize("what", ["store", "file"])
def test_a_process_that_was_forked_after_its_use_can_use_it_or_is_told_that_it_cannot(
    storage: Storage, read_after_fork: Callable[[str, str, str], str], what: str
) -> None:
    storage.put_new("x", b"read by a child")
    assert read_after_fork(storage.url, "x", what).startswith(("read by a child", "StorageError: "))


@pytest.mark.parametrize("size", [5, LARGE])
def test_a_file_of_a_killed_process_is_never_seen_and_can_be_cleaned_up(
    storage: Storage, kill_while_writing: Callable[[str, str, int], None], size: int
) -> None:
    kill_while_writing(storage.url, "d/part", size)
    assert storage.names("d") == []
    for left in paths(storage):
        assert left.startswith("d/.part.")
        storage.delete(left)
    assert paths(storage) == []
    storage.put_new("d/part", b"by another")
    assert storage.read("d/part") == b"by another"
