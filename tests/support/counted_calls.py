"""Every call of a publish to the operating system, or to an object store, passes through one function that may stop it."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NoReturn, Protocol
from unittest.mock import patch

CALLS = (
    "write writev pwrite fsync fdatasync close rename replace link symlink unlink remove mkdir rmdir "
    "chmod fchmod truncate ftruncate utime stat lstat access listdir scandir"
).split()
REQUESTS = "put get head list list_with_delimiter delete open_writer open_reader".split()
CHANGES = {"create", "write", "rename", "link", "unlink", "mkdir", "rmdir", "chmod", "fchmod"}
"""System calls of a publish that change what the next process finds; ``create`` is an open that makes a file."""
CHANGING_REQUESTS = {"put", "delete", "close of an upload"}


class Around(Protocol):
    """Is given each call instead of its being made; makes it, or does not."""

    def __call__(self, name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """``call(*args, **options)`` is the real thing."""


@contextmanager
def system_calls(around: Around) -> Iterator[None]:
    """Lead the calls of this process that go through Python's ``os``, ``pathlib`` and ``open`` to ``around``."""
    with ExitStack() as stack:
        for name in CALLS:
            stack.enter_context(patch.object(os, name, partial(around, name, getattr(os, name))))
        stack.enter_context(patch.object(os, "open", partial(_opened, around, os.open)))
        stack.enter_context(patch.object(io, "open", partial(around, "open for reading", io.open)))
        yield


@contextmanager
def requests(around: Around) -> Iterator[None]:
    """Lead the calls to obstore to ``around``, those of its writers too."""
    import obstore

    def led(name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        made = around(name, call, *args, **options)
        return _Writer(made, around) if name == "open_writer" else made

    with ExitStack() as stack:
        for name in REQUESTS:
            stack.enter_context(patch.object(obstore, name, partial(led, name, getattr(obstore, name))))
        yield


def _opened(around: Around, call: Callable[..., int], path: Any, flags: int, *mode: int, **options: Any) -> Any:
    return around("create" if flags & os.O_CREAT else "open", call, path, flags, *mode, **options)


class _Writer:
    """An obstore writer whose calls are led elsewhere."""

    def __init__(self, real: Any, around: Around) -> None:
        self.write = partial(around, "write of an upload", real.write)
        self.close = partial(around, "close of an upload", real.close)


class Noted:
    """Makes each call and notes its name. Calls come from several threads, one of which writes shards."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with self._lock:
            self.names.append(name)
            number = len(self.names)
        return self.made(number, name, partial(call, *args, **options))

    def made(self, number: int, name: str, call: Callable[..., Any]) -> Any:
        """Make a call; numbers begin at 1."""
        return call()


class DiesAfter(Noted):
    """Kills this process right after a call, which is right before the next; ``half`` of a write if that is asked for."""

    def __init__(self, last: int, *, half: bool = False) -> None:
        super().__init__()
        self._last = last
        self._half = half

    def made(self, number: int, name: str, call: Callable[..., Any]) -> Any:
        if number != self._last:
            return call()
        try:
            return _half_written(call) if self._half else call()
        finally:  # whether it succeeded or not
            _die()


class FailsOnce(Noted):
    """One call fails, without effect or (``done``) after it took effect; what the process does next is its own affair."""

    def __init__(self, failing: int, error: Exception, *, done: bool = False) -> None:
        super().__init__()
        self._failing = failing
        self._error = error
        self._done = done
        self.failed: str | None = None

    def made(self, number: int, name: str, call: Callable[..., Any]) -> Any:
        if number != self._failing:
            return call()
        self.failed = name
        if self._done or name == "close":  # a descriptor is closed even if close() says that something went wrong
            _forget(name, call())
        raise self._error


def _forget(name: str, made: Any) -> None:
    """Close what a caller will never get."""
    if name in ("create", "open"):
        os.close(made)
    elif name in ("open for reading", "scandir"):
        made.close()


def _half_written(call: Callable[..., Any]) -> Any:
    assert isinstance(call, partial)
    handle, data = call.args
    return call.func(handle, data[: len(data) // 2])


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process goes nowhere")
