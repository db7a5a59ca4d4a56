"""Local directories: a file appears whole or not at all, and a name is taken once."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.errors import StorageError, UsageError
from ctr_samples.shards import NameTaken, Storage, open_storage
from tests.shards.files import everything_below, write

PATH = "dt=2019-06-05/data/run/train/part.tfrecord"


def put(storage: Storage, path: str, data: bytes) -> None:
    storage.put_new(path, data)


WAYS = pytest.mark.parametrize("create", [write, put])
"""Both ways to make a file."""

Create = Callable[[Storage, str, bytes], None]


@pytest.fixture
def strange_umask() -> Iterator[None]:
    before = os.umask(0o777)
    yield
    os.umask(before)


def test_a_directory_that_could_not_be_looked_at_is_not_listed_as_a_file(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put_new("a/b", b"")
    real, root = os.walk, Path(storage.url)

    def walk(top: Path, onerror: Any) -> Iterator[Any]:
        return iter([(root, [], ["a"])]) if top == root else real(top, onerror=onerror)

    monkeypatch.setattr(os, "walk", walk)
    assert [file.path for file in storage.files("")] == ["a/b"]


def test_a_killed_process_leaves_nothing_to_be_seen_and_the_name_free(storage: Storage) -> None:
    program = f"""
import os, signal
from ctr_samples.shards import open_storage
with open_storage({storage.url!r}).new_file({PATH!r}) as file:
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert storage.names("dt=2019-06-05/data/run/train") == []  # no reader looks at the staged file
    assert len(everything_below(storage)) == 1
    storage.put_new(PATH, b"whole")
    assert storage.read(PATH) == b"whole"


def at_once(calls: list[Callable[[], object]]) -> list[BaseException | None]:
    """Call each in a thread of its own, all at the same moment; the errors that they raised."""
    barrier = threading.Barrier(len(calls))

    def call_together(call: Callable[[], object]) -> BaseException | None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
            return error
        return None

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(call_together, calls))


def test_of_many_that_put_one_name_at_once_one_wins(storage: Storage) -> None:
    errors = at_once([partial(storage.put_new, "m/1.json", b"%d" % n) for n in range(8)])
    assert errors[int(storage.read("m/1.json"))] is None
    assert [type(error) for error in errors if error] == [NameTaken] * 7


def test_many_that_make_one_directory_at_once_all_write_into_it(storage: Storage) -> None:
    for number in range(40):
        assert at_once([partial(storage.put_new, f"{number}/a/b/{n}", b"x") for n in range(6)]) == [None] * 6
    assert everything_below(storage) == sorted(f"{number}/a/b/{n}" for number in range(40) for n in range(6))
    assert list(Path(storage.url).rglob(".*")) == []


@WAYS
@pytest.mark.usefixtures("strange_umask")
def test_modes_do_not_depend_on_the_umask(storage: Storage, create: Create) -> None:
    create(storage, PATH, b"x")
    place = Path(storage.locate(PATH))
    assert stat.S_IMODE(place.stat().st_mode) == 0o644
    for directory in [place.parent, *place.parents[1:5]]:
        assert (directory, stat.S_IMODE(directory.stat().st_mode)) == (directory, 0o755)


@pytest.mark.usefixtures("strange_umask")
@pytest.mark.parametrize(
    ("root", "below"),
    [
        (0o755, 0o755),
        (0o700, 0o755),
        (0o775, 0o755),  # the group of new directories would be that of who makes them
        (0o2775, 0o2775),
        (0o2755, 0o2755),
        (0o777, 0o777),
        (0o2777, 0o2777),
        (0o1777, 0o755),  # as /tmp: all own what they make
        (0o3775, 0o2775),
    ],
)
@WAYS
def test_who_may_write_into_a_directory_may_write_into_those_that_are_made_in_it(
    tmp_path: Path, create: Create, root: int, below: int
) -> None:
    output = tmp_path / "output"
    output.mkdir()
    output.chmod(root)
    create(open_storage(output), PATH, b"x")
    place = output / PATH
    assert oct(stat.S_IMODE(place.stat().st_mode)) == oct(0o644)
    for directory in place.parents[:4]:
        assert (directory, oct(stat.S_IMODE(directory.stat().st_mode))) == (directory, oct(below))


@WAYS
def test_a_directory_that_another_task_makes_at_the_same_time_is_used(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, create: Create
) -> None:
    rename = os.rename
    others = Path(storage.url) / "m/other"

    def overtaken(source: Any, target: Any) -> None:
        if target == others.parent:
            monkeypatch.undo()
            storage.put_new("m/other", b"")
        rename(source, target)

    storage.put_new("x", b"")
    monkeypatch.setattr(os, "rename", overtaken)
    create(storage, "m/1", b"")
    assert sorted(everything_below(storage)) == ["m/1", "m/other", "x"]
    assert list(Path(storage.url).rglob(".*")) == []


@WAYS
def test_a_directory_that_is_replaced_while_it_is_empty_is_looked_up_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, create: Create
) -> None:
    opened = os.open
    gone = 3

    def replaced(path: Any, flags: int, *mode: int) -> int:
        nonlocal gone
        if flags & os.O_CREAT and gone:
            gone -= 1
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", replaced)
    create(storage, "m/1", b"x")
    assert everything_below(storage) == ["m/1"]
    gone = 1_000
    with pytest.raises(StorageError, match="No such file or directory"):
        create(storage, "m/2", b"x")


def test_a_directory_that_was_there_keeps_its_mode(storage: Storage) -> None:
    root = Path(storage.url)
    root.mkdir()
    root.chmod(0o2775)
    write(storage, "x", b"")
    assert stat.S_IMODE(root.stat().st_mode) == 0o2775


def test_a_relative_directory_stays_the_same_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("out")
    monkeypatch.chdir("/")
    storage.put_new("x", b"1")
    assert (tmp_path / "out" / "x").read_bytes() == b"1"


def test_every_form_of_a_local_path_means_the_same_directory(tmp_path: Path) -> None:
    for form in ("{}", "file:{}", "file://{}", "file://localhost{}"):
        assert open_storage(form.format(tmp_path / "out")).url == str(tmp_path / "out")
    assert open_storage("file:///data/a%20b").url == "/data/a b"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "ftp://nn/x",
            "ftp://nn/x: cannot store to ftp; expected a directory, hdfs://, or s3://, gs://, az:// or abfss://",
        ),
        ("hdfs:/x", "hdfs:/x: found no name node in the URL; expected the form hdfs://namenode:8020/samples"),
        ("s3:/lake/x", "s3:/lake/x: cannot store to s3; expected a directory, hdfs://, or s3://"),
        ("s3:///x", "s3:///x: cannot store to s3; expected .* and a bucket"),
        ("file://data/x", "file://data/x: found no absolute path in the URL; expected the form file:///data/samples"),
        ("s3://lake/a#b", "s3://lake/a#b: found '#' in the URL; expected a plain name"),
        ("s3://lake/a%20b", "found '%' in the URL"),
        ("s3://lake/a?b", "found '.' in the URL"),
    ],
)
def test_a_url_that_cannot_be_used_says_what_can(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_storage(url)


# What goes wrong on a real disk.


@pytest.mark.parametrize(
    ("create", "call", "code"),
    [
        (write, "write", errno.ENOSPC),
        (write, "fsync", errno.ENOSPC),
        (write, "rename", errno.ENOSPC),
        (put, "write", errno.ENOSPC),
        (put, "fsync", errno.ENOSPC),
        (put, "link", errno.ENOSPC),
        (write, "open", errno.EACCES),  # injected: to root, who runs many a container, no directory is read-only
        (put, "open", errno.EACCES),
        (write, "rename", errno.ENOENT),  # the directory has vanished
        (put, "link", errno.ENOENT),
    ],
)
def test_a_disk_that_fails_is_a_storage_error_and_leaves_nothing(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, create: Create, call: str, code: int
) -> None:
    storage.put_new("m/0.json", b"directory and neighbour")
    opened = os.open

    def fail(*given: Any, **more: Any) -> int:
        if call == "open" and not given[1] & os.O_CREAT:
            return opened(*given, **more)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StorageError) as caught:
        create(storage, "m/1.json", b"data")
    assert str(caught.value) == (
        f"Cannot write {storage.locate('m/1.json')}: {os.strerror(code)}. "
        "Check the store and the rights on it, then run again."
    )
    assert everything_below(storage) == ["m/0.json"]


@WAYS
def test_a_kernel_that_takes_a_part_of_a_write_gets_the_rest(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, create: Create
) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: whole(handle, data[:3]))
    create(storage, "x", b"0123456789")
    assert storage.read("x") == b"0123456789"


@WAYS
def test_the_bytes_are_on_disk_before_the_name_and_the_name_before_the_call_returns(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, create: Create
) -> None:
    storage.put_new("m/0.json", b"")
    steps: list[str] = []
    sync = os.fsync

    def noted_sync(handle: int) -> None:
        steps.append("sync directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "sync file")
        sync(handle)

    def noted(name: str) -> Callable[..., None]:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> None:
            steps.append("name")
            real(*args, **options)

        return call

    monkeypatch.setattr(os, "fsync", noted_sync)
    for name in ("rename", "link"):
        monkeypatch.setattr(os, name, noted(name))
    create(storage, "m/1.json", b"data")
    assert steps == ["sync file", "name", "sync directory"]


def test_a_new_directory_is_on_disk_in_its_parent_before_it_is_used(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(storage.url)
    expected = [(root.parent, "out"), (root, "a"), (root / "a", "b"), (root / "a/b", "x")]
    synced: list[tuple[Path, str]] = []
    sync = os.fsync

    def noted_sync(handle: int) -> None:
        """Note the directory that is synced, and what is in it by now."""
        for directory, name in expected:
            if directory.exists() and os.path.samestat(directory.stat(), os.fstat(handle)):
                assert os.listdir(directory) == [name]
                synced.append((directory, name))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted_sync)
    storage.put_new("a/b/x", b"")
    assert synced == expected


@WAYS
def test_a_file_where_a_directory_should_be_is_named(storage: Storage, create: Create) -> None:
    storage.put_new("m", b"a file")
    with pytest.raises(
        StorageError, match=r"Cannot write .*/m/n/1\.json: .*/out/m is a file where a directory should be"
    ):
        create(storage, "m/n/1.json", b"")
    assert everything_below(storage) == ["m"]


def test_reading_a_directory_is_a_storage_error(storage: Storage) -> None:
    storage.put_new("d/x", b"")
    for call in (storage.read, storage.open):
        with pytest.raises(StorageError, match=r"Cannot read .*/d: Is a directory"):
            call("d")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read")
@pytest.mark.parametrize("size", [10, -1])
def test_a_file_that_fails_while_it_is_read_is_named(size: int) -> None:
    with open_storage("/proc/self").open("mem") as file, pytest.raises(StorageError) as caught:
        file.read(size)
    assert str(caught.value).startswith("Cannot read /proc/self/mem: Input/output error. Check the store")


def test_a_directory_that_cannot_be_listed_does_not_pass_for_an_empty_one(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(storage, "a/x", b"1")
    write(storage, "b/y", b"1")
    scandir = os.scandir

    def closed(place: Any) -> Any:
        if str(place).endswith("/b"):
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", closed)
    assert [file.path for file in storage.files("a")] == ["a/x"]
    with pytest.raises(StorageError, match="Permission denied"):
        storage.files("")
    assert storage.files("nowhere") == []
