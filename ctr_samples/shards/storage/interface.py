"""The interface of every storage, and how failures are reported."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, Literal, Protocol

from ctr_samples.errors import AccessDenied, StorageError

FILE_MODE = 0o644
DIRECTORY_MODE = 0o755


class NameTaken(Exception):
    """A create-only put found that the name exists. Publishing decides what that means."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing shows it; ``path`` is relative to the root, ``modified`` is the store's own clock in UTC."""

    path: str
    size: int
    modified: datetime


class Sink(Protocol):
    """Takes the bytes of one new file."""

    def write(self, data: memoryview | bytes) -> int:
        """Append; all of ``data`` is taken. StorageError if the store fails."""


class Storage(Protocol):
    """A directory tree with atomic files. Instances pickle and are used on the driver and on executors.

    Every method raises StorageError when the store fails, and when a path would leave the storage.
    """

    url: str

    def new_file(self, path: str) -> Any:
        """Context manager that gives a :class:`Sink`; the file appears when the block ends without an error.

        For names that no one else uses: a file that has the name is replaced. Errors of the block pass unchanged.
        """

    def put_new(self, path: str, data: bytes) -> None:
        """Create a file in one step; NameTaken if it exists. After StorageError it may exist or not."""

    def read(self, path: str) -> bytes:
        """A whole file; FileNotFoundError if there is none."""

    def open(self, path: str) -> BinaryIO:
        """A file opened for reading; FileNotFoundError if there is none."""

    def size(self, path: str) -> int:
        """Bytes in a file; FileNotFoundError if there is none."""

    def modified(self, path: str) -> datetime:
        """When a file was last written, by the store's own clock, in UTC; FileNotFoundError if there is none."""

    def names(self, directory: str) -> list[str]:
        """Sorted names of the files and directories right below ``directory``; empty if it does not exist."""

    def files(self, directory: str) -> list[StoredFile]:
        """All files below ``directory`` at any depth, sorted by path; also those that were never completed."""

    def delete(self, path: str) -> None:
        """Remove a file if it exists. Only clean-up calls this."""

    def delete_directory(self, path: str) -> None:
        """Remove a directory and everything in it, if it exists. Only clean-up calls this."""

    def locate(self, path: str) -> str:
        """The path or URL under which other programs find the file."""


def checked(path: str) -> str:
    """The path, unless it could leave the storage."""
    if path.startswith("/") or ".." in path.split("/") or "\\" in path:
        raise StorageError(f"The path {path!r} leaves the output directory; expected a relative path without `..`.")
    return path


def plain(path: str) -> str:
    """The path of a new file; files of others may have names that are not plain, and are read all the same."""
    if not path.isprintable():
        raise StorageError(f"The path {path!r} has a character that cannot be seen; expected a plain name.")
    return path


@contextmanager
def writing(location: object) -> Iterator[None]:
    """Errors of the operating system and of the libraries that speak to stores become StorageError."""
    try:
        yield
    except Exception as error:
        if not _is_of_store(error):
            raise
        raise _storage_error("write", location, error) from error


@contextmanager
def reading(location: object) -> Iterator[None]:
    """Like :func:`writing`, but a missing file is FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(location)) from None
    except Exception as error:
        if not _is_of_store(error):
            raise
        raise _storage_error("read", location, error) from error


def _is_of_store(error: Exception) -> bool:
    return isinstance(error, OSError) or type(error).__module__.startswith("obstore")


def _storage_error(verb: Literal["read", "write"], location: object, error: Exception) -> StorageError:
    denied = isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    return (AccessDenied if denied else StorageError)(
        f"Cannot {verb} {location}: {_cause(error)}. Check the store and the rights on it, then run again."
    )


def _cause(error: Exception) -> str:
    """One line: obstore's messages go on with the answer as XML and with Rust's own structures."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    message = re.search(r"<Message>(.*?)</Message>", text)
    line = text.partition("\n")[0].partition(": <?xml")[0].rstrip(". ")
    return f"{line} ({message[1].rstrip('.')})" if message else line
