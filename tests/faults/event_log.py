"""What Spark itself says about tasks: its event log, read as JSON lines."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fault_plan import wait_until


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """One attempt of a task that ended. ``attempt`` is its id; ``reason`` is Spark's word, such as ``FetchFailed``."""

    stage: int
    stage_attempt: int
    partition: int
    attempt: int
    host: str
    speculative: bool
    reason: str
    detail: str


class EventLog:
    """The events of one application since ``since_ms``, once all its jobs since then have ended."""

    def __init__(self, directory: Path, since_ms: int = 0) -> None:
        self._directory = directory
        self._since = since_ms

    def task_ends(self) -> list[TaskEnd]:
        """Of the jobs that began since then. Waits for the end of those jobs to be written."""
        events = wait_until(self._complete_events, f"the end of the jobs in {self._directory}", seconds=30)
        stages = {stage for job in self._jobs(events) for stage in job["Stage IDs"]}
        ends = [event for event in events if event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stages]
        return [_task_end(event) for event in ends]

    def failures(self) -> dict[int, TaskEnd]:
        """Those that did not succeed, by the id of the attempt, which is part of the names of its files."""
        return {end.attempt: end for end in self.task_ends() if end.reason != "Success"}

    def reasons(self) -> Counter[str]:
        """How many attempts ended for each reason."""
        return Counter(end.reason for end in self.task_ends())

    def summary(self) -> str:
        """What did not succeed, a line for each, without waiting for anything."""
        ends = [_task_end(event) for event in self._events() if event["Event"] == "SparkListenerTaskEnd"]
        return "\n".join(f"{end!r:.300}" for end in ends if end.reason != "Success")

    def _complete_events(self) -> list[dict[str, Any]]:
        events = self._events()
        started = {job["Job ID"] for job in self._jobs(events)}
        ended = {event["Job ID"] for event in events if event["Event"] == "SparkListenerJobEnd"}
        return events if started and started <= ended else []

    def _jobs(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        started = [event for event in events if event["Event"] == "SparkListenerJobStart"]
        return [job for job in started if job["Submission Time"] >= self._since]

    def _events(self) -> list[dict[str, Any]]:
        (file,) = [file for file in self._directory.iterdir() if not file.name.startswith(".")]
        lines = file.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]


def _task_end(event: dict[str, Any]) -> TaskEnd:
    info, why = event["Task Info"], event["Task End Reason"]
    detail = " ".join(str(why.get(key, "")) for key in ("Class Name", "Description", "Kill Reason", "Loss Reason"))
    return TaskEnd(
        event["Stage ID"],
        event["Stage Attempt ID"],
        info["Partition ID"],
        info["Task ID"],
        info["Host"],
        info["Speculative"],
        why["Reason"],
        detail,
    )
