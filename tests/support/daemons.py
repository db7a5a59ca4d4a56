"""Server processes on loopback: started, awaited by polling, and ended by the ids under which they started."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_PATIENCE = 180.0
"""Seconds for a server to be ready; a healthy one takes ten, also on two busy cores."""
_LOG_TAIL = 2_000


class ServerFailed(Exception):
    """A server ended before it was ready, or was not ready in time; carries the end of its log."""


class Daemons:
    """The processes of one server and their logs, all in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str | Path], environ: Mapping[str, str] | None = None) -> None:
        """Start a process that stays in the foreground; it also ends if this process is killed."""
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*_ends_with_us(), *map(str, command)],
                cwd=self.directory,
                env={**os.environ, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Poll until ``ready``; ServerFailed as soon as a process has ended."""
        deadline = time.monotonic() + _PATIENCE
        while not ready():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(f"{name}: {self._tail(name)}" for name in ended or self._processes)
                raise ServerFailed(f"{what}: {'ended: ' if ended else 'not in time; '}{', '.join(ended)}\n{logs}")
            time.sleep(0.05)

    def stop(self, name: str) -> None:
        """End one process."""
        process = self._processes.pop(name)
        process.kill()  # nothing of what it holds is wanted
        process.wait()

    def stop_all(self) -> None:
        """End all processes, the last one first."""
        for name in reversed(list(self._processes)):
            self.stop(name)

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _tail(self, name: str) -> str:
        return self._log(name).read_text(errors="replace")[-_LOG_TAIL:]


@contextmanager
def daemons_in(directory: Path) -> Iterator[Daemons]:
    """No process yet; those that are started inside the block end with it."""
    daemons = Daemons(directory)
    try:
        yield daemons
    finally:
        daemons.stop_all()


def free_port() -> int:
    """A port on loopback that nobody uses now, from below those that a kernel lends to clients, who could be faster."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def call(command: Sequence[str | Path], directory: Path) -> None:
    """Run a command to its end; ServerFailed with its complaint if it fails or does not come to one."""
    words = [str(part) for part in command]
    try:
        subprocess.run(words, cwd=directory, capture_output=True, text=True, check=True, timeout=_PATIENCE)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise ServerFailed(f"{error}: {str(error.stderr)[-_LOG_TAIL:]}") from error


def _ends_with_us() -> list[str]:
    """Have the kernel end a server whose tests were killed and could not."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
