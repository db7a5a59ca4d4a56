"""Listeners that a command notifies about each day."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ctr_samples.config import JobConfig
from ctr_samples.config.masking import masked_tree
from ctr_samples.errors import CtrSamplesError
from ctr_samples.job.day_status import trends_page, write_page
from ctr_samples.job.many_days import Became, DayOutcome
from ctr_samples.job.published import for_prometheus
from ctr_samples.periods import Period
from ctr_samples.quality.prometheus import last_run_text
from ctr_samples.shards import Manifest, open_storage
from ctr_samples.shards.naming import manifest_path


class Listener:
    """An observer of the days of a command. Runs on the driver; concurrent days call it from separate threads."""

    __slots__ = ()

    def begins(self, day: Period) -> None:
        """Handle the start of a day."""

    def ended(self, outcome: DayOutcome) -> None:
        """Handle the outcome of a day."""

    def done(self) -> None:
        """Handle the end of the command, whatever became of its days."""


@dataclass(frozen=True, slots=True)
class Listeners(Listener):
    """A group of listeners. A failing listener does not fail the run, but calls ``warn`` with a sentence."""

    all: Sequence[Listener]
    warn: Callable[[str], None]

    def begins(self, day: Period) -> None:
        """Report the start of a day."""
        for listener in self.all:
            self._tell(listener, partial(listener.begins, day))

    def ended(self, outcome: DayOutcome) -> None:
        """Report the outcome of a day."""
        for listener in self.all:
            self._tell(listener, partial(listener.ended, outcome))

    def done(self) -> None:
        """Report the end of the command."""
        for listener in self.all:
            self._tell(listener, listener.done)

    def _tell(self, listener: Listener, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as error:  # listeners do not affect whether the samples are published
            text = (str(error).splitlines() or [""])[0]
            self.warn(f"{type(listener).__name__} could not tell of the run: {type(error).__name__}: {text}")


@dataclass(frozen=True, slots=True)
class Gauges(Listener):
    """Writes gauges of the last run and the published samples to a file. Replaces it atomically after each day."""

    config: JobConfig
    file: Path

    def ended(self, outcome: DayOutcome) -> None:
        """Write the gauges. Raises OSError if the file cannot be written."""
        if outcome.became == "not tried":
            return
        text = last_run_text(self.config.name, outcome.exit_code, outcome.seconds, time.time())
        with suppress(CtrSamplesError):  # still report the last run if no samples are published or readable
            text += for_prometheus(open_storage(self.config.output.path))
        part = self.file.with_name(f".{self.file.name}.{os.getpid()}")  # collectors ignore any other suffix
        part.write_text(text, "utf-8")
        part.replace(self.file)


@dataclass(frozen=True, slots=True)
class TrendsPage(Listener):
    """Writes the page about many days anew, as ``trends`` of the configuration asks for, whatever the verdict."""

    output: str
    days: int
    warn: Callable[[str], None]

    def done(self) -> None:
        """Write the page. Warns if it cannot be written."""
        try:
            storage = open_storage(self.output)
            write_page(storage, trends_page(storage, None, None, self.days))
        except CtrSamplesError as error:
            self.warn(f"The page about many days was not written: {error}")


_LEVELS: dict[Became, str] = {"published": "info", "unchanged": "info", "not tried": "warning", "refused": "error"}


@dataclass(frozen=True, slots=True)
class JsonLines(Listener):
    """Passes a JSON line to ``write`` for each finished day."""

    config: JobConfig
    write: Callable[[str], None]

    def ended(self, outcome: DayOutcome) -> None:
        """Write a line for the day, with values from the environment masked."""
        self.write(json.dumps(masked_tree(facts_of(self.config, outcome)), ensure_ascii=True))


def facts_of(config: JobConfig, outcome: DayOutcome) -> dict[str, Any]:
    """Return facts about the outcome of a day, with details of the published samples, if any. Times are in UTC."""
    facts = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "level": _LEVELS.get(outcome.became, "error"),
        "event": "day",
        "name": config.name,
        "day": outcome.day.isoformat(),
        "outcome": outcome.became,
        "exit_code": outcome.exit_code,
        "seconds": round(outcome.seconds, 3),
    }
    if outcome.error is not None:
        facts |= {"error": str(outcome.error), "kind": type(outcome.error).__name__}
    if outcome.manifest is not None:
        facts |= _of_manifest(config, outcome.manifest)
    return facts


def _of_manifest(config: JobConfig, manifest: Manifest) -> dict[str, Any]:
    counts = dict(manifest.accounting)
    return {
        "generation": manifest.generation,
        "run_id": manifest.run_id,
        "manifest": open_storage(config.output.path).locate(manifest_path(manifest.day, manifest.generation)),
        "impressions": counts.pop("impressions", 0),
        "samples": {split: sum(shard.records for shard in manifest.of_split(split)) for split in manifest.splits},
        "dropped": {reason: count for reason, count in counts.items() if reason != "samples" and count},
        "labels": {label: manifest.label_sum(label) for label in manifest.labels},
        "mature": manifest.label_mature,
        "shards": len(manifest.shards),
        "bytes": manifest.bytes,
        "verdict": manifest.quality.get("verdict"),
        "found": [found.get("check") for found in manifest.quality.get("found", ())],
    }
