"""A filter for the stderr of a command's JVM that removes its startup warning.

Spark's launcher adds an incubator module, and the JVM prints a warning before it reads any of our settings. The filter
forwards all other bytes unchanged and immediately. It is a separate process, because the JVM outlives the command,
which may be killed, and must never block on it. No process waits for the filter, which ends with its last writer. This
file is also the filter program, and imports no other module of the project.
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
    """Yield a descriptor for the JVM's stderr, or None to inherit stderr if it is closed or the filter cannot start."""
    inlet = _start_filter()
    try:
        yield inlet
    finally:
        if inlet is not None:
            os.close(inlet)  # the filter ends with the last writer, which must not be this process


def _start_filter() -> int | None:
    """Start a filter that writes to stderr. Return the write end of its pipe, or None on failure."""
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
            # Block signals to the process group, such as Ctrl-C, so that the JVM's last output gets through.
            setsigmask=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT],
        )
    except OSError:
        os.close(inlet)
        return None
    finally:
        os.close(outlet)
    return inlet


def without_warning(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes without warning lines. Buffers only an incomplete line that may become the warning."""
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
        except BlockingIOError:  # a terminal set to non-blocking by another program
            select.select([], [1], [])
        except OSError:  # no reader is left; the writer need not know
            return


if __name__ == "__main__":
    for passed in without_warning(iter(lambda: os.read(0, _CHUNK), b"")):
        _write(passed)
