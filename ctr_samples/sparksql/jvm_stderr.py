"""The stderr of the JVM that a command starts, without the warning with which it boots.

Spark's launcher adds an incubator module, and the JVM says so before it reads any setting of ours. A filter passes on all else,
byte for byte and at once. It is a process of its own: the JVM lives longer than the command, whose death may be sudden, and
must never wait for it. Nobody waits for the filter, which ends with the last process that writes to it. This file is also its
program, and imports nothing else of the project.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector\n"

_CHUNK = 1 << 16


@contextmanager
def jvm_stderr() -> Iterator[int | None]:
    """The descriptor that a JVM takes as its stderr. None where it inherits ours: there is none, or no filter can start."""
    inlet = _start_filter()
    try:
        yield inlet
    finally:
        if inlet is not None:
            os.close(inlet)  # the filter ends when the last writer does, which must not be this process


def _start_filter() -> int | None:
    """The end of a pipe to a new filter, which writes to our stderr."""
    if not hasattr(os, "posix_spawn"):
        return None
    try:
        os.fstat(2)
        outlet, inlet = os.pipe()
    except OSError:
        return None
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-S", "-P", __file__],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, outlet, 0), (os.POSIX_SPAWN_DUP2, 2, 1)],
            # What ends a whole process group, as Ctrl-C does, lets the JVM say its last words.
            setsigmask=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT],
        )
    except OSError:
        os.close(inlet)
        return None
    finally:
        os.close(outlet)
    return inlet


def without_warning(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes without each line that is the warning. Only the beginning of a line that may become it is held back."""
    held, within_line = b"", False
    for chunk in chunks:
        passed = []
        for line in io.BytesIO(held + chunk):
            if within_line or not WARNING.startswith(line):
                passed.append(line)
                within_line = not line.endswith(b"\n")
                held = b""
            else:
                held = b"" if line == WARNING else line
        if passed:
            yield b"".join(passed)
    if held:
        yield held


def _write(data: bytes) -> None:
    while data:
        try:
            data = data[os.write(1, data) :]
        except BlockingIOError:  # a terminal that another program has set so
            select.select([], [1], [])
        except OSError:  # nobody reads any more; whoever writes to us need not know
            return


if __name__ == "__main__":
    for passed in without_warning(iter(lambda: os.read(0, _CHUNK), b"")):
        _write(passed)
