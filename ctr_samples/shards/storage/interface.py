"""Storage interface, and conversion of errors to StorageError."""

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
    """Raised by a create-only put if the name exists. The publishing code decides how to react."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A listed file. ``path`` is relative to the root; ``modified`` is by the store's own clock, in UTC."""

    path: str
    size: int
    modified: datetime


class Sink(Protocol):
    """Receives the bytes of one new file."""

    def write(self, data: memoryview | bytes) -> int:
        """Append all of ``data``. Raises StorageError if the store fails."""


class Storage(Protocol):
    """A directory tree with atomic files. Instances can be pickled, for use on the driver and on executors.

    Every method raises StorageError if the store fails, or if a path would leave the storage.
    """

    url: str

    def new_file(self, path: str) -> Any:
        """Return a context manager that yields a :class:`Sink`. The file appears when the block ends without an error.

        Replaces an existing file, so no other writer may use the name. Errors raised in the block propagate unchanged.
        """

    def put_new(self, path: str, data: bytes) -> None:
        """Create a file in one step. Raises NameTaken if it exists, perhaps because this call made it. After a StorageError,
        the file may or may not exist.
        """

    def read(self, path: str) -> bytes:
        """Read a whole file. Raises FileNotFoundError if it does not exist."""

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading. Raises FileNotFoundError if it does not exist."""

    def size(self, path: str) -> int:
        """Return the size of a file in bytes. Raises FileNotFoundError if it does not exist."""

    def modified(self, path: str) -> datetime:
        """Return the modification time of a file by the store's own clock, in UTC. Raises FileNotFoundError if it does
        not exist.
        """

    def names(self, directory: str) -> list[str]:
        """Return the sorted names of files and directories directly in ``directory``, or no names if it does not exist."""

    def files(self, directory: str) -> list[StoredFile]:
        """Return all files below ``directory`` at any depth, sorted by path, including incomplete files."""

    def delete(self, path: str) -> None:
        """Remove a file if it exists. Called only by cleanup."""

    def delete_directory(self, path: str) -> None:
        """Remove a directory and everything in it, if it exists. Called only by cleanup."""

    def locate(self, path: str) -> str:
        """Return the path or URL of a file, for use by other programs."""


def checked(path: str) -> str:
    """Return the path. Raise StorageError if it could leave the storage."""
    if path.startswith("/") or ".." in path.split("/") or "\\" in path:
        raise StorageError(f"The path {path!r} leaves the output directory; expected a relative path without `..`.")
    return path


_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters, marks that end a line or turn the direction of text, and what is no character."""


def plain(path: str) -> str:
    """Return a new file's path. Raise StorageError if it has characters that some stores cannot keep, or that make it look
    like another path, which only foreign files may have.
    """
    if _NOT_IN_NAMES.search(path):
        raise StorageError(f"The path {path!r} has a character that cannot be seen; expected a plain name.")
    return path


@contextmanager
def writing(location: object) -> Iterator[None]:
    """Convert errors of the operating system and of store libraries to StorageError."""
    try:
        yield
    except Exception as error:
        if not _is_of_store(error):
            raise
        raise _storage_error("write", location, error) from error


@contextmanager
def reading(location: object) -> Iterator[None]:
    """Like :func:`writing`, but a missing file raises FileNotFoundError."""
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
    """Shorten an error to one line. obstore appends the XML response and Rust debug output."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    message = re.search(r"<Message>(.*?)</Message>", text)
    line = text.partition("\n")[0].partition(": <?xml")[0].rstrip(". ")
    return f"{line} ({message[1].rstrip('.')})" if message else line


_first_used: dict[str, int] = {}


def check_process(library: str, location: str) -> None:
    """Raise StorageError in a process that was forked after its parent had used the library. Called before each
    connection, and before each read or write of an open file: the library would wait for threads that only its parent has.
    """
    first = _first_used.setdefault(library, os.getpid())
    if first != os.getpid():
        raise StorageError(
            f"{location} cannot be reached: this process was forked from one that had used {library}, which does not work "
            "there. Start processes with `spawn`, or fork them before the store is first used."
        )
