"""The only module that touches a store: local or NFS directories, and S3, GCS and Azure through obstore.

Paths are relative to the root of the storage and use ``/``. A store must give two things: a file appears whole or not
at all, and a create-only put fails when the name exists.
"""

from __future__ import annotations

import errno
import io
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol
from urllib.parse import unquote

from ctr_samples.errors import StorageError, UsageError

_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755
_UPLOADS = 4
"""Parts of 10 MB that an open object may hold in memory while they travel."""
_READ_AHEAD = 8 << 20
"""Bytes that one request brings; a store takes tens of milliseconds for the first byte of each."""


class NameTaken(Exception):
    """A create-only put found that the name exists. Publishing decides what that means."""


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
        """A file to be read piece by piece; FileNotFoundError if there is none."""

    def size(self, path: str) -> int:
        """Bytes in a file; FileNotFoundError if there is none."""

    def names(self, directory: str) -> list[str]:
        """Sorted names of the files and directories right below ``directory``; empty if it does not exist."""

    def locate(self, path: str) -> str:
        """The path or URL under which other programs find the file."""


def open_storage(url: str | Path) -> Storage:
    """The storage for a directory or a ``s3://``, ``gs://``, ``az://`` URL; credentials come from the environment.

    UsageError for what is neither; nothing is touched before the first call.
    """
    text = str(url)
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text)
    scheme = match[1] if match else None
    if scheme is None:
        return LocalStorage(text)
    if scheme == "file":
        return LocalStorage(_path_of_file_url(text))
    if not re.match(r"(s3|s3a|gs|az|abfs|abfss)://[^/]", text):
        raise UsageError(
            f"{text}: cannot store to {scheme}; expected a directory or s3://, gs://, az:// or abfss:// and a bucket."
        )
    if special := re.search(r"[?#%]", text):
        # A URL would end there or be decoded, and samples would quietly land elsewhere.
        raise UsageError(
            f"{text}: found {special[0]!r} in the URL of a bucket; expected a plain name for the directory."
        )
    return ObjectStorage(text.replace("s3a://", "s3://", 1))


class LocalStorage:
    """A directory on a disk or an NFS share: O_EXCL, fsync, rename or link, fsync of the directory."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(os.path.abspath(root))
        self.url = str(self.root)

    def __repr__(self) -> str:
        return f"LocalStorage({self.url!r})"

    @contextmanager
    def new_file(self, path: str) -> Iterator[Sink]:
        """See :class:`Storage`."""
        with _staged(self._place(path), Path.rename) as file:
            yield file

    def put_new(self, path: str, data: bytes) -> None:
        """See :class:`Storage`. link(2) refuses an existing name on every file system that has hard links."""
        with _staged(self._place(path), _link) as file:
            file.write(data)

    def read(self, path: str) -> bytes:
        """See :class:`Storage`."""
        place = self._place(path)
        with _reading(place):
            return place.read_bytes()

    def open(self, path: str) -> BinaryIO:
        """See :class:`Storage`."""
        place = self._place(path)
        with _reading(place):
            return place.open("rb")

    def size(self, path: str) -> int:
        """See :class:`Storage`."""
        place = self._place(path)
        with _reading(place):
            return place.stat().st_size

    def names(self, directory: str) -> list[str]:
        """See :class:`Storage`. Hidden names are files that are not yet, or never were, complete."""
        place = self._place(directory)
        with _reading(place):
            try:
                return sorted(name for name in os.listdir(place) if not name.startswith("."))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def locate(self, path: str) -> str:
        """See :class:`Storage`."""
        return str(self._place(path))

    def _place(self, path: str) -> Path:
        return self.root / _checked(path)


class ObjectStorage:
    """A bucket and prefix. obstore uploads appear when they are completed; one that is left by an error never does.

    The parts of such an upload stay in the bucket, unseen but paid for, until a lifecycle rule aborts them.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._store: Any = None

    def __repr__(self) -> str:
        return f"ObjectStorage({self.url!r})"

    def __reduce__(self) -> tuple[type[ObjectStorage], tuple[str]]:
        return ObjectStorage, (self.url,)

    @contextmanager
    def new_file(self, path: str) -> Iterator[Sink]:
        """See :class:`Storage`."""
        import obstore

        place = self.locate(path)
        with _writing(place):
            writer = obstore.open_writer(self._connect(), path, max_concurrency=_UPLOADS)
        yield _ObjectSink(writer, place)
        with _writing(place):
            writer.close()  # not reached after an error: an upload that is never completed never appears

    def put_new(self, path: str, data: bytes) -> None:
        """See :class:`Storage`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        place = self.locate(path)
        with _writing(place):
            try:
                obstore.put(self._connect(), path, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                raise NameTaken(place) from None

    def read(self, path: str) -> bytes:
        """See :class:`Storage`."""
        import obstore

        with _reading(self.locate(path)):
            return bytes(obstore.get(self._connect(), path).bytes())

    def open(self, path: str) -> BinaryIO:
        """See :class:`Storage`."""
        import obstore

        place = self.locate(path)
        with _reading(place):
            reader = obstore.open_reader(self._connect(), path, buffer_size=_READ_AHEAD)
        return io.BufferedReader(_ObjectSource(reader, place), 1 << 20)

    def size(self, path: str) -> int:
        """See :class:`Storage`."""
        import obstore

        with _reading(self.locate(path)):
            return int(obstore.head(self._connect(), path)["size"])

    def names(self, directory: str) -> list[str]:
        """See :class:`Storage`."""
        import obstore

        with _reading(self.locate(directory)):
            found = obstore.list_with_delimiter(self._connect(), directory or None)
            paths = [item["path"] for item in found["objects"]] + list(found["common_prefixes"])
            return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in paths)

    def locate(self, path: str) -> str:
        """See :class:`Storage`."""
        return f"{self.url}/{_checked(path)}"

    def _connect(self) -> Any:
        """Made in the process that uses it: a connection does not survive a fork or a pickle."""
        if self._store is None:
            import obstore

            # Whether a store is behind plain http, as in a private network, is for its endpoint to say.
            self._store = obstore.store.from_url(self.url, client_options={"allow_http": True})
        return self._store


class _LocalSink:
    """Writes to a file descriptor; the kernel may take a part only, above all when the disk fills up."""

    def __init__(self, handle: int, place: Path) -> None:
        self._handle = handle
        self._place = place

    def write(self, data: memoryview | bytes) -> int:
        view = memoryview(data).cast("B")
        rest = view
        with _writing(self._place):
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        return len(view)


class _ObjectSink:
    """An obstore writer whose errors name the object."""

    def __init__(self, writer: Any, place: str) -> None:
        self._writer = writer
        self._place = place

    def write(self, data: memoryview | bytes) -> int:
        with _writing(self._place):
            return int(self._writer.write(data))


class _ObjectSource(io.RawIOBase):
    """An obstore reader as a raw binary file."""

    def __init__(self, reader: Any, place: str) -> None:
        self._reader = reader
        self._place = place

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _reading(self._place):
            data = memoryview(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def _path_of_file_url(text: str) -> str:
    """The path in ``file:/a`` or ``file:///a``."""
    match = re.fullmatch(r"file:(?://(?:localhost)?)?(/(?!/).*)", text)
    if match is None:
        raise UsageError(f"{text}: found no absolute path in the URL; expected the form file:///data/samples.")
    return unquote(match[1])


def _checked(path: str) -> str:
    """The path, unless it could leave the storage."""
    if path.startswith("/") or ".." in path.split("/") or "\\" in path:
        raise StorageError(f"The path {path!r} leaves the output directory; expected a relative path without `..`.")
    return path


@contextmanager
def _staged(final: Path, give_name: Callable[[Path, Path], object]) -> Iterator[Sink]:
    """A file under a hidden name, which gets its own once the block has ended well and its bytes are on disk."""
    staged = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
    with _writing(final):
        _make_directories(final.parent)
    try:
        with _writing(final):
            handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        try:
            yield _LocalSink(handle, final)
            with _writing(final):
                os.fchmod(handle, _FILE_MODE)  # the mode given to open() passes through the umask
                os.fsync(handle)
        finally:
            with suppress(OSError):  # fsync has already told what could be lost
                os.close(handle)
        with _writing(final):
            give_name(staged, final)
    finally:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
    with _writing(final):
        _sync_directory(final.parent)


def _link(staged: Path, final: Path) -> None:
    try:
        os.link(staged, final)
    except FileExistsError:
        raise NameTaken(str(final)) from None


def _make_directories(directory: Path) -> None:
    """``mkdir -p`` with a mode that no umask narrows; each new name is on disk before anything is put below it."""
    if directory.is_dir():
        return
    _make_directories(directory.parent)
    try:
        directory.mkdir()
    except FileExistsError:
        if directory.is_dir():  # another task was faster
            return
        raise NotADirectoryError(errno.ENOTDIR, f"{directory} is a file where a directory should be") from None
    directory.chmod(_DIRECTORY_MODE)
    _sync_directory(directory.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _writing(place: object) -> Iterator[None]:
    """Errors of the operating system and of obstore become StorageError."""
    try:
        yield
    except Exception as error:
        if not _is_of_store(error):
            raise
        raise _storage_error("write", place, error) from error


@contextmanager
def _reading(place: object) -> Iterator[None]:
    """Like :func:`_writing`, but a missing file is FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place)) from None
    except Exception as error:
        if not _is_of_store(error):
            raise
        raise _storage_error("read", place, error) from error


def _is_of_store(error: Exception) -> bool:
    return isinstance(error, OSError) or type(error).__module__.startswith("obstore")


def _storage_error(verb: Literal["read", "write"], place: object, error: Exception) -> StorageError:
    return StorageError(
        f"Cannot {verb} {place}: {_cause(error)}. Check the store and the rights on it, then run again."
    )


def _cause(error: Exception) -> str:
    """One line: obstore's messages go on with the answer as XML and with Rust's own structures."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    said = re.search(r"<Message>(.*?)</Message>", text)
    line = text.partition("\n")[0].partition(": <?xml")[0].rstrip(". ")
    return f"{line} ({said[1].rstrip('.')})" if said else line
