"""Storage in a directory on a disk or an NFS share."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from ctr_samples.shards.storage.interface import (
    DIRECTORY_MODE,
    FILE_MODE,
    NameTaken,
    Sink,
    StoredFile,
    checked,
    plain,
    reading,
    writing,
)

_READ_BUFFER = 1 << 16
_WRITE_BACK = 8 << 20
_TRIES = 10
"""Maximum number of attempts to create a file whose directory is being replaced; each task replaces it at most once."""


class LocalStorage:
    """A directory on a disk or an NFS share. Writes use O_EXCL, fsync, rename or link, and fsync of the directory."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(os.path.abspath(root))
        self.url = str(self.root)

    def __repr__(self) -> str:
        return f"LocalStorage({self.url!r})"

    @contextmanager
    def new_file(self, path: str) -> Iterator[Sink]:
        """See the interface."""
        with _staged(self._absolute(plain(path)), Path.rename) as file:
            yield file

    def put_new(self, path: str, data: bytes) -> None:
        """See the interface. link(2) rejects an existing name on every file system that has hard links."""
        with _staged(self._absolute(plain(path)), _link) as file:
            file.write(data)

    def read(self, path: str) -> bytes:
        """See the interface."""
        location = self._absolute(path)
        with reading(location):
            return location.read_bytes()

    def open(self, path: str) -> BinaryIO:
        """See the interface."""
        location = self._absolute(path)
        with reading(location):
            return io.BufferedReader(_LocalSource(location), _READ_BUFFER)

    def size(self, path: str) -> int:
        """See the interface."""
        location = self._absolute(path)
        with reading(location):
            return location.stat().st_size

    def modified(self, path: str) -> datetime:
        """See the interface. On a share, the time is from the server's clock."""
        location = self._absolute(path)
        with reading(location):
            return datetime.fromtimestamp(location.stat().st_mtime, UTC)

    def names(self, directory: str) -> list[str]:
        """See the interface. Hidden names are incomplete files."""
        location = self._absolute(directory)
        with reading(location):
            try:
                return sorted(name for name in os.listdir(location) if not name.startswith("."))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def files(self, directory: str) -> list[StoredFile]:
        """See the interface. Includes hidden names, which killed tasks leave behind."""
        location = self._absolute(directory)
        with reading(location):
            return sorted(self._files(location), key=lambda file: file.path)

    def delete(self, path: str) -> None:
        """See the interface."""
        location = self._absolute(path)
        with writing(location):
            location.unlink(missing_ok=True)

    def delete_directory(self, path: str) -> None:
        """See the interface."""
        location = self._absolute(path)
        with writing(location), suppress(FileNotFoundError):
            shutil.rmtree(location)

    def locate(self, path: str) -> str:
        """See the interface."""
        return str(self._absolute(path))

    def _files(self, location: Path) -> Iterator[StoredFile]:
        for parent, _, names in os.walk(location, onerror=_unless_missing):
            for name in names:
                file = Path(parent, name)
                with suppress(FileNotFoundError):  # deleted since it was listed
                    status = file.lstat()
                    if stat.S_ISDIR(status.st_mode):  # os.walk treats an entry that it could not stat as a file
                        yield from self._files(file)
                        continue
                    modified = datetime.fromtimestamp(status.st_mtime, UTC)
                    yield StoredFile(file.relative_to(self.root).as_posix(), status.st_size, modified)

    def _absolute(self, path: str) -> Path:
        return self.root / checked(path)


class _LocalSink:
    """A writer for a file descriptor. Continues after partial writes, which occur mainly when the disk fills up."""

    def __init__(self, handle: int, location: Path) -> None:
        self._handle = handle
        self._location = location
        self._size = 0
        self._under_way = 0

    def write(self, data: memoryview | bytes) -> int:
        view = memoryview(data).cast("B")
        rest = view
        with writing(self._location):
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        self._size += len(view)
        if self._size - self._under_way >= _WRITE_BACK:
            _start_write_back(self._handle, self._under_way, self._size - self._under_way)
            self._under_way = self._size
        return len(view)


class _LocalSource(io.FileIO):
    """A reader for a local file that adds the file's location to errors."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self._location = location

    def readinto(self, buffer: Any) -> int | None:
        with reading(self._location):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with reading(self._location):
            return super().readall()


def _start_write_back(handle: int, first: int, size: int) -> None:
    """Start writing to disk during encoding, so that fsync waits only for the last few megabytes.

    On Linux, POSIX_FADV_DONTNEED starts to write dirty pages to disk. On other systems it has no effect. fsync reports
    write errors.
    """
    if hasattr(os, "posix_fadvise"):  # not on macOS
        with suppress(OSError):
            os.posix_fadvise(handle, first, size, os.POSIX_FADV_DONTNEED)


def _unless_missing(error: OSError) -> None:
    """Ignore a directory that no longer exists. Raise for a directory that cannot be listed, since it may have files."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        with reading(error.filename):
            raise error


@contextmanager
def _staged(final: Path, give_name: Callable[[Path, Path], object]) -> Iterator[Sink]:
    """Write a file under a hidden name. Rename it after the block succeeds and the data is on disk."""
    staged = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
    try:
        with writing(final):
            handle = _created(staged)
        try:
            yield _LocalSink(handle, final)
            with writing(final):
                os.fchmod(handle, FILE_MODE)  # the mode given to open() is subject to the umask
                os.fsync(handle)
        finally:
            with suppress(OSError):  # fsync has already reported any loss
                os.close(handle)
        with writing(final):
            give_name(staged, final)
    finally:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
    with writing(final):
        _sync_directory(final.parent)


def _link(staged: Path, final: Path) -> None:
    try:
        os.link(staged, final)
    except FileExistsError:
        raise NameTaken(str(final)) from None


def _created(staged: Path) -> int:
    """Create a file for writing, and its parent directories.

    While a new directory is empty, another task may replace it with an identical directory (:func:`_make_directories`).
    A task still using the old directory then gets FileNotFoundError, and retries.
    """
    tries = _TRIES
    while True:
        try:
            _make_directories(staged.parent)
            return os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        except FileNotFoundError:
            tries -= 1
            if not tries:
                raise


def _make_directories(directory: Path) -> None:
    """``mkdir -p`` with modes independent of the umask. Each new name is on disk before anything is created below it.

    A directory gets its mode under a hidden name before its final name, so a process that dies in between leaves no
    directory that other users cannot enter. A rename can only replace an empty directory.
    """
    if directory.is_dir():
        return
    _make_directories(directory.parent)
    staged = directory.with_name(f".{uuid.uuid4().hex}")
    staged.mkdir()
    try:
        staged.chmod(_mode_below(directory.parent))
        staged.rename(directory)
    except OSError:
        with suppress(OSError):
            staged.rmdir()
        if directory.is_dir():  # another task was faster
            return
        if directory.exists():
            raise NotADirectoryError(errno.ENOTDIR, f"{directory} is a file where a directory should be") from None
        raise
    _sync_directory(directory.parent)


def _mode_below(parent: Path) -> int:
    """Return the mode of a new directory: writable for its owner, and for everyone who may write to its parent.

    This lets executors of another user write if an output directory is open to them, either through a group that new
    directories inherit (the set-group-ID bit) or to everyone. It excludes directories such as /tmp, where each user
    owns their files.
    """
    mode = parent.stat().st_mode
    shared = mode & (stat.S_ISGID | stat.S_IWGRP) if mode & stat.S_ISGID else 0
    everyone = mode & (stat.S_IWGRP | stat.S_IWOTH) if mode & stat.S_IWOTH and not mode & stat.S_ISVTX else 0
    return DIRECTORY_MODE | shared | everyone


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
