"""Children of this process that can be killed at any moment, and what they had to say if they were not."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child ended: with a value, with an error of the class ``error``, or with neither if it was killed before."""

    value: Any = None
    error: str | None = None
    message: str = ""
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Fork:
    """A running child."""

    pid: int
    _answer: int

    def kill(self) -> None:
        """SIGKILL; nothing happens to a child that has ended, since its id is ours until :meth:`outcome` asks for it."""
        os.kill(self.pid, signal.SIGKILL)

    def outcome(self) -> Outcome:
        """Wait for the end of the child. Call it once."""
        with os.fdopen(self._answer, "rb") as pipe:
            said = pipe.read()
        os.waitpid(self.pid, 0)
        try:
            return Outcome(**json.loads(said))
        except ValueError:  # it was killed before its last byte
            return Outcome(killed=True)


def fork(work: Callable[[], Any]) -> Fork:
    """Run ``work`` in a child; it must return what JSON can hold. The child ends without any clean-up of this process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Fork(pid, reading)
    try:
        try:
            said = {"value": work()}
        except BaseException as error:
            said = {"error": type(error).__name__, "message": str(error)[:500]}
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(said).encode())
    finally:
        os._exit(0)
