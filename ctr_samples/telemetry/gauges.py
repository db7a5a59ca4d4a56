"""A text file for Prometheus, as its node exporter collects them from a directory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ctr_samples.config import JobConfig
from ctr_samples.errors import CtrSamplesError
from ctr_samples.job.many_days import DayOutcome
from ctr_samples.periods import Period
from ctr_samples.quality.prometheus import last_run_text


@dataclass(frozen=True, slots=True)
class Gauges:
    """Replaces a file at once after each day: the last run, and of ``samples_text`` what is published."""

    config: JobConfig
    file: Path
    samples_text: Callable[[], str]

    def begins(self, day: Period) -> None:
        """Nothing is told yet."""

    def ended(self, outcome: DayOutcome) -> None:
        """Write the file. Raises OSError."""
        if outcome.became == "not tried":
            return
        text = last_run_text(self.config.name, outcome.exit_code, outcome.seconds, time.time())
        with suppress(CtrSamplesError):  # nothing is published, or it cannot be read: the last run is told all the same
            text += self.samples_text()
        part = self.file.with_name(f".{self.file.name}.{os.getpid()}")  # a collector reads no name that ends otherwise
        part.write_text(text, "utf-8")
        part.replace(self.file)
