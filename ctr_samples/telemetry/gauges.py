"""A text file for Prometheus, collected from a directory by its node exporter."""

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
    """Atomically replaces a file after each day: the last run, and the published samples from ``samples_text``."""

    config: JobConfig
    file: Path
    samples_text: Callable[[], str]

    def begins(self, day: Period) -> None:
        """Do nothing."""

    def ended(self, outcome: DayOutcome) -> None:
        """Write the file. Raises OSError."""
        if outcome.became == "not tried":
            return
        text = last_run_text(self.config.name, outcome.exit_code, outcome.seconds, time.time())
        with suppress(CtrSamplesError):  # nothing is published, or it is unreadable: still report the last run
            text += self.samples_text()
        part = self.file.with_name(f".{self.file.name}.{os.getpid()}")  # collectors ignore any other suffix
        part.write_text(text, "utf-8")
        part.replace(self.file)
