"""HDFS through hdfs-native, which implements the protocol natively: no JVM or Hadoop needed on the machine."""

from __future__ import annotations

import errno
import io
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO

from ctr_samples.errors import StorageError, UsageError
from ctr_samples.shards.storage.interface import (
    DIRECTORY_MODE,
    FILE_MODE,
    NameTaken,
    Sink,
    StoredFile,
    check_process,
    checked,
    plain,
    reading,
    writing,
)

_PATIENCE = {"dfs.client.failover.max.attempts": "8"}
"""Retry limit for an unresponsive name node: about a minute, long enough for a standby to take over."""


class HadoopStorage:
    """A directory in HDFS. Each file is written under a hidden name, then renamed without replacing an existing file.

    The name node, high availability and Kerberos are configured in Hadoop's own files (HADOOP_CONF_DIR).
    """

    def __init__(self, url: str) -> None:
        match = re.fullmatch(r"(hdfs://[^/]*)(/.*)?", url.rstrip("/"))
        if match is None:
            raise UsageError(f"{url}: found no name node in the URL; expected the form hdfs://namenode:8020/samples.")
        self.url = url.rstrip("/")
        self._server, self._root = match[1], match[2] or ""
        self._client: Any = None

    def __repr__(self) -> str:
        return f"HadoopStorage({self.url!r})"

    def __reduce__(self) -> tuple[type[HadoopStorage], tuple[str]]:
        return HadoopStorage, (self.url,)

    @contextmanager
    def new_file(self, path: str) -> Iterator[Sink]:
        """See the interface."""
        with self._staged(path, overwrite=True) as sink:
            yield sink

    def put_new(self, path: str, data: bytes) -> None:
        """See the interface. The name node renames one file at a time, and never onto an existing name."""
        with self._staged(path, overwrite=False) as sink:
            sink.write(data)

    def read(self, path: str) -> bytes:
        """See the interface."""
        with self.open(path) as file:
            return file.read()

    def open(self, path: str) -> BinaryIO:
        """See the interface."""
        location = self.locate(path)
        with reading(location), _speaking():
            status = self._connect().get_file_info(self._absolute(path))
            if status.isdir:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), location)
            return io.BufferedReader(
                _Source(self._connect().read(self._absolute(path)), location, int(status.length)), 1 << 20
            )

    def size(self, path: str) -> int:
        """See the interface."""
        with reading(self.locate(path)), _speaking():
            return int(self._connect().get_file_info(self._absolute(path)).length)

    def modified(self, path: str) -> datetime:
        """See the interface."""
        with reading(self.locate(path)), _speaking():
            return _time(self._connect().get_file_info(self._absolute(path)).modification_time)

    def names(self, directory: str) -> list[str]:
        """See the interface. Hidden names are incomplete files."""
        with reading(self.locate(directory)), _speaking():
            paths = [self._relative(item) for item in self._list(directory, recursive=False)]
            names = [path.rsplit("/", 1)[-1] for path in paths if path != directory]  # a file lists itself
            return sorted(name for name in names if not name.startswith("."))

    def files(self, directory: str) -> list[StoredFile]:
        """See the interface. Includes hidden names, which killed tasks leave behind."""
        with reading(self.locate(directory)), _speaking():
            items = [item for item in self._list(directory, recursive=True) if not item.isdir]
            files = [StoredFile(self._relative(f), f.length, _time(f.modification_time)) for f in items]
            return sorted(files, key=lambda file: file.path)

    def delete(self, path: str) -> None:
        """See the interface."""
        with writing(self.locate(path)), _speaking():
            self._connect().delete(self._absolute(path), recursive=False)

    def delete_directory(self, path: str) -> None:
        """See the interface."""
        with writing(self.locate(path)), _speaking():
            self._connect().delete(self._absolute(path), recursive=True)

    def locate(self, path: str) -> str:
        """See the interface."""
        return f"{self.url}/{checked(path)}"

    def _absolute(self, path: str) -> str:
        return f"{self._root}/{checked(path)}".rstrip("/") or "/"

    def _relative(self, status: Any) -> str:
        return str(status.path).removeprefix(self._server).removeprefix(self._root).lstrip("/")

    def _list(self, directory: str, *, recursive: bool) -> list[Any]:
        try:
            return list(self._connect().list_status(self._absolute(directory), recursive=recursive))
        except FileNotFoundError:
            return []

    @contextmanager
    def _staged(self, path: str, *, overwrite: bool) -> Iterator[_HadoopSink]:
        """Write a file under a hidden name and rename it if the block succeeds. Raises NameTaken if the name exists."""
        final, location = self._absolute(plain(path)), self.locate(path)
        staged = f"{final.rpartition('/')[0]}/.{final.rpartition('/')[2]}.{uuid.uuid4().hex}"
        sink = self._create(staged, location)
        try:
            yield sink
            with writing(location), _speaking():
                sink.close()
                try:
                    self._connect().rename(staged, final, overwrite=overwrite)
                except FileExistsError:
                    raise NameTaken(location) from None
        except BaseException:
            # A writer that is garbage-collected completes its file, so close it first and then remove it.
            with suppress(Exception):
                sink.close()
            with suppress(Exception):
                self._connect().delete(staged, recursive=False)
            raise

    def _create(self, staged: str, location: str) -> _HadoopSink:
        from hdfs_native import WriteOptions

        options = WriteOptions(permission=FILE_MODE, overwrite=False, create_parent=False)
        with writing(location), _speaking():
            self._connect().mkdirs(staged.rpartition("/")[0] or "/", DIRECTORY_MODE, True)
            return _HadoopSink(self._connect().create(staged, options), location)

    def _connect(self) -> Any:
        """Connect in the process that uses the connection, since it survives neither forking nor pickling."""
        check_process("hdfs-native", self.url)
        if self._client is None:
            try:
                from hdfs_native import Client
            except ModuleNotFoundError:
                raise StorageError(
                    f"{self.url} is on HDFS, and the package hdfs-native is not installed; "
                    "run `pip install ctr-samples[hdfs]` on the driver and on the executors."
                ) from None
            with _speaking():
                self._client = Client(self._server, _PATIENCE)
        return self._client


class _HadoopSink:
    """A writer for an HDFS file that adds the file's location to errors."""

    def __init__(self, file: Any, location: str) -> None:
        self._file = file
        self._location = location

    def write(self, data: memoryview | bytes) -> int:
        check_process("hdfs-native", self._location)
        with writing(self._location), _speaking():
            return int(self._file.write(data))

    def close(self) -> None:
        self._file.close()


class _Source(io.RawIOBase):
    """A reader for an HDFS file, as a raw binary file. Ends exactly at the length reported by the name node.

    Data nodes may not yet have reported the blocks of a file just closed; hdfs-native then returns no data for them.
    """

    def __init__(self, reader: Any, location: str, length: int) -> None:
        self._reader = reader
        self._location = location
        self._left = length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        check_process("hdfs-native", self._location)
        with reading(self._location), _speaking():
            data = self._reader.read(len(buffer))
            if not data and self._left > 0 and len(buffer) > 0:
                raise OSError(errno.EIO, f"the last {self._left} bytes of the file cannot be had yet")
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def _speaking() -> Iterator[None]:
    """Convert RuntimeError, which hdfs-native raises with a Java stack trace for most server errors, to a one-line
    OSError.
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError, IsADirectoryError):
        raise
    except (OSError, RuntimeError) as error:
        raise OSError(errno.EIO, _said(str(error))) from error


def _said(text: str) -> str:
    """Extract the message: ``RPCError("java.io.IOException", "no space\\n\\tat ...")`` -> ``no space``."""
    match = re.match(r'\w+\("(?:[\w.$]+", ")?(.*)', text, re.DOTALL)
    message = match[1] if match else text
    return re.split(r"\\n|\n", message)[0].removesuffix('")').replace('\\"', '"').rstrip(". ")


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
