"""The only module that touches a store: local or NFS directories, and S3, GCS and Azure through obstore.

Paths are relative to the root of the storage and use ``/``. A store must give two things: a file appears whole or not at all,
and a create-only put fails when the name exists.
"""

from __future__ import annotations

import io
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import unquote, urlparse

from ctr_samples.errors import StorageError

_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755


class NameTaken(Exception):
    """A create-only put found that the name exists. Publishing decides what that means."""


class Sink(Protocol):
    """Takes the bytes of one new file."""

    def write(self, data: memoryview | bytes) -> object:
        """Append; all of ``data`` is taken."""


class Storage(Protocol):
    """A directory tree with atomic files. Instances pickle and are used on the driver and on executors."""

    url: str

    def new_file(self, path: str) -> Any:
        """Context manager that gives a :class:`Sink`; the file appears when the block ends without an error."""

    def put_new(self, path: str, data: bytes) -> None:
        """Create a file in one step; NameTaken if it exists, StorageError if the store fails."""

    def read(self, path: str) -> bytes:
        """A whole file; FileNotFoundError if there is none."""

    def open(self, path: str) -> BinaryIO:
        """A file to be read piece by piece."""

    def size(self, path: str) -> int:
        """Bytes in a file; FileNotFoundError if there is none."""

    def names(self, directory: str) -> list[str]:
        """Sorted names of the files and directories right below ``directory``; empty if it does not exist."""

    def locate(self, path: str) -> str:
        """The path or URL under which other programs find the file."""


def open_storage(url: str | Path) -> Storage:
    """The storage for a directory or a ``s3://``, ``gs://``, ``az://`` URL. Object stores take credentials from the environment."""
    text = str(url)
    scheme = urlparse(text).scheme if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text) else ""
    if scheme in ("", "file"):
        return LocalStorage(unquote(urlparse(text).path) if scheme else text)
    if scheme in ("s3", "s3a", "gs", "az", "abfs", "abfss"):
        return ObjectStorage(text.replace("s3a://", "s3://", 1))
    raise StorageError(f"{text}: cannot store to {scheme}://; expected a directory or s3://, gs://, az:// or abfss://.")


class LocalStorage:
    """A directory on a disk or an NFS share: O_EXCL, fsync, rename or link, fsync of the directory."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(os.path.abspath(root))
        self.url = str(self.root)

    def __repr__(self) -> str:
        return f"LocalStorage({self.url!r})"

    @contextmanager
    def new_file(self, path: str) -> Iterator[Sink]:
        """See :class:`Storage`. Bytes go to a hidden name first, which an error leaves removed."""
        final = self._place(path)
        staged = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
        with _as_storage_error(final):
            self._make_directories(final.parent)
            try:
                with _create(staged) as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(staged, final)
                _sync_directory(final.parent)
            except BaseException:
                with suppress(OSError):
                    staged.unlink(missing_ok=True)
                raise

    def put_new(self, path: str, data: bytes) -> None:
        """See :class:`Storage`. link(2) refuses an existing name on every file system that has hard links."""
        final = self._place(path)
        staged = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
        with _as_storage_error(final):
            self._make_directories(final.parent)
            try:
                with _create(staged) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(staged, final)
            except FileExistsError:
                raise NameTaken(path) from None
            finally:
                with suppress(OSError):
                    staged.unlink(missing_ok=True)
            _sync_directory(final.parent)

    def read(self, path: str) -> bytes:
        """See :class:`Storage`."""
        with _as_storage_error(self._place(path)):
            return self._place(path).read_bytes()

    def open(self, path: str) -> BinaryIO:
        """See :class:`Storage`."""
        with _as_storage_error(self._place(path)):
            return self._place(path).open("rb")

    def size(self, path: str) -> int:
        """See :class:`Storage`."""
        with _as_storage_error(self._place(path)):
            return self._place(path).stat().st_size

    def names(self, directory: str) -> list[str]:
        """See :class:`Storage`."""
        with _as_storage_error(self._place(directory)):
            try:
                return sorted(name for name in os.listdir(self._place(directory)) if not name.startswith("."))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def locate(self, path: str) -> str:
        """See :class:`Storage`."""
        return str(self._place(path))

    def _place(self, path: str) -> Path:
        return self.root / _checked(path)

    def _make_directories(self, directory: Path) -> None:
        directory.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)


class ObjectStorage:
    """A bucket and prefix. obstore uploads appear when they are completed; one that is left by an error never does."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._store: Any = None

    def __repr__(self) -> str:
        return f"ObjectStorage({self.url!r})"

    def __reduce__(self) -> tuple[type[ObjectStorage], tuple[str]]:
        return ObjectStorage, (self.url,)

    @contextmanager
    def new_file(self, path: str) -> Iterator[Sink]:
        """See :class:`Storage`. An error inside the block leaves no object."""
        import obstore

        with _as_storage_error(self.locate(path)):
            writer = obstore.open_writer(self._connect(), _checked(path), max_concurrency=4)
            yield writer
            writer.close()  # not reached after an error: an upload that is never completed never appears

    def put_new(self, path: str, data: bytes) -> None:
        """See :class:`Storage`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with _as_storage_error(self.locate(path)):
            try:
                obstore.put(self._connect(), _checked(path), data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                raise NameTaken(path) from None

    def read(self, path: str) -> bytes:
        """See :class:`Storage`."""
        import obstore

        with _as_storage_error(self.locate(path)):
            return bytes(obstore.get(self._connect(), _checked(path)).bytes())

    def open(self, path: str) -> BinaryIO:
        """See :class:`Storage`."""
        import obstore

        with _as_storage_error(self.locate(path)):
            return io.BufferedReader(_Readable(obstore.open_reader(self._connect(), _checked(path))), 1 << 20)

    def size(self, path: str) -> int:
        """See :class:`Storage`."""
        import obstore

        with _as_storage_error(self.locate(path)):
            return int(obstore.head(self._connect(), _checked(path))["size"])

    def names(self, directory: str) -> list[str]:
        """See :class:`Storage`."""
        import obstore

        with _as_storage_error(self.locate(directory)):
            found = obstore.list_with_delimiter(self._connect(), _checked(directory) or None)
            paths = [item["path"] for item in found["objects"]] + list(found["common_prefixes"])
            return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in paths)

    def locate(self, path: str) -> str:
        """See :class:`Storage`."""
        return f"{self.url}/{path}"

    def _connect(self) -> Any:
        if self._store is None:
            import obstore

            # A store behind plain http, as in tests or inside a private network, is allowed when its endpoint says so.
            plain = os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", "")).startswith("http://")
            options = {"client_options": {"allow_http": True}} if plain else {}
            self._store = obstore.store.from_url(self.url, **options)
        return self._store


class _Readable(io.RawIOBase):
    """An obstore reader as a raw binary file."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = bytes(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def _checked(path: str) -> str:
    """The path, unless it could leave the storage."""
    if path.startswith("/") or ".." in path.split("/") or "\\" in path:
        raise StorageError(f"The path {path!r} leaves the output directory; expected a relative path without `..`.")
    return path


def _create(path: Path) -> BinaryIO:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    os.fchmod(file, _FILE_MODE)
    return os.fdopen(file, "wb", buffering=0)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _as_storage_error(place: object) -> Iterator[None]:
    """OSError and obstore errors become StorageError; a missing file stays FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"{place}: {error.strerror or error}.") from error
    except Exception as error:
        if type(error).__module__.startswith("obstore"):
            if type(error).__name__ == "NotFoundError":
                raise FileNotFoundError(str(place)) from None
            raise StorageError(f"{place}: {str(error).splitlines()[0]}.") from error
        raise
