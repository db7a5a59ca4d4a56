"""HDFS through hdfs-native, which speaks the protocol itself: no JVM and no Hadoop on the machine."""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO

from ctr_samples.errors import UsageError
from ctr_samples.shards.storage.interface import (
    DIRECTORY_MODE,
    FILE_MODE,
    NameTaken,
    Sink,
    StoredFile,
    checked,
    reading,
    writing,
)


class HadoopStorage:
    """A directory of HDFS. A file is written under a hidden name and gets its own by a rename that replaces nothing.

    The name node, its high availability and Kerberos come from Hadoop's own configuration files (HADOOP_CONF_DIR).
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
        with self._staged(path) as (staged, sink):
            yield sink
            with writing(self.locate(path)):
                sink.close()
                self._connect().rename(staged, self._place(path), overwrite=True)

    def put_new(self, path: str, data: bytes) -> None:
        """See the interface. The name node renames one file at a time, and none onto a name that exists."""
        with self._staged(path) as (staged, sink):
            sink.write(data)
            with writing(self.locate(path)):
                sink.close()
                try:
                    self._connect().rename(staged, self._place(path), overwrite=False)
                except FileExistsError:
                    raise NameTaken(self.locate(path)) from None

    def read(self, path: str) -> bytes:
        """See the interface."""
        with reading(self.locate(path)):
            return bytes(self._connect().read(self._place(path)).read())

    def open(self, path: str) -> BinaryIO:
        """See the interface."""
        place = self.locate(path)
        with reading(place):
            return io.BufferedReader(_Source(self._connect().read(self._place(path)), place), 1 << 20)

    def size(self, path: str) -> int:
        """See the interface."""
        with reading(self.locate(path)):
            return int(self._connect().get_file_info(self._place(path)).length)

    def names(self, directory: str) -> list[str]:
        """See the interface. Hidden names are files that are not yet, or never were, complete."""
        with reading(self.locate(directory)):
            names = [self._relative(found).rsplit("/", 1)[-1] for found in self._list(directory, recursive=False)]
            return sorted(name for name in names if not name.startswith("."))

    def files(self, directory: str) -> list[StoredFile]:
        """See the interface. Hidden names count here: a killed task leaves its file under one."""
        with reading(self.locate(directory)):
            found = [item for item in self._list(directory, recursive=True) if not item.isdir]
            files = [StoredFile(self._relative(f), f.length, _time(f.modification_time)) for f in found]
            return sorted(files, key=lambda file: file.path)

    def delete(self, path: str) -> None:
        """See the interface."""
        with writing(self.locate(path)), suppress(FileNotFoundError):
            self._connect().delete(self._place(path), recursive=False)

    def delete_directory(self, path: str) -> None:
        """See the interface."""
        with writing(self.locate(path)), suppress(FileNotFoundError):
            self._connect().delete(self._place(path), recursive=True)

    def locate(self, path: str) -> str:
        """See the interface."""
        return f"{self.url}/{checked(path)}"

    def _place(self, path: str) -> str:
        return f"{self._root}/{checked(path)}".rstrip("/") or "/"

    def _relative(self, status: Any) -> str:
        return str(status.path).removeprefix(self._server).removeprefix(self._root).lstrip("/")

    def _list(self, directory: str, *, recursive: bool) -> list[Any]:
        try:
            return list(self._connect().list_status(self._place(directory), recursive=recursive))
        except FileNotFoundError:
            return []

    @contextmanager
    def _staged(self, path: str) -> Iterator[tuple[str, _HadoopSink]]:
        """A file under a hidden name, removed if the block leaves it there."""
        from hdfs_native import WriteOptions

        final, place = self._place(path), self.locate(path)
        directory, _, name = final.rpartition("/")
        staged = f"{directory}/.{name}.{uuid.uuid4().hex}"
        with writing(place):
            client = self._connect()
            client.mkdirs(directory or "/", DIRECTORY_MODE, True)
            file = client.create(staged, WriteOptions(permission=FILE_MODE, overwrite=False, create_parent=False))
        sink = _HadoopSink(file, place)
        try:
            yield staged, sink
        except BaseException:
            with suppress(Exception):
                client.delete(staged, recursive=False)
            raise

    def _connect(self) -> Any:
        """Made in the process that uses it: a connection does not survive a fork or a pickle."""
        if self._client is None:
            from hdfs_native import Client

            self._client = Client(self._server)
        return self._client


class _HadoopSink:
    """A file of HDFS whose errors name it."""

    def __init__(self, file: Any, place: str) -> None:
        self._file = file
        self._place = place

    def write(self, data: memoryview | bytes) -> int:
        with writing(self._place):
            return int(self._file.write(data))

    def close(self) -> None:
        self._file.close()


class _Source(io.RawIOBase):
    """A reader of HDFS as a raw binary file."""

    def __init__(self, reader: Any, place: str) -> None:
        self._reader = reader
        self._place = place

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with reading(self._place):
            data = self._reader.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
