"""The test's side of the faults: what shall happen to which task, and what the tasks have noted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

INJECTED = Path(__file__).parent / "injected"
"""Directory for PYTHONPATH of the executors; of a driver, if it is to be stopped at a commit."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a task of a partition (None: of any), once it has written so many rows, or at its end.

    ``times`` counts over all attempts: a fault that happens once spares the next attempt. ``committing`` and ``committed`` are
    no moments of a task but of a stream's driver, right before and after its commit of the batch that ``partition`` counts.
    """

    do: Literal["raise", "kill", "hold", "meet", "swap", "tell"]
    partition: int | None
    at: int | Literal["ended", "written", "committing", "committed"]
    times: int = 1
    file: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a task did, and the processes that it ran in."""

    event: str
    partition: int
    attempt: int
    worker: int
    executor: int
    rows: int


class Faults:
    """The plan of one output directory and its notes."""

    def __init__(self, output: Path) -> None:
        self.place = Path(f"{output}.faults")

    def plan(self, *faults: Fault) -> None:
        """From now on; the plan before is forgotten with its notes."""
        self.forget()
        self.place.mkdir()
        (self.place / "plan.json").write_text(json.dumps([asdict(fault) for fault in faults]))

    def forget(self) -> None:
        """Tasks run undisturbed from now on."""
        if self.place.exists():
            self.place.rename(self.place.with_name(f"{self.place.name}.{time.monotonic_ns()}"))

    def release(self) -> None:
        """Let tasks go on that hold."""
        (self.place / "release").touch()

    def notes(self, event: str, partition: int | None = None) -> list[Note]:
        """What tasks have noted so far, in the order of their attempts."""
        found = []
        for file in self.place.glob(f"{event}-*.json"):
            _, own, attempt = file.stem.split("-")
            if partition in (None, int(own)):
                found.append(Note(event, int(own), int(attempt), **json.loads(file.read_text())))
        return sorted(found, key=lambda note: note.attempt)

    def fired(self) -> int:
        """How many faults have happened."""
        return len(list(self.place.glob("fired-*")))

    def wait_for(self, event: str, partition: int, unless: Callable[[], object] = lambda: None) -> Note:
        """The first such note; ``unless`` raises when it can no longer come."""
        return wait_until(lambda: next(iter(self.notes(event, partition)), None), f"{event} {partition}", unless)


def wait_until(
    found: Callable[[], Any], what: str, unless: Callable[[], object] = lambda: None, seconds: float = 120
) -> Any:
    """Poll until there is a true value and give it; a deadline that fails the test."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        unless()
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {seconds:g} s for: {what}")
        time.sleep(0.05)
    return value
