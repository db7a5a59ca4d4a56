"""Interface for progress reports of a run."""

from __future__ import annotations

from typing import Protocol

from ctr_samples.sparksql.observations import Progress


class Reporter(Protocol):
    """Receives the progress of a run. Called on the driver."""

    def stage(self, text: str) -> None:
        """Report the start of a stage."""

    def writing(self, progress: Progress) -> None:
        """Report that tasks begin to write. ``progress`` grows while they do."""

    def warn(self, text: str) -> None:
        """Report a problem that does not stop the run."""


class Silent:
    """A reporter that shows nothing."""

    def stage(self, text: str) -> None:
        """Do nothing."""

    def writing(self, progress: Progress) -> None:
        """Do nothing."""

    def warn(self, text: str) -> None:
        """Do nothing."""
