"""A file system that passes everything on to a directory, except for one call that it was told to get wrong.

``python faulty_disk.py DIRECTORY MOUNT``: an order (a line of JSON) on its input, the counts of calls since the last order
on its output. Names are not kept in the kernel, so that each call of a publisher arrives here.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from fuse import FUSE, FuseOSError, Operations


class FaultyDisk(Operations):  # type: ignore[misc]
    """The calls of a publish and of its readers, and no others."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fault: dict[str, Any] = {}
        self._calls: Counter[str] = Counter()

    def take(self, order: dict[str, Any]) -> dict[str, int]:
        """The next fault: ``number`` (from 1) of ``operation`` fails with ``errno``, before or after it is ``done``.

        ``short`` instead makes each write take half of what it is given.
        """
        counts, self._calls, self._fault = dict(self._calls), Counter(), order
        return counts

    def create(self, path: str, mode: int, _: Any = None) -> Any:
        return self._led("create", lambda: os.open(self._place(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))

    def open(self, path: str, flags: int) -> Any:
        return self._led("open", lambda: os.open(self._place(path), flags))

    def read(self, _: str, size: int, offset: int, handle: int) -> Any:
        return self._led("read", lambda: os.pread(handle, size, offset))

    def write(self, _: str, data: bytes, offset: int, handle: int) -> Any:
        if self._fault.get("short"):
            data = data[: max(1, len(data) // 2)]
        return self._led("write", lambda: os.pwrite(handle, data, offset))

    def fsync(self, _: str, datasync: int, handle: int) -> Any:
        return self._led("fsync", lambda: os.fsync(handle))

    def fsyncdir(self, path: str, datasync: int, handle: int) -> Any:
        return self._led("fsync of a directory", lambda: 0)

    def flush(self, path: str, handle: int) -> Any:
        return self._led("close", lambda: 0)

    def release(self, path: str, handle: int) -> Any:
        os.close(handle)
        return 0

    def rename(self, old: str, new: str) -> Any:
        return self._led("rename", lambda: os.rename(self._place(old), self._place(new)))

    def link(self, target: str, source: str) -> Any:
        return self._led("link", lambda: os.link(self._place(source), self._place(target)))

    def unlink(self, path: str) -> Any:
        return self._led("unlink", lambda: os.unlink(self._place(path)))

    def rmdir(self, path: str) -> Any:
        return self._led("rmdir", lambda: os.rmdir(self._place(path)))

    def mkdir(self, path: str, mode: int) -> Any:
        return self._led("mkdir", lambda: os.mkdir(self._place(path), mode))

    def chmod(self, path: str, mode: int) -> Any:
        return self._led("chmod", lambda: os.chmod(self._place(path), mode))

    def readdir(self, path: str, handle: int) -> Any:
        return self._led("list", lambda: [".", "..", *os.listdir(self._place(path))])

    def getattr(self, path: str, handle: int | None = None) -> Any:
        status = self._led("stat", lambda: os.lstat(self._place(path)))
        return {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}

    def _place(self, path: str) -> str:
        return self._directory + path

    def _led(self, operation: str, call: Callable[[], Any]) -> Any:
        """Make a call, unless it is the one that fails; what the directory itself refuses is refused."""
        self._calls[operation] += 1
        fault = self._fault
        failing = fault.get("operation") == operation and fault["number"] == self._calls[operation]
        if failing and not fault["done"]:
            raise FuseOSError(fault["errno"])
        try:
            made = call()
        except OSError as error:
            raise FuseOSError(error.errno) from None
        if failing:
            raise FuseOSError(fault["errno"])
        return made


def main(directory: str, mount: str) -> None:
    """Serve until the mount is taken away; orders are taken by a second thread."""
    disk = FaultyDisk(directory)

    def take_orders() -> None:
        for line in sys.stdin:
            print(json.dumps(disk.take(json.loads(line))), flush=True)  # noqa: T201

    threading.Thread(target=take_orders, daemon=True).start()
    FUSE(disk, mount, foreground=True, nothreads=True, direct_io=True, attr_timeout=0, entry_timeout=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
