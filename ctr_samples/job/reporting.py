"""How a run reports its progress."""

from __future__ import annotations

from typing import Protocol

from ctr_samples.sparksql.observations import Progress


class Reporter(Protocol):
    """Receives the progress of a run; called on the driver."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def writing(self, progress: Progress) -> None:
        """Tasks begin to write; ``progress`` grows while they do."""

    def warn(self, text: str) -> None:
        """Something is wrong, but the run goes on."""


class Silent:
    """A reporter that shows nothing."""

    def stage(self, text: str) -> None:
        """Do nothing."""

    def writing(self, progress: Progress) -> None:
        """Do nothing."""

    def warn(self, text: str) -> None:
        """Do nothing."""
