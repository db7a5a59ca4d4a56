"""A mounted file system that fails when told to, from the side of the tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Disk:
    """A mounted file system. ``path`` is where publishers see it, ``behind`` the directory that holds what they wrote."""

    def __init__(self, path: Path, behind: Path, process: subprocess.Popen[str]) -> None:
        self.path = path
        self.behind = behind
        self._process = process
        self._directories = iter(range(1_000_000))

    def fresh(self, prepared: Path) -> Path:
        """Another directory, with a copy of what is prepared, if anything is; made behind the file system's back."""
        name = str(next(self._directories))
        if prepared.exists():
            shutil.copytree(prepared, self.behind / name)
        return self.path / name

    def fail(self, operation: str, number: int, errno: int, *, done: bool = False) -> None:
        """Let the call with that number from now, counted by operation, fail; ``done``: after it took effect."""
        self._order({"operation": operation, "number": number, "errno": errno, "done": done})

    def write_short(self) -> None:
        """Let each write take half of what it is given."""
        self._order({"short": True})

    def work(self) -> dict[str, int]:
        """Fail no more; how many calls there were of each operation since the last order."""
        return self._order({})

    def _order(self, order: dict[str, Any]) -> dict[str, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        counts: dict[str, int] = json.loads(self._process.stdout.readline())
        return counts


@contextmanager
def mounted_disk(behind: Path, path: Path) -> Iterator[Disk]:
    """Mount a faulty disk at ``path``, with its files in ``behind``."""
    program = [sys.executable, str(Path(__file__).parent / "faulty_disk.py"), str(behind), str(path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        _await_mount(path, process)
        try:
            yield Disk(path, behind, process)
        finally:
            subprocess.run(["fusermount", "-u", "-z", str(path)], check=True)


def _await_mount(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not path.is_mount():
        assert process.poll() is None, "the file system could not be mounted"
        assert time.monotonic() < deadline
        time.sleep(0.02)
